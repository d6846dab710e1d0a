"""The `$management` node of an entity: what cannot be done on a link."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, TypeAlias
from uuid import UUID

from local.servicebus_emulator.broker import Broker, Destination
from local.servicebus_emulator.errors import (
    BrokerError,
    DecodeError,
    InvalidRequest,
    LockLost,
    NotSupported,
    ServerBusy,
    TimedOut,
)
from local.servicebus_emulator.exchange import Reply, Request, Response
from local.servicebus_emulator.faults import (
    MANAGEMENT_FAULTS,
    RENEWAL_FAULTS,
    Candidate,
    Fault,
    FaultKind,
)
from local.servicebus_emulator.hub import Hub
from local.servicebus_emulator.journal import (
    RenewalOutcome,
    RenewalRecord,
    Route,
    SettlementKind,
)
from local.servicebus_emulator.messages import Message, encode_delivery, parse_message
from local.servicebus_emulator.queues import Queue
from local.servicebus_emulator.settling import Settlement
from local.servicebus_emulator.wire_types import Array, Int, Symbol, Timestamp, Value

SUFFIX: Final = "/$management"
MAXIMUM_PEEKED: Final = 250
MAXIMUM_PEEKED_BYTES: Final = 1024 * 1024

_VENDOR: Final = "com.microsoft:"
_RENEW_LOCK: Final = "renew-lock"
_MILLISECONDS: Final = 1000

Parameters: TypeAlias = Mapping[Value, Value]

_SETTLEMENTS: Final[Mapping[Value, SettlementKind]] = {
    "completed": SettlementKind.COMPLETE,
    "abandoned": SettlementKind.ABANDON,
    "defered": SettlementKind.DEFER,
    "suspended": SettlementKind.DEAD_LETTER,
}
_RENEWAL_OUTCOMES: Final[Mapping[type[BrokerError], RenewalOutcome]] = {
    LockLost: RenewalOutcome.LOCK_LOST,
    ServerBusy: RenewalOutcome.SERVER_BUSY,
    TimedOut: RenewalOutcome.TIMED_OUT,
}


class ManagementNode:
    """Answers the requests about one entity.

    Args:
        hub: What all connections share.
        entity: The queue, subscription, dead-letter queue or topic.
    """

    def __init__(self, hub: Hub, entity: Destination) -> None:
        self._hub = hub
        self._entity = entity
        self._operations: dict[str, Callable[[Parameters], Reply]] = {
            _RENEW_LOCK: self._renew_lock,
            "update-disposition": self._update_disposition,
            "peek-message": self._peek,
            "schedule-message": self._schedule,
            "cancel-scheduled-message": self._cancel_scheduled,
        }

    def answer(self, request: Request) -> Reply:
        """Do what is asked."""
        operation = str(request.properties.get("operation")).removeprefix(_VENDOR)
        try:
            parameters = request.body
            if not isinstance(parameters, dict):
                raise InvalidRequest("the body of the request is not a map")
            return self._run(operation, parameters)
        except BrokerError as error:
            return Reply(_failure(error))
        except DecodeError as error:
            return Reply(_failure(InvalidRequest(error.description)))

    def _run(self, operation: str, parameters: Parameters) -> Reply:
        run = self._operations.get(operation)
        if run is None:
            raise NotSupported(f"{operation} is not supported by this emulator")
        fault = None
        # A renewal meets its faults lock by lock.
        if operation != _RENEW_LOCK:
            candidate = Candidate(self._entity.path, operation)
            fault = self._hub.faults.choose(MANAGEMENT_FAULTS, candidate)
        if fault is None:
            return run(parameters)
        if fault.acts:
            run(parameters)
        raise TimedOut

    def _renew_lock(self, parameters: Parameters) -> Reply:
        queue = self._queue()
        expirations = [self._renew(queue, token) for token in _lock_tokens(parameters)]
        return _success({"expirations": Array(tuple(expirations))})

    def _renew(self, queue: Queue, token: UUID) -> Timestamp:
        message_id = self._hub.journal.message_id(token)
        candidate = Candidate(queue.path, _RENEW_LOCK, message_id)
        fault = self._hub.faults.choose(RENEWAL_FAULTS, candidate)
        outcome = RenewalOutcome.RENEWED
        try:
            return _renew_unless(fault, queue, token)
        except BrokerError as error:
            outcome = _RENEWAL_OUTCOMES[type(error)]
            raise
        finally:
            self._hub.journal.renewed(
                RenewalRecord(queue.path, message_id, token, outcome, self._hub.clock.now())
            )

    def _update_disposition(self, parameters: Parameters) -> Reply:
        queue = self._queue()
        status = parameters.get("disposition-status")
        kind = _SETTLEMENTS.get(status) if isinstance(status, str) else None
        if kind is None:
            raise InvalidRequest(f"unknown disposition {status!r}")
        settlement = Settlement(
            kind,
            reason=_text(parameters, "deadletter-reason"),
            description=_text(parameters, "deadletter-description"),
        )
        verdicts = [
            self._hub.settler.settle(queue, token, settlement, Route.MANAGEMENT)
            for token in _lock_tokens(parameters)
        ]
        for verdict in verdicts:
            if not verdict.is_answered:
                return Reply(None, cuts=verdict.cuts)
            if verdict.error is not None:
                raise verdict.error
        return _success({})

    def _peek(self, parameters: Parameters) -> Reply:
        count = min(_integer(parameters, "message-count"), MAXIMUM_PEEKED)
        from_number = _integer(parameters, "from-sequence-number")
        messages: list[Value] = []
        size_bytes = 0
        queue = self._queue()
        for entry in queue.peek(from_number, max(count, 0)):
            encoded = encode_delivery(entry.message, queue.stamps(entry))
            size_bytes += len(encoded)
            if messages and size_bytes > MAXIMUM_PEEKED_BYTES:
                break
            messages.append({"message": encoded})
        if not messages:
            return Reply(Response(_status(HTTPStatus.NO_CONTENT)))
        return _success({"messages": messages})

    def _schedule(self, parameters: Parameters) -> Reply:
        numbers = self._destination().publish(_messages(parameters))
        return _success({"sequence-numbers": Array(tuple(numbers))})

    def _cancel_scheduled(self, parameters: Parameters) -> Reply:
        numbers = parameters.get("sequence-numbers")
        if not isinstance(numbers, Array):
            raise InvalidRequest("sequence-numbers are missing")
        self._destination().cancel([item for item in numbers.items if isinstance(item, int)])
        return _success({})

    def _queue(self) -> Queue:
        return self._broker.source(self._entity.path)

    def _destination(self) -> Destination:
        return self._broker.destination(self._entity.path)

    @property
    def _broker(self) -> Broker:
        return self._hub.broker


def _renew_unless(fault: Fault | None, queue: Queue, token: UUID) -> Timestamp:
    if fault is not None and fault.kind is not FaultKind.MANAGEMENT_TIMEOUT:
        raise ServerBusy
    if fault is not None and not fault.acts:
        raise TimedOut
    locked_until = queue.renew(token)
    if fault is not None:
        raise TimedOut
    return Timestamp(round(locked_until * _MILLISECONDS))


def _lock_tokens(parameters: Parameters) -> list[UUID]:
    tokens = parameters.get("lock-tokens")
    if not isinstance(tokens, Array):
        raise InvalidRequest("lock-tokens are missing")
    return [token for token in tokens.items if isinstance(token, UUID)]


def _messages(parameters: Parameters) -> list[Message]:
    given = parameters.get("messages")
    if not isinstance(given, list):
        raise InvalidRequest("messages are missing")
    messages = []
    for each in given:
        encoded = each.get("message") if isinstance(each, dict) else None
        if not isinstance(encoded, bytes):
            raise InvalidRequest("a message to schedule is missing")
        message = parse_message(encoded)
        if message.scheduled_at is None:
            raise InvalidRequest("a message to schedule names no time")
        messages.append(message)
    return messages


def _integer(parameters: Parameters, name: str) -> int:
    value = parameters.get(name)
    if not isinstance(value, int):
        raise InvalidRequest(f"{name} is missing")
    return int(value)


def _text(parameters: Parameters, name: str) -> str | None:
    value = parameters.get(name)
    return value if isinstance(value, str) else None


def _status(status: HTTPStatus, description: str = "") -> dict[str, Value]:
    return {"statusCode": Int(status), "statusDescription": description or status.phrase}


def _success(body: Mapping[str, Value]) -> Reply:
    return Reply(Response(_status(HTTPStatus.OK), body))


def _failure(error: BrokerError) -> Response:
    properties = _status(error.status, error.description)
    properties["errorCondition"] = Symbol(error.condition)
    return Response(properties)
