"""`chargeonce run`: open, show, close and reopen a period's run, and raise its cap."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ops.amounts import format_amount
from ops.arguments import add_command, add_dry_run, add_family, add_period, cents, currency
from ops.database import open_records
from ops.documents import run_document
from ops.errors import NotFound, Refused
from ops.report import Report
from shared.errors import SettingsError

if TYPE_CHECKING:
    from rich.console import Console

    from ops.arguments import Commands
    from shared.ports import Run, Runs
    from shared.settings import Settings

MAX_REASON_CHARACTERS = 200


def add_commands(commands: Commands) -> None:
    """Add `run` and what belongs to it."""
    _, actions = add_family(
        commands, "run", "open, show, close and reopen a period's run, raise its cap"
    )
    _add_open(actions)
    show = add_command(
        actions,
        "show",
        "show a period's run and its spend",
        show_run,
        "chargeonce run show --period 2026-11",
    )
    add_period(show)
    _add_close(actions)
    _add_reopen(actions)
    _add_raise_cap(actions)


def _add_open(actions: Commands) -> None:
    command = add_command(
        actions,
        "open",
        "open a period's run, so that its events can be charged",
        open_run,
        "chargeonce run open --period 2026-11 --expected-cents 1250000\n"
        "chargeonce run open --period 2026-11 --expected-cents 1250000 --cap-cents 1300000\n"
        "chargeonce run open --period 2026-W48 --expected-cents 90000 --currency jpy --dry-run",
        details="Amounts count in the currency's smallest unit: cents for usd, whole yen for jpy. "
        "A run that is open already stays as it is.",
    )
    add_period(command)
    command.add_argument(
        "--expected-cents",
        type=cents,
        metavar="CENTS",
        help="what the period's events add up to (default: BILLING_EXPECTED_TOTAL_CENTS)",
    )
    command.add_argument(
        "--cap-cents",
        type=cents,
        metavar="CENTS",
        help="the most that may be charged (default: BILLING_CAP_PERCENT of what is expected)",
    )
    command.add_argument(
        "--currency",
        type=currency,
        metavar="CODE",
        help="three letters, for example usd (default: BILLING_CURRENCY)",
    )
    add_dry_run(command)


def _add_close(actions: Commands) -> None:
    command = add_command(
        actions,
        "close",
        "refuse new charges of a period from now on",
        close_run,
        "chargeonce run close --period 2026-11 --reason 'books are done'",
        details="Charges that have begun are still finished.",
    )
    add_period(command)
    command.add_argument(
        "--reason",
        type=_reason,
        default="closed by an operator",
        help=f"at most {MAX_REASON_CHARACTERS} characters, shown with the run",
    )
    add_dry_run(command)


def _add_reopen(actions: Commands) -> None:
    command = add_command(
        actions,
        "reopen",
        "accept charges again in a run that was closed by hand",
        reopen_run,
        "chargeonce run reopen --period 2026-11",
        details="A run that closed because its cap was passed is reopened by raising the cap.",
    )
    add_period(command)
    add_dry_run(command)


def _add_raise_cap(actions: Commands) -> None:
    command = add_command(
        actions,
        "raise-cap",
        "raise the cap of a period's run",
        raise_cap,
        "chargeonce run raise-cap --period 2026-11 --cap-cents 1500000",
        details="Reopens a run that was closed because its cap was passed. A cap is never lowered. "
        "With VAULT_PROVIDER=proxy the run's vault key is replaced by one that may spend as much.",
    )
    add_period(command)
    command.add_argument(
        "--cap-cents", type=cents, metavar="CENTS", required=True, help="the new cap"
    )
    add_dry_run(command)


def open_run(arguments: argparse.Namespace) -> Report:
    """Open a run; one that is open already stays as it is."""
    expected_cents, cap_cents, code = _asked_run(arguments)
    with open_records() as store:
        run = store.get_run(arguments.period)
        opened = False
        if run is None and not arguments.dry_run:
            run, opened = store.open_run(arguments.period, code, expected_cents, cap_cents)
    if run is None:
        amount = format_amount(cap_cents, code)
        return _planned_report(f"would open run {arguments.period} with a cap of {amount}")
    if not opened:
        _refuse_unless_as_asked(run, code)
    headline = f"opened run {arguments.period}"
    if not opened:
        headline = f"run {arguments.period} is already open"
        if run.cap_cents != cap_cents:
            headline += f", with another cap than {format_amount(cap_cents, code)}"
    return _run_report(run, headline, opened=opened, dry_run=arguments.dry_run)


def show_run(arguments: argparse.Namespace) -> Report:
    """Show a run."""
    with open_records() as store:
        run = _existing(store, arguments.period)
    return _run_report(run, "")


def close_run(arguments: argparse.Namespace) -> Report:
    """Close a run; one that is closed already keeps its reason."""
    with open_records() as store:
        run = _existing(store, arguments.period)
        if not run.is_open:
            headline = f"run {arguments.period} is already closed"
            return _run_report(run, headline, closed=False, dry_run=arguments.dry_run)
        if arguments.dry_run:
            return _run_report(run, f"would close run {arguments.period}", dry_run=True)
        run = store.close_run(arguments.period, arguments.reason)
    return _run_report(run, f"closed run {arguments.period}", closed=True, dry_run=False)


def reopen_run(arguments: argparse.Namespace) -> Report:
    """Reopen a run; one that is open already stays as it is."""
    from shared.runs import CLOSED_OVER_CAP, closed_over_cap

    with open_records() as store:
        run = _existing(store, arguments.period)
        if run.is_open:
            headline = f"run {arguments.period} is already open"
            return _run_report(run, headline, reopened=False, dry_run=arguments.dry_run)
        if run.closed_reason == CLOSED_OVER_CAP:
            raise closed_over_cap(run)
        if arguments.dry_run:
            return _run_report(run, f"would reopen run {arguments.period}", dry_run=True)
        run = store.reopen_run(arguments.period)
    return _run_report(run, f"reopened run {arguments.period}", reopened=True, dry_run=False)


def raise_cap(arguments: argparse.Namespace) -> Report:
    """Raise a run's cap; a cap that is as high already stays as it is."""
    from shared.settings import is_behind_vault_proxy, read_settings

    proxied = read_settings() if is_behind_vault_proxy() else None
    with open_records() as store:
        before = _existing(store, arguments.period)
        wanted = format_amount(arguments.cap_cents, before.currency)
        if before.cap_cents == arguments.cap_cents:
            headline = f"the cap of run {arguments.period} is already {wanted}"
            return _run_report(before, headline, raised=False, dry_run=arguments.dry_run)
        if before.cap_cents > arguments.cap_cents:
            present = format_amount(before.cap_cents, before.currency)
            raise Refused(
                f"the cap of run {arguments.period} is {present}; {wanted} would lower it"
            )
        if arguments.dry_run:
            headline = f"would raise the cap of run {arguments.period} to {wanted}"
            return _run_report(before, headline, dry_run=True)
        run = store.raise_cap(arguments.period, arguments.cap_cents)
    headline = f"raised the cap of run {arguments.period} to {wanted}"
    if run.is_open and not before.is_open:
        headline += " and reopened it"
    if proxied is None or proxied.run_keys is None:
        return _run_report(run, headline, raised=True, dry_run=False)
    is_replaced = _replace_vault_key(proxied, arguments.period)
    headline += (
        "; its vault key was replaced"
        if is_replaced
        else "; its vault key was not replaced: the reconcile timer tries again"
    )
    return _run_report(run, headline, raised=True, vault_key_replaced=is_replaced, dry_run=False)


