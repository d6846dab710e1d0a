"""A host: it receives messages, has a worker run the function, and acts upon how that ended."""

import base64
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Final, Self

from azure.servicebus import ServiceBusClient

from azure_function.renewal import LockRenewal
from local.functions_host.host_json import HostSettings
from local.functions_host.model_binding import bind
from local.functions_host.settlement import Held, SettlementService, serve_settlement
from local.functions_host.worker_process import (
    Function,
    Platform,
    WorkerFailed,
    WorkerProcess,
    open_log,
    read_log,
)

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver

ROOT: Final = Path(__file__).resolve().parents[2]
RECEIVE_SECONDS: Final = 0.5
STOP_SECONDS: Final = 30.0
PAUSE_SECONDS: Final = 0.5
_MESSAGE_TRIGGER: Final = "serviceBusTrigger"


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A request to an HTTP function."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What an HTTP function answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class FunctionsHost:
    """A host that runs between `__enter__` and `__exit__`.

    Args:
        environment: The app settings.
        directory: Where function_app.py and host.json are.
        settings: In place of those in host.json.
        platform: What its workers run on.

    Attributes:
        failures: What functions raised, and what went wrong with connections.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        directory: Path = ROOT,
        settings: HostSettings | None = None,
        platform: Platform | None = None,
    ) -> None:
        self._platform = platform or Platform()
        self._environment = dict(environment)
        self._directory = directory
        self.settings = settings or HostSettings.read(directory / "host.json")
        self.failures: list[str] = []
        self._service = SettlementService()
        self._stop = threading.Event()
        self._starting = threading.Lock()
        self._lanes: list[threading.Thread] = []
        self._log: IO[bytes] | None = None
        self._server: Any = None
        self._port = 0
        self._worker: WorkerProcess | None = None

    def __enter__(self) -> Self:
        self._log = open_log()
        self._server, self._port = serve_settlement(self._service)
        try:
            self._start_lanes(self.worker)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        for lane in self._lanes:
            lane.join(STOP_SECONDS)
        self._close()

    @property
    def worker(self) -> WorkerProcess:
        """The worker; a new one where the last has died."""
        with self._starting:
            if self._worker is None:
                assert self._log is not None, "the host is not running"
                self._worker = WorkerProcess(
                    self._directory, self._port, self._environment, self._log, self._platform
                )
            return self._worker

    def kill_worker(self) -> None:
        """Send SIGKILL to the worker; what it had in hand fails, and a new one is started."""
        self._replace(self.worker)

    def fire(self, name: str) -> str | None:
        """Let a timer fire; return what its function raised."""
        timer = {"IsPastDue": False, "Schedule": {"AdjustForDST": True}}
        failure: str | None = self._ask(name, {"timer": timer})["failure"]
        return failure

    def call(self, name: str, call: HttpCall) -> HttpAnswer:
        """Call an HTTP function.

        Raises:
            WorkerFailed: It raised, died or took too long.
        """
        body = base64.b64encode(call.body).decode()
        answer = self._ask(name, {"http": {**asdict(call), "body": body}})
        if answer["failure"] is not None:
            raise WorkerFailed(answer["failure"])
        http = answer["http"]
        return HttpAnswer(http["status"], http["headers"], base64.b64decode(http["body"]))

    def log(self) -> str:
        """Return what the workers logged so far."""
        assert self._log is not None, "the host is not running"
        return read_log(self._log)

    def _start_lanes(self, worker: WorkerProcess) -> None:
        for function in worker.functions.values():
            if function.trigger["type"] != _MESSAGE_TRIGGER:
                continue
            for number in range(self.settings.concurrent_calls):
                lane = threading.Thread(
                    target=self._run_lane,
                    args=(function,),
                    name=f"{function.name}-{number}",
                    daemon=True,
                )
                lane.start()
                self._lanes.append(lane)

    def _run_lane(self, function: Function) -> None:
        while not self._stop.is_set():
            try:
                with ExitStack() as stack:
                    receiver = self._open_receiver(function.trigger, stack)
                    while not self._stop.is_set():
                        for message in receiver.receive_messages(1, max_wait_time=RECEIVE_SECONDS):
                            self._handle(function, receiver, message)
            except Exception as error:  # noqa: BLE001 (the connection is opened again)
                self.failures.append(type(error).__name__)
                self._stop.wait(PAUSE_SECONDS)

    def _open_receiver(self, trigger: Mapping[str, Any], stack: ExitStack) -> "ServiceBusReceiver":
        connection_string = self._environment[trigger["connection"]]
        client = stack.enter_context(ServiceBusClient.from_connection_string(connection_string))
        prefetch = self.settings.prefetch_count
        if "queueName" in trigger:
            queue = self._resolve(trigger["queueName"])
            return stack.enter_context(client.get_queue_receiver(queue, prefetch_count=prefetch))
        topic, subscription = trigger["topicName"], trigger["subscriptionName"]
        return stack.enter_context(
            client.get_subscription_receiver(
                self._resolve(topic), self._resolve(subscription), prefetch_count=prefetch
            )
        )

    def _resolve(self, name: str) -> str:
        """A name between per cents is that of an app setting."""
        return self._environment[name.strip("%")] if name.startswith("%") else name

    def _handle(
        self,
        function: Function,
        receiver: "ServiceBusReceiver",
        message: "ServiceBusReceivedMessage",
    ) -> None:
        renewal_seconds = self.settings.renewal_seconds
        # The function is not told when its lock is lost.
        with LockRenewal(receiver, message, renewal_seconds, lambda _: None) as renewal:
            held = Held(receiver, message, renewal)
            self._service.hold(held)
            try:
                failure = self._invoke(function, message)
            finally:
                self._service.drop(held)
        if failure is not None:
            self.failures.append(failure)
        if held.is_settled:
            return
        if failure is not None:
            _try(lambda: held.settle(receiver.abandon_message))
        elif self.settings.completes:
            _try(lambda: held.settle(receiver.complete_message))

    def _invoke(self, function: Function, message: "ServiceBusReceivedMessage") -> str | None:
        worker = self.worker
        content = base64.b64encode(bind(message)).decode()
        try:
            answer = worker.invoke(function, {"content": content}, self.settings.timeout_seconds)
            failure: str | None = answer["failure"]
        except WorkerFailed as error:
            self._replace(worker)
            failure = str(error)
        return failure

    def _ask(self, name: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        worker = self.worker
        return worker.invoke(worker.functions[name], inputs, self.settings.timeout_seconds)

    def _replace(self, worker: WorkerProcess) -> None:
        """Make room for another worker, unless somebody has done so."""
        with self._starting:
            if self._worker is worker:
                worker.kill()
                self._worker = None

    def _close(self) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None
        self._server.stop(None).wait()
        assert self._log is not None
        self._log.close()


def _try(settle: Callable[[], None]) -> None:
    try:
        settle()
    except Exception:  # noqa: BLE001 (the host logs it; the message comes again)
        return
