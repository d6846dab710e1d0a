"""The commands about dead letters: the parts put together, and what came of it told."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ops.dead_letters import reports
from ops.dead_letters.clearing import Action, Choice, Clearing, Tally
from ops.dead_letters.dropping import Drop, DropFile
from ops.dead_letters.judging import Judged, Selection
from ops.dead_letters.looking import View, look
from ops.dead_letters.places import Desk, open_desk
from ops.dead_letters.resubmitting import Resubmission, Wishes
from ops.errors import Refused
from ops.exit_codes import ExitCode
from ops.report import Report
from shared.clock import SystemClock

if TYPE_CHECKING:
    from rich.console import Console

    from ops.dead_letters.letters import DeadLetterPlace

SHOWN_IN_DRY_RUN = 1_000
# What is taken at once waits for its turn no longer than this, with its lock running.
BATCH_SECONDS = 4
LARGEST_BATCH = 50

_COST_OF_LOOKING = (
    "Pub/Sub cannot be looked into for free: each letter that is looked at counts as delivered "
    "once more, and a retry policy of its subscription then keeps it away for a while"
)
_UNKNOWN_DETECTION = (
    "whether the queue detects duplicates could not be read, which takes the right to manage. If "
    "it does, it drops without a word what keeps an id that it knows: then give --fresh-ids"
)


@dataclass(frozen=True, slots=True)
class Words:
    """How a command speaks of what it does.

    Args:
        present: for the progress bar.
        planned: what a dry run would have done.
        done: what was done.
        left: why others were left.
    """

    present: str
    planned: str
    done: str
    left: str


_RESUBMITTING = Words(
    "sending again", "would be sent again", "sent again", "left: it would not arrive, or come back"
)
_DROPPING = Words("dropping", "would be dropped", "dropped", "left: not provably done with")


def list_letters(arguments: argparse.Namespace) -> Report:
    """Look, and change nothing."""
    selection = _selection(arguments)

    def choose(judged: Judged) -> Choice:
        return Choice.ACT if selection.includes(judged) else Choice.IGNORE

    with open_desk(arguments.places, arguments.queue) as desk:
        views = [
            _look(desk, place, lambda _: choose, arguments.limit) for place in desk.settings.places
        ]
    return _view_report(views, "sending it again")


def resubmit(arguments: argparse.Namespace) -> Report:
    """Send what is asked for again, or say what would come of it."""
    with open_desk(arguments.places, arguments.queue, sends=True) as desk:
        wishes = _wishes(desk, arguments)

        def make(place: DeadLetterPlace) -> Resubmission:
            return Resubmission(place, wishes, SystemClock(), arguments.per_second)

        if arguments.dry_run:
            views = [
                _look(desk, name, lambda place: make(place).choose, *_limits(arguments))
                for name in desk.settings.places
            ]
            return _view_report(views, _RESUBMITTING.planned, is_dry_run=True)
        tallies = [
            _clear(desk, name, lambda place: make(place).action, arguments, _RESUBMITTING)
            for name in desk.settings.places
        ]
    return _tally_report(tallies, _RESUBMITTING)


def drop(arguments: argparse.Namespace) -> Report:
    """Remove what is done with, or say what would be removed."""
    selection = _selection(arguments)
    with open_desk(arguments.places, arguments.queue) as desk:
        places = desk.settings.places
        if arguments.dry_run:

            def choose(place: DeadLetterPlace) -> Callable[[Judged], Choice]:
                return Drop(place, selection, force=arguments.force, file=None).choose

            views = [_look(desk, name, choose, *_limits(arguments)) for name in places]
            return _view_report(views, _DROPPING.planned, is_dry_run=True)
        if arguments.to is None:
            raise Refused("give --to FILE: each letter is written there before it is removed")
        with DropFile(Path(arguments.to), SystemClock()) as file:

            def act(place: DeadLetterPlace) -> Action:
                return Drop(place, selection, force=arguments.force, file=file).action

            tallies = [_clear(desk, name, act, arguments, _DROPPING) for name in places]
    return _tally_report(tallies, _DROPPING)


def _selection(arguments: argparse.Namespace) -> Selection:
    return Selection(
        arguments.customer, arguments.period, arguments.reason, arguments.before, arguments.since
    )


def _limits(arguments: argparse.Namespace) -> tuple[int, int]:
    """How many letters a dry run shows, and after how many it ends."""
    return SHOWN_IN_DRY_RUN, arguments.limit


def _wishes(desk: Desk, arguments: argparse.Namespace) -> Wishes:
    return Wishes(
        selection=_selection(arguments),
        even_if_refused=arguments.even_if_refused,
        again=arguments.again,
        fresh_ids=arguments.fresh_ids,
        swallow_window=None if arguments.fresh_ids else _swallow_window(desk),
    )


def _swallow_window(desk: Desk) -> timedelta | None:
    """How long the queue drops what has an id that it knows; says so where it matters."""
    if "servicebus" not in desk.settings.places:
        return None
    from ops.dead_letters.duplicate_detection import swallow_window

    window = swallow_window(desk.settings.servicebus)
    if window is None:
        _warn(_UNKNOWN_DETECTION)
    elif window:
        _warn(
            f"the queue drops without a word what has an id that it saw within {window}: younger "
            "letters are left. Give --fresh-ids to send them under new ones"
        )
    return window


def _look(
    desk: Desk,
    name: str,
    make_choose: Callable[[DeadLetterPlace], Callable[[Judged], Choice]],
    most_shown: int,
    *most_chosen: int,
) -> View:
    if name == "pubsub":
        _warn(_COST_OF_LOOKING)
    with desk.open(name, sends=False) as place:
        return look(place, desk.judge(adds_up=True), make_choose(place), most_shown, *most_chosen)


def _clear(
    desk: Desk,
    name: str,
    make_action: Callable[[DeadLetterPlace], Action],
    arguments: argparse.Namespace,
    words: Words,
) -> tuple[str, Tally]:
    batch = max(1, min(LARGEST_BATCH, arguments.per_second * BATCH_SECONDS))
    with desk.open(name, sends=words is _RESUBMITTING) as place:
        clearing = Clearing(
            place,
            desk.judge(),
            make_action(place),
            started_at=datetime.now(UTC),
            batch=batch,
            limit=arguments.limit,
        )
        total = clearing.plan()
        with _progress(words.present, total, shown=not arguments.json) as advance:
            clearing.run(advance)
        return place.name, clearing.tally


def _progress(
    what: str, total: int | None, *, shown: bool
) -> AbstractContextManager[Callable[[], None]]:
    if not shown or total == 0:
        return nullcontext(lambda: None)
    from ops.tables import progress

    return progress(what, total)


def _view_report(views: Sequence[View], verb: str, *, is_dry_run: bool = False) -> Report:
    now = datetime.now(UTC)

    def show(console: Console) -> None:
        for view in views:
            reports.print_view(console, view, now, verb)

    document = {
        "places": [reports.view_document(view, now) for view in views],
        "verdicts": reports.added_up([view.chosen for view in views]),
        "left": reports.added_up([view.left for view in views]),
        "dry_run": is_dry_run,
    }
    return Report(document, show)


def _tally_report(tallies: Sequence[tuple[str, Tally]], words: Words) -> Report:
    def show(console: Console) -> None:
        for place, tally in tallies:
            reports.print_tally(console, place, tally, words.done, words.left)

    document = {
        "places": [reports.tally_document(place, tally) for place, tally in tallies],
        "done": sum(tally.done.total() for _, tally in tallies),
        "verdicts": reports.added_up([tally.done for _, tally in tallies]),
        "left": reports.added_up([tally.left for _, tally in tallies]),
        "is_complete": all(tally.is_complete for _, tally in tallies),
        "dry_run": False,
    }
    return Report(document, show, _exit_code([tally for _, tally in tallies]))


def _exit_code(tallies: Sequence[Tally]) -> ExitCode:
    if any(tally.is_broken for tally in tallies):
        return ExitCode.BROKER
    is_complete = all(tally.is_complete for tally in tallies)
    return ExitCode.OK if is_complete else ExitCode.INCOMPLETE


def _warn(sentence: str) -> None:
    print(f"warning: {sentence}", file=sys.stderr)
