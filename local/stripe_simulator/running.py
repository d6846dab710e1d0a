"""Running the simulator beside a test or a demo: in a thread, or in a process of its own."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from local.guardian import end_with_this_process
from local.stripe_simulator.client import ControlClient
from local.stripe_simulator.clock import SettableClock
from local.stripe_simulator.model import StripeModel
from local.stripe_simulator.server import SimulatorServer, run_server
from local.stripe_simulator.world import Options

START_SECONDS = 30.0
STOP_SECONDS = 10.0
READY_PREFIX = "Stripe simulator ready at "

_REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class RunningSimulator:
    """A simulator that serves: where Stripe's clients find it, and how to control it."""

    base_url: str
    control: ControlClient


@contextmanager
def serve_in_thread(
    seed: int = 1,
    clock: SettableClock | None = None,
    options: Options | None = None,
    port: int = 0,
) -> Iterator[RunningSimulator]:
    """Serve from a thread of this process while the block runs.

    Args:
        seed: Decides every id.
        clock: The simulator's time; real time when None.
        options: How the simulated Stripe behaves.
        port: Where to listen; 0 takes a free port.

    Raises:
        OSError: The port is taken.
    """
    thread = _ServingThread(seed, clock or SettableClock.real(), options, port)
    try:
        base_url = thread.start()
        yield RunningSimulator(base_url, ControlClient(base_url))
    finally:
        thread.end()


class SimulatorProcess:
    """A simulator in a process of its own, as a context manager.

    It is the same as `python -m local.stripe_simulator`, on a free port unless one is given.
    """

    def __init__(self, seed: int = 1, clock: str = "real", port: int = 0) -> None:
        """Prepare the process; it starts when the block is entered.

        Args:
            seed: Decides every id.
            clock: `real`, or the epoch seconds at which the clock stands still.
            port: Where to listen; 0 takes a free port.
        """
        self._command = [
            *(sys.executable, "-m", "local.stripe_simulator"),
            *("--seed", str(seed), "--clock", clock, "--port", str(port)),
        ]
        self._process: subprocess.Popen[str] | None = None
        self.base_url = ""

    @property
    def control(self) -> ControlClient:
        """A client of the control API."""
        return ControlClient(self.base_url)

    @property
    def pid(self) -> int | None:
        """The process id, None while it does not run."""
        return self._process.pid if self._process else None

    def __enter__(self) -> Self:
        """Start the process and wait until it serves.

        Raises:
            RuntimeError: It ended, or did not become ready in time.
        """
        self._process = subprocess.Popen(
            self._command, cwd=_REPOSITORY, stdout=subprocess.PIPE, text=True
        )
        end_with_this_process(self._process.pid)
        self.base_url = _read_base_url(self._process)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the process and wait for it."""
        if self._process is not None:
            _end(self._process)
            self._process = None


class _ServingThread:
    def __init__(self, seed: int, clock: SettableClock, options: Options | None, port: int) -> None:
        self._server = SimulatorServer(StripeModel(seed, clock.now, options), clock)
        self._port = port
        self._thread = threading.Thread(target=self._run, name="stripe-simulator", daemon=True)
        self._ready = threading.Event()
        self._base_url = ""
        self._failure: OSError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None

    def start(self) -> str:
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            raise TimeoutError("the simulator did not become ready in time")
        if self._failure is not None:
            raise self._failure
        return self._base_url

    def end(self) -> None:
        if self._loop is not None and self._ended is not None and self._thread.is_alive():
            # The loop may end by itself between the check and the call.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as failure:
            self._failure = failure
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        await run_server(self._server, self._port, self._announce, self._ended)

    def _announce(self, base_url: str) -> None:
        self._base_url = base_url
        self._ready.set()


def _read_base_url(process: subprocess.Popen[str]) -> str:
    if process.stdout is None:
        raise AssertionError("the process was started with a pipe")
    # A process that never says it is ready is killed, which ends the read.
    watchdog = threading.Timer(START_SECONDS, process.kill)
    watchdog.start()
    try:
        line = process.stdout.readline()
    finally:
        watchdog.cancel()
    if not line.startswith(READY_PREFIX):
        _end(process)
        raise RuntimeError("the Stripe simulator did not start; its error output says why")
    return line.removeprefix(READY_PREFIX).strip()


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)
    if process.stdout is not None:
        process.stdout.close()
