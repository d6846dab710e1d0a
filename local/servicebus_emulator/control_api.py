"""The control API: what a test asks of an emulator and tells it to do. No I/O.

Requests and answers are those of HTTP, with JSON objects as bodies, so that the same calls
work from within the process and from without.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, urlsplit

from local.servicebus_emulator.errors import BrokerError
from local.servicebus_emulator.faults import MAXIMUM_SECONDS, Fault
from local.servicebus_emulator.journal import JsonObject
from local.servicebus_emulator.options import QueueSettings
from local.servicebus_emulator.queues import Queue
from local.servicebus_emulator.server import AmqpServer


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """One call."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ControlAnswer:
    """What came of it. The body of a failure says why under `error`."""

    status: HTTPStatus
    body: JsonObject


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue or subscription: how many messages are in which state, and its settings."""

    path: str
    active: int
    locked: int
    scheduled: int
    dead_lettered: int
    settings: QueueSettings

    @classmethod
    def of(cls, queue: Queue) -> "QueueStatus":
        """Return the status of a queue."""
        counts = queue.counts()
        dead = None if queue.dead_letters is None else queue.dead_letters.counts()
        return cls(
            path=queue.path,
            active=counts.active,
            locked=counts.locked,
            scheduled=counts.scheduled,
            dead_lettered=0 if dead is None else dead.active + dead.locked,
            settings=queue.settings,
        )

    def to_json(self) -> JsonObject:
        """Return the status as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "QueueStatus":
        """Return the status that a JSON object describes."""
        return cls(**{**given, "settings": QueueSettings(**given["settings"])})


class _Record(Protocol):
    @property
    def queue(self) -> str: ...

    def to_json(self) -> JsonObject: ...


class ControlApi:
    """Answers control requests. To be used on the server's thread.

    Args:
        server: The server that is looked at and told what to do.
    """

    def __init__(self, server: AmqpServer) -> None:
        self._server = server
        self._hub = server.hub
        self._routes: Final[Mapping[tuple[str, str], Callable[[ControlRequest], JsonObject]]] = {
            ("GET", "/status"): self._status,
            ("GET", "/queues"): self._queues,
            ("PATCH", "/queues"): self._configure_queue,
            ("POST", "/queues/purge"): self._purge_queue,
            ("GET", "/settlements"): self._settlements,
            ("GET", "/renewals"): self._renewals,
            ("GET", "/deliveries"): self._deliveries,
            ("DELETE", "/records"): self._forget_records,
            ("GET", "/faults"): self._faults,
            ("POST", "/faults"): self._add_fault,
            ("DELETE", "/faults"): self._remove_faults,
            ("POST", "/connections/cut"): self._cut_connections,
            ("POST", "/connections/refuse"): self._refuse_connections,
            ("POST", "/clock/advance"): self._advance_clock,
        }

    def handle(self, request: ControlRequest) -> ControlAnswer:
        """Do what is asked; a request that makes no sense gets a failure for an answer."""
        run = self._routes.get((request.method, request.path))
        if run is None:
            return _failure(
                HTTPStatus.NOT_FOUND, f"there is no {request.method} {request.path} here"
            )
        try:
            return ControlAnswer(HTTPStatus.OK, run(request))
        except BrokerError as error:
            return _failure(error.status, error.description)
        except (LookupError, TypeError, ValueError) as error:
            return _failure(HTTPStatus.BAD_REQUEST, str(error))

    def _status(self, _request: ControlRequest) -> JsonObject:
        return {"now": self._server.clock.now(), "connections": self._server.connection_count}

    def _queues(self, _request: ControlRequest) -> JsonObject:
        queues = self._hub.broker.queues()
        return {"queues": [QueueStatus.of(queue).to_json() for queue in queues]}

    def _configure_queue(self, request: ControlRequest) -> JsonObject:
        changes = dict(request.body)
        queue = self._hub.broker.source(changes.pop("path"))
        queue.configure(replace(queue.settings, **changes))
        return QueueStatus.of(queue).to_json()

    def _purge_queue(self, request: ControlRequest) -> JsonObject:
        self._hub.broker.source(request.body["path"]).purge()
        return {}

    def _settlements(self, request: ControlRequest) -> JsonObject:
        return {"settlements": _records(request, self._hub.journal.settlements())}

    def _renewals(self, request: ControlRequest) -> JsonObject:
        return {"renewals": _records(request, self._hub.journal.renewals())}

    def _deliveries(self, request: ControlRequest) -> JsonObject:
        return {"deliveries": _records(request, self._hub.journal.deliveries())}

    def _forget_records(self, _request: ControlRequest) -> JsonObject:
        self._hub.journal.forget()
        return {}

    def _faults(self, _request: ControlRequest) -> JsonObject:
        return {"faults": [status.to_json() for status in self._hub.faults.in_force()]}

    def _add_fault(self, request: ControlRequest) -> JsonObject:
        return {"id": self._hub.faults.add(Fault.from_json(request.body))}

    def _remove_faults(self, request: ControlRequest) -> JsonObject:
        fault_id = request.query.get("id")
        if fault_id is None:
            self._hub.faults.clear()
        elif not self._hub.faults.remove(fault_id):
            raise ValueError(f"no fault {fault_id} is in force")
        return {}

    def _cut_connections(self, _request: ControlRequest) -> JsonObject:
        return {"cut": self._server.cut_connections()}

    def _refuse_connections(self, request: ControlRequest) -> JsonObject:
        self._server.refuse_connections(_seconds(request))
        return {}

    def _advance_clock(self, request: ControlRequest) -> JsonObject:
        self._server.advance_clock(_seconds(request))
        return self._status(request)


def request_of(method: str, target: str, body: Mapping[str, Any]) -> ControlRequest:
    """Return the request for a target as an HTTP client names it, query included."""
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query))
    return ControlRequest(method, parts.path, query, body)


def _records(request: ControlRequest, records: Iterable[_Record]) -> list[JsonObject]:
    wanted = request.query.get("queue")
    return [
        record.to_json()
        for record in records
        if wanted is None or record.queue.lower() == wanted.lower()
    ]


def _seconds(request: ControlRequest) -> float:
    seconds = request.body["seconds"]
    if not isinstance(seconds, int | float) or not 0 <= seconds <= MAXIMUM_SECONDS:
        raise ValueError(f"seconds lie between 0 and {MAXIMUM_SECONDS:.0f}")
    return float(seconds)


def _failure(status: HTTPStatus, error: str) -> ControlAnswer:
    return ControlAnswer(status, {"error": error})
