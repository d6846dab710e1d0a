"""`chargeonce migrate`: bring the database's schema up to date."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ops.arguments import add_command, add_dry_run
from ops.report import Report

if TYPE_CHECKING:
    from rich.console import Console

    from ops.arguments import Commands


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "migrate",
        "bring the database's schema up to date",
        run,
        "chargeonce migrate\nchargeonce migrate --dry-run --json",
        details="Safe to repeat, safe when two start at once and while consumers run. A schema "
        "that is newer than this version is left alone.",
    )
    add_dry_run(command)


def run(arguments: argparse.Namespace) -> Report:
    """Apply the migrations that the database lacks, or list them."""
    from shared.settings import read_database_url
    from shared.store import migrations

    database_url = read_database_url()
    if arguments.dry_run:
        applied, pending = [], list(migrations.missing_migrations(database_url))
    else:
        applied, pending = list(migrations.migrate(database_url)), []

    def show(console: Console) -> None:
        for name in applied:
            console.print(f"applied {name}")
        for name in pending:
            console.print(f"would apply {name}")
        if not pending:
            console.print(f"The schema is up to date: version {migrations.schema_version()}.")

    document = {
        "schema_version": migrations.schema_version(),
        "applied": applied,
        "pending": pending,
        "dry_run": arguments.dry_run,
    }
    return Report(document, show)
