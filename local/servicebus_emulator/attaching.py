"""What a client may attach a link to, and which link that becomes."""

from typing import Final, Protocol

from local.servicebus_emulator import management, tokens
from local.servicebus_emulator.broker import Destination, entity_path
from local.servicebus_emulator.errors import (
    DECODE_ERROR,
    INVALID_FIELD,
    BrokerError,
    DecodeError,
    NotSupported,
    Refused,
)
from local.servicebus_emulator.exchange import RequestTarget
from local.servicebus_emulator.faults import SEND_FAULTS, Candidate, FaultPlan
from local.servicebus_emulator.hub import Hub
from local.servicebus_emulator.incoming import IncomingLink, Target
from local.servicebus_emulator.links import Link, LinkPort
from local.servicebus_emulator.messages import Message, parse_transfer
from local.servicebus_emulator.outgoing import DeliveryLink, ResponseLink
from local.servicebus_emulator.performatives import (
    SENDER,
    SETTLED,
    Accepted,
    Attach,
    Outcome,
    rejected,
)
from local.servicebus_emulator.wire_types import Described, Value

SESSION_FILTER: Final = "com.microsoft:session-filter"

_SEND: Final = "send"
_SOURCE: Final = 0x28
_TARGET: Final = 0x29
_COORDINATOR: Final = 0x30
_ADDRESS: Final = 0
_DYNAMIC: Final = 4
_FILTERS: Final = 7


class AttachPort(LinkPort, Protocol):
    """What attaching needs of the session."""

    def find_response_link(self, node: str, reply_to: str | None) -> ResponseLink | None:
        """Return the link for an answer of a node, the one that reply-to names if possible."""
        ...


class InvalidAddress(BrokerError):
    """A link names nothing that it could be attached to."""

    condition = INVALID_FIELD


class PublishTarget:
    """Publishes what a client sends.

    Args:
        destination: The queue or topic.
        faults: What keeps messages out.
    """

    def __init__(self, destination: Destination, faults: FaultPlan) -> None:
        self._destination = destination
        self._faults = faults

    def accept(self, message_format: int, payload: bytes) -> Outcome:
        """Take one message or a batch in, and return what the client is told."""
        fault = self._faults.choose(SEND_FAULTS, Candidate(self._destination.path, _SEND))
        if fault is not None:
            refused = Refused(fault.condition)
            return rejected(refused.condition, refused.description)
        try:
            messages: list[Message] = parse_transfer(message_format, payload)
            self._destination.publish(messages)
        except DecodeError as error:
            return rejected(DECODE_ERROR, error.description)
        except BrokerError as error:
            return rejected(error.condition, error.description)
        return Accepted()


def open_link(hub: Hub, port: AttachPort, attach: Attach) -> Link:
    """Return the link that a client asks for.

    Raises:
        BrokerError: It cannot have it.
    """
    handle = int(attach.handle)
    if attach.role is SENDER:
        path = entity_path(_address(attach.target, _TARGET))
        counted = int(attach.initial_delivery_count or 0)
        return IncomingLink(port, handle, _target(hub, port, path), counted)
    path = entity_path(_address(attach.source, _SOURCE))
    if _is_node(path):
        return ResponseLink(port, handle, path.lower(), _reply_address(attach))
    if SESSION_FILTER in _filters(attach.source):
        raise NotSupported("sessions are not supported by this emulator")
    deletes = attach.snd_settle_mode == SETTLED
    return DeliveryLink(port, handle, hub, hub.broker.source(path), deletes=deletes)


def _target(hub: Hub, port: AttachPort, path: str) -> Target:
    if not _is_node(path):
        return PublishTarget(hub.broker.destination(path), hub.faults)
    node = path.lower()

    def find_response_link(reply_to: str | None) -> ResponseLink | None:
        return port.find_response_link(node, reply_to)

    if node == tokens.NODE:
        return RequestTarget(port, tokens.TokenNode(hub.faults), find_response_link)
    entity = hub.broker.entity(path[: -len(management.SUFFIX)])
    return RequestTarget(port, management.ManagementNode(hub, entity), find_response_link)


def _is_node(path: str) -> bool:
    return path.lower() == tokens.NODE or path.lower().endswith(management.SUFFIX)


def _address(terminus: Described | None, descriptor: int) -> str:
    fields = _fields(terminus)
    if terminus is not None and terminus.descriptor == _COORDINATOR:
        raise NotSupported("transactions are not supported by this emulator")
    if terminus is not None and terminus.descriptor != descriptor:
        raise InvalidAddress("the link has no usable address")
    if _field(fields, _DYNAMIC) is True:
        raise NotSupported("dynamic addresses are not supported by this emulator")
    address = _field(fields, _ADDRESS)
    if not isinstance(address, str) or not address:
        raise InvalidAddress("the link has no usable address")
    return address


def _reply_address(attach: Attach) -> str:
    address = _field(_fields(attach.target), _ADDRESS)
    return address if isinstance(address, str) else ""


def _filters(source: Described | None) -> dict[Value, Value]:
    filters = _field(_fields(source), _FILTERS)
    return filters if isinstance(filters, dict) else {}


def _fields(terminus: Described | None) -> list[Value]:
    value = None if terminus is None else terminus.value
    return value if isinstance(value, list) else []


def _field(fields: list[Value], index: int) -> Value:
    return fields[index] if index < len(fields) else None
