"""`chargeonce demo`: events charged under faults on this machine, then the books.

The only command that reaches the local cloud, and only when it runs.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ops.arguments import add_command, whole_number
from ops.exit_codes import ExitCode
from ops.report import Report

if TYPE_CHECKING:
    from rich.console import Console

    from ops.arguments import Commands

DEFAULT_CUSTOMERS = 300
LEAST_CUSTOMERS = 20
MAX_CUSTOMERS = 5_000
MAX_SEED = 2**31 - 1
DELIVERIES = ("auto", "emulator", "pusher")


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "demo",
        "charge customers under faults on this machine, then check the books",
        run,
        "chargeonce demo\nchargeonce demo --seed 7 --json | jq .double_charges",
        details="Takes about a minute and needs no account and no setting: PostgreSQL, Stripe and "
        "the queue run on this machine alone and end with it. With DATABASE_URL set, that server "
        "is used, in a database of the demo's own. Fails if any promise is broken.",
    )
    command.add_argument(
        "--seed",
        type=whole_number(MAX_SEED),
        default=1,
        metavar="N",
        help="repeats a demo: its customers, events and faults (default: %(default)s)",
    )
    command.add_argument(
        "--customers",
        type=whole_number(MAX_CUSTOMERS, least=LEAST_CUSTOMERS),
        default=DEFAULT_CUSTOMERS,
        metavar="N",
        help="how many customers are charged (default: %(default)s)",
    )
    command.add_argument(
        "--delivery",
        choices=DELIVERIES,
        default="auto",
        help="what pushes the events: gcloud's Pub/Sub emulator, or a small pusher of our own "
        "(default: the emulator where it exists)",
    )


def run(arguments: argparse.Namespace) -> Report:
    """Play the demo and judge it."""
    from local.demo import DemoPlan, QuietScreen, play, print_books, progress_screen

    plan = DemoPlan(arguments.seed, arguments.customers, arguments.delivery)
    if arguments.json:
        books = play(plan, QuietScreen())
    else:
        from ops.tables import open_console

        with progress_screen(open_console()) as screen:
            books = play(plan, screen)

    def show(console: Console) -> None:
        print_books(console, books)

    exit_code = ExitCode.FAILED if books.promises_broken else ExitCode.OK
    return Report(books.document(), show, exit_code)
