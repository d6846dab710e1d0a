"""The client of the mint contract, against our own proxy and against one as the hosted service."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from shared.errors import VaultRefused, VaultUnavailable
from shared.vault.client import VaultClient
from shared.vault.keys import KeyRequest
from tests.support.vault import ADMIN_TOKEN, CHARGE, ENDPOINTS, VaultBench

LABEL = "usage-billing-2026-11"
API_KEY = "service-key-of-the-test"
EXPIRES_AT = datetime(2099, 11, 30, 18, tzinfo=UTC)
REQUEST = KeyRequest(LABEL, ENDPOINTS, 550_007, 550_007, EXPIRES_AT)
SECRET = "vault_key_never_shown"
MINTED = (201, {"id": 7, "vault_key": SECRET})


@dataclass
class Hosted:
    """A service that answers as it is told, and what it was asked."""

    url: str = ""
    answers: list[tuple[int, Any]] = field(default_factory=list)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)


@pytest.fixture
def hosted() -> Iterator[Hosted]:
    service = Hosted()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            assert self.headers["authorization"] == f"Bearer {API_KEY}"
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            service.asked.append((self.command, self.path, json.loads(body) if body else None))
            status, document = service.answers.pop(0)
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = True

        do_GET = do_POST = do_DELETE = answer  # noqa: N815 (the names that the server calls)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    serving.start()
    yield service
    server.shutdown()
    server.server_close()


@pytest.fixture
def hosted_client(hosted: Hosted) -> Iterator[VaultClient]:
    client = VaultClient(hosted.url, API_KEY)
    yield client
    client.close()


@pytest.fixture
def client(vault: VaultBench) -> Iterator[VaultClient]:
    client = VaultClient(f"http://127.0.0.1:{vault.port}", ADMIN_TOKEN)
    yield client
    client.close()


def test_mints_lists_and_revokes_at_our_own_proxy(vault: VaultBench, client: VaultClient) -> None:
    minted = client.mint(REQUEST)
    client.mint(KeyRequest("another-run", ENDPOINTS, 100, None, EXPIRES_AT))
    assert vault.post(minted.text, "/v1/charges", CHARGE).status == 200
    (key,) = client.list_keys(LABEL) or []
    assert (key.key_id, key.expires_at) == (minted.key_id, EXPIRES_AT)
    assert (key.daily_cap_cents, key.total_cap_cents) == (550_007, 550_007)
    assert (key.held_cents, key.spent_cents, key.spent_today_cents) == (0, 1000, 1000)
    assert key.is_live(datetime.now(UTC))
    assert not key.is_live(EXPIRES_AT)
    assert len(client.list_keys(None) or []) == 2
    assert client.revoke(minted.key_id)
    (key,) = client.list_keys(LABEL) or []
    assert not key.is_live(datetime.now(UTC))
    assert vault.post(minted.text, "/v1/charges", CHARGE).code == "vault_key_revoked"
    calls = client.list_calls(minted.key_id, 10) or []
    assert [call["verdict"] for call in calls] == ["key_revoked", "admitted"]


def test_a_key_that_is_not_there_cannot_be_revoked(vault: VaultBench, client: VaultClient) -> None:
    assert not client.revoke("0123456789abcdef")


def test_our_refusal_names_the_field(vault: VaultBench, client: VaultClient) -> None:
    expired = KeyRequest("x" * 201, ENDPOINTS, 100, None, EXPIRES_AT)
    with pytest.raises(VaultRefused, match="label") as refused:
        client.mint(expired)
    assert (refused.value.status, refused.value.parameter) == (400, "label")


def test_what_a_mint_asks_for(hosted: Hosted, hosted_client: VaultClient) -> None:
    hosted.answers = [MINTED]
    minted = hosted_client.mint(REQUEST)
    assert (minted.key_id, minted.text) == ("7", SECRET)
    assert SECRET not in repr(minted)
    assert hosted.asked == [
        (
            "POST",
            "/vault/keys",
            {
                "vendor": "stripe",
                "label": LABEL,
                "daily_usd_cap": 5500.07,
                "total_usd_cap": 5500.07,
                "allowed_endpoints": ENDPOINTS,
                "expires_at": "2099-11-30T18:00:00Z",
            },
        )
    ]


@pytest.mark.parametrize(
    "refusal",
    [
        (400, {"error": "unknown field: total_usd_cap"}),
        (422, {"error": {"message": "unknown", "param": "total_usd_cap"}}),
    ],
)
def test_a_service_without_total_caps_gets_none(
    hosted: Hosted, hosted_client: VaultClient, refusal: tuple[int, Any]
) -> None:
    hosted.answers = [refusal, MINTED]
    assert hosted_client.mint(REQUEST).text == SECRET
    assert "total_usd_cap" not in hosted.asked[1][2]


def test_any_other_refusal_is_not_tried_again(hosted: Hosted, hosted_client: VaultClient) -> None:
    hosted.answers = [(400, {"error": "unknown field: label"})]
    with pytest.raises(VaultRefused, match="label"):
        hosted_client.mint(REQUEST)
    assert len(hosted.asked) == 1


@pytest.mark.parametrize("status", [404, 405])
def test_where_nothing_is_listed_nothing_is_known(
    hosted: Hosted, hosted_client: VaultClient, status: int
) -> None:
    hosted.answers = [(status, {"error": "no"}), (status, b"<html>")]
    assert hosted_client.list_keys(LABEL) is None
    assert hosted_client.list_calls("7", 5) is None


def test_a_list_that_is_not_filtered_is_filtered_here(
    hosted: Hosted, hosted_client: VaultClient
) -> None:
    hosted.answers = [(200, {"data": [{"id": "a", "label": LABEL}, {"id": "b", "label": "other"}]})]
    (key,) = hosted_client.list_keys(LABEL) or []
    assert (key.key_id, key.held_cents, key.expires_at) == ("a", None, None)


@pytest.mark.parametrize(
    "answer",
    [
        (500, {"error": "oops"}),
        (201, {"id": "a"}),
        (201, {"id": "a", "vault_key": "sk_live_not_one"}),
        (201, b"<html>"),
        (200, b""),
    ],
)
def test_an_answer_without_a_key_leaves_it_open(
    hosted: Hosted, hosted_client: VaultClient, answer: tuple[int, Any]
) -> None:
    hosted.answers = [answer]
    with pytest.raises(VaultUnavailable):
        hosted_client.mint(REQUEST)
    assert len(hosted.asked) == 1


def test_a_service_that_is_away(hosted: Hosted) -> None:
    client = VaultClient("http://127.0.0.1:1", API_KEY)
    with pytest.raises(VaultUnavailable, match="connection_refused"):
        client.revoke("a")
    client.close()


def test_an_answer_that_does_not_end(hosted: Hosted) -> None:
    client = VaultClient(hosted.url, API_KEY, deadline_seconds=0.2)
    release = threading.Event()

    class Slow(list[tuple[int, Any]]):
        def pop(self, _index: Any = 0) -> tuple[int, Any]:
            release.wait(10)
            return MINTED

    hosted.answers = Slow()
    started = datetime.now(UTC)
    with pytest.raises(VaultUnavailable, match=r"deadline|read_timeout"):
        client.mint(REQUEST)
    assert datetime.now(UTC) - started < timedelta(seconds=5)
    release.set()
    client.close()


def test_errors_hold_no_secret(hosted: Hosted, hosted_client: VaultClient) -> None:
    hosted.answers = [(401, {"error": f"bad key {API_KEY} or {SECRET}"})]
    with pytest.raises(VaultRefused, match="bad key") as refused:
        hosted_client.mint(REQUEST)
    assert API_KEY not in str(refused.value)
    assert SECRET not in str(refused.value)
