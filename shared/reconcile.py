"""Finishing records without their messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from shared.biller import Biller
from shared.outcome import Outcome
from shared.ports import Records

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
        outcome = biller.resume(record_id)
        outcomes[outcome] += 1
        if on_outcome is not None:
            on_outcome(outcome)
    return outcomes
