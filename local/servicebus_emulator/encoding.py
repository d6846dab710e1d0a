"""The AMQP 1.0 type system: values to bytes."""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias
from uuid import UUID

from local.servicebus_emulator.wire_types import (
    Array,
    Byte,
    Character,
    Decimal,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedLong,
    UnsignedShort,
    Value,
)

_Writer: TypeAlias = Callable[[bytearray, Any], None]

_FOUR_BYTES: Final = struct.Struct(">I")


def encode(value: Value) -> bytes:
    """Return `value` in its shortest encoding.

    Raises:
        TypeError: AMQP has no type for it.
        ValueError: It is too large for its AMQP type.
    """
    output = bytearray()
    write(output, value)
    return bytes(output)


def write(output: bytearray, value: Value) -> None:
    """Append `value` in its shortest encoding.

    Raises:
        TypeError: AMQP has no type for it.
        ValueError: It is too large for its AMQP type.
    """
    writer = _WRITERS.get(type(value))
    if writer is None:
        raise TypeError(f"AMQP has no type for {type(value).__name__}")
    try:
        writer(output, value)
    except struct.error as error:
        raise ValueError(f"{type(value).__name__} out of range") from error


def _write_null(output: bytearray, _value: None) -> None:
    output.append(0x40)


def _write_bool(output: bytearray, value: bool) -> None:
    output.append(0x41 if value else 0x42)


def _fixed_writer(constructor: int, layout: str) -> _Writer:
    fixed = struct.Struct(">B" + layout)

    def write_number(output: bytearray, value: float) -> None:
        output += fixed.pack(constructor, value)

    return write_number


def _unsigned_writer(zero: int, small: int, large: int, layout: str) -> _Writer:
    wide = struct.Struct(">B" + layout)

    def write_number(output: bytearray, value: int) -> None:
        if value == 0:
            output.append(zero)
        elif 0 < value <= 0xFF:
            output.append(small)
            output.append(value)
        else:
            output += wide.pack(large, value)

    return write_number


def _signed_writer(small: int, large: int, layout: str) -> _Writer:
    narrow = struct.Struct(">Bb")
    wide = struct.Struct(">B" + layout)

    def write_number(output: bytearray, value: int) -> None:
        if -0x80 <= value <= 0x7F:
            output += narrow.pack(small, value)
        else:
            output += wide.pack(large, value)

    return write_number


def _write_character(output: bytearray, value: Character) -> None:
    output.append(0x73)
    output += value.encode("utf-32-be")


def _write_uuid(output: bytearray, value: UUID) -> None:
    output.append(0x98)
    output += value.bytes


_DECIMAL_CONSTRUCTORS: Final[Mapping[int, int]] = {4: 0x74, 8: 0x84, 16: 0x94}


def _decimal_constructor(value: Decimal) -> int:
    constructor = _DECIMAL_CONSTRUCTORS.get(len(value.encoded))
    if constructor is None:
        raise ValueError("a decimal has 4, 8 or 16 bytes")
    return constructor


def _write_decimal(output: bytearray, value: Decimal) -> None:
    output.append(_decimal_constructor(value))
    output += value.encoded


def _variable_writer(small: int) -> _Writer:
    def write_bytes(output: bytearray, value: str | bytes) -> None:
        data = value.encode() if isinstance(value, str) else value
        if len(data) <= 0xFF:
            output.append(small)
            output.append(len(data))
        else:
            output.append(small + 0x10)
            output += _FOUR_BYTES.pack(len(data))
        output += data

    return write_bytes


def _write_list(output: bytearray, value: Sequence[Value]) -> None:
    if not value:
        output.append(0x45)
        return
    items = bytearray()
    for item in value:
        write(items, item)
    write_compound(output, 0xC0, len(value), items)


def _write_map(output: bytearray, value: Mapping[Value, Value]) -> None:
    entries = bytearray()
    for key, item in value.items():
        write(entries, key)
        write(entries, item)
    write_compound(output, 0xC1, 2 * len(value), entries)


def write_compound(output: bytearray, small: int, count: int, items: bytes | bytearray) -> None:
    """Append a list, map or array whose items are encoded already.

    Args:
        output: What to append to.
        small: The constructor with one byte for size and count: 0xC0, 0xC1 or 0xE0.
        count: How many items there are; a map counts keys and values.
        items: The encoded items.
    """
    # The size includes the count.
    if len(items) + 1 <= 0xFF and count <= 0xFF:
        output += bytes((small, len(items) + 1, count))
    else:
        output.append(small + 0x10)
        output += _FOUR_BYTES.pack(len(items) + 4)
        output += _FOUR_BYTES.pack(count)
    output += items


