"""The parts of which every command's arguments are made."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from ops.report import Report

if TYPE_CHECKING:
    from argparse import _SubParsersAction
    from datetime import datetime, timedelta

    Commands = _SubParsersAction[argparse.ArgumentParser]

Run = Callable[[argparse.Namespace], Report]

MAX_CENTS = 10**15
_CURRENCY = re.compile(r"[A-Za-z]{3}")
_SPAN = re.compile(r"([0-9]{1,6})([mhd])")
_SECONDS_OF_UNIT = {"m": 60, "h": 3600, "d": 86400}
_PAYMENT_METHOD = re.compile(r"(?:pm|card|src)_[A-Za-z0-9_-]{1,200}")
_EXIT_CODES_HINT = "Exit codes: see `chargeonce --help`."


def add_command(
    commands: Commands, name: str, summary: str, run: Run, examples: str, details: str = ""
) -> argparse.ArgumentParser:
    """Add a command that prints a report.

    Args:
        commands: where it is added.
        name: how it is called.
        summary: one line, for the list of commands.
        run: does it.
        examples: one or more command lines, shown by its --help.
        details: further sentences for its --help.
    """
    command = commands.add_parser(
        name,
        help=summary,
        description=f"{_sentence(summary)} {details}".strip(),
        epilog=f"{_indented(examples)}\n\n{_EXIT_CODES_HINT}",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument(
        "--json", action="store_true", help="print one JSON object in place of tables"
    )
    command.set_defaults(run=run)
    return command


def add_family(
    commands: Commands, name: str, summary: str
) -> tuple[argparse.ArgumentParser, Commands]:
    """Add a name that only groups commands.

    Returns:
        The group's parser, and where its commands are added.
    """
    family = commands.add_parser(
        name,
        help=summary,
        description=_sentence(summary),
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    return family, family.add_subparsers(metavar="COMMAND", required=True)


def add_period(command: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Let a command say which billing period it is about."""
    command.add_argument(
        "--period",
        required=required,
        type=billing_period,
        metavar="PERIOD",
        help="the billing period as the events name it, for example 2026-11",
    )


def add_customer(command: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Let a command say which customer it is about."""
    command.add_argument(
        "--customer",
        required=required,
        metavar="ID",
        help="the customer id as the events name it",
    )


def add_limit(command: argparse.ArgumentParser, what: str, default: int, most: int) -> None:
    """Let a command say of how many it speaks.

    Args:
        command: gets `--limit`.
        what: is limited, for its help: `look at no more than N of them`.
        default: without the option.
        most: what may be asked for.
    """
    command.add_argument(
        "--limit",
        type=whole_number(most),
        default=default,
        metavar="N",
        help=f"{what} (default: %(default)s)",
    )


def add_dry_run(command: argparse.ArgumentParser) -> None:
    """Let a command that changes something only say what it would do."""
    command.add_argument(
        "--dry-run", action="store_true", help="say what would be done, and change nothing"
    )


def billing_period(text: str) -> str:
    """A billing period as events name it."""
    from shared.event import is_billing_period

    if not is_billing_period(text):
        raise argparse.ArgumentTypeError(
            "a period has 1 to 64 letters, digits, dots, dashes or underscores, like 2026-11"
        )
    return text


def payment_method(text: str) -> str:
    """The id of a payment method, card or source."""
    if _PAYMENT_METHOD.fullmatch(text) is None:
        raise argparse.ArgumentTypeError("give a Stripe id that starts with pm_, card_ or src_")
    return text


def currency(text: str) -> str:
    """A currency's three-letter code, in any case."""
    if _CURRENCY.fullmatch(text) is None:
        raise argparse.ArgumentTypeError("a currency has three letters, like usd")
    return text.lower()


def cents(text: str) -> int:
    """A positive amount in the currency's smallest unit."""
    return _whole(text, 1, MAX_CENTS, "an amount is a whole number of the currency's smallest unit")


def moment(text: str) -> datetime:
    """A moment in ISO form (UTC unless it says otherwise), or how long ago, like 90m, 36h or 3d."""
    from datetime import UTC, datetime

    try:
        if _SPAN.fullmatch(text):
            return datetime.now(UTC) - duration(text)
        parsed = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            "give a moment like 2026-11-30T14:00 (UTC) or how long ago it was, like 90m, 36h or 3d"
        ) from None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


def duration(text: str) -> timedelta:
    """A span of time, like 90m, 36h or 3d."""
    from datetime import timedelta

    span = _SPAN.fullmatch(text)
    if span is None:
        raise argparse.ArgumentTypeError("give a span of time, like 90m, 36h or 3d")
    return timedelta(seconds=int(span[1]) * _SECONDS_OF_UNIT[span[2]])


def whole_number(most: int, least: int = 1) -> Callable[[str], int]:
    """A number from `least` to `most`."""

    def parse(text: str) -> int:
        return _whole(text, least, most, "give a whole number")

    return parse


def _whole(text: str, least: int, most: int, problem: str) -> int:
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"{problem}, from {least} to {most}")
    return int(text)


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Wraps the description, and leaves the examples below as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)  # noqa: SLF001


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."


def _indented(examples: str) -> str:
    lines = examples.strip().splitlines()
    heading = "example:" if len(lines) == 1 else "examples:"
    return "\n".join([heading, *(f"  {line}" for line in lines)])
