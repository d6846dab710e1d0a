"""Finishing records without their messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from shared import notices
from shared.biller import Biller
from shared.decision_log import describe_defect
from shared.errors import RecordsUnavailable
from shared.outcome import Outcome
from shared.ports import Records
from shared.record import RecordId

DEFAULT_LIMIT = 200


def reconcile(
    biller: Biller,
    records: Records,
    limit: int = DEFAULT_LIMIT,
    on_outcome: Callable[[Outcome], None] | None = None,
    is_time_up: Callable[[], bool] | None = None,
) -> Mapping[Outcome, int]:
    """Drive unfinished records on, oldest first, through the same code path as a message.

    Args:
        biller: drives them.
        records: knows which are due: nobody holds them and their pause is over.
        limit: the most to look at.
        on_outcome: told after each record, for a progress bar.
        is_time_up: asked before each record; the rest is left for the next time.

    Returns:
        How many came to which outcome.

    Raises:
        RecordsUnavailable: the database is away; what was done before stands.
    """
    outcomes: Counter[Outcome] = Counter()
    for record_id in records.due(limit):
        if is_time_up is not None and is_time_up():
            break
        outcome = _resume_safely(biller, record_id)
        outcomes[outcome] += 1
        if on_outcome is not None:
            on_outcome(outcome)
    return outcomes


def _resume_safely(biller: Biller, record_id: RecordId) -> Outcome:
    """Resume one record; a defect that strikes it must not keep the others from their end."""
    try:
        return biller.resume(record_id)
    except RecordsUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 (see the docstring)
        notices.alarm(f"a record could not be resumed: {describe_defect(error)}")
        return Outcome.TRANSIENT
