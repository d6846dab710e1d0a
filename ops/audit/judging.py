"""What a record and the payments that belong to it say about each other. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ops.amounts import format_amount
from ops.audit.findings import MAX_PAYMENTS_NAMED, Finding, FindingKind
from ops.audit.payments import Payment
from shared.ports import RecordLine, RunSums
from shared.record import UNFINISHED, RecordId, State


@dataclass(frozen=True, slots=True)
class Case:
    """A customer's period as both sides know it.

    Args:
        record_id: the customer and period.
        line: our record; None where there is none.
        payments: those that the record names or that are marked for it, oldest first.
        named_status: what Stripe says of the payment that the record names when it is none of
            these: its status, or None where there is no such payment.
    """

    record_id: RecordId
    line: RecordLine | None
    payments: Sequence[Payment]
    named_status: str | None = None

    @property
    def is_named_missing(self) -> bool:
        """Whether the record says charged and its payment is none of these."""
        line = self.line
        if line is None or line.state is not State.CHARGED:
            return False
        return not any(payment.is_named(line.payment_id) for payment in self.payments)


def judge(case: Case) -> Iterator[Finding]:
    """Yield everything that is to be said about a case."""
    yield from _judge_doubles(case)
    yield from _judge_state(case)
    if case.line is not None:
        yield from _judge_hold(case.line)
        for payment in case.payments:
            # A second payment is more than a difference.
            if case.line.state is not State.CHARGED or payment.is_named(case.line.payment_id):
                yield from _judge_difference(case.line, payment)
    for payment in case.payments:
        yield from _judge_aftermath(case, payment)


def judge_run(sums: RunSums) -> Iterator[Finding]:
    """Yield a finding when a run's counts are not the sums of its records."""
    counted = (sums.held_cents, sums.charged_cents)
    if counted == (sums.records_held_cents, sums.records_charged_cents):
        return

    def amount(cents: int) -> str:
        return format_amount(cents, sums.currency)

    detail = (
        f"held {amount(sums.held_cents)}, its records {amount(sums.records_held_cents)}; "
        f"charged {amount(sums.charged_cents)}, its records {amount(sums.records_charged_cents)}"
    )
    yield Finding(FindingKind.RUN_SUMS_DIFFER, detail, billing_period=sums.billing_period)


@dataclass(frozen=True, slots=True)
class Alike:
    """A payment among those of the same customer, amount, currency and description.

    Args:
        payment: it.
        is_known: whether it is known which customer and period it is for.
    """

    payment: Payment
    is_known: bool


def judge_alike(alike: Iterable[Alike], apart_seconds: float) -> Iterator[Finding]:
    """Yield a finding for each cluster of payments that may be charged twice.

    Payments of which all are known are none of its business: those are judged exactly.

    Args:
        alike: payments with the same customer, amount, currency and description, oldest first.
        apart_seconds: payments that lie further apart are for different periods.
    """
    cluster = _Cluster()
    for each in alike:
        if not each.payment.is_kept:
            continue
        if each.payment.created - cluster.last_created > apart_seconds:
            yield from cluster.findings()
            cluster = _Cluster()
        cluster.add(each)
    yield from cluster.findings()


class _Cluster:
    """Payments that lie close together. Keeps no more of them than a finding names."""

    def __init__(self) -> None:
        self.last_created = 0
        self._count = 0
        self._has_unknown = False
        self._named: list[Payment] = []

    def add(self, alike: Alike) -> None:
        self.last_created = alike.payment.created
        self._count += 1
        self._has_unknown = self._has_unknown or not alike.is_known
        if len(self._named) < MAX_PAYMENTS_NAMED:
            self._named.append(alike.payment)

    def findings(self) -> Iterator[Finding]:
        if self._count < 2 or not self._has_unknown:
            return
        first = self._named[0]
        marked = next((each.mark for each in self._named if each.mark), None)
        amount = format_amount(first.paid.amount_cents, first.paid.currency)
        detail = f"{self._count} payments of {amount} each"
        if first.description:
            detail += f", described as {first.description!r}"
        yield Finding(
            FindingKind.CHARGED_TWICE_SUSPECTED,
            detail,
            record_id=marked,
            stripe_customer_id=first.paid.stripe_customer_id,
            payment_ids=[payment.payment_id for payment in self._named],
        )


def _judge_doubles(case: Case) -> Iterator[Finding]:
    kept = [payment for payment in case.payments if payment.is_kept]
    if len(kept) < 2:
        return
    named_id = case.line.payment_id if case.line else None
    # The one that the record names first: the others are the ones to refund.
    kept.sort(key=lambda payment: not payment.is_named(named_id))
    yield _about(
        case,
        FindingKind.CHARGED_TWICE,
        f"{len(kept)} payments: {', '.join(map(_paid, kept[:MAX_PAYMENTS_NAMED]))}",
        kept,
    )


