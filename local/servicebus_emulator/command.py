"""The command line: an emulator as a process of its own."""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from local.servicebus_emulator.options import (
    DEFAULT_LOCK_SECONDS,
    DEFAULT_MAX_DELIVERY_COUNT,
    LOOPBACK,
    EmulatorOptions,
    QueueOptions,
    QueueSettings,
    SubscriptionOptions,
)
from local.servicebus_emulator.running import Running, run_emulator

DEFAULT_PORT: Final = 5672
CANNOT_START: Final = 1

_EXAMPLE: Final = """\
settings of one queue or subscription follow its name after a colon:
  lock=SECONDS              how long a lock lasts
  advertised-lock=SECONDS   how long consumers are told that it lasts, if not the truth
  max-delivery=COUNT        failed deliveries before a message is dead-lettered

example:
  python -m local.servicebus_emulator --queue billing:lock=30,max-delivery=10 \\
      --topic usage --subscription usage/billing --port 5672 --control-port 8086

  It prints a connection string for azure-servicebus. What it can do, and how faults are put
  into force through the control port, is in docs/servicebus-emulator.md. Ctrl-C ends it.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run an emulator until SIGTERM or SIGINT, and return the exit status."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    try:
        options = _options(parsed)
    except ValueError as error:
        parser.error(str(error))
    try:
        asyncio.run(_run(options, parsed))
    except OSError as error:
        print(f"{parser.prog}: cannot listen: {error}", file=sys.stderr)
        return CANNOT_START
    return 0


async def _run(options: EmulatorOptions, parsed: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    if parsed.until_stdin_closes:
        # Standard input ends with the process at its other end, however that one ends.
        loop.add_reader(sys.stdin.fileno(), _stop_at_end_of_input, stop)

    def announce(running: Running) -> None:
        print(_as_json(running) if parsed.json else _as_text(options, running), flush=True)

    await run_emulator(options, announce, stop)


def _stop_at_end_of_input(stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 1024):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop.set()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m local.servicebus_emulator",
        description="An Azure Service Bus namespace for development: in memory, without TLS, "
        "and open to every client that can connect.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--queue", action="append", default=[], metavar="NAME[:SETTINGS]", help="a queue")
    add("--topic", action="append", default=[], metavar="NAME", help="a topic")
    add(
        "--subscription",
        action="append",
        default=[],
        metavar="TOPIC/NAME[:SETTINGS]",
        help="a subscription to a topic, without a filter",
    )
    add("--host", default=LOOPBACK, help=f"the address to listen on (default {LOOPBACK})")
    add("--port", type=int, default=DEFAULT_PORT, help="the AMQP port; 0 takes any (default 5672)")
    add("--control-port", type=int, help="serve the control API there; 0 takes any")
    add(
        "--lock-seconds",
        type=float,
        default=DEFAULT_LOCK_SECONDS,
        help=f"how long locks last (default {DEFAULT_LOCK_SECONDS:.0f})",
    )
    add(
        "--max-delivery-count",
        type=int,
        default=DEFAULT_MAX_DELIVERY_COUNT,
        help="failed deliveries before a message is dead-lettered "
        f"(default {DEFAULT_MAX_DELIVERY_COUNT})",
    )
    add("--seed", type=int, default=0, help="what the chances of faults follow (default 0)")
    add("--json", action="store_true", help="when ready, print one line of JSON instead of text")
    add("--until-stdin-closes", action="store_true", help="end when standard input does")
    return parser


def _options(parsed: argparse.Namespace) -> EmulatorOptions:
    settings = QueueSettings(
        lock_seconds=parsed.lock_seconds, max_delivery_count=parsed.max_delivery_count
    )
    if not (parsed.queue or parsed.topic or parsed.subscription):
        raise ValueError("name a --queue, or a --topic and its --subscription (see --help)")
    return EmulatorOptions(
        queues=[QueueOptions(*_name_and_settings(text, settings)) for text in parsed.queue],
        topics=parsed.topic,
        subscriptions=[_subscription(text, settings) for text in parsed.subscription],
        host=parsed.host,
        port=parsed.port,
        control_port=parsed.control_port,
        seed=parsed.seed,
    )


def _subscription(text: str, settings: QueueSettings) -> SubscriptionOptions:
    path, own_settings = _name_and_settings(text, settings)
    topic, separator, name = path.rpartition("/")
    if not separator:
        raise ValueError(f"{text!r} is not TOPIC/NAME")
    return SubscriptionOptions(topic, name, own_settings)


def _name_and_settings(text: str, settings: QueueSettings) -> tuple[str, QueueSettings]:
    name, _, given = text.partition(":")
    changes: dict[str, Any] = {}
    for each in filter(None, given.split(",")):
        key, _, value = each.partition("=")
        if key not in _SETTINGS:
            raise ValueError(f"{key!r} is no setting of a queue (see --help)")
        field_name, convert = _SETTINGS[key]
        try:
            changes[field_name] = convert(value)
        except ValueError as error:
            raise ValueError(f"{value!r} is no value for {key}") from error
    return name, replace(settings, **changes)


_SETTINGS: Final = {
    "lock": ("lock_seconds", float),
    "advertised-lock": ("advertised_lock_seconds", float),
    "max-delivery": ("max_delivery_count", int),
}


def _as_json(running: Running) -> str:
    return json.dumps(
        {"connection_string": running.connection_string, "control_url": running.control_url}
    )


def _as_text(options: EmulatorOptions, running: Running) -> str:
    lines = ["The Service Bus emulator is ready.", ""]
    lines += [f"  queue         {each.name}{_noted(each.settings)}" for each in options.queues]
    lines += [f"  topic         {each}" for each in options.all_topics()]
    lines += [
        f"  subscription  {each.topic}/{each.name}{_noted(each.settings)}"
        for each in options.subscriptions
    ]
    if running.control_url is not None:
        lines.append(f"  control API   {running.control_url}")
    return "\n".join([*lines, "", running.connection_string])


def _noted(settings: QueueSettings) -> str:
    return f" (lock {settings.lock_seconds:g} s, {settings.max_delivery_count} deliveries)"
