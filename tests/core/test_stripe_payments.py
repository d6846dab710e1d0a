"""The SDK adapter against real sockets: what was sent, what came back, and when it is cut off."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from shared.ports import NoResponse, StripeRequest, StripeResponse
from shared.stripe_payments import StripePayments

API_KEY = "rk_test_secret_of_the_test"
READ = StripeRequest("get", "/v1/payment_intents/pi_1")
CREATE = StripeRequest(
    "post",
    "/v1/payment_intents",
    {
        "amount": "100",
        "metadata[customer_id]": "Zoë & Co",
        "automatic_payment_methods[enabled]": "true",
    },
    "key-1:create:1",
)

Behaviour = Callable[[socket.socket, bytes], None]


@contextmanager
def server(behave: Behaviour) -> Iterator[str]:
    """A loopback server that reads one request per connection and then behaves as it is told."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    connections: list[socket.socket] = []
    has_ended = threading.Event()

    def serve() -> None:
        while not has_ended.is_set():
            with suppress(TimeoutError):
                connection, _ = listener.accept()
                connections.append(connection)
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

    def handle(connection: socket.socket) -> None:
        try:
            request = read_request(connection)
            if request:
                behave(connection, request)
        except OSError:
            return  # the client has hung up, as some tests want it to

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        has_ended.set()
        serving.join(timeout=10)
        listener.close()
        for connection in connections:
            connection.close()


def read_request(connection: socket.socket) -> bytes:
    """Read headers and as much body as they promise."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return b""
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    expected = int(lengths[0].split(b":")[1]) if lengths else 0
    while len(body) < expected:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def answer(status: str, body: bytes, *headers: str, length: int | None = None) -> bytes:
    """An HTTP answer; `length` may promise more than there is."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + body


def send(
    base_url: str, request: StripeRequest = READ, timeout_seconds: float = 5.0, read: float = 5.0
) -> StripeResponse | NoResponse:
    """Send one request through the adapter and the SDK."""
    payments = StripePayments(
        API_KEY, base_url, connect_timeout_seconds=1, read_timeout_seconds=read
    )
    try:
        return payments.send(request, timeout_seconds)
    finally:
        payments.close()


def test_answer_comes_back_unread() -> None:
    """Goal: status, lower-case headers and body are handed on as they are."""
    content = b'{"id": "pi_1", "object": "payment_intent"}'

    def behave(connection: socket.socket, request: bytes) -> None:
        connection.sendall(answer("200 OK", content, "Request-Id: req_1"))

    with server(behave) as base_url:
        response = send(base_url)
    assert isinstance(response, StripeResponse)
    assert (response.status, response.body) == (200, content)
    assert response.headers["request-id"] == "req_1"


def test_request_is_what_the_sdk_makes_of_it() -> None:
    """Goal: form fields, key and authorization arrive as Stripe wants them; no telemetry."""
    seen: list[bytes] = []

    def behave(connection: socket.socket, request: bytes) -> None:
        seen.append(request)
        connection.sendall(answer("200 OK", b"{}"))

    with server(behave) as base_url:
        send(base_url, CREATE)
    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/payment_intents HTTP/1.1")
    assert b"Idempotency-Key: key-1:create:1" in head
    assert f"Authorization: Bearer {API_KEY}".encode() in head
    assert b"Stripe-Version: " in head
    assert b"X-Stripe-Client-Telemetry" not in head
    assert b"automatic_payment_methods[enabled]=true" in body
    assert b"metadata[customer_id]=Zo%C3%AB+%26+Co" in body


def test_vault_key_takes_the_place_of_the_api_key() -> None:
    """Goal: a request with a vault key never carries the real key."""
    seen: list[bytes] = []

    def behave(connection: socket.socket, request: bytes) -> None:
        seen.append(request)
        connection.sendall(answer("200 OK", b"{}"))

    with server(behave) as base_url:
        payments = StripePayments(API_KEY, base_url, 1, 5)
        payments.send(READ, 5.0, vault_key="vault_key_1")
        payments.close()
    assert b"Bearer vault_key_1" in seen[0]
    assert API_KEY.encode() not in seen[0]


@pytest.mark.parametrize(
    "body",
    [b'{"error": "Daily spend cap of $50 reached"}', b"<html>Bad Gateway</html>", b""],
    ids=["error that is a string", "HTML", "empty"],
)
def test_answers_that_the_sdk_cannot_read_are_answers(body: bytes) -> None:
    """Goal: the SDK's own exceptions (a bare AttributeError among them) hide nothing."""

    def behave(connection: socket.socket, request: bytes) -> None:
        connection.sendall(answer("429 Too Many Requests", body))

    with server(behave) as base_url:
        response = send(base_url)
    assert response == StripeResponse(429, {"content-length": str(len(body))}, body)


