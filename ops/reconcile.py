"""`chargeonce reconcile`: finish records whose messages are gone or late."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ops.arguments import add_command, add_dry_run, add_limit
from ops.database import open_records
from ops.deployment import open_deployment
from ops.exit_codes import ExitCode
from ops.report import Report

if TYPE_CHECKING:
    from rich.console import Console

    from ops.arguments import Commands
    from shared.outcome import Outcome

_SUSPENDED = (
    "The database may have lost commits, and nothing is charged until Stripe's lists are read. "
    "The reconcile timer does it in a few minutes; `chargeonce rebuild` waits for it."
)

DEFAULT_LIMIT = 200
MAX_LIMIT = 100_000


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "reconcile",
        "drive unfinished records to an end, as the reconcile timer does",
        run,
        "chargeonce reconcile\nchargeonce reconcile --limit 20 --dry-run",
        details="Takes records that nobody holds and messages that were kept, those whose pause is "
        "over, oldest first. Any number may run at once. Needs the settings of the deployment: "
        "STRIPE_API_KEY as well as DATABASE_URL.",
    )
    add_limit(command, "look at no more than N of them", DEFAULT_LIMIT, MAX_LIMIT)
    add_dry_run(command)


def run(arguments: argparse.Namespace) -> Report:
    """Drive due records on, or list them."""
    if arguments.dry_run:
        return _list_due(arguments.limit)
    driven = _drive_due(arguments.limit, show_progress=not arguments.json)
    outcomes = driven or {}
    looked_at = sum(outcomes.values())
    is_suspended = driven is None

    def show(console: Console) -> None:
        from ops.tables import print_outcomes

        if is_suspended:
            console.print(_SUSPENDED)
        else:
            print_outcomes(console, outcomes)

    document = {
        "looked_at": looked_at,
        "outcomes": {str(outcome): count for outcome, count in outcomes.items()},
        "suspended": is_suspended,
        "dry_run": False,
    }
    return Report(document, show, ExitCode.FAILED if is_suspended else ExitCode.OK)


def _list_due(limit: int) -> Report:
    with open_records() as store:
        due = store.due(limit)

    def show(console: Console) -> None:
        from ops.tables import print_due

        print_due(console, due)

    records = [
        {"customer_id": record_id.customer_id, "billing_period": record_id.billing_period}
        for record_id in due
    ]
    return Report({"due": records, "dry_run": True}, show)


def _drive_due(limit: int, *, show_progress: bool) -> Mapping[Outcome, int] | None:
    from shared.reconcile import keep_up

    with open_deployment() as deployment:
        biller, upkeep = deployment.biller(), deployment.upkeep()
        if not show_progress:
            return keep_up(biller, upkeep, limit)
        from ops.tables import progress

        with progress("reconciling", total=len(deployment.store.due(limit))) as advance:
            return keep_up(biller, upkeep, limit, lambda _: advance())
