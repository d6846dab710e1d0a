"""`chargeonce show`: one customer's record and what happened to it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ops.arguments import add_command, add_customer, add_period, whole_number
from ops.database import open_records
from ops.documents import attempt_document, record_document
from ops.errors import NotFound
from ops.report import Report

if TYPE_CHECKING:
    from rich.console import Console

    from ops.arguments import Commands

DEFAULT_ATTEMPTS = 50
MAX_ATTEMPTS = 10_000


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "show",
        "show a customer's record of a period, and every delivery that touched it",
        run,
        "chargeonce show --customer acme --period 2026-11",
    )
    add_customer(command)
    add_period(command)
    command.add_argument(
        "--limit",
        type=whole_number(MAX_ATTEMPTS),
        default=DEFAULT_ATTEMPTS,
        metavar="N",
        help="show the newest N deliveries (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> Report:
    """Find a record and its attempts."""
    from shared.record import RecordId

    record_id = RecordId(arguments.customer, arguments.period)
    with open_records() as store:
        record = store.get_record(record_id)
        attempts = store.attempts(record_id, arguments.limit)
    if record is None:
        raise NotFound(
            f"there is no record of customer {arguments.customer!r} for period {arguments.period}"
        )

    def show(console: Console) -> None:
        from ops.tables import print_record

        print_record(console, record, attempts)

    document = {
        "record": record_document(record),
        "attempts": [attempt_document(line) for line in attempts],
    }
    return Report(document, show)