def test_refused_connection_was_never_sent() -> None:
    """Goal: nobody listens, so nothing can have been charged."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert send(f"http://127.0.0.1:{port}") == NoResponse(False, "connection_refused")


def test_unknown_host_was_never_sent() -> None:
    """Goal: a name that does not resolve cannot have charged."""
    response = send("http://stripe.invalid")
    assert isinstance(response, NoResponse)
    assert not response.sent


def test_tls_handshake_that_hangs_was_never_sent() -> None:
    """Goal: before the handshake is through, not one byte of the request has left."""
    listener = socket.create_server(("127.0.0.1", 0))
    try:
        response = send(f"https://127.0.0.1:{listener.getsockname()[1]}")
    finally:
        listener.close()
    assert isinstance(response, NoResponse)
    assert not response.sent


def close_at_once(connection: socket.socket, request: bytes) -> None:
    """Read the request and hang up."""
    connection.close()


def reset(connection: socket.socket, request: bytes) -> None:
    """Read the request and reset the connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    connection.close()


def truncate(connection: socket.socket, request: bytes) -> None:
    """Promise more than is sent."""
    connection.sendall(answer("200 OK", b'{"id": "pi_1"}', length=1000))
    connection.close()


@pytest.mark.parametrize("behave", [close_at_once, reset, truncate])
def test_connection_lost_after_sending_is_in_doubt(behave: Behaviour) -> None:
    """Goal: once the request may have left, only proof decides."""
    with server(behave) as base_url:
        assert send(base_url, CREATE) == NoResponse(True, "connection_lost")


def stay_silent(connection: socket.socket, request: bytes) -> None:
    """Say nothing for longer than anybody waits."""
    time.sleep(10)


def test_silence_is_in_doubt_after_the_read_timeout() -> None:
    """Goal: a server that says nothing is given up after the read timeout."""
    with server(stay_silent) as base_url:
        started = time.monotonic()
        response = send(base_url, CREATE, read=0.3)
    assert response == NoResponse(True, "read_timeout")
    assert time.monotonic() - started < 8


def drip_headers(connection: socket.socket, request: bytes) -> None:
    """One byte of the header at a time, for longer than anybody waits."""
    for byte in answer("200 OK", b"{}", *[f"X-Filler-{n}: x" for n in range(50)]):
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def drip_body(connection: socket.socket, request: bytes) -> None:
    """One byte of the body at a time, for longer than anybody waits."""
    connection.sendall(answer("200 OK", b"", length=1000))
    for _ in range(1000):
        connection.sendall(b" ")
        time.sleep(0.05)


@pytest.mark.parametrize("behave", [drip_headers, drip_body])
def test_dripping_answer_is_cut_off_at_the_deadline(behave: Behaviour) -> None:
    """Goal: the deadline is a total, which no amount of dripping extends."""
    with server(behave) as base_url:
        started = time.monotonic()
        response = send(base_url, CREATE, timeout_seconds=0.5)
    assert response == NoResponse(True, "deadline")
    assert time.monotonic() - started < 8


def test_nothing_leaves_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a name that resolves after the deadline does not send the request late."""
    seen: list[bytes] = []

    def behave(connection: socket.socket, request: bytes) -> None:
        seen.append(request)
        connection.sendall(answer("200 OK", b"{}"))

    resolve = socket.getaddrinfo

    def resolve_late(*arguments: Any, **options: Any) -> Any:
        time.sleep(0.6)
        return resolve(*arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_late)
    with server(behave) as base_url:
        response = send(base_url, CREATE, timeout_seconds=0.2)
    assert response == NoResponse(False, "deadline")
    assert seen == []


def test_endless_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: no answer can fill the memory."""
    monkeypatch.setattr("shared.stripe_http.MAX_ANSWER_BYTES", 1000)

    def behave(connection: socket.socket, request: bytes) -> None:
        connection.sendall(answer("200 OK", b" " * 100_000))

    with server(behave) as base_url:
        response = send(base_url)
    assert isinstance(response, NoResponse)
    assert response.sent


def test_connections_are_reused_and_survive_being_closed() -> None:
    """Goal: keep-alive is used, and a connection that the server closed meanwhile does no harm."""
    connections: set[int] = set()

    def behave(connection: socket.socket, request: bytes) -> None:
        for _ in range(2):
            connections.add(id(connection))
            connection.sendall(answer("200 OK", b"{}"))
            if not read_request(connection):
                return
        connection.close()

    with server(behave) as base_url:
        payments = StripePayments(API_KEY, base_url, 1, 5)
        responses = [payments.send(READ, 5.0) for _ in range(2)]
        payments.close()
    assert [response for response in responses if isinstance(response, NoResponse)] == []
    assert len(connections) == 1


def test_secrets_stay_out_of_repr() -> None:
    """Goal: a response that is printed by accident shows no client secret."""
    assert "secret" not in repr(StripeResponse(200, {}, b'{"client_secret": "x"}'))
