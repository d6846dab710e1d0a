"""Finishing what no message drives on: unfinished records, and messages that were kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from shared import notices
from shared.biller import RECONCILE, Biller
from shared.decision_log import DecisionEvent, describe_defect, log_overdue
from shared.errors import RecordsUnavailable, SettlementFailed
from shared.housekeeping import delete_old_lines
from shared.orphans import sweep_orphans
from shared.outcome import Disposition, Outcome
from shared.ports import DueRecord, Records
from shared.rebuild import keep_whole
from shared.spend_watch import warn_of_runs_near_cap
from shared.upkeep import Upkeep

DEFAULT_LIMIT = 200

HOUR_SECONDS = 3600.0
OVERDUE_SECONDS = 24 * HOUR_SECONDS
# A bank takes days to answer a debit.
PROCESSING_OVERDUE_SECONDS = 14 * 24 * HOUR_SECONDS


def reconcile(
    biller: Biller,
    records: Records,
    limit: int = DEFAULT_LIMIT,
    on_outcome: Callable[[Outcome], None] | None = None,
    is_time_up: Callable[[], bool] | None = None,
) -> Mapping[Outcome, int]:
    """Drive on what is due, oldest first, through the same code path as a message.

    Records and kept messages take turns. Each is taken up by itself, so that any number of
    reconcilers share the work.

    Args:
        biller: drives them.
        records: knows which are due: nobody holds them and their pause is over.
        limit: the most to look at.
        on_outcome: told after each of them, for a progress bar.
        is_time_up: asked before each of them; the rest is left for the next time.

    Returns:
        How many came to which outcome.

    Raises:
        RecordsUnavailable: the database is away; what was done before stands.
    """
    outcomes: Counter[Outcome] = Counter()
    turns = [_resume_next, _deliver_next]
    while turns and outcomes.total() < limit and not (is_time_up is not None and is_time_up()):
        take_turn = turns.pop(0)
        outcome = take_turn(biller, records)
        if outcome is None:
            continue
        turns.append(take_turn)
        outcomes[outcome] += 1
        if on_outcome is not None:
            on_outcome(outcome)
    return outcomes


def keep_up(
    biller: Biller,
    upkeep: Upkeep,
    limit: int = DEFAULT_LIMIT,
    on_outcome: Callable[[Outcome], None] | None = None,
    is_time_up: Callable[[], bool] | None = None,
) -> Mapping[Outcome, int] | None:
    """Do all that is done beside the deliveries: rebuild, reconcile, sweep, delete old lines, and
    warn of caps that are nearly used up.

    Args:
        biller: see `reconcile`.
        upkeep: what the rebuild and the sweep work with.
        limit: see `reconcile`.
        on_outcome: see `reconcile`.
        is_time_up: asked before each piece of work; the rest is left for the next time.

    Returns:
        See `reconcile`; None as long as the database may lack commits and nothing is charged.

    Raises:
        RecordsUnavailable: the database is away; what was done before stands.
    """
    if not keep_whole(upkeep, is_time_up):
        return None
    warn_of_runs_near_cap(upkeep.records)
    outcomes = reconcile(biller, upkeep.records, limit, on_outcome, is_time_up)
    sweep_orphans(upkeep, is_time_up=is_time_up)
    delete_old_lines(upkeep.records, upkeep.retention_days, is_time_up)
    return outcomes


class KeptSettlement:
    """The settlement of a kept message: it is forgotten, or it stays and is due again later.

    Whatever dead-letters a message has stored its copy among the parked events before.

    Args:
        records: where it is kept.
        number: which one it is.
    """

    def __init__(self, records: Records, number: int) -> None:
        self._records = records
        self._number = number

    def complete(self) -> None:
        """See `Settlement.complete`."""
        self._drop()

    def dead_letter(self, reason: str, description: str) -> None:  # noqa: ARG002
        """See `Settlement.dead_letter`."""
        self._drop()

    def leave(self) -> None:
        """See `Settlement.leave`: it rests since it was taken up."""

    def _drop(self) -> None:
        try:
            self._records.drop_kept(self._number)
        except RecordsUnavailable as error:
            raise SettlementFailed(str(error)) from error


def _resume_next(biller: Biller, records: Records) -> Outcome | None:
    due = records.take_due(biller.lease_seconds)
    if due is None:
        return None
    outcome = _resume_safely(biller, due)
    if _is_overdue(outcome, due.age_seconds):
        record = due.record
        log_overdue(
            DecisionEvent(outcome.value),
            "a record is unfinished for too long",
            transport=RECONCILE,
            outcome=str(outcome),
            key=record.key,
            period=record.billing_period,
            attempt=record.attempt,
            payment=record.payment_id,
            age_seconds=round(due.age_seconds),
        )
    return outcome


def _resume_safely(biller: Biller, due: DueRecord) -> Outcome:
    """Resume one record; a defect that strikes it must not keep the others from their end."""
    try:
        return biller.resume(due.record.record_id)
    except RecordsUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 (see the docstring)
        notices.alarm(f"a record could not be resumed: {describe_defect(error)}")
        return Outcome.TRANSIENT


def _deliver_next(biller: Biller, records: Records) -> Outcome | None:
    kept = records.take_kept(biller.lease_seconds)
    if kept is None:
        return None
    outcome = biller.handle(kept.delivery, KeptSettlement(records, kept.number))
    if _is_overdue(outcome, kept.age_seconds):
        log_overdue(
            DecisionEvent.HANDED_OVER,
            "a message is kept for too long",
            transport=RECONCILE,
            outcome=str(outcome),
            message_id=kept.delivery.envelope.message_id or None,
            period=kept.event_id.billing_period,
            attempt=kept.attempt,
            age_seconds=round(kept.age_seconds),
        )
    return outcome


def _is_overdue(outcome: Outcome, age_seconds: float) -> bool:
    if outcome is Outcome.PROCESSING:
        return age_seconds > PROCESSING_OVERDUE_SECONDS
    return outcome.disposition is Disposition.LEAVE and age_seconds > OVERDUE_SECONDS
