"""Goal: Stripe's objects are read for the money that moved."""

from typing import Any

import pytest

from ops.audit.payments import read_dispute, read_payment
from shared.event import Fingerprint
from shared.record import RecordId

CHARGE: dict[str, Any] = {
    "id": "ch_1",
    "payment_intent": "pi_1",
    "status": "succeeded",
    "captured": True,
    "amount": 5000,
    "amount_captured": 5000,
    "amount_refunded": 0,
    "currency": "usd",
    "customer": "cus_1",
    "description": "usage",
    "created": 1_800_000_000,
    "metadata": {"customer_id": "acme", "billing_period": "2026-11"},
}


def test_a_captured_charge_is_a_payment() -> None:
    payment = read_payment(CHARGE)

    assert payment is not None
    assert (payment.charge_id, payment.payment_id) == ("ch_1", "pi_1")
    assert payment.paid == Fingerprint(5000, "usd", "cus_1")
    assert payment.mark == RecordId("acme", "2026-11")
    assert payment.is_kept
    assert payment.is_named("pi_1")
    assert payment.is_named("ch_1")
    assert not payment.is_named(None)


@pytest.mark.parametrize(
    "change", [{"status": "failed"}, {"status": "pending"}, {"captured": False}]
)
def test_what_did_not_move_is_no_payment(change: dict[str, Any]) -> None:
    assert read_payment({**CHARGE, **change}) is None


def test_what_was_not_captured_was_not_given_back() -> None:
    partly = read_payment({**CHARGE, "amount_captured": 3000, "amount_refunded": 2500})

    assert partly is not None
    assert (partly.paid.amount_cents, partly.refunded_cents) == (3000, 500)


def test_a_charge_of_a_guest_without_an_intent() -> None:
    bare = {**CHARGE, "payment_intent": None, "customer": None, "description": None, "metadata": {}}
    payment = read_payment(bare)

    assert payment is not None
    assert (payment.payment_id, payment.paid.stripe_customer_id) == ("ch_1", "")
    assert payment.mark is None
    half_marked = read_payment({**CHARGE, "metadata": {"customer_id": "acme"}})
    assert half_marked is not None
    assert half_marked.mark is None


def test_expanded_objects_are_read_as_well() -> None:
    payment = read_payment(
        {**CHARGE, "customer": {"id": "cus_1"}, "payment_intent": {"id": "pi_1"}}
    )
    assert payment == read_payment(CHARGE)


@pytest.mark.parametrize(
    ("status", "is_costly"),
    [
        ("needs_response", True),
        ("lost", True),
        ("warning_needs_response", True),
        ("won", False),
        ("warning_closed", False),
        ("prevented", False),
    ],
)
def test_disputes_that_cost_money_or_may(status: str, is_costly: bool) -> None:
    dispute = read_dispute({"id": "du_1", "charge": "ch_1", "amount": 5, "status": status})
    assert (dispute is not None) == is_costly
