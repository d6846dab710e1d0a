"""`chargeonce rebuild`: make a database whole that lost commits, from what Stripe knows."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ops.arguments import add_command, add_dry_run, moment
from ops.deployment import open_deployment
from ops.errors import Refused
from ops.exit_codes import ExitCode
from ops.report import Report

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import Console

    from ops.arguments import Commands
    from shared.rebuild import RebuildReport
    from shared.upkeep import Upkeep

PERCENT = 100


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "rebuild",
        "record what a database has lost that failed over or was restored, from Stripe's lists",
        run,
        "chargeonce rebuild\n"
        "chargeonce rebuild --since 2026-11-30T14:00 --dry-run\n"
        "chargeonce rebuild --since 3h",
        details="The reconcile timer does this by itself when the server's timeline has changed. "
        "With --since it is told of a loss that the server cannot see, such as a restored copy of "
        "its disk: then nothing is charged from now on until the lists are read. Waits until no "
        "request from before can be running (two leases). May be interrupted and run again; run "
        "it again without --since. Exits with 1 when a customer was found to have paid twice.",
    )
    command.add_argument(
        "--since",
        type=moment,
        metavar="MOMENT",
        help="commits after this moment are lost: 2026-11-30T14:00 in UTC, or how long ago "
        "(90m, 36h, 3d)",
    )
    add_dry_run(command)


def run(arguments: argparse.Namespace) -> Report:
    """Rebuild, or say what a rebuild would adopt."""
    from shared.ports import Adoption
    from shared.rebuild import RebuildState

    if arguments.dry_run and arguments.since is None:
        raise Refused("--dry-run needs --since: how far back to look")
    report = _rebuild(arguments.since, is_dry_run=arguments.dry_run, is_shown=not arguments.json)
    is_fine = arguments.dry_run or report.state is RebuildState.WHOLE
    if report.adoptions[Adoption.SECOND_PAYMENT]:
        is_fine = False

    def show(console: Console) -> None:
        from ops.tables import print_rebuild

        print_rebuild(console, report, is_dry_run=arguments.dry_run)

    document = {
        "state": str(report.state),
        "since": report.since.isoformat() if report.since else None,
        "adoptions": {str(adoption): count for adoption, count in report.adoptions.items()},
        "unreadable": report.unreadable,
        "dry_run": arguments.dry_run,
    }
    return Report(document, show, ExitCode.OK if is_fine else ExitCode.FAILED)


def _rebuild(since: datetime | None, *, is_dry_run: bool, is_shown: bool) -> RebuildReport:
    from shared.rebuild import preview

    with open_deployment() as deployment:
        upkeep = deployment.upkeep()
        if not is_dry_run or since is None:
            return _rebuild_after_waiting(upkeep, since, is_shown=is_shown)
        with _reading(is_shown=is_shown) as on_progress:
            return preview(upkeep, since, on_progress)


def _rebuild_after_waiting(
    upkeep: Upkeep, since: datetime | None, *, is_shown: bool
) -> RebuildReport:
    from shared.rebuild import RebuildState, rebuild

    report = rebuild(upkeep, since)
    while report.state is RebuildState.WAITING:
        _wait(report.wait_seconds, is_shown=is_shown)
        with _reading(is_shown=is_shown) as on_progress:
            report = rebuild(upkeep, on_progress=on_progress)
    return report


def _wait(seconds: float, *, is_shown: bool) -> None:
    whole_seconds = int(seconds) + 1
    with _bar("waiting for old requests to end", whole_seconds, is_shown=is_shown) as advance:
        for _ in range(whole_seconds):
            time.sleep(1)
            advance()


@contextmanager
def _reading(*, is_shown: bool) -> Iterator[Callable[[float], None]]:
    """Show how much of the lists is read, in percent."""
    shown = 0
    with _bar("reading Stripe's lists", PERCENT, is_shown=is_shown) as advance:

        def on_progress(part_read: float) -> None:
            nonlocal shown
            while shown < int(PERCENT * part_read):
                advance()
                shown += 1

        yield on_progress


@contextmanager
def _bar(what: str, total: int, *, is_shown: bool) -> Iterator[Callable[[], None]]:
    if not is_shown:
        yield lambda: None
        return
    from ops.tables import progress

    with progress(what, total) as advance:
        yield advance
