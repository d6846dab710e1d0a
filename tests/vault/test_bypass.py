"""Attempts to spend more than is counted: each is refused before Stripe, or counted right.

The judge is the ledger: whatever was answered, no more moved than the key says it spent.
"""

import base64
import http.client
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.vault import CHARGE, ENDPOINTS, Answer, VaultBench

FORM = "application/x-www-form-urlencoded"
BODY = b"amount=1000&currency=usd&customer=cus_1"
CHARGES = "/stripe/v1/charges"


def send(
    vault: VaultBench,
    target: str = CHARGES,
    body: bytes = BODY,
    headers: Mapping[str, str] | None = None,
    method: str = "POST",
) -> Answer:
    """Send with a good key; `headers` replace the usual ones."""
    key = vault.mint(daily_usd=50.0)
    usual = {"Authorization": f"Bearer {key}", "Content-Type": FORM}
    return vault.raw(method, target, {**usual, **(headers or {})}, body)


def assert_refused(vault: VaultBench, answer: Answer, *codes: str) -> None:
    """Refused here, with one of the codes, in Stripe's shape; Stripe got nothing."""
    assert answer.code in codes, answer
    assert answer.document["error"]["message"]
    assert vault.upstream.sent == []
    assert vault.charges() == []
    assert vault.money() == (0, 0)


@pytest.mark.parametrize(
    "body",
    [
        b"amount=1000&amount=1&currency=usd&customer=cus_1",
        b"amount=1&currency=usd&customer=cus_1&amount=1000",
        b"amount[]=1000&currency=usd&customer=cus_1",
        b"amount=1000&currency=usd&customer=cus_1&amount[0]=5",
        b"amount=-1000&currency=usd&customer=cus_1",
        b"amount=0&currency=usd&customer=cus_1",
        b"amount=1000.0&currency=usd&customer=cus_1",
        b"amount=1e3&currency=usd&customer=cus_1",
        b"amount=0x3e8&currency=usd&customer=cus_1",
        b"amount=+1000&currency=usd&customer=cus_1",
        b"amount=%201000&currency=usd&customer=cus_1",
        b"amount=1000%0a&currency=usd&customer=cus_1",
        b"amount=01000&currency=usd&customer=cus_1",
        b"amount=1_000&currency=usd&customer=cus_1",
        b"amount=%EF%BC%91000&currency=usd&customer=cus_1",
        b"amount=%D9%A1000&currency=usd&customer=cus_1",
        b"amount=100000000&currency=usd&customer=cus_1",
        b"amount=&currency=usd&customer=cus_1",
        b"currency=usd&customer=cus_1",
        b"Amount=1000&amount=1000&currency=usd&customer=cus_1",
        b"amount%00=1&amount=1000&currency=usd&customer=cus_1",
        b"amount=1000&currency=usd&customer=cus_1&transfer_data[destination]=acct_1",
        b"amount=1000&currency=usd&customer=cus_1&on_behalf_of=acct_1",
        b"amount=1000&currency=usd&customer=cus_1&application_fee_amount=900",
        b"amount=1000&currency=usd&customer=cus_1&capture=false",
        b"amount=1000&currency=usd&customer=cus_1&metadata[vault_request]=x",
        b"amount=1000&currency=usd&customer=cus_1&metadata[a][b]=x",
        b"amount=1000&currency=usd&customer",
        b"amount=1000&currency=usd&customer=%ff",
        b"\xef\xbb\xbfamount=1000&currency=usd",
        b"amount=1000&currency=usd&" + b"&".join(b"metadata[k%d]=v" % n for n in range(300)),
        b"amount=1000&currency=usd&description=" + b"x" * 70_000,
    ],
)
def test_bodies(vault: VaultBench, body: bytes) -> None:
    codes = ("parameter_invalid", "parameter_not_allowed", "body_not_allowed")
    assert_refused(vault, send(vault, body=body), *codes)


def test_a_semicolon_separates_nothing(vault: VaultBench) -> None:
    body = b"amount=1000&currency=usd;amount=1&customer=cus_1"
    assert_refused(vault, send(vault, body=body), "currency_not_allowed")


@pytest.mark.parametrize("currency", ["eur", "jpy", "", "us", "usdusd"])
def test_another_currency(vault: VaultBench, currency: str) -> None:
    body = f"amount=1000&currency={currency}&customer=cus_1".encode()
    assert_refused(vault, send(vault, body=body), "currency_not_allowed")


