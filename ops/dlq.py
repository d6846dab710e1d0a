"""`chargeonce dlq`: look at dead letters, send them again, drop what is done with."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ops.arguments import (
    add_command,
    add_customer,
    add_dry_run,
    add_family,
    add_limit,
    add_period,
    moment,
    whole_number,
)
from ops.report import Report

if TYPE_CHECKING:
    from ops.arguments import Commands

DEFAULT_SHOWN = 50
MAX_SHOWN = 10_000
MAX_LIMIT = 100_000
DEFAULT_PER_SECOND = 25
MAX_PER_SECOND = 1_000
_PLACES = ("servicebus", "pubsub", "parked")


def add_commands(commands: Commands) -> None:
    """Add `dlq` and what belongs to it."""
    _, actions = add_family(commands, "dlq", "look at dead letters, send them again, drop them")
    _add_list(actions)
    _add_resubmit(actions)
    _add_drop(actions)


def _add_list(actions: Commands) -> None:
    command = add_command(
        actions,
        "list",
        "show dead letters, what their records say, and what sending them again would do",
        list_letters,
        "chargeonce dlq list\n"
        "chargeonce dlq list --in parked --reason CapReached --limit 500 --json",
        details="Nothing is taken. Service Bus and our own table are looked into for free; "
        "Pub/Sub has no way to do that: each letter looked at counts as one more delivery.",
    )
    _add_selection(command)
    add_limit(command, "show no more than N letters of each place", DEFAULT_SHOWN, MAX_SHOWN)


def _add_resubmit(actions: Commands) -> None:
    command = add_command(
        actions,
        "resubmit",
        "send dead letters again to where they are billed from",
        resubmit,
        "chargeonce dlq resubmit --dry-run\n"
        "chargeonce dlq resubmit --period 2026-11 --reason CapReached\n"
        "chargeonce dlq resubmit --in parked --customer acme --again",
        details="Safe at any time, twice, and by two people at once: nobody is charged twice. "
        "Body, message id, properties and correlation id stay. Each letter is sent before it is "
        "removed. What would only be dead-lettered again is left.",
    )
    _add_selection(command)
    add_limit(command, "send no more than N of each place", MAX_LIMIT, MAX_LIMIT)
    _add_per_second(command)
    command.add_argument(
        "--even-if-refused",
        action="store_true",
        help="send also what would only be dead-lettered again",
    )
    command.add_argument(
        "--again",
        action="store_true",
        help="deliver also what was delivered again from our own table already",
    )
    command.add_argument(
        "--fresh-ids",
        action="store_true",
        help="give each a new message id, for a queue that detects duplicates",
    )
    add_dry_run(command)


def _add_drop(actions: Commands) -> None:
    command = add_command(
        actions,
        "drop",
        "remove dead letters whose charge is provably done with",
        drop,
        "chargeonce dlq drop --to dropped.jsonl --period 2026-11\n"
        "chargeonce dlq drop --to invalid.jsonl --reason InvalidEvent --force",
        details="Done with is what the record of the very same event says: charged, declined or "
        "canceled. Each letter is written to the file, whole, before it is removed.",
    )
    _add_selection(command)
    add_limit(command, "drop no more than N of each place", MAX_LIMIT, MAX_LIMIT)
    _add_per_second(command)
    command.add_argument(
        "--to", metavar="FILE", help="a new file that takes the letters in, one JSON object a line"
    )
    command.add_argument(
        "--force", action="store_true", help="drop also what is not provably done with"
    )
    add_dry_run(command)


def _add_selection(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--in",
        dest="places",
        action="append",
        choices=_PLACES,
        help="where to look; may be repeated (default: every broker that the settings name, else "
        "our own table, which keeps copies of the same messages)",
    )
    command.add_argument(
        "--queue",
        metavar="NAME",
        help="a Service Bus queue that dead letters are forwarded to, in place of the sub-queue "
        "of the queue or subscription that is billed from",
    )
    add_customer(command, required=False)
    add_period(command, required=False)
    command.add_argument(
        "--reason", metavar="REASON", help="the dead-letter reason, for example CapReached"
    )
    command.add_argument(
        "--before",
        type=moment,
        metavar="MOMENT",
        help="only what is older: 3d, 36h, 90m ago or 2026-11-30T14:00 (UTC)",
    )
    command.add_argument(
        "--since", type=moment, metavar="MOMENT", help="only what is younger, in the same form"
    )


def _add_per_second(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--per-second",
        type=whole_number(MAX_PER_SECOND),
        default=DEFAULT_PER_SECOND,
        metavar="N",
        help="no more than N a second (default: %(default)s)",
    )


def list_letters(arguments: argparse.Namespace) -> Report:
    """Look, and change nothing."""
    from ops.dead_letters import running

    return running.list_letters(arguments)


def resubmit(arguments: argparse.Namespace) -> Report:
    """Send what is asked for again."""
    from ops.dead_letters import running

    return running.resubmit(arguments)


def drop(arguments: argparse.Namespace) -> Report:
    """Remove what is done with."""
    from ops.dead_letters import running

    return running.drop(arguments)
