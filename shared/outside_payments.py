"""Payments that were made outside: an operator says whose they are, and they are recorded once.

What Stripe shows is proof, and brings a record forward whatever it says. What only a table of an
older system says is a word: it makes records, and never changes one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from shared.adoption import log_found
from shared.decision_log import DecisionEvent
from shared.errors import InvalidEvent
from shared.event import MAX_DESCRIPTION_CHARACTERS, UsageEvent, parse_event
from shared.found_payments import MOVES_NOTHING
from shared.key import idempotency_key
from shared.operations import OPERATOR, Operations, RecordedPayment, Recording
from shared.ports import Envelope, Finding, FoundPayment
from shared.record import Flow, Record, RecordId
from shared.seen_payments import SeenPayment
from shared.stripe_requests import create_parameters

_FIRST_ATTEMPT = "1"

# Of the others, one waits for its capture, its customer or its confirm: money may yet move.
_UNPAID = MOVES_NOTHING | {"requires_payment_method"}


class Verdict(StrEnum):
    """What became of a payment that somebody says belongs to a record."""

    RECORDED = "recorded"
    KNOWN = "known"
    NO_MONEY = "no_money"
    UNKNOWN_STATE = "unknown_state"
    UNNAMED = "unnamed"
    NOT_AT_STRIPE = "not_at_stripe"
    CONTRADICTED = "contradicted"
    WITHOUT_CUSTOMER = "without_customer"
    DIFFERS = "differs"
    PAYS_ELSEWHERE = "pays_elsewhere"
    SECOND_PAYMENT = "second_payment"
    BESIDE = "beside"
    RECORD_EXISTS = "record_exists"
    RECORD_UNFINISHED = "record_unfinished"

    @property
    def sentence(self) -> str:
        """What it means and what to do, for people."""
        return _SENTENCES[self]


_SENTENCES = {
    Verdict.RECORDED: "recorded: nobody is charged for it again",
    Verdict.KNOWN: "was recorded before",
    Verdict.NO_MONEY: "no money moved: nothing is recorded",
    Verdict.UNKNOWN_STATE: "whether money moved, or may yet move, is unknown: nothing is "
    "recorded, and an event would charge; bring it to an end at Stripe and adopt it",
    Verdict.UNNAMED: "it does not say whose it is: name customer and period",
    Verdict.NOT_AT_STRIPE: "Stripe has no such payment in this account and mode",
    Verdict.CONTRADICTED: "Stripe or its metadata say something else about it",
    Verdict.WITHOUT_CUSTOMER: "it has no Stripe customer, which a record needs",
    Verdict.DIFFERS: "the record has another amount, currency or Stripe customer",
    Verdict.PAYS_ELSEWHERE: "it pays for another customer or period already",
    Verdict.SECOND_PAYMENT: "DOUBLE CHARGE: the record is charged with another payment; refund one",
    Verdict.BESIDE: "the record is about another payment",
    Verdict.RECORD_EXISTS: "a record stands and a mere word does not change it: verify at Stripe",
    Verdict.RECORD_UNFINISHED: "the record's own payment may yet succeed: nothing is recorded; "
    "`chargeonce cancel` the record first",
}

FINE = frozenset({Verdict.RECORDED, Verdict.KNOWN, Verdict.NO_MONEY})
"""What leaves nothing for an operator to do."""

_VERDICT_OF_RECORDING = {
    Recording.RESTORED: Verdict.RECORDED,
    Recording.BROUGHT_FORWARD: Verdict.RECORDED,
    Recording.KNOWN: Verdict.KNOWN,
    Recording.BESIDE: Verdict.BESIDE,
    Recording.SECOND_PAYMENT: Verdict.SECOND_PAYMENT,
    Recording.DIFFERS: Verdict.DIFFERS,
    Recording.PAYS_ELSEWHERE: Verdict.PAYS_ELSEWHERE,
    Recording.RECORD_EXISTS: Verdict.RECORD_EXISTS,
    Recording.RECORD_UNFINISHED: Verdict.RECORD_UNFINISHED,
}


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a payment.

    Args:
        verdict: in one word.
        record: the row as it now is; None where none was looked at.
        run_closed: recording the money passed the cap, so the run was closed.
    """

    verdict: Verdict
    record: Record | None = None
    run_closed: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A charge as an older system's table has it.

    Args:
        event: whom it charged, for what.
        payment_id: under which id.
    """

    event: UsageEvent
    payment_id: str


class Recorder:
    """Records payments that were made outside.

    Args:
        operations: the records.
        namespace: the setting `BILLING_KEY_NAMESPACE`.
        dry_run: only say what it would come to.
    """

    def __init__(self, operations: Operations, namespace: str, *, dry_run: bool) -> None:
        self._operations = operations
        self._namespace = namespace
        self._dry_run = dry_run

    def record_seen(self, seen: SeenPayment, asked: RecordId | None) -> Judged:
        """Record a payment as Stripe shows it.

        Args:
            seen: the payment.
            asked: whose it is, by an operator's word; None to go by its metadata.

        Raises:
            InvalidEvent: no event could have asked for such a payment.
            RecordsUnavailable: it may or may not be recorded; doing it again is safe.
        """
        if seen.finding is None:
            is_unpaid = seen.status in _UNPAID
            return Judged(Verdict.NO_MONEY if is_unpaid else Verdict.UNKNOWN_STATE)
        named = _named_by(seen)
        record_id = named or asked
        if record_id is None:
            return Judged(Verdict.UNNAMED)
        if asked is not None and asked != record_id:
            return Judged(Verdict.CONTRADICTED)
        if seen.stripe_customer_id is None:
            return Judged(Verdict.WITHOUT_CUSTOMER)
        event = _event_of(seen, record_id, is_ours=named is not None)
        found = self._found(event, seen.payment_id, seen.flow, seen.finding, seen.created_at)
        key = seen.metadata.get("chargeonce_key")
        found = replace(found, key=key or found.key, is_own=named is not None)
        # The record may know the payment by its other name.
        examined = self._operations.examine(record_id)
        if examined is not None and examined.record.payment_id in seen.names:
            found = replace(found, payment_id=examined.record.payment_id or seen.payment_id)
        return self._record(found, seen.names, only_new=False)

    def record_word(self, word: Word) -> Judged:
        """Record a charge that an older system's table holds, without asking Stripe.

        Raises:
            RecordsUnavailable: it may or may not be recorded; doing it again is safe.
        """
        flow = Flow.PAYMENT_INTENT if word.payment_id.startswith("pi_") else Flow.CHARGE
        now = datetime.now(UTC)
        found = self._found(word.event, word.payment_id, flow, Finding.CHARGED, now)
        return self._record(found, (word.payment_id,), only_new=True)

    def _found(
        self,
        event: UsageEvent,
        payment_id: str,
        flow: Flow,
        finding: Finding,
        created_at: datetime,
    ) -> FoundPayment:
        key = idempotency_key(event.customer_id, event.billing_period, self._namespace)
        return FoundPayment(
            payment_id=payment_id,
            finding=finding,
            record_id=RecordId(event.customer_id, event.billing_period),
            key=key,
            attempt=event.attempt,
            fingerprint=event.fingerprint,
            flow=flow,
            create_parameters=create_parameters(event, key, flow),
            payment_method_id=None,
            created_at=created_at,
            is_own=False,
        )

    def _record(self, found: FoundPayment, names: tuple[str, ...], *, only_new: bool) -> Judged:
        recorded = self._operations.record_payment(
            found, names, Envelope(OPERATOR), only_new=only_new, dry_run=self._dry_run
        )
        verdict = _VERDICT_OF_RECORDING[recorded.recording]
        if not self._dry_run:
            _log(found, verdict, recorded)
        return Judged(verdict, recorded.record, recorded.run_closed)


def check_word(fields: dict[str, object]) -> UsageEvent:
    """Check a row's fields by the rules of an event.

    Raises:
        InvalidEvent: names the field that is wrong.
    """
    return parse_event(json.dumps(fields).encode(), "usd")


def contradicts(seen: SeenPayment, event: UsageEvent, given: frozenset[str]) -> bool:
    """Whether Stripe shows a payment otherwise than a row has it.

    Args:
        seen: as Stripe shows it.
        event: as the row has it.
        given: the fields that the row gives; the others are left to Stripe.
    """
    shown = {
        "amount_cents": seen.amount_cents,
        "currency": seen.currency,
        "stripe_customer_id": seen.stripe_customer_id,
    }
    return any(shown[name] != getattr(event, name) for name in given & shown.keys())


def _named_by(seen: SeenPayment) -> RecordId | None:
    """Whose a payment of ours is, by its metadata."""
    metadata = seen.metadata
    if "chargeonce_key" not in metadata:
        return None
    try:
        return RecordId(metadata["customer_id"], metadata["billing_period"])
    except KeyError:
        return None


def _event_of(seen: SeenPayment, record_id: RecordId, *, is_ours: bool) -> UsageEvent:
    attempt = seen.metadata.get("attempt", _FIRST_ATTEMPT) if is_ours else _FIRST_ATTEMPT
    if not (attempt.isascii() and attempt.isdigit()):
        raise InvalidEvent("attempt", "the payment's metadata holds no number")
    return check_word(
        {
            "customer_id": record_id.customer_id,
            "billing_period": record_id.billing_period,
            "stripe_customer_id": seen.stripe_customer_id,
            "amount_cents": seen.amount_cents,
            "currency": seen.currency,
            "description": (seen.description or "")[:MAX_DESCRIPTION_CHARACTERS] or None,
            "attempt": int(attempt),
        }
    )


def _log(found: FoundPayment, verdict: Verdict, recorded: RecordedPayment) -> None:
    lines: list[tuple[DecisionEvent, str]] = []
    if verdict is Verdict.RECORDED:
        lines.append((DecisionEvent.RESOLVED, "a payment that was made outside is recorded"))
    if verdict is Verdict.SECOND_PAYMENT:
        double = "a second payment succeeded beside the recorded one"
        lines.append((DecisionEvent.DOUBLE_CHARGE_DETECTED, double))
    if recorded.run_closed:
        over = "proof of money passed the cap; run closed"
        lines.append((DecisionEvent.BLOCKED_BY_CAP, over))
    log_found(found, OPERATOR, lines, recorded.record)