def test_a_currency_in_capitals_is_dollars_too(vault: VaultBench) -> None:
    assert send(vault, body=b"amount=1000&currency=USD&customer=cus_1").status == 200
    assert (vault.money(), vault.moved_cents()) == ((0, 1000), 1000)


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/json"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "text/plain"},
        {"Content-Type": f"{FORM}; charset=utf-16"},
        {"Content-Encoding": "gzip"},
        {"Content-Encoding": "identity, gzip"},
    ],
)
def test_bodies_that_are_not_read(vault: VaultBench, headers: Mapping[str, str]) -> None:
    assert_refused(vault, send(vault, headers=headers), "body_not_allowed")


def test_a_chunked_body(vault: VaultBench) -> None:
    key = vault.mint()
    connection = http.client.HTTPConnection("127.0.0.1", vault.port, timeout=60)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": FORM}
    connection.request("POST", CHARGES, iter([BODY]), headers, encode_chunked=True)
    assert connection.getresponse().status == 400
    connection.close()
    assert vault.upstream.sent == []


def test_both_lengths(vault: VaultBench) -> None:
    headers = {"Transfer-Encoding": "chunked", "Content-Length": str(len(BODY))}
    assert_refused(vault, send(vault, headers=headers), "body_not_allowed")


@pytest.mark.parametrize("query", ["amount=1", "currency=usd", "x", "%61mount=1"])
def test_parameters_in_the_query_of_a_post(vault: VaultBench, query: str) -> None:
    assert_refused(vault, send(vault, f"{CHARGES}?{query}"), "body_not_allowed")


def test_a_get_with_a_body(vault: VaultBench) -> None:
    assert_refused(vault, send(vault, method="GET"), "body_not_allowed")


@pytest.mark.parametrize(
    "path",
    [
        "/stripe//v1/charges",
        "/stripe/v1//charges",
        "/stripe/v1/charges/",
        "/stripe/v1/./charges",
        "/stripe/v1/customers/../charges",
        "/stripe/v1/%63harges",
        "/stripe/v1/customers%2f..%2fcharges",
        "/stripe/v1/charges%2e",
        "/stripe/v1/charges;x=1",
        "/stripe/v1/Charges",
        "/STRIPE/v1/charges",
        "/stripe/V1/charges",
        "/stripe/v1/charges%00",
        "/stripe/v1/charges%20",
        "/stripe/v2/charges",
        "/stripe/v1/refunds",
        "/stripe/v1/transfers",
        "/stripe/v1/payouts",
        "/stripe/v1/charges/ch_1/capture",
        "/stripe/v1/payment_intents/pi_1/increment_authorization",
        "/stripe/v1/customers/cus_1",
        "/stripe/stripe/v1/charges",
        "/v1/../v1/charges",
    ],
)
def test_paths(vault: VaultBench, path: str) -> None:
    assert_refused(vault, send(vault, path), "endpoint_not_allowed")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "post"])
def test_methods(vault: VaultBench, method: str) -> None:
    assert_refused(vault, send(vault, method=method), "endpoint_not_allowed")


@pytest.mark.parametrize(
    "headers",
    [
        {"Stripe-Account": "acct_1"},
        {"Stripe-Context": "acct_1"},
        {"Idempotency-Key": "x" * 2000},
        {"Stripe-Version": "2026-10-28.endive\x80"},
    ],
)
def test_headers(vault: VaultBench, headers: Mapping[str, str]) -> None:
    assert_refused(vault, send(vault, headers=headers), "header_not_allowed")


