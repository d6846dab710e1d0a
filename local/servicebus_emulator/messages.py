"""Messages: taken apart as they were published, put together for each delivery.

What the publisher encoded stays as it is, byte for byte. Only the header, the message
annotations and the two properties of a dead letter are the broker's to write.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from local.servicebus_emulator.decoding import decode_from, skip
from local.servicebus_emulator.encoding import encode, write, write_compound
from local.servicebus_emulator.errors import DecodeError, NotSupported
from local.servicebus_emulator.sections import Section, section_value, split_sections
from local.servicebus_emulator.wire_types import (
    Described,
    Int,
    Symbol,
    Timestamp,
    UnsignedInt,
    UnsignedLong,
    Value,
)

MAXIMUM_MESSAGE_BYTES: Final = 256 * 1024
# Each data section of a message with this format is an encoded message of its own.
BATCH_FORMAT: Final = 0x80013700

DEAD_LETTER_REASON: Final = "DeadLetterReason"
DEAD_LETTER_DESCRIPTION: Final = "DeadLetterErrorDescription"

_SMALL_MAP: Final = 0xC1

_SCHEDULED_ENQUEUE_TIME: Final = "x-opt-scheduled-enqueue-time"
_BROKER_ANNOTATIONS: Final = frozenset(
    {
        "x-opt-sequence-number",
        "x-opt-enqueue-sequence-number",
        "x-opt-enqueued-time",
        "x-opt-locked-until",
        "x-opt-message-state",
    }
)
_MILLISECONDS: Final = 1000


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was published.

    Attributes:
        message_id: Its id as text; empty when it has none.
        scheduled_at: When it becomes available, in seconds since the epoch, or None: at once.
        size_bytes: The size of the whole.
        durable: From its header.
        priority: From its header.
        annotations: The encoded annotations that are not the broker's to write.
        properties: The encoded section, or nothing.
        application_properties: Each encoded key and value by its key.
        body: The encoded sections from the body on.
    """

    message_id: str
    scheduled_at: float | None
    size_bytes: int
    durable: Value
    priority: Value
    annotations: tuple[bytes, ...]
    properties: bytes
    application_properties: Mapping[Value, bytes]
    body: bytes


@dataclass(frozen=True, slots=True)
class Stamps:
    """What the broker writes on a message for one delivery.

    Times are in seconds since the epoch. `state` is 0 for active, 2 for scheduled.
    """

    delivery_count: int
    sequence_number: int
    enqueued_sequence_number: int
    enqueued_at: float
    locked_until: float | None = None
    state: int = 0
    dead_letter_reason: str | None = None
    dead_letter_description: str | None = None


def parse_transfer(message_format: int, payload: bytes) -> list[Message]:
    """Return the messages that one transfer carries: one, or the many of a batch.

    Raises:
        DecodeError: The payload is no message.
        NotSupported: A message asks for what the emulator does not have.
    """
    if message_format != BATCH_FORMAT:
        return [parse_message(payload)]
    messages = []
    for section, encoded in split_sections(payload):
        if section is Section.DATA:
            messages.append(parse_message(_binary(encoded)))
    return messages


def parse_message(data: bytes) -> Message:
    """Return the message that `data` is.

    Raises:
        DecodeError: It is no message.
        NotSupported: It asks for what the emulator does not have.
    """
    sections: dict[Section, bytes] = {}
    body = bytearray()
    for section, encoded in split_sections(data):
        if section in (Section.DATA, Section.SEQUENCE, Section.VALUE, Section.FOOTER):
            body += encoded
        else:
            sections[section] = encoded
    durable, priority = _parse_header(sections.get(Section.HEADER))
    properties = sections.get(Section.PROPERTIES, b"")
    annotations = _parse_map(sections.get(Section.MESSAGE_ANNOTATIONS))
    return Message(
        message_id=_parse_message_id(properties),
        scheduled_at=_parse_scheduled_time(annotations),
        size_bytes=len(data),
        durable=durable,
        priority=priority,
        annotations=tuple(
            entry for key, entry in annotations.items() if key not in _BROKER_ANNOTATIONS
        ),
        properties=properties,
        application_properties=_parse_map(sections.get(Section.APPLICATION_PROPERTIES)),
        body=bytes(body),
    )


def encode_delivery(message: Message, stamps: Stamps) -> bytes:
    """Return a message as one delivery carries it."""
    output = bytearray(_encode_header(message, stamps))
    _write_annotations(output, message, stamps)
    output += message.properties
    _write_application_properties(output, message, stamps)
    output += message.body
    return bytes(output)


