"""The composite types that travel in frames: performatives, SASL, outcomes, errors.

The annotation of a field says which wire types it may have. Whatever is decoded was checked
against it; a field annotated with `Value` may be anything.
"""

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from operator import attrgetter
from typing import Any, Final, TypeAlias

from local.servicebus_emulator.decoding import decode_from
from local.servicebus_emulator.encoding import encode
from local.servicebus_emulator.errors import DecodeError
from local.servicebus_emulator.wire_types import (
    Described,
    Symbol,
    UnsignedByte,
    UnsignedInt,
    UnsignedLong,
    UnsignedShort,
    Value,
)

# What a boolean called `role` means.
SENDER: Final = False
RECEIVER: Final = True

SETTLED: Final = UnsignedByte(1)


@dataclass(frozen=True, slots=True)
class Open:
    """Opens a connection."""

    container_id: str
    hostname: str | None = None
    max_frame_size: UnsignedInt | None = None
    channel_max: UnsignedShort | None = None
    idle_time_out: UnsignedInt | None = None
    outgoing_locales: Value = None
    incoming_locales: Value = None
    offered_capabilities: Value = None
    desired_capabilities: Value = None
    properties: Value = None


@dataclass(frozen=True, slots=True)
class Begin:
    """Begins a session on a channel."""

    remote_channel: UnsignedShort | None
    next_outgoing_id: UnsignedInt
    incoming_window: UnsignedInt
    outgoing_window: UnsignedInt
    handle_max: UnsignedInt | None = None
    offered_capabilities: Value = None
    desired_capabilities: Value = None
    properties: Value = None


@dataclass(frozen=True, slots=True)
class Attach:
    """Attaches a link to a session."""

    name: str
    handle: UnsignedInt
    role: bool
    snd_settle_mode: UnsignedByte | None = None
    rcv_settle_mode: UnsignedByte | None = None
    source: Described | None = None
    target: Described | None = None
    unsettled: Value = None
    incomplete_unsettled: bool | None = None
    initial_delivery_count: UnsignedInt | None = None
    max_message_size: UnsignedLong | None = None
    offered_capabilities: Value = None
    desired_capabilities: Value = None
    properties: Value = None


@dataclass(frozen=True, slots=True)
class Flow:
    """Tells how much more may be sent, on the session and on one link."""

    next_incoming_id: UnsignedInt | None
    incoming_window: UnsignedInt
    next_outgoing_id: UnsignedInt
    outgoing_window: UnsignedInt
    handle: UnsignedInt | None = None
    delivery_count: UnsignedInt | None = None
    link_credit: UnsignedInt | None = None
    available: UnsignedInt | None = None
    drain: bool | None = None
    echo: bool | None = None
    properties: Value = None


@dataclass(frozen=True, slots=True)
class Transfer:
    """Carries a message or a part of one; the payload follows it in the frame."""

    handle: UnsignedInt
    delivery_id: UnsignedInt | None = None
    delivery_tag: bytes | None = None
    message_format: UnsignedInt | None = None
    settled: bool | None = None
    more: bool | None = None
    rcv_settle_mode: UnsignedByte | None = None
    state: Value = None
    resume: bool | None = None
    aborted: bool | None = None
    batchable: bool | None = None


@dataclass(frozen=True, slots=True)
class Disposition:
    """Tells the state of deliveries."""

    role: bool
    first: UnsignedInt
    last: UnsignedInt | None = None
    settled: bool | None = None
    state: Value = None
    batchable: bool | None = None


@dataclass(frozen=True, slots=True)
class Detach:
    """Detaches a link."""

    handle: UnsignedInt
    closed: bool | None = None
    error: Described | None = None


@dataclass(frozen=True, slots=True)
class End:
    """Ends a session."""

    error: Described | None = None


@dataclass(frozen=True, slots=True)
class Close:
    """Closes a connection."""

    error: Described | None = None


@dataclass(frozen=True, slots=True)
class SaslMechanisms:
    """Which mechanisms the server offers."""

    mechanisms: Value


@dataclass(frozen=True, slots=True)
class SaslInit:
    """Which mechanism the client chose."""

    mechanism: Symbol
    initial_response: bytes | None = None
    hostname: str | None = None


@dataclass(frozen=True, slots=True)
class SaslOutcome:
    """How the authentication ended; 0 is success."""

    code: UnsignedByte
    additional_data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """A delivery that is still under way."""

    section_number: Value = None
    section_offset: Value = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """The delivery was dealt with."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The delivery is not valid, or (from a receiver) is to be dead-lettered."""

    error: Described | None = None


@dataclass(frozen=True, slots=True)
class Released:
    """The delivery was not looked at."""


@dataclass(frozen=True, slots=True)
class Modified:
    """The delivery was looked at and given back."""

    delivery_failed: bool | None = None
    undeliverable_here: bool | None = None
    message_annotations: Value = None