def _replace_vault_key(settings: Settings, billing_period: str) -> bool:
    """Have the run's vault key allow what its cap does; False where this is left to the timer."""
    from contextlib import closing

    from shared.wiring import StripeWay

    with closing(StripeWay(settings)) as way:
        return way.keeper is not None and way.keeper.keep(billing_period)


def _asked_run(arguments: argparse.Namespace) -> tuple[int, int, str]:
    """What is expected, the cap and the currency: from the arguments, else from the settings."""
    from shared.runs import cap_from_expected
    from shared.settings import read_run_settings

    settings, default_currency = read_run_settings()
    expected_cents = arguments.expected_cents or settings.expected_total_cents
    if expected_cents is None:
        raise SettingsError(
            ["--expected-cents or BILLING_EXPECTED_TOTAL_CENTS must say what the period adds up to"]
        )
    cap_cents = arguments.cap_cents or cap_from_expected(expected_cents, settings.cap_percent)
    return expected_cents, cap_cents, arguments.currency or default_currency


def _refuse_unless_as_asked(run: Run, code: str) -> None:
    if not run.is_open:
        raise Refused(
            f"run {run.billing_period} exists and is closed ({run.closed_reason}): "
            "`chargeonce run reopen` or `raise-cap` opens it again"
        )
    if run.currency != code:
        raise Refused(
            f"run {run.billing_period} is open in {run.currency.upper()}, not in {code.upper()}"
        )


def _existing(store: Runs, billing_period: str) -> Run:
    run = store.get_run(billing_period)
    if run is None:
        raise NotFound(
            f"there is no run for period {billing_period}: `chargeonce run open` opens one"
        )
    return run


def _planned_report(headline: str) -> Report:
    def show(console: Console) -> None:
        console.print(headline)

    return Report({"run": None, "opened": False, "dry_run": True, "message": headline}, show)


def _run_report(run: Run, headline: str, **changes: bool) -> Report:
    def show(console: Console) -> None:
        from ops.tables import print_run

        if headline:
            console.print(headline)
        print_run(console, run)

    message = {"message": headline} if headline else {}
    return Report({"run": run_document(run), **changes, **message}, show)


def _reason(text: str) -> str:
    if not (text.isprintable() and 0 < len(text) <= MAX_REASON_CHARACTERS):
        raise argparse.ArgumentTypeError(
            f"a reason has 1 to {MAX_REASON_CHARACTERS} printable characters"
        )
    return text
