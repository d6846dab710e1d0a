"""`chargeonce doctor`: hold the configuration against the rules, and change nothing."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ops.arguments import add_command, whole_number
from ops.exit_codes import ExitCode
from ops.report import Report

if TYPE_CHECKING:
    from rich.console import Console

    from ops.arguments import Commands
    from ops.doctor.examination import Examination

MOST_INSTANCES = 10_000
ROOT = Path(__file__).resolve().parents[2]


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "doctor",
        "hold the configuration against the rules, and change nothing",
        run,
        "chargeonce doctor\n"
        "chargeonce doctor --instances 5 --strict --json\n"
        "chargeonce doctor --offline",
        details="Looks at the settings, the database, Stripe, and the queue or subscription that "
        "the settings name: at whatever could charge twice, lose an event or stop billing. Needs "
        "the settings of the deployment, and the rights to read its queue or subscription. What "
        "could not be read is told. docs/doctor.md has every rule.",
    )
    command.add_argument(
        "--offline",
        action="store_true",
        help="look at the templates in infra/, host.json and the settings in place of what runs",
    )
    command.add_argument(
        "--strict", action="store_true", help="let warnings decide the exit code too"
    )
    command.add_argument(
        "--instances",
        type=whole_number(MOST_INSTANCES),
        metavar="N",
        help="how many instances there may be: their connections and requests are then added up",
    )
    command.add_argument(
        "--subscription",
        metavar="NAME",
        help="the push subscription (projects/.../subscriptions/...), where its topic has several",
    )
    command.add_argument(
        "--root",
        type=Path,
        default=ROOT,
        metavar="FOLDER",
        help="with --offline: where infra/ and host.json are (default: this repository)",
    )


def run(arguments: argparse.Namespace) -> Report:
    """Look, judge and report."""
    from ops.database import quieten_pool
    from ops.doctor.documents import examination_document
    from ops.doctor.looking import examine_deployment, examine_templates

    quieten_pool()
    if arguments.offline:
        examination = examine_templates(arguments.root, arguments.instances)
    else:
        examination = examine_deployment(ROOT, arguments.instances, arguments.subscription)

    def show(console: Console) -> None:
        from ops.doctor.tables import print_examination

        print_examination(console, examination)

    code = _exit_code(examination, strict=arguments.strict)
    return Report(examination_document(examination), show, code)


def _exit_code(examination: Examination, *, strict: bool) -> ExitCode:
    from ops.doctor.rule import Severity

    warnings = examination.count(Severity.WARNING) if strict else 0
    if examination.count(Severity.ERROR) + warnings:
        return ExitCode.FINDINGS
    return ExitCode.OK if examination.is_complete else ExitCode.INCOMPLETE
