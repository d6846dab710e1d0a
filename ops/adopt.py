"""`chargeonce adopt`: record a payment that Stripe has and the records do not."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ops.amounts import format_amount
from ops.arguments import add_command, add_customer, add_dry_run, billing_period
from ops.deployment import Deployment, open_deployment
from ops.documents import payment_document, record_document
from ops.errors import Refused
from ops.exit_codes import ExitCode
from ops.report import Report

if TYPE_CHECKING:
    from rich.console import Console

    from ops.arguments import Commands
    from shared.outside_payments import Judged
    from shared.record import RecordId
    from shared.seen_payments import SeenPayment


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "adopt",
        "record a payment that Stripe has and the records do not",
        run,
        "chargeonce adopt --payment pi_123\n"
        "chargeonce adopt --payment ch_123 --customer acme --period 2026-11 --dry-run",
        details="Reads the payment at Stripe. One of ours says itself whose it is; for any other "
        "name customer and period. A payment pays for one record, and is recorded even past the "
        "cap. Safe to repeat. Needs the settings of the deployment.",
    )
    command.add_argument(
        "--payment",
        required=True,
        type=_payment_id,
        metavar="pi_...",
        help="the PaymentIntent, or the charge (ch_..., py_...)",
    )
    add_customer(command, required=False)
    command.add_argument(
        "--period",
        type=billing_period,
        metavar="PERIOD",
        help="the billing period that it pays for",
    )
    add_dry_run(command)


def run(arguments: argparse.Namespace) -> Report:
    """Look at a payment and record it."""
    from shared.errors import InvalidEvent
    from shared.record import RecordId

    if (arguments.customer is None) != (arguments.period is None):
        raise Refused("give --customer and --period together")
    asked = None if arguments.customer is None else RecordId(arguments.customer, arguments.period)
    with open_deployment() as deployment:
        try:
            seen, judged = _adopt(deployment, arguments.payment, asked, dry_run=arguments.dry_run)
        except InvalidEvent as error:
            raise Refused(f"no event could have asked for this payment: {error}") from error
    return _report(seen, judged, dry_run=arguments.dry_run)


def _adopt(
    deployment: Deployment, payment_id: str, asked: RecordId | None, *, dry_run: bool
) -> tuple[SeenPayment | None, Judged]:
    from shared.outside_payments import Judged, Recorder, Verdict
    from shared.seen_payments import look_up

    upkeep = deployment.upkeep()
    upkeep.check_identity()
    seen = look_up(upkeep.lists, payment_id)
    if seen is None:
        return None, Judged(Verdict.NOT_AT_STRIPE)
    upkeep.check_mode(seen.livemode)
    namespace = deployment.settings.rules.key_namespace
    recorder = Recorder(deployment.operations, namespace, dry_run=dry_run)
    return seen, recorder.record_seen(seen, asked)


def _report(seen: SeenPayment | None, judged: Judged, *, dry_run: bool) -> Report:
    from shared.outside_payments import FINE, Verdict

    verdict = judged.verdict
    is_planned = dry_run and verdict is Verdict.RECORDED
    sentence = "it would be recorded" if is_planned else verdict.sentence
    is_fine = verdict in FINE and verdict is not Verdict.NO_MONEY

    def show(console: Console) -> None:
        from ops.tables import print_rows

        amount = format_amount(seen.amount_cents, seen.currency) if seen else ""
        record = judged.record
        recorded = (record.payment_id or "") if record else ""
        print_rows(
            console,
            ("verdict", "meaning", "at Stripe", "amount", "recorded payment"),
            [(verdict, sentence, seen.status if seen else "", amount, recorded)],
        )
        if judged.run_closed:
            console.print("Its amount passed the cap: the run is closed.")

    document = {
        "verdict": verdict,
        "message": sentence,
        "payment": payment_document(seen) if seen else None,
        "record": record_document(judged.record) if judged.record else None,
        "run_closed": judged.run_closed,
        "dry_run": dry_run,
    }
    return Report(document, show, ExitCode.OK if is_fine else ExitCode.FAILED)


def _payment_id(text: str) -> str:
    from shared.seen_payments import is_payment_id

    if not is_payment_id(text):
        raise argparse.ArgumentTypeError("a payment starts with pi_, ch_ or py_")
    return text
