"""What an audit can find: the names, what each means, and what to do about it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from shared.record import RecordId

MAX_PAYMENTS_NAMED = 20


class FindingKind(StrEnum):
    """Every kind of finding, the gravest first. Scripts may rely on these names."""

    CHARGED_TWICE = "charged_twice"
    CHARGED_TWICE_SUSPECTED = "charged_twice_suspected"
    PAID_BUT_CLOSED = "paid_but_closed"
    PAYMENT_WITHOUT_RECORD = "payment_without_record"
    RECORD_WITHOUT_PAYMENT = "record_without_payment"
    PAID_BUT_UNFINISHED = "paid_but_unfinished"
    MARKED_FOR_ANOTHER = "marked_for_another"
    AMOUNT_DIFFERS = "amount_differs"
    CURRENCY_DIFFERS = "currency_differs"
    STRIPE_CUSTOMER_DIFFERS = "stripe_customer_differs"
    HELD_THOUGH_FINAL = "held_though_final"
    RUN_SUMS_DIFFER = "run_sums_differ"
    DISPUTED = "disputed"
    REFUNDED = "refunded"
    PARTLY_REFUNDED = "partly_refunded"

    @property
    def meaning(self) -> str:
        """What it means, in a sentence."""
        return _MEANINGS[self]


_MEANINGS: Mapping[FindingKind, str] = {
    FindingKind.CHARGED_TWICE: (
        "More than one payment of this customer and period succeeded, and more than one of them "
        "was not given back."
    ),
    FindingKind.CHARGED_TWICE_SUSPECTED: (
        "Payments of one Stripe customer with the same amount and description lie close together, "
        "and at least one of them says nothing of a period: an older consumer may have charged "
        "what was charged again."
    ),
    FindingKind.PAID_BUT_CLOSED: (
        "The record says that no money moved (declined, rejected, parked or canceled), but a "
        "payment of it succeeded."
    ),
    FindingKind.PAYMENT_WITHOUT_RECORD: (
        "A payment that is marked as ours succeeded, and no record names it: the database may have "
        "lost it, and would charge again."
    ),
    FindingKind.RECORD_WITHOUT_PAYMENT: (
        "The record says charged, but Stripe does not have the payment that it names, or it did "
        "not succeed."
    ),
    FindingKind.PAID_BUT_UNFINISHED: (
        "A payment succeeded, but its record is not finished and nobody is at work on it."
    ),
    FindingKind.MARKED_FOR_ANOTHER: (
        "The payment that the record names is marked for another customer or period."
    ),
    FindingKind.AMOUNT_DIFFERS: "Another amount was paid than the record says.",
    FindingKind.CURRENCY_DIFFERS: "It was paid in another currency than the record says.",
    FindingKind.STRIPE_CUSTOMER_DIFFERS: "Another Stripe customer paid than the record says.",
    FindingKind.HELD_THOUGH_FINAL: (
        "The record is finished but still holds money against the run's cap."
    ),
    FindingKind.RUN_SUMS_DIFFER: (
        "What the run holds or has charged is not the sum of its records, so its cap is enforced "
        "against a wrong number."
    ),
    FindingKind.DISPUTED: "The customer disputes the payment: the money is gone or may go.",
    FindingKind.REFUNDED: "The whole payment was given back; it is never charged again.",
    FindingKind.PARTLY_REFUNDED: "A part of the payment was given back.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be, or that somebody should know.

    Args:
        kind: its name.
        detail: what was found, in figures.
        record_id: the customer and period; None where they are not known.
        stripe_customer_id: who paid; None where several or nobody did.
        payment_ids: the payments that it is about, PaymentIntents where there are any; the one to
            act on last.
        billing_period: of the run that it is about.
    """

    kind: FindingKind
    detail: str
    record_id: RecordId | None = None
    stripe_customer_id: str | None = None
    payment_ids: Sequence[str] = ()
    billing_period: str | None = None

    @property
    def command(self) -> str:
        """The command that acts on it, or shows what there is to act on."""
        return _COMMANDS[self.kind](self)


def _show(finding: Finding) -> str:
    if finding.record_id is None:
        return ""
    customer = shlex.quote(finding.record_id.customer_id)
    # With the equals sign: an id may begin with a dash.
    return f"chargeonce show --customer={customer} --period {finding.record_id.billing_period}"


def _show_run(finding: Finding) -> str:
    return f"chargeonce run show --period {finding.billing_period}"


def _adopt(finding: Finding) -> str:
    return f"chargeonce adopt --payment {_last_payment(finding)}"


def _refund(finding: Finding) -> str:
    return f"stripe refunds create {_payment_option(finding)}"


def _list_charges(finding: Finding) -> str:
    return f"stripe charges list --customer={shlex.quote(finding.stripe_customer_id or '')}"


def _list_disputes(finding: Finding) -> str:
    return f"stripe disputes list {_payment_option(finding)}"


def _payment_option(finding: Finding) -> str:
    payment_id = _last_payment(finding)
    name = "payment-intent" if payment_id.startswith("pi_") else "charge"
    return f"--{name}={payment_id}"


def _last_payment(finding: Finding) -> str:
    return shlex.quote(finding.payment_ids[-1])


_COMMANDS: Mapping[FindingKind, Callable[[Finding], str]] = {
    FindingKind.CHARGED_TWICE: _refund,
    FindingKind.CHARGED_TWICE_SUSPECTED: _list_charges,
    FindingKind.PAID_BUT_CLOSED: _adopt,
    FindingKind.PAYMENT_WITHOUT_RECORD: _adopt,
    FindingKind.RECORD_WITHOUT_PAYMENT: _show,
    FindingKind.PAID_BUT_UNFINISHED: _adopt,
    FindingKind.MARKED_FOR_ANOTHER: _show,
    FindingKind.AMOUNT_DIFFERS: _show,
    FindingKind.CURRENCY_DIFFERS: _show,
    FindingKind.STRIPE_CUSTOMER_DIFFERS: _show,
    FindingKind.HELD_THOUGH_FINAL: _show,
    FindingKind.RUN_SUMS_DIFFER: _show_run,
    FindingKind.DISPUTED: _list_disputes,
    FindingKind.REFUNDED: _show,
    FindingKind.PARTLY_REFUNDED: _show,
}