@dataclass(frozen=True, slots=True)
class Error:
    """What went wrong."""

    condition: Symbol
    description: str | None = None
    info: Value = None


Composite: TypeAlias = (
    Open
    | Begin
    | Attach
    | Flow
    | Transfer
    | Disposition
    | Detach
    | End
    | Close
    | SaslMechanisms
    | SaslInit
    | SaslOutcome
    | Received
    | Accepted
    | Rejected
    | Released
    | Modified
    | Error
)
Outcome: TypeAlias = Accepted | Rejected | Released | Modified

_CODES: Final[Mapping[int, type[Composite]]] = {
    0x10: Open,
    0x11: Begin,
    0x12: Attach,
    0x13: Flow,
    0x14: Transfer,
    0x15: Disposition,
    0x16: Detach,
    0x17: End,
    0x18: Close,
    0x1D: Error,
    0x23: Received,
    0x24: Accepted,
    0x25: Rejected,
    0x26: Released,
    0x27: Modified,
    0x40: SaslMechanisms,
    0x41: SaslInit,
    0x44: SaslOutcome,
}


class _Layout:
    """How a composite type is laid out as a list."""

    def __init__(self, code: int, composite_type: type[Composite]) -> None:
        self.descriptor = UnsignedLong(code)
        hints = typing.get_type_hints(composite_type)
        names = [field.name for field in fields(composite_type)]
        self.names = names
        self.allowed = [_allowed_types(hints[name]) for name in names]
        self.required_count = sum(field.default is MISSING for field in fields(composite_type))
        self.values = _values_of(names)


def _allowed_types(hint: Any) -> tuple[type, ...]:
    members = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    # Lists and maps of anything occur in `Value` alone.
    return (object,) if any(map(typing.get_origin, members)) else tuple(members)


def _values_of(names: list[str]) -> Callable[[Any], list[Value]]:
    if not names:
        return lambda _composite: []
    if len(names) == 1:
        name = names[0]
        return lambda composite: [getattr(composite, name)]
    getter = attrgetter(*names)
    return lambda composite: list(getter(composite))


_LAYOUTS: Final[Mapping[type[Composite], _Layout]] = {
    composite_type: _Layout(code, composite_type) for code, composite_type in _CODES.items()
}


def described(composite: Composite) -> Described:
    """Return a composite as the described list that travels, every field included."""
    layout = _LAYOUTS[type(composite)]
    return Described(layout.descriptor, layout.values(composite))


def encode_performative(performative: Composite) -> bytes:
    """Return the encoded performative."""
    return encode(described(performative))


def decode_performative(body: bytes) -> tuple[Composite, bytes]:
    """Return the performative at the beginning of a frame's body, and the payload after it.

    Raises:
        DecodeError: The body does not begin with a known performative.
    """
    value, end = decode_from(body, 0)
    return composite_from(value), body[end:]


def composite_from(value: Value) -> Composite:
    """Return the composite that a described list stands for.

    Raises:
        DecodeError: It is no known composite type, or a field has the wrong type.
    """
    if not isinstance(value, Described) or not isinstance(value.value, list):
        raise DecodeError("not a composite type")
    composite_type = _CODES.get(value.descriptor) if isinstance(value.descriptor, int) else None
    if composite_type is None:
        raise DecodeError(f"unknown composite type {value.descriptor!r}")
    layout = _LAYOUTS[composite_type]
    _check_fields(composite_type.__name__, layout, value.value)
    # What each field may be was just checked, which no type checker can follow.
    make: Callable[..., Composite] = composite_type
    return make(*value.value)


def _check_fields(name: str, layout: _Layout, values: list[Value]) -> None:
    if not layout.required_count <= len(values) <= len(layout.names):
        raise DecodeError(f"{name} has {len(values)} fields")
    for index, value in enumerate(values):
        if not isinstance(value, layout.allowed[index]):
            found = type(value).__name__
            raise DecodeError(f"{layout.names[index]} of {name} cannot be a {found}")


def error_of(condition: str, description: str, info: Value = None) -> Described:
    """Return an error as it travels."""
    return described(Error(Symbol(condition), description, info))


def rejected(condition: str, description: str) -> Rejected:
    """Return the outcome that says what was wrong with a delivery."""
    return Rejected(error_of(condition, description))


def outcome_from(state: Value) -> Outcome | None:
    """Return the outcome that a delivery state is, or None when it is not final.

    Raises:
        DecodeError: It is no delivery state.
    """
    if state is None:
        return None
    composite = composite_from(state)
    if isinstance(composite, Accepted | Rejected | Released | Modified):
        return composite
    if isinstance(composite, Received):
        return None
    raise DecodeError(f"{type(composite).__name__} is no delivery state")