def _binary(section: bytes) -> bytes:
    value = section_value(section)
    if not isinstance(value, bytes):
        raise DecodeError("a data section is not binary")
    return value


def _parse_header(section: bytes | None) -> tuple[Value, Value]:
    if section is None:
        return None, None
    fields = section_value(section)
    if not isinstance(fields, list):
        raise DecodeError("a message header is not a list")
    durable, priority, time_to_live, *_ = [*fields, None, None, None]
    if time_to_live is not None:
        # To accept it and then never to expire would be the worse answer.
        raise NotSupported("time to live is not supported by this emulator")
    return durable, priority


def _parse_message_id(section: bytes) -> str:
    if not section:
        return ""
    fields = section_value(section)
    if not isinstance(fields, list):
        raise DecodeError("message properties are not a list")
    message_id = fields[0] if fields else None
    if message_id is None:
        return ""
    return message_id.hex() if isinstance(message_id, bytes) else str(message_id)


def _parse_scheduled_time(annotations: Mapping[Value, bytes]) -> float | None:
    entry = annotations.get(_SCHEDULED_ENQUEUE_TIME)
    if entry is None:
        return None
    scheduled, _ = decode_from(entry, skip(entry, 0))
    if scheduled is None:
        return None
    if not isinstance(scheduled, int):
        raise DecodeError(f"{_SCHEDULED_ENQUEUE_TIME} is not a timestamp")
    return scheduled / _MILLISECONDS


def _parse_map(section: bytes | None) -> dict[Value, bytes]:
    """Return each encoded key and value of a map section by its key."""
    if section is None:
        return {}
    # Decoding all of it is the check that its entries can be taken apart.
    decoded = section_value(section)
    if decoded is None:
        return {}
    if not isinstance(decoded, dict):
        raise DecodeError("a section with annotations or properties is not a map")
    map_at = skip(section, 1)
    header_bytes = _map_header_bytes(section[map_at])
    entries: dict[Value, bytes] = {}
    position = map_at + header_bytes
    while position < len(section):
        key, value_at = decode_from(section, position)
        end = skip(section, value_at)
        entries[key] = section[position:end]
        position = end
    return entries


def _map_header_bytes(constructor: int) -> int:
    # The constructor, then size and count with one byte each or with four.
    return 3 if constructor == _SMALL_MAP else 9


def _encode_header(message: Message, stamps: Stamps) -> bytes:
    return encode(
        Described(
            UnsignedLong(Section.HEADER),
            [message.durable, message.priority, None, None, UnsignedInt(stamps.delivery_count)],
        )
    )


def _write_annotations(output: bytearray, message: Message, stamps: Stamps) -> None:
    entries = bytearray(b"".join(message.annotations))
    stamped: dict[str, Value] = {
        "x-opt-sequence-number": stamps.sequence_number,
        "x-opt-enqueue-sequence-number": stamps.enqueued_sequence_number,
        "x-opt-enqueued-time": _timestamp(stamps.enqueued_at),
        "x-opt-message-state": Int(stamps.state),
    }
    if stamps.locked_until is not None:
        stamped["x-opt-locked-until"] = _timestamp(stamps.locked_until)
    for key, value in stamped.items():
        write(entries, Symbol(key))
        write(entries, value)
    count = len(message.annotations) + len(stamped)
    _write_map_section(output, Section.MESSAGE_ANNOTATIONS, count, entries)


def _write_application_properties(output: bytearray, message: Message, stamps: Stamps) -> None:
    entries = dict(message.application_properties)
    for key, text in (
        (DEAD_LETTER_REASON, stamps.dead_letter_reason),
        (DEAD_LETTER_DESCRIPTION, stamps.dead_letter_description),
    ):
        if text is not None:
            entries[key] = encode(key) + encode(text)
    if entries:
        joined = b"".join(entries.values())
        _write_map_section(output, Section.APPLICATION_PROPERTIES, len(entries), joined)


def _write_map_section(
    output: bytearray, section: Section, entry_count: int, entries: bytes | bytearray
) -> None:
    output.append(0)
    write(output, UnsignedLong(section))
    write_compound(output, _SMALL_MAP, 2 * entry_count, entries)


def _timestamp(seconds: float) -> Timestamp:
    return Timestamp(round(seconds * _MILLISECONDS))
