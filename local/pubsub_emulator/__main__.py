"""The command line of the Pub/Sub emulator."""

import argparse
import contextlib
import ipaddress
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Final

from local.pubsub_emulator.clock import FASTEST, SLOWEST
from local.pubsub_emulator.emulator import DEFAULT_PROJECT, LOOPBACK, PubsubEmulator
from local.pubsub_emulator.errors import BrokerError
from local.pubsub_emulator.process import CONTROL_PREFIX, READY_PREFIX
from local.pubsub_emulator.settings import LONGEST_ACK_DEADLINE_SECONDS, Limits

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
LOOK_SECONDS: Final = 0.1

_DESCRIPTION: Final = """\
A Google Cloud Pub/Sub on the desk, without gcloud or Java, for the unmodified Google client.
It keeps everything in memory, asks nobody who they are, and listens on this machine only.
"""

_EXAMPLES: Final = """\
example:
  python -m local.pubsub_emulator --topic orders --subscription orders/billing --control-port 8086
  export PUBSUB_EMULATOR_HOST=127.0.0.1:8085 PUBSUB_PROJECT_ID=chargeonce-local
      ... and run whatever uses Pub/Sub; the line with PUBSUB_EMULATOR_HOST says that it is ready
  curl http://127.0.0.1:8086/events?kind=nack
      see which messages were given back
  curl http://127.0.0.1:8086/faults -d '{"target": "extension", "effect": "lose", "count": 3}'
      lose the next three deadline extensions
  python -m local.pubsub_emulator --speed 20
      ack deadlines, backoffs and retention pass twenty times faster
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the emulator until SIGINT or SIGTERM.

    Args:
        arguments: The command line, or None for the process's own.

    Returns:
        The exit code: 0 after an orderly end, 1 when it cannot serve.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    host, port = options.host_port
    if not options.allow_other_machines and not _is_loopback(host):
        parser.error(f"{host} can be reached from other machines: add --allow-other-machines")
    emulator = PubsubEmulator(
        host=host,
        port=port,
        control_port=options.control_port,
        project=options.project,
        speed=options.speed,
        seed=options.seed,
        limits=Limits(shortest_ack_deadline_seconds=options.shortest_ack_deadline_seconds),
    )
    try:
        with _stop_on_signal() as stop:
            if options.until_stdin_ends:
                _stop_when_stdin_ends(stop)
            _serve(emulator, options, stop)
    except (BrokerError, OSError) as error:
        print(f"python -m local.pubsub_emulator: {error}", file=sys.stderr)
        return 1
    return 0


def _serve(emulator: PubsubEmulator, options: argparse.Namespace, stop: threading.Event) -> None:
    with emulator:
        for topic in options.topic:
            emulator.add_topic(topic)
        for topic, subscription in options.subscription:
            emulator.add_topic(topic)
            emulator.add_subscription(topic, subscription)
        if options.control_port is not None:
            print(f"{CONTROL_PREFIX}{emulator.control_url}", flush=True)
        print(f"{READY_PREFIX}{emulator.host_and_port}", flush=True)
        # Not `stop.wait()`: a signal in the moment before it, or to another thread, does not end
        # it, and a handler that interrupts it may wait for ever for its lock.
        while not stop.is_set():
            time.sleep(LOOK_SECONDS)


@contextlib.contextmanager
def _stop_on_signal() -> Iterator[threading.Event]:
    stop = threading.Event()

    def on_signal(_: int, __: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_when_stdin_ends(stop: threading.Event) -> None:
    def read() -> None:
        sys.stdin.buffer.read()
        stop.set()

    threading.Thread(target=read, name="pubsub-emulator-stdin", daemon=True).start()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m local.pubsub_emulator",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--host-port",
        type=_host_port,
        default=(LOOPBACK, 8085),
        metavar="HOST:PORT",
        help=f"where to listen; port 0 takes a free one ({LOOPBACK}:8085)",
    )
    add(
        "--allow-other-machines",
        action="store_true",
        help="allow a host that other machines can reach; anybody there can read and write",
    )
    add(
        "--control-port",
        type=_port,
        metavar="PORT",
        help="serve the control API there; 0 takes a free port (no control API)",
    )
    add("--project", default=DEFAULT_PROJECT, help="the project of short names (%(default)s)")
    add(
        "--topic",
        action="append",
        default=[],
        help="make this topic; may be given more than once",
    )
    add(
        "--subscription",
        type=_topic_and_subscription,
        action="append",
        default=[],
        metavar="TOPIC/NAME",
        help="make this subscription, and its topic; may be given more than once",
    )
    add(
        "--speed",
        type=_speed,
        default=1.0,
        help="how many of Pub/Sub's seconds pass in a real one (%(default)s)",
    )
    add("--seed", type=int, default=0, help="decides which improbable faults strike (%(default)s)")
    add(
        "--shortest-ack-deadline-seconds",
        type=_ack_deadline,
        default=Limits().shortest_ack_deadline_seconds,
        metavar="SECONDS",
        help="the least that a subscription or a stream may ask for (%(default)s)",
    )
    add(
        "--until-stdin-ends",
        action="store_true",
        help="stop when standard input ends, and so with the process that holds its other end",
    )
    return parser


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host or LOOPBACK, _port(port)


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError("a port lies between 0 and 65535")
    return port


def _topic_and_subscription(text: str) -> tuple[str, str]:
    topic, separator, subscription = text.partition("/")
    if not (topic and separator and subscription) or "/" in subscription:
        raise argparse.ArgumentTypeError(f"{text} is not TOPIC/NAME")
    return topic, subscription


def _speed(text: str) -> float:
    speed = float(text)
    if not SLOWEST <= speed <= FASTEST:
        raise argparse.ArgumentTypeError(f"the speed lies between {SLOWEST} and {FASTEST}")
    return speed


def _ack_deadline(text: str) -> int:
    seconds = int(text)
    if not 1 <= seconds <= LONGEST_ACK_DEADLINE_SECONDS:
        raise argparse.ArgumentTypeError(
            f"a deadline lies between 1 and {LONGEST_ACK_DEADLINE_SECONDS} seconds"
        )
    return seconds


if __name__ == "__main__":
    sys.exit(main())
