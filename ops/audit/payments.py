"""Payments and disputes, read from Stripe's objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.event import Fingerprint
from shared.record import RecordId

# The bank sided with us, or it never came to a dispute: no money went.
_HARMLESS_DISPUTES = frozenset({"won", "warning_closed", "prevented"})


@dataclass(frozen=True, slots=True)
class Dispute:
    """A customer's objection that costs money, or may.

    Args:
        id: Stripe's.
        charge_id: what is disputed.
        amount_cents: how much of it.
        status: how far it has come.
    """

    id: str
    charge_id: str
    amount_cents: int
    status: str


@dataclass(frozen=True, slots=True)
class Payment:
    """Money that moved: a captured charge, which most often belongs to a PaymentIntent.

    Args:
        charge_id: the charge.
        payment_id: its PaymentIntent, or the charge itself when it has none.
        paid: amount, currency and Stripe customer; the customer is empty for a guest.
        refunded_cents: what was given back since.
        description: what the customer reads.
        created: when the charge was made, in seconds since the epoch by Stripe's clock.
        mark: whose it is by its metadata; None for a payment that says nothing of it.
        disputes: those of it that cost money, or may.
    """

    charge_id: str
    payment_id: str
    paid: Fingerprint
    refunded_cents: int
    description: str
    created: int
    mark: RecordId | None
    disputes: Sequence[Dispute] = ()

    @property
    def is_kept(self) -> bool:
        """Whether any of the money is still with us."""
        return self.refunded_cents < self.paid.amount_cents

    def is_named(self, payment_id: str | None) -> bool:
        """Whether a record's payment id means this payment."""
        return payment_id in (self.payment_id, self.charge_id)


def read_payment(charge: Mapping[str, Any]) -> Payment | None:
    """Read a charge of Stripe's; None when its money did not move.

    What an authorization did not capture counts as refunded at Stripe, and not here
    (https://docs.stripe.com/api/charges/object).
    """
    if charge["status"] != "succeeded" or not charge["captured"]:
        return None
    captured_cents = int(charge["amount_captured"])
    released_cents = int(charge["amount"]) - captured_cents
    return Payment(
        charge_id=str(charge["id"]),
        payment_id=_id_of(charge.get("payment_intent")) or str(charge["id"]),
        paid=Fingerprint(
            captured_cents, str(charge["currency"]), _id_of(charge.get("customer")) or ""
        ),
        refunded_cents=int(charge["amount_refunded"]) - released_cents,
        description=charge.get("description") or "",
        created=int(charge["created"]),
        mark=_read_mark(charge.get("metadata") or {}),
    )


def read_dispute(dispute: Mapping[str, Any]) -> Dispute | None:
    """Read a dispute of Stripe's; None when it cannot cost money any more."""
    status = str(dispute["status"])
    if status in _HARMLESS_DISPUTES:
        return None
    charge_id = _id_of(dispute["charge"]) or ""
    return Dispute(str(dispute["id"]), charge_id, int(dispute["amount"]), status)


def _read_mark(metadata: Mapping[str, Any]) -> RecordId | None:
    customer_id, billing_period = metadata.get("customer_id"), metadata.get("billing_period")
    if customer_id and billing_period:
        return RecordId(str(customer_id), str(billing_period))
    return None


def _id_of(reference: object) -> str | None:
    """An id, be it expanded or not."""
    if isinstance(reference, dict):
        reference = reference.get("id")
    return str(reference) if reference else None
