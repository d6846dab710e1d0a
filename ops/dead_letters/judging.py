"""What each dead letter is about, and what would come of sending it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ops.dead_letters.letters import DeadLetter
from shared.errors import InvalidEvent
from shared.event import UsageEvent, parse_event
from shared.forecast import Basis, Forecast, forecast, forecast_of_invalid
from shared.ports import Prospect, Prospects
from shared.record import Record, RecordId


@dataclass(frozen=True, slots=True)
class Judged:
    """A dead letter with all that is known about it.

    Args:
        letter: as it lies there.
        event: what it bills; None when it is no usage event.
        record: what the record says now; None when there is none.
        forecast: what a delivery would come to now.
    """

    letter: DeadLetter
    event: UsageEvent | None
    record: Record | None
    forecast: Forecast


class Judge:
    """Judges letters by what the database says at that moment.

    Args:
        prospects: the database.
        currency: of events that name none.
        require_run: whether a period without a run has to wait.
        adds_up: whether each new charge counts against the run's cap for those behind it, as it
            would if all of them were sent at once.
    """

    def __init__(
        self, prospects: Prospects, currency: str, *, require_run: bool, adds_up: bool = False
    ) -> None:
        self._prospects = prospects
        self._currency = currency
        self._require_run = require_run
        self._adds_up = adds_up
        self._added_cents: Counter[str] = Counter()

    def judge(self, letters: Sequence[DeadLetter]) -> Sequence[Judged]:
        """Judge a batch in one round trip.

        Raises:
            RecordsUnavailable: the database is away.
        """
        parsed = [(letter, self._parse(letter)) for letter in letters]
        wanted = {_record_id(event) for _, event in parsed if isinstance(event, UsageEvent)}
        found = self._prospects.prospects(list(wanted)) if wanted else {}
        return [
            Judged(letter, None, None, forecast_of_invalid(event))
            if isinstance(event, InvalidEvent)
            else self._judge_event(letter, event, found[_record_id(event)])
            for letter, event in parsed
        ]

    def _parse(self, letter: DeadLetter) -> UsageEvent | InvalidEvent:
        try:
            return parse_event(letter.body, self._currency)
        except InvalidEvent as error:
            return error

    def _judge_event(self, letter: DeadLetter, event: UsageEvent, prospect: Prospect) -> Judged:
        run = prospect.run
        if run is not None and self._adds_up:
            added_cents = self._added_cents[run.billing_period]
            prospect = replace(prospect, run=replace(run, held_cents=run.held_cents + added_cents))
        expected = forecast(prospect, event, require_run=self._require_run)
        if run is not None and expected.basis is Basis.NEW_CHARGE:
            self._added_cents[run.billing_period] += event.amount_cents
        return Judged(letter, event, prospect.record, expected)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which letters are asked for; None asks for all.

    Args:
        customer: as the event names it.
        period: as the event names it.
        reason: of the dead letter, in any case.
        before: only those that are there since before this moment.
        after: only those that are there since this moment or later.
    """

    customer: str | None = None
    period: str | None = None
    reason: str | None = None
    before: datetime | None = None
    after: datetime | None = None

    def includes(self, judged: Judged) -> bool:
        """Whether a letter is asked for."""
        letter, event = judged.letter, judged.event
        return (
            (self.customer is None or (event is not None and event.customer_id == self.customer))
            and (self.period is None or (event is not None and event.billing_period == self.period))
            and (self.reason is None or letter.reason.lower() == self.reason.lower())
            and (self.before is None or letter.since < self.before)
            and (self.after is None or letter.since >= self.after)
        )


def _record_id(event: UsageEvent) -> RecordId:
    return RecordId(event.customer_id, event.billing_period)
