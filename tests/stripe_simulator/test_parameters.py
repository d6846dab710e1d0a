"""Goal: what Stripe would refuse is refused, by name, before anything happens."""

import pytest

from local.stripe_simulator import Request
from local.stripe_simulator.errors import StripeError
from local.stripe_simulator.parameters import MAXIMUM_FIELDS, nest_pairs, read_pairs
from tests.stripe_simulator.support import Desk


def intent_error(desk: Desk, **form: object) -> tuple[str | None, str | None]:
    given = {"amount": 1000, "currency": "usd", **form}
    present = {name: value for name, value in given.items() if value is not None}
    error = desk.refused(400, "/v1/payment_intents", present)
    assert error["type"] == "invalid_request_error"
    assert len(desk.scope.payment_intents) == 0
    return error.get("code"), error.get("param")


@pytest.mark.parametrize(
    ("amount", "currency", "code"),
    [
        (49, "usd", "amount_too_small"),
        (49, "eur", "amount_too_small"),
        (29, "gbp", "amount_too_small"),
        (49, "jpy", "amount_too_small"),
        (0, "usd", "parameter_invalid_integer"),
        (-100, "usd", "parameter_invalid_integer"),
        (100_000_000, "usd", "amount_too_large"),
        (100_000_000, "jpy", "amount_too_large"),
        (1_000_000_000, "inr", "amount_too_large"),
        (1_000_000_000_000, "idr", "amount_too_large"),
        (150, "isk", "parameter_invalid_integer"),
        (150, "ugx", "parameter_invalid_integer"),
        (1005, "kwd", "parameter_invalid_integer"),
        ("10.00", "usd", "parameter_invalid_integer"),
        ("1e3", "usd", "parameter_invalid_integer"),
        ("\u0661\u0660\u0660\u0660", "usd", "parameter_invalid_integer"),
        ("", "usd", "parameter_invalid_integer"),
        (None, "usd", "parameter_missing"),
    ],
)
def test_amounts_that_stripe_refuses(desk: Desk, amount: object, currency: str, code: str) -> None:
    assert intent_error(desk, amount=amount, currency=currency) == (code, "amount")


@pytest.mark.parametrize(
    ("amount", "currency"),
    [
        (50, "usd"),
        (30, "gbp"),
        (50, "jpy"),
        (99_999_999, "usd"),
        (999_999_999, "inr"),
        (999_999_999_999, "idr"),
        (1500, "isk"),
        (1000, "kwd"),
        (1, "clp"),
        (1000, "USD"),
    ],
)
def test_amounts_that_stripe_takes(desk: Desk, amount: int, currency: str) -> None:
    intent = desk.post("/v1/payment_intents", {"amount": amount, "currency": currency})

    assert (intent["amount"], intent["currency"]) == (amount, currency.lower())


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"currency": "xxx"}, (None, "currency")),
        ({"currency": None}, ("parameter_missing", "currency")),
        ({"currency": ""}, ("parameter_invalid_empty", "currency")),
        ({"colour": "red"}, ("parameter_unknown", "colour")),
        (
            {"automatic_payment_methods[colour]": "red"},
            ("parameter_unknown", "automatic_payment_methods[colour]"),
        ),
        ({"automatic_payment_methods": "yes"}, (None, "automatic_payment_methods")),
        ({"automatic_payment_methods[enabled]": "yes"}, (None, "enabled")),
        ({"capture_method": "later"}, (None, "capture_method")),
        ({"description[a]": "x"}, (None, "description")),
        ({"description": "x" * 5001}, (None, "description")),
        ({"metadata": "x"}, (None, "metadata")),
        ({"metadata[a][b]": "x"}, (None, "metadata[a]")),
        ({f"metadata[{'k' * 41}]": "x"}, (None, f"metadata[{'k' * 41}]")),
        ({"metadata[a]": "x" * 501}, (None, "metadata[a]")),
        ({f"metadata[k{number}]": "x" for number in range(51)}, (None, "metadata")),
        ({"allowed_payment_method_types": "card"}, (None, "allowed_payment_method_types")),
        ({"transfer_data": "x"}, (None, "transfer_data")),
        ({"a[b": "x"}, (None, "a[b")),
        ({"[a]": "x"}, (None, "[a]")),
        ({"a" + "[b]" * 7: "x"}, (None, "a" + "[b]" * 7)),
    ],
)
def test_parameters_that_stripe_refuses(
    desk: Desk, form: dict[str, object], expected: tuple[str | None, str]
) -> None:
    assert intent_error(desk, **form) == expected