def _write_array(output: bytearray, value: Array) -> None:
    if not value.items:
        write_compound(output, 0xE0, 0, b"\x40")
        return
    kind = type(value.items[0])
    if any(type(item) is not kind for item in value.items):
        raise TypeError("the items of an array have one type")
    constructor, write_item = _array_items(value.items[0])
    items = bytearray((constructor,))
    for item in value.items:
        write_item(items, item)
    write_compound(output, 0xE0, len(value.items), items)


def _array_items(first: Value) -> tuple[int, _Writer]:
    if isinstance(first, Decimal):
        return _decimal_constructor(first), _write_array_decimal
    found = _ARRAY_ITEMS.get(type(first))
    if found is None:
        raise TypeError(f"an array of {type(first).__name__} is not supported")
    return found


def _write_described(output: bytearray, value: Described) -> None:
    output.append(0x00)
    write(output, value.descriptor)
    write(output, value.value)


def _array_number(layout: str) -> _Writer:
    fixed = struct.Struct(layout)

    def write_item(output: bytearray, value: float) -> None:
        output += fixed.pack(value)

    return write_item


def _write_array_text(output: bytearray, value: str) -> None:
    _write_array_bytes(output, value.encode())


def _write_array_bytes(output: bytearray, value: bytes) -> None:
    output += _FOUR_BYTES.pack(len(value))
    output += value


def _write_array_null(_output: bytearray, _value: None) -> None:
    """Nothing: the constructor says it all."""


def _write_array_character(output: bytearray, value: Character) -> None:
    output += value.encode("utf-32-be")


def _write_array_decimal(output: bytearray, value: Decimal) -> None:
    output += value.encoded


def _write_array_uuid(output: bytearray, value: UUID) -> None:
    output += value.bytes


# All items of an array share one constructor, so each type has the one that fits every value.
_ARRAY_ITEMS: Final[Mapping[type, tuple[int, _Writer]]] = {
    type(None): (0x40, _write_array_null),
    bool: (0x56, _array_number(">?")),
    UnsignedByte: (0x50, _array_number(">B")),
    UnsignedShort: (0x60, _array_number(">H")),
    UnsignedInt: (0x70, _array_number(">I")),
    UnsignedLong: (0x80, _array_number(">Q")),
    Byte: (0x51, _array_number(">b")),
    Short: (0x61, _array_number(">h")),
    Int: (0x71, _array_number(">i")),
    int: (0x81, _array_number(">q")),
    Float: (0x72, _array_number(">f")),
    float: (0x82, _array_number(">d")),
    Timestamp: (0x83, _array_number(">q")),
    Character: (0x73, _write_array_character),
    UUID: (0x98, _write_array_uuid),
    bytes: (0xB0, _write_array_bytes),
    str: (0xB1, _write_array_text),
    Symbol: (0xB3, _write_array_text),
}

_WRITERS: Final[Mapping[type, _Writer]] = {
    type(None): _write_null,
    bool: _write_bool,
    UnsignedByte: _fixed_writer(0x50, "B"),
    UnsignedShort: _fixed_writer(0x60, "H"),
    UnsignedInt: _unsigned_writer(0x43, 0x52, 0x70, "I"),
    UnsignedLong: _unsigned_writer(0x44, 0x53, 0x80, "Q"),
    Byte: _fixed_writer(0x51, "b"),
    Short: _fixed_writer(0x61, "h"),
    Int: _signed_writer(0x54, 0x71, "i"),
    int: _signed_writer(0x55, 0x81, "q"),
    Float: _fixed_writer(0x72, "f"),
    float: _fixed_writer(0x82, "d"),
    Character: _write_character,
    Timestamp: _fixed_writer(0x83, "q"),
    Decimal: _write_decimal,
    UUID: _write_uuid,
    bytes: _variable_writer(0xA0),
    str: _variable_writer(0xA1),
    Symbol: _variable_writer(0xA3),
    list: _write_list,
    tuple: _write_list,
    dict: _write_map,
    Array: _write_array,
    Described: _write_described,
}
