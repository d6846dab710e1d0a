"""Looking at the dead letters of one place without doing anything to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ops.dead_letters.clearing import MAX_LETTERS, Choice, left_as
from ops.dead_letters.judging import Judge, Judged
from ops.dead_letters.letters import DeadLetterPlace


@dataclass(slots=True)
class View:
    """What was seen.

    Args:
        place: its name.
        looked_at: how many letters were looked at.
        shown: the first of those that were asked for.
        chosen: how many would be acted on, by verdict.
        left: how many were asked for and would be left, by verdict.
        is_all: False when looking ended before the last letter.
    """

    place: str
    looked_at: int = 0
    shown: list[Judged] = field(default_factory=list)
    chosen: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    is_all: bool = True

    @property
    def asked_for(self) -> int:
        """How many letters were asked for."""
        return self.chosen.total() + self.left.total()


def look(
    place: DeadLetterPlace,
    judge: Judge,
    choose: Callable[[Judged], Choice],
    most_shown: int,
    most_chosen: int = MAX_LETTERS,
) -> View:
    """Look at a place.

    Args:
        place: opened.
        judge: says what each letter is about.
        choose: says what would be done with it.
        most_shown: how many are kept to be shown. Where looking costs something, no more are
            looked at.
        most_chosen: ends after so many that would be acted on.

    Raises:
        PlaceUnavailable: the broker does not answer.
        RecordsUnavailable: the database is away.
    """
    view = View(place.name)
    for letters in place.peek():
        for judged in judge.judge(letters):
            if _is_enough(view, place, most_shown, most_chosen):
                view.is_all = False
                return view
            _add(view, judged, choose(judged), most_shown)
    return view


def _is_enough(view: View, place: DeadLetterPlace, most_shown: int, most_chosen: int) -> bool:
    if view.looked_at >= MAX_LETTERS or view.chosen.total() >= most_chosen:
        return True
    return not place.peeks_freely and view.asked_for >= most_shown


def _add(view: View, judged: Judged, choice: Choice, most_shown: int) -> None:
    view.looked_at += 1
    if choice is Choice.IGNORE:
        return
    if choice is Choice.ACT:
        view.chosen[judged.forecast.verdict] += 1
    else:
        view.left[left_as(choice, judged)] += 1
    if len(view.shown) < most_shown:
        view.shown.append(judged)
