"""`chargeonce status`: a billing period at a glance."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ops.arguments import add_command, add_period
from ops.database import open_records
from ops.documents import status_document
from ops.errors import NotFound
from ops.report import Report

if TYPE_CHECKING:
    from rich.console import Console

    from ops.arguments import Commands


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "status",
        "show a period at a glance: states, spend against the cap, what is not finished",
        run,
        "chargeonce status --period 2026-11\n"
        "chargeonce status --period 2026-11 --json | jq .records.in_doubt.count",
    )
    add_period(command)


def run(arguments: argparse.Namespace) -> Report:
    """Count a period's records and compare its spend with the cap."""
    with open_records() as store:
        status = store.status(arguments.period)
    messages = status.parked_event_count + status.kept_message_count
    if status.run is None and not status.count_by_state and messages == 0:
        raise NotFound(f"nothing is known of period {arguments.period}")

    def show(console: Console) -> None:
        from ops.tables import print_status

        print_status(console, status)

    return Report(status_document(status), show)
