"""Requests that two servers may read differently, byte by byte to the web server that is deployed.

gunicorn runs the proxy on Google Cloud and under `chargeonce vault serve`.
"""

import socket
from collections.abc import Iterator, Sequence

import pytest

from tests.support.vault import VaultBench
from tests.vault.test_killed import serving

BODY = b"amount=1000&currency=usd&customer=cus_1"
LENGTH = b"Content-Length: 39"
FORM = b"Content-Type: application/x-www-form-urlencoded"
CHARGES = b"/v1/charges"


@pytest.fixture(scope="module")
def process(served_vault: VaultBench) -> Iterator[int]:
    """The port of a proxy in a process of its own."""
    with serving(served_vault):
        yield served_vault.port


def send(port: int, key: str, headers: Sequence[bytes], target: bytes = CHARGES) -> int:
    """Send these very bytes and return the status."""
    head = [
        b"POST " + target + b" HTTP/1.1",
        b"Host: vault",
        b"Authorization: Bearer " + key.encode(),
        FORM,
        *headers,
        b"Connection: close",
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"\r\n".join(head) + b"\r\n\r\n" + BODY)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    return int(received.split()[1])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([LENGTH, b"Content-Length: 5"], 400),
        ([LENGTH, LENGTH], 400),
        ([b"Content-Length: -1"], 400),
        ([b"Content-Length: +39"], 400),
        ([b"Content-Length: 0x27"], 400),
        ([], 403),
        ([LENGTH, b"Transfer-Encoding: chunked"], 400),
        ([LENGTH, b"Transfer-Encoding : chunked"], 400),
        ([LENGTH, b"Transfer-Encoding: identity"], 400),
        ([LENGTH, b"Transfer-Encoding: gzip, chunked"], 400),
        ([LENGTH, b"Transfer-Encoding: xchunked"], 501),
        ([LENGTH, b"Idempotency-Key: a\r\n b"], 400),
        ([LENGTH, b"Idempotency-Key: a\nStripe-Account: acct_1"], 400),
        ([LENGTH, b"Idempotency-Key: a\rStripe-Account: acct_1"], 400),
        ([LENGTH, b"Idempotency-Key: a\0b"], 400),
        ([LENGTH, b"sTRIPE-aCCOUNT: acct_1"], 400),
        ([LENGTH, b"Authorization: Bearer other"], 401),
        ([LENGTH, b"Content-Type: application/json"], 400),
        ([LENGTH, b"X-Long: " + b"a" * 9000], 431),
        ([LENGTH, *(b"X-%d: a" % number for number in range(150))], 431),
    ],
)
def test_what_is_refused(
    vault: VaultBench, process: int, headers: Sequence[bytes], status: int
) -> None:
    assert send(process, vault.mint(), headers) == status
    assert (vault.money(), vault.charges()) == ((0, 0), [])


@pytest.mark.parametrize(
    "header",
    [
        b"Stripe_Account: acct_1",
        b"Transfer_Encoding: chunked",
        b"Content_Length: 5",
        b"Idempotency-Key: a\r\nIdempotency-Key: b",
        b"Upgrade: h2c",
    ],
)
def test_what_changes_nothing(vault: VaultBench, process: int, header: bytes) -> None:
    """Goal: the header says nothing here, so it says nothing to Stripe either."""
    assert send(process, vault.mint(), [LENGTH, header]) == 200
    assert (vault.money(), vault.moved_cents()) == ((0, 1000), 1000)


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"//vault/v1/charges", 403),
        (b"/v1/charges#x", 403),
        (b"/v1\\charges", 403),
        (b"/v1/charges\t", 400),
        (b"/v1/charges HTTP/1.1 x", 400),
        (b"*", 400),
        (b"http://vault/v1/../v1/charges", 403),
        (b"http://vault/v1/%63harges", 403),
    ],
)
def test_targets(vault: VaultBench, process: int, target: bytes, status: int) -> None:
    assert send(process, vault.mint(), [LENGTH], target) == status
    assert (vault.money(), vault.charges()) == ((0, 0), [])
