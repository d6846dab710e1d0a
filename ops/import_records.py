"""`chargeonce import`: the charges of an older system, so that nobody is charged for them again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ops.arguments import add_command, add_dry_run, currency, moment
from ops.report import Report

if TYPE_CHECKING:
    from ops.arguments import Commands

# Our fields, and the columns that they are looked for under, in this order.
COLUMNS = {
    "customer": ("customer_id", "customer"),
    "period": ("billing_period", "period"),
    "amount": ("amount_cents", "amount"),
    "currency": ("currency",),
    "stripe_customer": ("stripe_customer_id", "stripe_customer"),
    "payment": (
        "payment_id",
        "stripe_payment_intent_id",
        "payment_intent_id",
        "payment_intent",
        "stripe_charge_id",
        "charge_id",
        "charge",
    ),
    "status": ("status", "state"),
}


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "import",
        "record the charges of an older system, so that nobody is charged for them again",
        run,
        "chargeonce import --csv billing_records.csv --dry-run\n"
        "chargeonce import --csv old.csv --map customer=account --map amount=cents --verify\n"
        "IMPORT_DATABASE_URL=... chargeonce import --sql 'SELECT * FROM billing_records' --verify\n"
        "chargeonce import --stripe-since 2026-10-01",
        details="Stop the older system first. From a CSV file, a query or Stripe's own list. Every "
        "row is checked before the first is imported. Rows that are not known to be paid are "
        "imported as nothing. With --verify each payment is read at Stripe, which then decides; "
        "without it only new records are made, and none is changed. Safe to repeat. Imported "
        "charges count in an open run of their period.",
    )
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument("--csv", metavar="FILE", help="with a header line; - is standard input")
    source.add_argument(
        "--sql",
        metavar="QUERY",
        help="a query to the database that IMPORT_DATABASE_URL names; it cannot write",
    )
    source.add_argument(
        "--stripe-since",
        type=moment,
        metavar="MOMENT",
        help="payments in Stripe's list since then: 2026-10-01, or how long ago (36h, 40d)",
    )
    command.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="FIELD=COLUMN",
        help=f"where a field stands, of {', '.join(COLUMNS)}; with --stripe-since, the name in the "
        "payments' metadata (customer and period)",
    )
    command.add_argument(
        "--currency",
        type=currency,
        metavar="CODE",
        help="of rows that name none (default: BILLING_CURRENCY)",
    )
    command.add_argument(
        "--verify", action="store_true", help="read each payment at Stripe before it is recorded"
    )
    add_dry_run(command)


def run(arguments: argparse.Namespace) -> Report:
    """Import from whichever source is asked."""
    from ops.import_work import import_charges

    return import_charges(arguments)