def test_metadata_at_its_limits_is_kept(desk: Desk) -> None:
    metadata = {f"metadata[{number:040}]": "v" * 500 for number in range(50)}

    intent = desk.post("/v1/payment_intents", {"amount": 500, "currency": "usd", **metadata})

    assert len(intent["metadata"]) == 50


def test_metadata_may_hold_any_text(desk: Desk) -> None:
    intent = desk.post(
        "/v1/payment_intents",
        {"amount": 500, "currency": "usd", "metadata[a]": "ü & = % + [x] 漢"},
    )

    assert intent["metadata"] == {"a": "ü & = % + [x] 漢"}


def test_the_query_of_a_post_counts_and_the_body_wins(desk: Desk) -> None:
    built = Request.build("POST", "/v1/payment_intents", {"amount": 700})

    response = desk.model.handle(
        Request("POST", built.path, "currency=usd&amount=500", built.headers, built.body)
    )

    assert response.json()["amount"] == 700
    assert response.json()["currency"] == "usd"


def test_the_last_of_several_equal_names_counts() -> None:
    assert nest_pairs(read_pairs("a=1&a=2")) == {"a": "2"}


def test_lists_and_hashes_nest() -> None:
    pairs = read_pairs("a[]=1&a%5B%5D=2&b[0]=3&c[d][e]=4&&f&g=1%2B1")

    assert nest_pairs(pairs) == {
        "a": {"0": "1", "1": "2"},
        "b": {"0": "3"},
        "c": {"d": {"e": "4"}},
        "f": "",
        "g": "1+1",
    }


@pytest.mark.parametrize("encoded", ["a=%ff", "&".join(["a=1"] * (MAXIMUM_FIELDS + 1))])
def test_unreadable_forms_are_refused(encoded: str) -> None:
    with pytest.raises(StripeError, match="Invalid request"):
        read_pairs(encoded)


@pytest.mark.parametrize(
    ("method", "content_type", "body"),
    [
        ("POST", "application/json", b"{}"),
        ("POST", "application/x-www-form-urlencoded", "ä=1".encode()),
        ("GET", "application/x-www-form-urlencoded", b"limit=1"),
    ],
)
def test_only_forms_are_read(desk: Desk, method: str, content_type: str, body: bytes) -> None:
    built = Request.build(method, "/v1/payment_intents")
    headers = {**built.headers, "content-type": content_type}

    response = desk.model.handle(Request(method, built.path, "", headers, body))

    assert response.status == 400
    assert "application/x-www-form-urlencoded" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/nothing"), ("PUT", "/v1/charges"), ("GET", "/"), ("POST", "/v1/account")],
)
def test_unknown_urls_are_404(desk: Desk, method: str, path: str) -> None:
    error = desk.refused(404, path, method=method)

    assert f"Unrecognized request URL ({method}: {path})" in error["message"]


@pytest.mark.parametrize("version", ["yesterday", "2026-10-28.endive\n", "20261028"])
def test_an_unknown_api_version_is_refused(desk: Desk, version: str) -> None:
    response = desk.send("GET", "/v1/account", api_version=version)

    assert response.status == 400
    assert "Invalid Stripe API version" in response.json()["error"]["message"]


def test_each_answer_names_its_request_and_version(desk: Desk) -> None:
    response = desk.send("GET", "/v1/account", api_version="2025-09-30.clover")

    assert response.headers["Request-Id"].startswith("req_")
    assert response.headers["Stripe-Version"] == "2025-09-30.clover"


def test_errors_advise_against_retries(desk: Desk) -> None:
    assert desk.send("POST", "/v1/charges").headers["Stripe-Should-Retry"] == "false"
