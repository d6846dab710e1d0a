"""Reading Stripe's lists: which payments are ours, whose they are, and what they prove."""

from datetime import UTC, datetime
from typing import Any

import pytest

from shared.event import Fingerprint
from shared.found_payments import UnreadablePayment, read_payment
from shared.key import Namespaces, idempotency_key
from shared.ports import Finding, FoundPayment
from shared.record import Flow, RecordId

NAMESPACES = Namespaces("usage-billing", former=("before",), others=("seats",))
KEY = idempotency_key("acme", "2026-11", "usage-billing")


def item(**changes: Any) -> dict[str, Any]:
    """A PaymentIntent of ours, or something like it."""
    metadata = {
        "chargeonce_key": KEY,
        "customer_id": "acme",
        "billing_period": "2026-11",
        "attempt": "2",
    }
    usual = {
        "id": "pi_1",
        "object": "payment_intent",
        "status": "succeeded",
        "amount": 5000,
        "currency": "usd",
        "customer": "cus_1",
        "created": 1796083200,
        "description": "November",
        "payment_method": "pm_1",
        "metadata": {**metadata, **changes.pop("metadata", {})},
    }
    return {**usual, **changes}


def charge(**changes: Any) -> dict[str, Any]:
    """The same as a charge of the older API."""
    return item(**{"id": "ch_1", "object": "charge", "payment_intent": None, **changes})


def read(found: dict[str, Any]) -> FoundPayment:
    """Read a payment that must be ours."""
    payment = read_payment(found, NAMESPACES)
    assert isinstance(payment, FoundPayment)
    return payment


def test_everything_that_it_takes_to_bring_a_record_back() -> None:
    payment = read(item())
    assert payment.payment_id == "pi_1"
    assert payment.record_id == RecordId("acme", "2026-11")
    assert (payment.key, payment.attempt) == (KEY, 2)
    assert payment.fingerprint == Fingerprint(5000, "usd", "cus_1")
    assert (payment.flow, payment.payment_method_id) == (Flow.PAYMENT_INTENT, "pm_1")
    assert payment.created_at == datetime.fromtimestamp(1796083200, UTC)
    assert payment.create_parameters == {
        "amount": "5000",
        "currency": "usd",
        "customer": "cus_1",
        "metadata[chargeonce_key]": KEY,
        "metadata[attempt]": "2",
        "metadata[customer_id]": "acme",
        "metadata[billing_period]": "2026-11",
        "description": "November",
        "automatic_payment_methods[enabled]": "true",
        "automatic_payment_methods[allow_redirects]": "never",
    }


@pytest.mark.parametrize(
    ("status", "finding"),
    [
        ("succeeded", Finding.CHARGED),
        ("processing", Finding.PROCESSING),
        ("requires_payment_method", Finding.UNCONFIRMED),
        ("requires_confirmation", Finding.UNCONFIRMED),
        ("requires_action", Finding.UNCONFIRMED),
        ("requires_capture", Finding.UNCONFIRMED),
    ],
)
def test_what_a_payment_intent_proves(status: str, finding: Finding) -> None:
    assert read(item(status=status)).finding is finding


@pytest.mark.parametrize(
    ("status", "finding"), [("succeeded", Finding.CHARGED), ("pending", Finding.PROCESSING)]
)
def test_what_a_charge_proves(status: str, finding: Finding) -> None:
    found = read(charge(status=status))
    assert (found.finding, found.flow, found.payment_id) == (finding, Flow.CHARGE, "ch_1")
    # A charge's own payment method says nothing about what the event asked for.
    assert found.payment_method_id is None


def test_objects_that_are_expanded() -> None:
    found = read(item(customer={"id": "cus_9"}, payment_method={"id": "pm_9"}))
    assert found.fingerprint.stripe_customer_id == "cus_9"
    assert found.payment_method_id == "pm_9"


@pytest.mark.parametrize(
    "other",
    [
        item(status="canceled"),
        charge(status="failed"),
        # The PaymentIntent speaks for its charge.
        charge(payment_intent="pi_1"),
        {"id": "pi_2", "object": "payment_intent", "status": "succeeded", "metadata": {}},
        {"id": "pi_3", "object": "payment_intent", "status": "succeeded"},
    ],
)
def test_what_is_not_ours_or_moves_nothing(other: dict[str, Any]) -> None:
    assert read_payment(other, NAMESPACES) is None


@pytest.mark.parametrize(
    "unreadable",
    [
        item(metadata={"customer_id": "other"}),
        item(metadata={"billing_period": "2026-12"}),
        item(metadata={"chargeonce_key": "0" * 32}),
        item(customer=None),
    ],
)
def test_a_key_that_is_not_the_records(unreadable: dict[str, Any]) -> None:
    """Goal: a payment is adopted for the record that its key is of, or for none."""
    assert read_payment(unreadable, NAMESPACES) == UnreadablePayment("pi_1")


def test_a_namespace_that_the_setting_had_before() -> None:
    """Goal: a payment from before the namespace was changed is adopted, under its own key."""
    former = idempotency_key("acme", "2026-11", "before")
    assert read(item(metadata={"chargeonce_key": former})).key == former


def test_the_namespace_of_another_deployment() -> None:
    """Goal: what another deployment charged in this account is none of ours."""
    theirs = idempotency_key("acme", "2026-11", "seats")
    assert read_payment(item(metadata={"chargeonce_key": theirs}), NAMESPACES) is None


def test_a_namespace_that_nobody_named() -> None:
    """Goal: nobody knows whose it is, and that is said."""
    unknown = Namespaces("other")
    assert read_payment(item(), unknown) == UnreadablePayment("pi_1")


@pytest.mark.parametrize("attempt", ["", "first", "0", "101", "3000000000", "9" * 5000, "-1", "２"])
def test_an_attempt_that_is_no_number_of_one(attempt: str) -> None:
    """Goal: the money counts, whatever became of the number beside it."""
    assert read(item(metadata={"attempt": attempt})).attempt == 1


def test_metadata_that_lacks_something() -> None:
    broken = item()
    del broken["metadata"]["billing_period"]
    assert read_payment(broken, NAMESPACES) == UnreadablePayment("pi_1")
