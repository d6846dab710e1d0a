"""An emulator in a thread of this process."""

import asyncio
import contextlib
import threading
from concurrent.futures import Future
from types import TracebackType
from typing import Final, Self

from local.servicebus_emulator.control import CALL_SECONDS, ControlError, EmulatorControl
from local.servicebus_emulator.control_api import ControlAnswer, ControlRequest
from local.servicebus_emulator.options import EmulatorOptions
from local.servicebus_emulator.running import Running, run_emulator

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 30.0


class ServiceBusEmulator(EmulatorControl):
    """An emulator that runs in a thread between `start` and `stop`, or within `with`.

        options = EmulatorOptions(queues=[QueueOptions("billing")])
        with ServiceBusEmulator(options) as emulator:
            client = ServiceBusClient.from_connection_string(emulator.connection_string)

    Args:
        options: What it is started with.
    """

    def __init__(self, options: EmulatorOptions) -> None:
        super().__init__(self._bring)
        self._options = options
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._running: Running | None = None

    @property
    def connection_string(self) -> str:
        """What clients connect with."""
        return self._require_running().connection_string

    @property
    def control_url(self) -> str | None:
        """Where the control API is served, or None: it is not."""
        return self._require_running().control_url

    def start(self) -> None:
        """Start it, and wait until it is ready.

        Raises:
            OSError: An address cannot be had.
        """
        assert self._thread is None, "the emulator was started already"
        ready: Future[Running] = Future()
        # A daemon, so that a test that forgets to stop it can still end.
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name="servicebus-emulator", daemon=True
        )
        self._thread.start()
        try:
            self._running = ready.result(START_SECONDS)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it; every connection is cut."""
        if self._thread is None:
            return
        if self._loop is not None and self._stop is not None:
            # An emulator that could not start has closed its loop already.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(STOP_SECONDS)
        assert not self._thread.is_alive(), "the emulator does not stop"
        self._thread = self._loop = self._stop = self._running = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self, ready: "Future[Running]") -> None:
        async def run() -> None:
            self._loop = asyncio.get_running_loop()
            self._stop = asyncio.Event()
            await run_emulator(self._options, ready.set_result, self._stop)

        try:
            asyncio.run(run())
        except OSError as error:
            if ready.done():
                raise
            ready.set_exception(error)

    def _bring(self, request: ControlRequest) -> ControlAnswer:
        running = self._require_running()
        assert self._loop is not None, "a running emulator has a loop"

        async def handle() -> ControlAnswer:
            return running.api.handle(request)

        try:
            return asyncio.run_coroutine_threadsafe(handle(), self._loop).result(CALL_SECONDS)
        except TimeoutError as error:
            raise ControlError("the emulator does not answer") from error

    def _require_running(self) -> Running:
        if self._running is None:
            raise ControlError("the emulator is not running")
        return self._running
