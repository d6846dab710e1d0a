"""What a delivery of an event would come to, told from what the database holds, without one.

The claim decides; this says beforehand what it will say, by the same rules and in the same order.
Where Stripe has the word, it is told as that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from shared.errors import InvalidEvent
from shared.event import UsageEvent
from shared.outcome import OUTCOME_OF_STATE, Disposition, Outcome
from shared.ports import Prospect, Run
from shared.record import FINAL, Record, State


class Basis(StrEnum):
    """What a forecast rests on."""

    NEW_CHARGE = "new_charge"
    CONTINUED_CHARGE = "continued_charge"
    RECORD = "record"
    REFUSAL = "refusal"


FINISHED = frozenset({Outcome.CHARGED, Outcome.DECLINED, Outcome.CANCELED})
"""Ends after which a message has nothing left to do."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a delivery would come to.

    Args:
        outcome: certain, unless it rests on a charge: then what it comes to if Stripe charges.
        basis: what it rests on.
        sentence: the same for people.
    """

    outcome: Outcome
    basis: Basis
    sentence: str

    @property
    def verdict(self) -> str:
        """One word for tables, counts and scripts, as in `already_charged`."""
        if self.basis is Basis.RECORD:
            return f"already_{self.outcome}"
        return str(self.outcome if self.basis is Basis.REFUSAL else self.basis)

    @property
    def is_finished(self) -> bool:
        """Whether the record proves that the very same event is done with."""
        return self.basis is Basis.RECORD and self.outcome in FINISHED

    @property
    def is_dead_lettered(self) -> bool:
        """Whether the message would be dead-lettered again, as things stand."""
        is_certain = self.basis in (Basis.RECORD, Basis.REFUSAL)
        return is_certain and self.outcome.disposition is Disposition.DEAD_LETTER


def forecast(prospect: Prospect, event: UsageEvent, *, require_run: bool) -> Forecast:
    """Say what a delivery of this event would come to now.

    Args:
        prospect: what the database holds for the event's customer and period.
        event: the parsed event.
        require_run: whether a period without a run has to wait.
    """
    record = prospect.record
    if prospect.is_suspended:
        return _refusal(Outcome.TRANSIENT, "nothing is charged until the database is rebuilt")
    if record is None:
        return _refused_by_run(prospect.run, event, require_run) or Forecast(
            Outcome.CHARGED, Basis.NEW_CHARGE, "never tried: it will be charged"
        )
    if record.fingerprint != event.fingerprint:
        sentence = "the record has another amount, currency or Stripe customer"
        return _refusal(Outcome.CONFLICT, sentence)
    if _opens_attempt(record, event):
        return _refused_by_run(prospect.run, event, require_run) or Forecast(
            Outcome.CHARGED, Basis.NEW_CHARGE, f"the record is {record.state}: it is tried again"
        )
    if record.state in FINAL or record.state is State.PROCESSING:
        return _from_record(record, event)
    return _unfinished(prospect, record)


def forecast_of_invalid(error: InvalidEvent) -> Forecast:
    """What a delivery of a body comes to that is no usage event."""
    return _refusal(Outcome.INVALID_EVENT, str(error))


def _opens_attempt(record: Record, event: UsageEvent) -> bool:
    if record.state is State.PARKED:
        return True
    is_failed = record.state in (State.DECLINED, State.REJECTED)
    return is_failed and event.attempt > record.attempt


def _from_record(record: Record, event: UsageEvent) -> Forecast:
    if record.state is State.PROCESSING and event.attempt > record.attempt:
        return _refusal(Outcome.IN_PROGRESS_ELSEWHERE, "an earlier attempt must end first")
    outcome = OUTCOME_OF_STATE[record.state]
    return Forecast(outcome, Basis.RECORD, f"already {record.state}: nothing is charged")


def _unfinished(prospect: Prospect, record: Record) -> Forecast:
    if record.lease_until > prospect.database_time:
        return _refusal(Outcome.IN_PROGRESS_ELSEWHERE, "a consumer is at work on it")
    if prospect.awaits_operator:
        return _refusal(Outcome.CONFLICT, "another request has its key: an operator must look")
    sentence = f"{record.state}: the attempt that has begun is brought to its end"
    return Forecast(Outcome.CHARGED, Basis.CONTINUED_CHARGE, sentence)


def _refused_by_run(run: Run | None, event: UsageEvent, require_run: bool) -> Forecast | None:
    if run is None:
        sentence = "no run is open for the period yet"
        return _refusal(Outcome.RUN_MISSING, sentence) if require_run else None
    if run.currency != event.currency:
        return _refusal(Outcome.WRONG_CURRENCY, "the period's run is in another currency")
    if not run.is_open:
        return _refusal(Outcome.RUN_CLOSED, "the period's run is closed")
    if run.held_cents + run.charged_cents + event.amount_cents > run.cap_cents:
        return _refusal(Outcome.CAP_REACHED, "the run's cap does not leave room for it")
    return None


def _refusal(outcome: Outcome, sentence: str) -> Forecast:
    return Forecast(outcome, Basis.REFUSAL, sentence)
