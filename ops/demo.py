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
# What three contestants at once can bill in about a minute.
MAX_COMPARED = 100
MAX_SEED = 2**31 - 1
DELIVERIES = ("own", "gcloud", "pusher")


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "demo",
        "charge customers under faults on this machine, then check the books",
        run,
        "chargeonce demo\n"
        "chargeonce demo --seed 7 --json | jq .double_charges\n"
        "chargeonce demo --naive --customers 100",
        details="Takes about a minute and needs no account and no setting: PostgreSQL, Stripe, "
        "Pub/Sub and Service Bus run on this machine alone and end with it. With DATABASE_URL set, "
        "that server is used, in a database of the demo's own. Fails if any promise is broken. "
        "With --naive, two consumers as one usually finds them go through a bad day on Pub/Sub "
        "beside ours.",
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
        default="own",
        help="what delivers Pub/Sub's events, by push and to workers that pull: our own emulator "
        "(the default) or gcloud's; or a small pusher, by push alone",
    )
    command.add_argument(
        "--naive",
        action="store_true",
        help="show what the same events cost with consumers as one usually finds them",
    )


def run(arguments: argparse.Namespace) -> Report:
    """Play the demo, or the comparison, and judge it."""
    return _compare(arguments) if arguments.naive else _play(arguments)


def _play(arguments: argparse.Namespace) -> Report:
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


def _compare(arguments: argparse.Namespace) -> Report:
    from local.demo import QuietScreen, progress_screen
    from local.demo.comparison import ComparisonPlan, play_comparison, print_comparison

    plan = ComparisonPlan(arguments.seed, min(arguments.customers, MAX_COMPARED))
    if arguments.json:
        comparison = play_comparison(plan, QuietScreen())
    else:
        from ops.tables import open_console

        with progress_screen(open_console()) as screen:
            comparison = play_comparison(plan, screen)

    def show(console: Console) -> None:
        print_comparison(console, comparison)

    exit_code = ExitCode.OK if comparison.scores["ours"].is_clean else ExitCode.FAILED
    return Report(comparison.document(), show, exit_code)
