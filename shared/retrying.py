"""Another try for a charge that was declined or rejected: its next attempt, asked for by an event.

Nothing here charges. The event goes through the same state machine as any message, so the claim
checks run and cap, and of two operators who ask at once one opens the attempt.
"""

from __future__ import annotations

import json
from enum import StrEnum

from shared.biller import Biller
from shared.event import MAX_ATTEMPT
from shared.key import idempotency_key
from shared.operations import OPERATOR, RETRYABLE
from shared.outcome import Outcome
from shared.ports import Delivery, Envelope
from shared.record import Record, State


class RetryRefusal(StrEnum):
    """Why a record gets no further attempt."""

    UNFINISHED = "unfinished"
    CHARGED = "already_charged"
    CANCELED = "already_canceled"
    PARKED = "parked"
    OTHER_NAMESPACE = "other_namespace"
    TOO_MANY_ATTEMPTS = "too_many_attempts"

    @property
    def sentence(self) -> str:
        """What stands in the way and what to do, for people."""
        return _SENTENCES[self]


_SENTENCES = {
    RetryRefusal.UNFINISHED: "its present attempt may still charge: reconcile brings it to an end",
    RetryRefusal.CHARGED: "it is charged",
    RetryRefusal.CANCELED: "an operator closed it for good",
    RetryRefusal.PARKED: "its present attempt goes on with the next delivery: resubmit its message",
    RetryRefusal.OTHER_NAMESPACE: "its key was made under another BILLING_KEY_NAMESPACE: run this "
    "with that one",
    RetryRefusal.TOO_MANY_ATTEMPTS: f"it was tried {MAX_ATTEMPT} times",
}

_REFUSAL_OF_STATE = {
    State.CHARGED: RetryRefusal.CHARGED,
    State.CANCELED: RetryRefusal.CANCELED,
    State.PARKED: RetryRefusal.PARKED,
}


class NoMessage:
    """The settlement of an event that no broker has: there is nothing to settle."""

    def complete(self) -> None:
        """See `Settlement.complete`."""

    def dead_letter(self, reason: str, description: str) -> None:
        """See `Settlement.dead_letter`."""

    def leave(self) -> None:
        """See `Settlement.leave`."""


def refuse_retry(record: Record, namespace: str) -> RetryRefusal | None:
    """Say why a record must not be tried again; None when it may.

    Args:
        record: as it was read. If it moves on meanwhile, the claim refuses.
        namespace: the setting `BILLING_KEY_NAMESPACE`, under which the attempt would be made.
    """
    if record.state not in RETRYABLE:
        return _REFUSAL_OF_STATE.get(record.state, RetryRefusal.UNFINISHED)
    if record.key != idempotency_key(record.customer_id, record.billing_period, namespace):
        return RetryRefusal.OTHER_NAMESPACE
    if record.attempt >= MAX_ATTEMPT:
        return RetryRefusal.TOO_MANY_ATTEMPTS
    return None


def retry_body(record: Record, payment_method_id: str | None) -> bytes:
    """The event that asks for a record's next attempt.

    Args:
        record: gives everything but the payment method.
        payment_method_id: what to charge; None for the customer's default.
    """
    fingerprint = record.fingerprint
    fields = {
        "customer_id": record.customer_id,
        "billing_period": record.billing_period,
        "stripe_customer_id": fingerprint.stripe_customer_id,
        "amount_cents": fingerprint.amount_cents,
        "currency": fingerprint.currency,
        "payment_method_id": payment_method_id,
        "description": record.create_parameters.get("description"),
        "attempt": record.attempt + 1,
    }
    return json.dumps(fields).encode()


def retry(biller: Biller, record: Record, payment_method_id: str | None) -> Outcome:
    """Try a record once more.

    Args:
        biller: charges it, or finds that somebody else did.
        record: a declined or rejected one.
        payment_method_id: what to charge; None for the customer's default.
    """
    # The same for everybody who asks for this attempt, so that a refused one is kept once.
    envelope = Envelope(OPERATOR, message_id=f"retry:{record.key}:{record.attempt + 1}")
    return biller.handle(Delivery(retry_body(record, payment_method_id), envelope), NoMessage())
