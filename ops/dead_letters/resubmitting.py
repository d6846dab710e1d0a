"""Sending dead letters again: which ones, how fast, and under which id."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from ops.dead_letters.clearing import Action, Choice
from ops.dead_letters.judging import Judged, Selection
from ops.dead_letters.letters import DeadLetterPlace
from shared.ports import Clock
from shared.throttle import Throttle


@dataclass(frozen=True, slots=True)
class Wishes:
    """How letters are sent again.

    Args:
        selection: which ones.
        even_if_refused: also those that would only be dead-lettered again.
        again: also those that our table has delivered again already.
        fresh_ids: under a new message id, for queues that detect duplicates.
        swallow_window: how long the queue drops what has an id that it knows; None when it does
            not, or nobody could say.
    """

    selection: Selection
    even_if_refused: bool = False
    again: bool = False
    fresh_ids: bool = False
    swallow_window: timedelta | None = None


class Resubmission:
    """Sends letters again, at an even pace.

    Args:
        place: where they lie.
        wishes: which ones, and how.
        clock: paces.
        per_second: how many at the most.
    """

    def __init__(
        self, place: DeadLetterPlace, wishes: Wishes, clock: Clock, per_second: float
    ) -> None:
        self._place = place
        self._wishes = wishes
        self._clock = clock
        self._throttle = Throttle(clock, per_second)

    @property
    def action(self) -> Action:
        """What is done to which letters."""
        return Action(self.choose, self._send, self._place.settle)

    def choose(self, judged: Judged) -> Choice:
        """Pick what is worth sending, and can arrive."""
        wishes, letter = self._wishes, judged.letter
        if not wishes.selection.includes(judged):
            return Choice.IGNORE
        if letter.was_resubmitted and not wishes.again:
            return Choice.IGNORE
        is_wanted = wishes.even_if_refused or not judged.forecast.is_dead_lettered
        if not is_wanted or (judged.event is None and not self._place.sends_any_body):
            return Choice.LEAVE
        return Choice.LEAVE_SWALLOWED if self._would_be_swallowed(judged) else Choice.ACT

    def _would_be_swallowed(self, judged: Judged) -> bool:
        """Whether the queue would accept the copy and drop it without a word."""
        window = self._wishes.swallow_window
        if window is None or self._wishes.fresh_ids:
            return False
        return judged.letter.since > self._clock.now() - window

    def _send(self, judged: Judged) -> str:
        self._clock.sleep(self._throttle.reserve())
        return self._place.send(judged.letter, fresh_id=self._wishes.fresh_ids)
