"""`chargeonce cancel`: close a record before any money moved."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ops.arguments import add_command, add_customer, add_dry_run, add_period
from ops.deployment import open_deployment
from ops.documents import record_document
from ops.exit_codes import ExitCode
from ops.report import Report

if TYPE_CHECKING:
    from rich.console import Console

    from ops.arguments import Commands
    from shared.canceling import Canceled


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "cancel",
        "close a record before any money moved, so that it is never charged",
        run,
        "chargeonce cancel --customer acme --period 2026-11\n"
        "chargeonce cancel --customer acme --period 2026-11 --dry-run",
        details="Only when Stripe proves that no money moved and none can: else the record stays "
        "as it is, and so does what it holds of the cap. If the money has moved, that is recorded. "
        "Needs the settings of the deployment.",
    )
    add_customer(command)
    add_period(command)
    add_dry_run(command)


def run(arguments: argparse.Namespace) -> Report:
    """Cancel a record, or say what would become of it."""
    from shared.record import RecordId

    record_id = RecordId(arguments.customer, arguments.period)
    with open_deployment() as deployment:
        canceler = deployment.canceler()
        act = canceler.foresee if arguments.dry_run else canceler.cancel
        canceled = act(record_id)
    return _report(canceled, dry_run=arguments.dry_run)


def _report(canceled: Canceled, *, dry_run: bool) -> Report:
    verdict = canceled.verdict
    is_planned = dry_run and verdict.value == "canceled"
    sentence = "it would be closed, if Stripe proves it" if is_planned else verdict.sentence

    def show(console: Console) -> None:
        from ops.tables import print_rows

        code = canceled.code or ""
        print_rows(console, ("verdict", "meaning", "code"), [(verdict, sentence, code)])

    document = {
        "verdict": verdict,
        "canceled": verdict.is_canceled and not is_planned,
        "message": sentence,
        "code": canceled.code,
        "record": record_document(canceled.record) if canceled.record else None,
        "dry_run": dry_run,
    }
    return Report(document, show, ExitCode.OK if verdict.is_canceled else ExitCode.FAILED)
