"""Going through the dead letters of one place: taking them, acting on some, leaving the rest.

Whatever is done to a letter is done before it is taken out. So whoever is killed, and wherever,
leaves a letter that is there twice, and never one that is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from ops.dead_letters.judging import Judge, Judged
from ops.dead_letters.letters import DeadLetter, DeadLetterPlace
from ops.errors import PlaceUnavailable

MAX_LETTERS = 100_000
# How often one letter is taken and left in one go where the broker counts.
MAX_ROUNDS = 3


class Choice(Enum):
    """What is to be done with a letter."""

    ACT = "act"
    LEAVE = "leave"
    LEAVE_SWALLOWED = "would_be_swallowed"
    IGNORE = "ignore"


LEFT = frozenset({Choice.LEAVE, Choice.LEAVE_SWALLOWED})


def left_as(choice: Choice, judged: Judged) -> str:
    """Under which word a letter is counted that is left."""
    return choice.value if choice is Choice.LEAVE_SWALLOWED else judged.forecast.verdict


@dataclass(frozen=True, slots=True)
class Action:
    """What happens to the letters that are chosen.

    Args:
        choose: picks them.
        act: what is done first; returns the id of a message that was sent, if one was.
        finish: takes the letter out of the way then; False when it may still be there.
    """

    choose: Callable[[Judged], Choice]
    act: Callable[[Judged], str | None]
    finish: Callable[[DeadLetter], bool]


@dataclass(slots=True)
class Tally:
    """What came of it.

    Args:
        looked_at: how many letters were looked at.
        done: how many were acted on, by verdict.
        left: how many were asked for and left on purpose, by verdict.
        unsettled: of those that were acted on, how many may still be there.
        lost: how many were ours and were lost before anything was done: somebody has them again.
        still_there: how many were asked for, not taken by us, and are still there.
        stopped: why it ended early; None when it did not.
        is_broken: whether it ended because the broker failed.
    """

    looked_at: int = 0
    done: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    unsettled: int = 0
    lost: int = 0
    still_there: int = 0
    stopped: str | None = None
    is_broken: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether nothing that was asked for is left to do."""
        swallowed = self.left[Choice.LEAVE_SWALLOWED.value]
        return not (self.unsettled or self.lost or self.still_there or swallowed or self.stopped)


class Clearing:
    """Goes through one place, once.

    Args:
        place: opened.
        judge: says what each letter is about.
        action: what happens to which.
        started_at: what came there later is left: it may be what was just sent.
        batch: how many letters are taken at once. No more than can be dealt with in seconds, since
            the rest waits with its lock running.
        limit: the most to act on.
    """

    def __init__(
        self,
        place: DeadLetterPlace,
        judge: Judge,
        action: Action,
        started_at: datetime,
        batch: int,
        limit: int,
    ) -> None:
        self._place = place
        self._judge = judge
        self._action = action
        self._started_at = started_at
        self._batch = batch
        self._remaining = limit
        self._planned: set[str] | None = None
        self._rounds: Counter[str] = Counter()
        self._idle = 0
        self._unsettled: set[str] = set()
        self._sent_ids: set[str] = set()
        self.tally = Tally()

    def plan(self) -> int | None:
        """Choose beforehand where looking is free.

        Returns:
            How many letters will be acted on; None where only taking them tells.
        """
        if not self._place.peeks_freely:
            return None
        self._planned = set()
        for letters in self._place.peek():
            for judged in self._judge.judge(letters):
                self._note_choice(judged)
            if len(self._planned) >= self._remaining or self.tally.looked_at >= MAX_LETTERS:
                break
        return len(self._planned)

    def run(self, advance: Callable[[], None]) -> None:
        """Act on what is chosen.

        Args:
            advance: called after each letter that was acted on.

        Raises:
            RecordsUnavailable: the database is away; what was done before stands.
        """
        try:
            while self._goes_on() and (letters := self._place.take(self._batch)):
                known = [letter for letter in letters if letter.position in self._rounds]
                fresh = [letter for letter in letters if letter.position not in self._rounds]
                self._meet_again(known)
                self._meet(fresh, advance)
            self._count_what_is_still_there()
        except PlaceUnavailable as error:
            self.tally.stopped, self.tally.is_broken = str(error), True

    def _goes_on(self) -> bool:
        if self.tally.stopped is not None:
            return False
        if self._remaining <= 0 or (self._planned is not None and not self._planned):
            return bool(self._unsettled)
        if len(self._rounds) >= MAX_LETTERS:
            self.tally.stopped = f"{MAX_LETTERS:,} letters were looked at: run it again for more"
            return False
        # Once all that is known has come round again, nothing new is behind it.
        return self._idle <= len(self._rounds)

    def _meet_again(self, letters: Sequence[DeadLetter]) -> None:
        self._idle += len(letters)
        for letter in letters:
            if letter.position in self._unsettled:
                self._finish(letter)
                continue
            self._place.pass_over(letter)
            self._rounds[letter.position] += 1
            if self._place.counts_deliveries and self._rounds[letter.position] >= MAX_ROUNDS:
                self.tally.stopped = (
                    "letters that were not asked for came round too often, and each time counts "
                    "as a delivery: ask for more of them, or raise --per-second"
                )

    def _meet(self, letters: Sequence[DeadLetter], advance: Callable[[], None]) -> None:
        if not letters:
            return
        self._idle = 0
        for judged in self._judge.judge(letters):
            letter = judged.letter
            self._rounds[letter.position] += 1
            if self._choose_now(judged) is not Choice.ACT:
                self._place.pass_over(letter)
            elif self._place.holds(letter):
                self._act(judged)
                advance()
            else:
                self.tally.lost += 1

    def _choose_now(self, judged: Judged) -> Choice:
        letter = judged.letter
        if self._remaining <= 0:
            return Choice.IGNORE
        if self._planned is None:
            # What came after the start, and what we sent ourselves and has been dead-lettered
            # again, would be sent round and round.
            is_later = letter.since > self._started_at or letter.message_id in self._sent_ids
            return Choice.IGNORE if is_later else self._note_choice(judged)
        if letter.position not in self._planned:
            return Choice.IGNORE
        self._planned.remove(letter.position)
        choice = self._action.choose(judged)
        if choice in LEFT:
            self.tally.left[left_as(choice, judged)] += 1
        return choice

    def _note_choice(self, judged: Judged) -> Choice:
        self.tally.looked_at += 1
        choice = self._action.choose(judged)
        if choice in LEFT:
            self.tally.left[left_as(choice, judged)] += 1
        elif (
            choice is Choice.ACT
            and self._planned is not None
            and len(self._planned) < self._remaining
        ):
            self._planned.add(judged.letter.position)
        return choice

    def _act(self, judged: Judged) -> None:
        sent_id = self._action.act(judged)
        if sent_id is not None and not self._place.peeks_freely:
            self._sent_ids.add(sent_id)
        self.tally.done[judged.forecast.verdict] += 1
        self._remaining -= 1
        self._unsettled.add(judged.letter.position)
        self._finish(judged.letter)

    def _finish(self, letter: DeadLetter) -> None:
        if self._action.finish(letter):
            self._unsettled.discard(letter.position)
        self.tally.unsettled = len(self._unsettled)

    def _count_what_is_still_there(self) -> None:
        if not self._planned:
            return
        for letters in self._place.peek():
            self.tally.still_there += sum(letter.position in self._planned for letter in letters)
