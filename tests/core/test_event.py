"""The usage event: which bodies become one, and what is said about those that do not."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InvalidEvent
from shared.event import UsageEvent, parse_event
from tests.support.malformed_bodies import (
    MALFORMED_BODIES,
    ODD_BUT_VALID,
    VALID,
    MalformedBody,
    event_body,
    every_malformed_body,
)

EVENT = UsageEvent("customer-1", "2026-11", "cus_1", 5000, "usd")


def test_malformed_bodies_are_told_apart() -> None:
    """Goal: the table is as long as promised, and no line of it stands twice."""
    assert len(MALFORMED_BODIES) >= 40
    assert len({malformed.name for malformed in MALFORMED_BODIES}) == len(MALFORMED_BODIES)
    assert len({malformed.body for malformed in MALFORMED_BODIES}) == len(MALFORMED_BODIES)


@every_malformed_body
def test_malformed_body_is_refused_with_its_field(malformed: MalformedBody) -> None:
    """Goal: whatever comes, the refusal names the field, in words fit for a log line."""
    with pytest.raises(InvalidEvent) as caught:
        parse_event(malformed.body, "usd")
    reason = str(caught.value)
    assert reason.startswith(malformed.reason)
    assert reason.isascii()
    assert reason.isprintable()
    assert len(reason) < 200


@pytest.mark.parametrize("body", ODD_BUT_VALID.values(), ids=ODD_BUT_VALID.keys())
def test_odd_body_is_an_event(body: bytes) -> None:
    """Goal: what the contract allows is not refused for looking unusual."""
    assert parse_event(body, "usd").stripe_customer_id == "cus_1"


def test_only_the_documented_fields_count() -> None:
    """Goal: fields that nobody knows change nothing."""
    assert parse_event(event_body(), "usd") == EVENT
    assert parse_event(ODD_BUT_VALID["extra fields"], "usd") == EVENT
    assert parse_event(ODD_BUT_VALID["null for what is optional"], "usd") == EVENT


def test_every_field_is_read() -> None:
    """Goal: optional fields arrive, the currency in lower case."""
    body = event_body(currency="EUR", payment_method_id="pm_1", description="November", attempt=3)
    assert parse_event(body, "usd") == UsageEvent(
        "customer-1", "2026-11", "cus_1", 5000, "eur", "pm_1", "November", 3
    )


def test_currency_defaults_to_the_setting() -> None:
    """Goal: an event without a currency is in the deployment's."""
    assert parse_event(event_body(), "jpy").currency == "jpy"


@pytest.mark.parametrize("method", ["pm_1", "card_1", "src_1"])
def test_every_kind_of_payment_method_is_taken(method: str) -> None:
    """Goal: accounts that still bill legacy sources can."""
    assert parse_event(event_body(payment_method_id=method), "usd").payment_method_id == method


@pytest.mark.parametrize("period", ["2026-11", "2026-W48", "2026-11-30", "p_1.a"])
def test_every_shape_of_period_is_taken(period: str) -> None:
    """Goal: months, weeks, days and names of one's own."""
    assert parse_event(event_body(billing_period=period), "usd").billing_period == period


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=5,
)
FIELDS = st.sampled_from([*VALID, "currency", "payment_method_id", "description", "attempt"])


@given(body=st.binary() | ANY_JSON.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_refused_in_good_order(body: bytes) -> None:
    """Goal: no body raises anything else than `InvalidEvent`."""
    with pytest.raises(InvalidEvent):
        parse_event(body, "usd")


def field_refused_in(body: bytes) -> str | None:
    """The field at fault, None when there is none."""
    try:
        parse_event(body, "usd")
    except InvalidEvent as error:
        return error.field
    return None


@given(changes=st.dictionaries(FIELDS, ANY_JSON, min_size=1))
def test_any_value_of_a_field_is_taken_or_refused_by_its_name(changes: dict[str, Any]) -> None:
    """Goal: no value of a field raises anything else, and the field at fault is named.

    A number that is not JSON at all, such as NaN, is the body's fault.
    """
    body = json.dumps({**VALID, **changes}).encode()
    assert field_refused_in(body) in {None, "body", *changes}


def test_fingerprint_is_what_may_never_differ() -> None:
    """Goal: amount, currency and Stripe customer, and nothing else."""
    same = parse_event(event_body(description="other", payment_method_id="pm_2"), "usd")
    assert same.fingerprint == EVENT.fingerprint
    for change in ({"amount_cents": 1}, {"currency": "eur"}, {"stripe_customer_id": "cus_2"}):
        assert parse_event(event_body(**change), "usd").fingerprint != EVENT.fingerprint
