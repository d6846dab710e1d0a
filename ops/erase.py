"""`chargeonce erase`: erase a customer's personal data, and keep the proof of each charge."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import TYPE_CHECKING

from ops.arguments import add_command, add_customer, add_dry_run
from ops.database import quieten_pool
from ops.report import Report

if TYPE_CHECKING:
    from rich.console import Console

    from ops.arguments import Commands


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "erase",
        "erase a customer's personal data, and keep the proof of each charge",
        run,
        "chargeonce erase --customer acme --dry-run\nchargeonce erase --customer acme",
        details="Descriptions, payment methods, message ids and kept messages go. The rows stay "
        "with customer id, period, key, amount, Stripe customer, state and payment id: they prove "
        "the charges, and a redelivered message must find them. Refused while anything of the "
        "customer may still be charged.",
    )
    add_customer(command)
    add_dry_run(command)


def run(arguments: argparse.Namespace) -> Report:
    """Erase all of a customer's periods, or none."""
    from shared.housekeeping import erase_customer
    from shared.settings import read_database_url
    from shared.store.migrations import check_schema
    from shared.store.operations import PostgresOperations

    database_url = read_database_url()
    quieten_pool()
    check_schema(database_url)
    with closing(PostgresOperations(database_url)) as operations:
        erased = erase_customer(operations, arguments.customer, dry_run=arguments.dry_run)
    doing = "would erase" if arguments.dry_run else "erased"

    def show(console: Console) -> None:
        from ops.tables import print_rows

        if not erased.periods and not erased.invalid_messages:
            console.print("Nothing is kept of this customer.")
            return
        print_rows(console, (f"{doing} for period",), [(period,) for period in erased.periods])
        console.print(f"{doing} {erased.invalid_messages:,} messages that are no usage events")

    document = {
        "customer_id": arguments.customer,
        "periods": list(erased.periods),
        "invalid_messages": erased.invalid_messages,
        "dry_run": arguments.dry_run,
    }
    return Report(document, show)
