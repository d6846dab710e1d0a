"""`chargeonce publish`: send usage events to the queue that they are charged from."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ops.arguments import add_command, add_dry_run
from ops.errors import Refused
from ops.report import Report

if TYPE_CHECKING:
    from rich.console import Console

    from ops.arguments import Commands
    from ops.outgoing import Outgoing, Sender
    from shared.settings import PublishSettings

STANDARD_INPUT = "-"
MAX_DIGITS = 18
# The option, the event's field, and what is typed there.
_FIELDS = (
    ("customer", "customer_id", "ID", "the customer, as your records name it"),
    ("period", "billing_period", "PERIOD", "the billing period, for example 2026-11"),
    ("stripe-customer", "stripe_customer_id", "cus_...", "the customer at Stripe"),
    ("amount-cents", "amount_cents", "N", "the amount in the currency's smallest unit"),
    ("currency", "currency", "CODE", "the currency (default: BILLING_CURRENCY)"),
    ("payment-method", "payment_method_id", "pm_...", "what to charge, if not the default"),
    ("description", "description", "TEXT", "what the customer reads"),
    ("attempt", "attempt", "N", "a higher number asks for another try after a decline"),
)
_NUMBERS = frozenset({"amount_cents", "attempt"})


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "publish",
        "send usage events to a Service Bus queue or topic, or to a Pub/Sub topic",
        run,
        "chargeonce publish november.jsonl --cloud azure --queue usage\n"
        "chargeonce publish november.jsonl --cloud google --topic usage\n"
        "export-usage | chargeonce publish - --dry-run\n"
        "chargeonce publish --customer acme --period 2026-11 --stripe-customer cus_1 "
        "--amount-cents 4900",
        details="From a file of JSON lines, from standard input, or one event from the options. "
        "All of them are checked first; if one is wrong, none is sent. Sending the same events "
        "twice, or through both clouds, is safe.",
    )
    command.add_argument(
        "file", nargs="?", metavar="FILE", help="one event per line as JSON; - is standard input"
    )
    command.add_argument("--event", metavar="JSON", help="one event, as it would stand in a file")
    for option, field, metavar, explanation in _FIELDS:
        command.add_argument(f"--{option}", dest=field, metavar=metavar, help=explanation)
    _add_destination(command)
    add_dry_run(command)


def run(arguments: argparse.Namespace) -> Report:
    """Check all events, then send them."""
    from ops.outgoing import read_lines
    from shared.settings import PublishChoice, read_publish_settings

    choice = PublishChoice(arguments.cloud, arguments.queue, arguments.topic)
    settings = read_publish_settings(choice)
    with _open_source(arguments) as source:
        messages = read_lines(source, settings.currency)
    sender = _make_sender(settings)
    message_ids: Sequence[str] = []
    if not arguments.dry_run:
        message_ids = _send(sender, messages, show_progress=not arguments.json)
    return _report(sender.destination, messages, message_ids, dry_run=arguments.dry_run)


def _add_destination(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--cloud",
        choices=("azure", "google"),
        help="where to send: Service Bus or Pub/Sub (default: whichever of them is set up)",
    )
    entity = command.add_mutually_exclusive_group()
    entity.add_argument(
        "--queue",
        metavar="NAME",
        help="a queue of the namespace in ServiceBus or ServiceBus__fullyQualifiedNamespace "
        "(default: BILLING_QUEUE)",
    )
    entity.add_argument(
        "--topic",
        metavar="NAME",
        help="a topic of that namespace (default: BILLING_TOPIC); or of Pub/Sub: a name in "
        "GOOGLE_CLOUD_PROJECT or projects/PROJECT/topics/NAME (default: PUBSUB_TOPIC)",
    )


def _make_sender(settings: PublishSettings) -> Sender:
    from shared.settings import ServiceBusSettings

    if isinstance(settings.destination, ServiceBusSettings):
        from ops.servicebus import ServiceBusSender

        return ServiceBusSender(settings.destination)
    from ops.pubsub import PubsubSender

    return PubsubSender(settings.destination.topic_path)


def _open_source(arguments: argparse.Namespace) -> AbstractContextManager[IO[bytes]]:
    """The lines of events, wherever they stand."""
    fields = {name: value for _, name, _, _ in _FIELDS if (value := getattr(arguments, name))}
    given = [arguments.file is not None, arguments.event is not None, bool(fields)]
    if given.count(True) != 1:
        raise Refused("give either FILE, or --event, or the fields of one event")
    if fields:
        return io.BytesIO(json.dumps(_typed(fields)).encode())
    if arguments.event is not None:
        return io.BytesIO(" ".join(arguments.event.splitlines()).encode())
    if arguments.file == STANDARD_INPUT:
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(arguments.file).open("rb")
    except OSError as error:
        raise Refused(f"{arguments.file} cannot be read: {error.strerror}") from error


def _typed(fields: dict[str, str]) -> dict[str, object]:
    """What was typed, as JSON has it. What is no number stays, and is refused with its field."""
    return {name: _number(value) if name in _NUMBERS else value for name, value in fields.items()}


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < MAX_DIGITS else text


def _send(sender: Sender, messages: Sequence[Outgoing], *, show_progress: bool) -> Sequence[str]:
    from ops.outgoing import send_all

    if not show_progress:
        return send_all(sender, messages, lambda: None)
    from ops.tables import progress

    with progress("publishing", total=len(messages)) as advance:
        return send_all(sender, messages, advance)


def _report(
    destination: str, messages: Sequence[Outgoing], message_ids: Sequence[str], *, dry_run: bool
) -> Report:
    totals: Counter[str] = Counter()
    charges = {
        (message.event.customer_id, message.event.billing_period): message.event
        for message in messages
    }
    for event in charges.values():
        totals[event.currency] += event.amount_cents

    def show(console: Console) -> None:
        from ops.tables import print_published

        print_published(console, destination, len(messages), len(charges), totals, dry_run=dry_run)

    document = {
        "destination": destination,
        "events": len(messages),
        "charges": len(charges),
        "total_cents": dict(totals),
        "message_ids": list(message_ids),
        "dry_run": dry_run,
    }
    return Report(document, show)