def _judge_state(case: Case) -> Iterator[Finding]:
    """Whether the record's state is true to the money."""
    line = case.line
    if line is None:
        yield from _without_record(case, case.payments)
    elif line.state is State.CHARGED:
        if case.is_named_missing:
            stands = f"is {case.named_status}" if case.named_status else "does not exist"
            detail = f"{line.payment_id} {stands} at Stripe"
            yield _about(case, FindingKind.RECORD_WITHOUT_PAYMENT, detail, [])
            yield from _without_record(case, case.payments)
    elif line.state in UNFINISHED:
        if case.payments and not line.is_leased:
            detail = f"{line.state}, but paid: {_paid(case.payments[-1])}"
            yield _about(case, FindingKind.PAID_BUT_UNFINISHED, detail, case.payments)
    else:
        kept = [payment for payment in case.payments if payment.is_kept]
        if kept:
            detail = f"{line.state}, but paid: {_paid(kept[-1])}"
            yield _about(case, FindingKind.PAID_BUT_CLOSED, detail, kept)


def _without_record(case: Case, payments: Sequence[Payment]) -> Iterator[Finding]:
    for payment in payments:
        yield _about(case, FindingKind.PAYMENT_WITHOUT_RECORD, _paid(payment), [payment])


def _judge_hold(line: RecordLine) -> Iterator[Finding]:
    if line.held_cents and line.state not in UNFINISHED:
        held = format_amount(line.held_cents, line.fingerprint.currency)
        yield Finding(
            FindingKind.HELD_THOUGH_FINAL, f"{line.state}, and holds {held}", line.record_id
        )


def _judge_difference(line: RecordLine, payment: Payment) -> Iterator[Finding]:
    paid, recorded = payment.paid, line.fingerprint
    found: list[tuple[FindingKind, str]] = []
    if payment.mark not in (None, line.record_id):
        found.append((FindingKind.MARKED_FOR_ANOTHER, f"marked for {_told(payment.mark)}"))
    if paid.currency != recorded.currency:
        detail = f"paid in {paid.currency.upper()}, recorded in {recorded.currency.upper()}"
        found.append((FindingKind.CURRENCY_DIFFERS, detail))
    elif paid.amount_cents != recorded.amount_cents:
        recorded_amount = format_amount(recorded.amount_cents, recorded.currency)
        detail = f"{_paid(payment)} paid, {recorded_amount} recorded"
        found.append((FindingKind.AMOUNT_DIFFERS, detail))
    if paid.stripe_customer_id != recorded.stripe_customer_id:
        payer = paid.stripe_customer_id or "a guest"
        detail = f"paid by {payer}, recorded for {recorded.stripe_customer_id}"
        found.append((FindingKind.STRIPE_CUSTOMER_DIFFERS, detail))
    for kind, detail in found:
        yield Finding(kind, detail, line.record_id, paid.stripe_customer_id, [payment.payment_id])


def _judge_aftermath(case: Case, payment: Payment) -> Iterator[Finding]:
    """What became of the money later."""
    currency = payment.paid.currency
    for dispute in payment.disputes:
        disputed = format_amount(dispute.amount_cents, currency)
        is_partial = dispute.amount_cents < payment.paid.amount_cents
        part = f"{disputed} of {_paid(payment)}" if is_partial else _paid(payment)
        detail = f"{part} disputed ({dispute.id}, {dispute.status})"
        yield _about(case, FindingKind.DISPUTED, detail, [payment])
    if payment.refunded_cents:
        kind = FindingKind.PARTLY_REFUNDED if payment.is_kept else FindingKind.REFUNDED
        refunded = format_amount(payment.refunded_cents, currency)
        yield _about(case, kind, f"{refunded} of {_paid(payment)} given back", [payment])


def _about(case: Case, kind: FindingKind, detail: str, payments: Sequence[Payment]) -> Finding:
    payers = {payment.paid.stripe_customer_id for payment in payments}
    return Finding(
        kind,
        detail,
        case.record_id,
        payers.pop() if len(payers) == 1 else None,
        [payment.payment_id for payment in payments[-MAX_PAYMENTS_NAMED:]],
    )


def _told(mark: RecordId | None) -> str:
    return f"{mark.customer_id!r}, period {mark.billing_period!r}" if mark else "nobody"


def _paid(payment: Payment) -> str:
    amount = format_amount(payment.paid.amount_cents, payment.paid.currency)
    return f"{payment.payment_id} {amount}"