@pytest.mark.parametrize(
    "name", ["X-HTTP-Method-Override", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL"]
)
def test_an_override_overrides_nothing(vault: VaultBench, name: str) -> None:
    answer = send(vault, "/stripe/v1/customers/cus_1", b"", {name: "DELETE"}, "GET")
    assert answer.document["id"] == "cus_1"
    assert [call[:2] for call in vault.upstream.sent] == [("GET", "/v1/customers/cus_1")]


@pytest.mark.parametrize("place", ["query", "body", "x-api-key", "basic password", "none", "other"])
def test_a_key_in_the_wrong_place(vault: VaultBench, place: str) -> None:
    key = vault.mint()
    headers = {"Content-Type": FORM}
    target, body = CHARGES, BODY
    if place == "query":
        target += f"?key={key}"
    elif place == "body":
        body += f"&key={key}".encode()
    elif place == "x-api-key":
        headers["X-Api-Key"] = key
    elif place == "basic password":
        credentials = base64.b64encode(f"user:{key}".encode()).decode()
        headers["Authorization"] = f"Basic {credentials}"
    elif place == "other":
        headers["Authorization"] = f"Bearer {key[:-1]}{'A' if key[-1] != 'A' else 'B'}"
    answer = vault.raw("POST", target, headers, body)
    assert (answer.status, answer.code) == (401, "vault_key_invalid")
    assert vault.upstream.sent == []


def test_curl_sends_the_key_as_a_user(vault: VaultBench) -> None:
    key = vault.mint()
    credentials = base64.b64encode(f"{key}:".encode()).decode()
    headers = {"Authorization": f"Basic {credentials}", "Content-Type": FORM}
    assert vault.raw("POST", "/v1/charges", headers, BODY).status == 200
    assert vault.money() == (0, 1000)


def test_expired_by_a_second(vault: VaultBench) -> None:
    key = vault.mint(expires_at=(datetime.now(UTC) - timedelta(seconds=1)).isoformat())
    answer = vault.post(key, "/v1/charges", CHARGE)
    assert (answer.status, answer.code) == (401, "vault_key_expired")
    assert vault.upstream.sent == []


def test_revoked(vault: VaultBench) -> None:
    key = vault.mint()
    assert vault.admin("DELETE", f"/vault/keys/{vault.key_row().key_id}").status == 200
    answer = vault.post(key, "/v1/charges", CHARGE)
    assert (answer.status, answer.code) == (401, "vault_key_revoked")
    assert vault.upstream.sent == []


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/v1/payment_intents/{id}", {"amount": "99999"}),
        ("/v1/payment_intents/{id}", {"currency": "eur"}),
        ("/v1/payment_intents/{id}/confirm", {"amount_to_confirm": "99999"}),
        ("/v1/payment_intents/{id}/confirm", {"amount_details[tip]": "1"}),
        ("/v1/payment_intents/{id}/capture", {"amount_to_capture": "99999"}),
        ("/v1/payment_intents/{id}/capture", {"transfer_data[amount]": "1"}),
    ],
)
def test_an_intent_stays_what_it_was(
    vault: VaultBench, path: str, parameters: Mapping[str, str]
) -> None:
    key = vault.mint()
    made = vault.post(key, "/v1/payment_intents", CHARGE).document["id"]
    answer = vault.post(key, path.format(id=made), parameters)
    assert answer.code in ("parameter_not_allowed", "parameter_invalid")
    assert len(vault.upstream.sent) == 1


@pytest.mark.parametrize("confirm", ["True", "1", "yes", " true", ""])
def test_a_confirm_that_is_no_plain_word(vault: VaultBench, confirm: str) -> None:
    key = vault.mint()
    answer = vault.post(key, "/v1/payment_intents", {**CHARGE, "confirm": confirm})
    assert_refused(vault, answer, "parameter_invalid")


def test_what_a_key_does_not_list_it_may_not(vault: VaultBench) -> None:
    key = vault.mint(allowed_endpoints=["/v1/payment_intents"])
    made = vault.post(key, "/v1/payment_intents", CHARGE).document["id"]
    answer = vault.post(key, f"/v1/payment_intents/{made}/confirm")
    assert (answer.status, answer.code) == (403, "endpoint_not_allowed")
    assert answer.document["error"]["allowed_endpoints"] == ["/v1/payment_intents"]
    assert answer.document["error"]["attempted"] == f"POST /v1/payment_intents/{made}/confirm"


def test_no_answer_and_no_record_holds_a_secret(vault: VaultBench) -> None:
    key = vault.mint()
    answers = [vault.post(key, path.replace("*", "x"), CHARGE) for path in ENDPOINTS]
    told = "".join(str(answer) for answer in answers)
    kept = str(
        vault.execute("SELECT row_to_json(c) FROM chargeonce.vault_calls AS c")
        + vault.execute("SELECT row_to_json(k) FROM chargeonce.vault_keys AS k")
        + vault.execute("SELECT row_to_json(p) FROM chargeonce.vault_payments AS p")
    )
    secret = key.split("_", 3)[3]
    for text in (told, kept):
        assert "rk_test" not in text
        assert secret not in text
    assert "pm_" not in kept
    assert "client_secret" not in kept
