"""`chargeonce show`: one customer's record and what happened to it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ops.amounts import format_amount
from ops.arguments import add_command, add_customer, add_limit, add_period
from ops.database import open_records
from ops.documents import Document, attempt_document, payment_document, record_document
from ops.errors import NotFound
from ops.report import Report

if TYPE_CHECKING:
    from rich.console import Console

    from ops.arguments import Commands
    from shared.seen_payments import SeenPayment

DEFAULT_ATTEMPTS = 50
MAX_ATTEMPTS = 10_000


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "show",
        "show a customer's record of a period, and every delivery that touched it",
        run,
        "chargeonce show --customer acme --period 2026-11\n"
        "chargeonce show --customer acme --period 2026-11 --stripe",
    )
    add_customer(command)
    add_period(command)
    add_limit(command, "show the newest N deliveries", DEFAULT_ATTEMPTS, MAX_ATTEMPTS)
    command.add_argument(
        "--stripe",
        action="store_true",
        help="read its payment at Stripe too: its status, refunds and disputes",
    )


def run(arguments: argparse.Namespace) -> Report:
    """Find a record and its attempts."""
    from shared.record import RecordId

    record_id = RecordId(arguments.customer, arguments.period)
    with open_records() as store:
        record = store.get_record(record_id)
        attempts = store.attempts(record_id, arguments.limit)
    if record is None:
        raise NotFound(
            f"there is no record of customer {arguments.customer!r} for period {arguments.period}"
        )

    seen = _at_stripe(record.payment_id) if arguments.stripe else None

    def show(console: Console) -> None:
        from ops.tables import print_record

        print_record(console, record, attempts)
        if arguments.stripe:
            console.print(_stripe_line(seen))

    document: Document = {
        "record": record_document(record),
        "attempts": [attempt_document(line) for line in attempts],
    }
    if arguments.stripe:
        document["stripe"] = payment_document(seen) if seen else None
    return Report(document, show)


def _at_stripe(payment_id: str | None) -> SeenPayment | None:
    from ops.deployment import open_deployment
    from shared.seen_payments import look_up

    if payment_id is None:
        return None
    with open_deployment() as deployment:
        upkeep = deployment.upkeep()
        upkeep.check_identity()
        return look_up(upkeep.lists, payment_id)


def _stripe_line(seen: SeenPayment | None) -> str:
    if seen is None:
        return "At Stripe: no payment."
    parts = [f"At Stripe: {seen.status}, {format_amount(seen.amount_cents, seen.currency)}"]
    if seen.refunded_cents:
        refunded = format_amount(seen.refunded_cents, seen.currency)
        parts.append(f"refunded {refunded}; a refund is never charged again")
    if seen.is_disputed:
        parts.append("disputed")
    return f"{', '.join(parts)}."
