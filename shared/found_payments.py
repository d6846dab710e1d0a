"""Payments of ours in Stripe's lists: whose they are, and what they prove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from shared import notices
from shared.event import MAX_ATTEMPT, Fingerprint, UsageEvent
from shared.key import Namespaces
from shared.ports import Finding, FoundPayment
from shared.record import Flow, RecordId
from shared.stripe_requests import create_parameters

INTENTS_PATH = "/v1/payment_intents"
CHARGES_PATH = "/v1/charges"

LIST_PATHS = (INTENTS_PATH, CHARGES_PATH)
"""The lists in which payments of ours are, whatever the flow."""

MOVES_NOTHING = frozenset({"canceled", "failed"})
"""The statuses of a PaymentIntent or charge that can never move money."""

FINDING_OF_STATUS = {
    "succeeded": Finding.CHARGED,
    "processing": Finding.PROCESSING,
    "pending": Finding.PROCESSING,
}
"""What the status of a PaymentIntent or charge says of its money, where it says something."""


@dataclass(frozen=True, slots=True)
class UnreadablePayment:
    """A payment that carries a key of Chargeonce, but does not say whose record it is.

    Args:
        payment_id: the PaymentIntent or charge.
    """

    payment_id: str


def read_payment(
    item: Mapping[str, Any], namespaces: Namespaces
) -> FoundPayment | UnreadablePayment | None:
    """Read an object of one of Stripe's lists.

    Args:
        item: a PaymentIntent or a charge.
        namespaces: what its key may have been made under.

    Returns:
        None for what is not ours, and for what can never move money.
    """
    metadata = item.get("metadata")
    if not isinstance(metadata, Mapping) or "chargeonce_key" not in metadata:
        return None
    # A PaymentIntent's charge carries its metadata too; the PaymentIntent speaks for both.
    if item.get("payment_intent") is not None or item.get("status") in MOVES_NOTHING:
        return None
    try:
        found = _read_ours(item, metadata)
    except (KeyError, TypeError, ValueError):
        return UnreadablePayment(str(item.get("id")))
    record_id = found.record_id
    is_ours = namespaces.is_ours(found.key, record_id.customer_id, record_id.billing_period)
    if is_ours is None:
        return UnreadablePayment(found.payment_id)
    return found if is_ours else None


def _read_ours(item: Mapping[str, Any], metadata: Mapping[str, str]) -> FoundPayment:
    flow = Flow.PAYMENT_INTENT if item["object"] == "payment_intent" else Flow.CHARGE
    method = item.get("payment_method") if flow is Flow.PAYMENT_INTENT else None
    description = item.get("description")
    event = UsageEvent(
        customer_id=metadata["customer_id"],
        billing_period=metadata["billing_period"],
        stripe_customer_id=_id_of(item["customer"]),
        amount_cents=int(item["amount"]),
        currency=str(item["currency"]),
        payment_method_id=_id_of(method) if method else None,
        description=str(description) if description else None,
        attempt=_attempt_of(metadata),
    )
    key = metadata["chargeonce_key"]
    return FoundPayment(
        payment_id=str(item["id"]),
        finding=FINDING_OF_STATUS.get(item["status"], Finding.UNCONFIRMED),
        record_id=RecordId(event.customer_id, event.billing_period),
        key=key,
        attempt=event.attempt,
        fingerprint=Fingerprint(event.amount_cents, event.currency, event.stripe_customer_id),
        flow=flow,
        create_parameters=create_parameters(event, key, flow),
        payment_method_id=event.payment_method_id,
        created_at=datetime.fromtimestamp(int(item["created"]), UTC),
    )


def _attempt_of(metadata: Mapping[str, str]) -> int:
    """The attempt; what is no attempt's number is taken for the first, for the money counts."""
    shown = metadata.get("attempt", "")
    is_number = shown.isascii() and shown.isdigit() and len(shown) <= len(str(MAX_ATTEMPT))
    if is_number and 1 <= int(shown) <= MAX_ATTEMPT:
        return int(shown)
    notices.alarm("a payment of ours has lost the number of its attempt: taken for the first")
    return 1


def _id_of(reference: object) -> str:
    """The id of an object that may be expanded."""
    found = reference.get("id") if isinstance(reference, Mapping) else reference
    if not isinstance(found, str):
        raise ValueError("no id")
    return found
