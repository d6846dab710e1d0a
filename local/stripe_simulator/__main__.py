"""The command line of the Stripe simulator."""

import argparse
import asyncio
import contextlib
import gc
import signal
import sys

from local.stripe_simulator.clock import SettableClock
from local.stripe_simulator.model import StripeModel
from local.stripe_simulator.running import READY_PREFIX
from local.stripe_simulator.server import SimulatorServer, run_server
from local.stripe_simulator.world import Options

GARBAGE_THRESHOLD = 200_000

_EXAMPLES = """\
examples:
  python -m local.stripe_simulator
      serve on port 12111 with real time
  python -m local.stripe_simulator --port 0 --seed 7
      take a free port; the first line printed names it
  python -m local.stripe_simulator --clock 1798761600
      time stands still until the control API moves it
  curl http://127.0.0.1:12111/v1/payment_intents -u sk_test_me: \\
      -d amount=1000 -d currency=usd
      use it as you would use Stripe; any well-formed key works
  curl http://127.0.0.1:12111/_control/ledger/summary
      see the money that really moved
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the simulator until SIGINT or SIGTERM.

    Args:
        arguments: The command line, or None for the process's own.

    Returns:
        The exit code: 0 after an orderly end, 1 when the port cannot be used.
    """
    options = _parser().parse_args(arguments)
    clock = SettableClock.real() if options.clock is None else SettableClock.frozen(options.clock)
    behaviour = Options(
        idempotency=options.idempotency == "on",
        search_lag_seconds=options.search_lag_seconds,
        settlement_seconds=options.settlement_seconds,
    )
    # Objects only ever pile up here; looking through all of them for garbage costs a third.
    gc.set_threshold(GARBAGE_THRESHOLD)
    server = SimulatorServer(StripeModel(options.seed, clock.now, behaviour), clock)
    try:
        asyncio.run(_serve(server, options.port))
    except OSError as error:
        print(f"cannot serve on port {options.port}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


async def _serve(server: SimulatorServer, port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        # Windows has no signal handlers for event loops; there Ctrl+C ends the process anyway.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(signal_number, stop.set)
    await run_server(server, port, _announce, stop)


def _announce(base_url: str) -> None:
    print(f"{READY_PREFIX}{base_url}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m local.stripe_simulator",
        description="A Stripe on the desk that tells the truth about money, and goes wrong on "
        "demand. It listens on 127.0.0.1 only.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--port",
        type=_port,
        default=12111,
        help="where to listen; 0 takes a free port (%(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="decides every id and every random fault (%(default)s)"
    )
    parser.add_argument(
        "--clock",
        type=_clock,
        default=None,
        metavar="real|EPOCH",
        help="real time, or epoch seconds at which the clock stands still (real)",
    )
    parser.add_argument(
        "--idempotency",
        choices=["on", "off"],
        default="on",
        help="off ignores every Idempotency-Key (%(default)s)",
    )
    parser.add_argument(
        "--search-lag-seconds",
        type=float,
        default=60.0,
        help="how long Search does not see a change (%(default)s)",
    )
    parser.add_argument(
        "--settlement-seconds",
        type=float,
        default=4 * 24 * 3600.0,
        help="how long a bank debit stays in processing (%(default)s)",
    )
    return parser


def _clock(text: str) -> float | None:
    return None if text == "real" else float(text)


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError("a port lies between 0 and 65535")
    return port


if __name__ == "__main__":
    sys.exit(main())
