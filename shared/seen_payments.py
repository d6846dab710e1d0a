"""Any payment as Stripe shows it, be it ours or another system's: whose money moved, and how much.

A charge is captured when its money moves; a PaymentIntent and its charge are one payment under two
ids (https://docs.stripe.com/api/charges/object,
https://docs.stripe.com/api/payment_intents/object).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from shared.errors import StripeUnavailable
from shared.found_payments import CHARGES_PATH, FINDING_OF_STATUS, INTENTS_PATH
from shared.ports import Finding
from shared.record import Flow
from shared.stripe_lists import StripeLists

_PAYMENT_ID = re.compile(r"(?:pi|ch|py)_[A-Za-z0-9_]{1,200}")
_INTENT_PREFIX = "pi_"
_WITH_CHARGE = {"expand[]": "latest_charge"}


@dataclass(frozen=True, slots=True)
class SeenPayment:
    """A payment at Stripe.

    Args:
        payment_id: the PaymentIntent's where there is one, else the charge's.
        names: every id that Stripe has for it, sorted.
        finding: whether the money has moved or is on its way; None when neither.
        status: Stripe's word for that.
        amount_cents: what moved, or what is to move.
        currency: lower case.
        stripe_customer_id: who paid; None for a payment without a customer.
        description: what the customer reads.
        metadata: what it carries.
        flow: how it was made.
        livemode: in which mode.
        created_at: by Stripe's clock.
        refunded_cents: what was given back; None where the answer does not tell.
        is_disputed: the customer disputes it; None where the answer does not tell.
    """

    payment_id: str
    names: tuple[str, ...]
    finding: Finding | None
    status: str
    amount_cents: int
    currency: str
    stripe_customer_id: str | None
    description: str | None
    metadata: Mapping[str, str]
    flow: Flow
    livemode: bool
    created_at: datetime
    refunded_cents: int | None
    is_disputed: bool | None


def is_payment_id(text: str) -> bool:
    """Whether the text may be the id of a PaymentIntent or a charge."""
    return _PAYMENT_ID.fullmatch(text) is not None


def look_up(lists: StripeLists, payment_id: str) -> SeenPayment | None:
    """Read a payment at Stripe, by either of its ids; None when there is none.

    Args:
        lists: the way to Stripe.
        payment_id: `is_payment_id` holds.

    Raises:
        StripeUnavailable: it could not be read.
    """
    if payment_id.startswith(_INTENT_PREFIX):
        item = lists.get(f"{INTENTS_PATH}/{payment_id}", _WITH_CHARGE)
        return read_seen(item) if item is not None else None
    item = lists.get(f"{CHARGES_PATH}/{payment_id}")
    if item is None:
        return None
    intent_id = _id_of(item.get("payment_intent"))
    return read_seen(item) if intent_id is None else look_up(lists, intent_id)


def read_seen(item: Mapping[str, Any]) -> SeenPayment:
    """Read a PaymentIntent or a charge.

    Raises:
        StripeUnavailable: it is neither.
    """
    try:
        return _read_intent(item) if item["object"] == "payment_intent" else _read_charge(item)
    except (KeyError, TypeError, ValueError) as error:
        raise StripeUnavailable(f"Stripe's answer is no payment ({type(error).__name__})") from None


def _read_intent(item: Mapping[str, Any]) -> SeenPayment:
    charge = item.get("latest_charge")
    charge_id = _id_of(charge)
    details = charge if isinstance(charge, Mapping) else {}
    is_charged = item["status"] == "succeeded"
    return _seen(
        item,
        names=[str(item["id"]), *([charge_id] if charge_id else [])],
        finding=FINDING_OF_STATUS.get(item["status"]),
        amount_cents=int(item["amount_received"] if is_charged else item["amount"]),
        flow=Flow.PAYMENT_INTENT,
        details=details,
    )


def _read_charge(item: Mapping[str, Any]) -> SeenPayment:
    intent_id = _id_of(item.get("payment_intent"))
    is_authorized_only = item["status"] == "succeeded" and not item["captured"]
    is_charged = item["status"] == "succeeded" and not is_authorized_only
    return _seen(
        item,
        names=[*([intent_id] if intent_id else []), str(item["id"])],
        finding=None if is_authorized_only else FINDING_OF_STATUS.get(item["status"]),
        amount_cents=int(item["amount_captured"] if is_charged else item["amount"]),
        flow=Flow.CHARGE if intent_id is None else Flow.PAYMENT_INTENT,
        details=item,
    )


def _seen(
    item: Mapping[str, Any],
    *,
    names: list[str],
    finding: Finding | None,
    amount_cents: int,
    flow: Flow,
    details: Mapping[str, Any],
) -> SeenPayment:
    refunded, disputed = details.get("amount_refunded"), details.get("disputed")
    description = item.get("description")
    return SeenPayment(
        payment_id=names[0],
        names=tuple(sorted(names)),
        finding=finding,
        status=str(item["status"]),
        amount_cents=amount_cents,
        currency=str(item["currency"]).lower(),
        stripe_customer_id=_id_of(item.get("customer")),
        description=description if isinstance(description, str) else None,
        metadata={str(name): str(value) for name, value in (item.get("metadata") or {}).items()},
        flow=flow,
        livemode=bool(item["livemode"]),
        created_at=datetime.fromtimestamp(int(item["created"]), UTC),
        refunded_cents=None if refunded is None else int(refunded),
        is_disputed=None if disputed is None else bool(disputed),
    )


def _id_of(reference: object) -> str | None:
    """The id of an object that may be expanded, or missing."""
    found = reference.get("id") if isinstance(reference, Mapping) else reference
    return found if isinstance(found, str) else None
