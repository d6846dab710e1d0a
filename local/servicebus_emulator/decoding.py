"""The AMQP 1.0 type system: bytes to values.

    decode(data)                  # the value that these bytes are
    decode_from(data, position)   # a value that begins there, and where it ends
    skip(data, position)          # where the value that begins there ends

What comes from a peer is never trusted: lengths, counts and depths are checked before use, and
whatever is wrong raises `DecodeError`.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias
from uuid import UUID

from local.servicebus_emulator.errors import DecodeError
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

MAXIMUM_DEPTH: Final = 32
MAXIMUM_COUNT: Final = 65_536

_Reader: TypeAlias = Callable[[bytes, int, int], tuple[Value, int]]

_DESCRIBED: Final = 0x00
_ONE_BYTE: Final = struct.Struct(">B")
_FOUR_BYTES: Final = struct.Struct(">I")


def decode(data: bytes) -> Value:
    """Return the value that `data` is.

    Raises:
        DecodeError: The bytes are not exactly one AMQP value.
    """
    value, end = decode_from(data, 0)
    if end != len(data):
        raise DecodeError(f"{len(data) - end} bytes are left after the value")
    return value


def decode_from(data: bytes, position: int) -> tuple[Value, int]:
    """Return the value that begins at `position`, and the position after it.

    Raises:
        DecodeError: No AMQP value begins there.
    """
    try:
        return _read(data, position, 0)
    except (IndexError, struct.error) as error:
        raise DecodeError("the data ends within a value") from error
    except (UnicodeDecodeError, OverflowError) as error:
        raise DecodeError("text that is not Unicode") from error


def skip(data: bytes, position: int, depth: int = 0) -> int:
    """Return the position after the value that begins at `position`, without decoding it.

    Raises:
        DecodeError: No AMQP value begins there.
    """
    try:
        constructor = data[position]
        if constructor == _DESCRIBED:
            _check_depth(depth)
            described_at = skip(data, position + 1, depth + 1)
            return skip(data, described_at, depth + 1)
        end = position + 1 + _width(constructor, data, position + 1)
    except (IndexError, struct.error) as error:
        raise DecodeError("the data ends within a value") from error
    if end > len(data):
        raise DecodeError("the data ends within a value")
    return end


def _width(constructor: int, data: bytes, position: int) -> int:
    # The upper half of a constructor tells how many bytes follow, or how to find out.
    kind = constructor >> 4
    if kind in _FIXED_WIDTHS:
        return _FIXED_WIDTHS[kind]
    if kind in (0xA, 0xC, 0xE):
        return 1 + data[position]
    if kind in (0xB, 0xD, 0xF):
        return 4 + int(_FOUR_BYTES.unpack_from(data, position)[0])
    raise DecodeError(f"0x{constructor:02x} begins no AMQP value")


# The upper halves of the constructors of lists, maps and arrays.
_COMPOUND: Final = frozenset({0xC, 0xD, 0xE, 0xF})
_FIXED_WIDTHS: Final[Mapping[int, int]] = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}


# A reader gets the position after the constructor.


def _read(data: bytes, position: int, depth: int) -> tuple[Value, int]:
    return _reader(data[position])(data, position + 1, depth)


def _reader(constructor: int) -> _Reader:
    reader = _READERS[constructor]
    if reader is None:
        raise DecodeError(f"0x{constructor:02x} begins no AMQP value")
    return reader


def _constant(make: Callable[[], Value]) -> _Reader:
    def read(_data: bytes, position: int, _depth: int) -> tuple[Value, int]:
        return make(), position

    return read


def _number(layout: str, make: Callable[[Any], Value]) -> _Reader:
    fixed = struct.Struct(layout)

    def read(data: bytes, position: int, _depth: int) -> tuple[Value, int]:
        return make(fixed.unpack_from(data, position)[0]), position + fixed.size

    return read


def _fixed_bytes(size: int, make: Callable[[bytes], Value]) -> _Reader:
    def read(data: bytes, position: int, _depth: int) -> tuple[Value, int]:
        end = _end(data, position, size)
        return make(data[position:end]), end

    return read


def _variable_bytes(length: struct.Struct, make: Callable[[bytes], Value]) -> _Reader:
    def read(data: bytes, position: int, _depth: int) -> tuple[Value, int]:
        begin = position + length.size
        end = _end(data, begin, length.unpack_from(data, position)[0])
        return make(data[begin:end]), end

    return read


def _list(length: struct.Struct) -> _Reader:
    def read(data: bytes, position: int, depth: int) -> tuple[Value, int]:
        position, count, end = _open_compound(data, position, length, depth)
        items: list[Value] = []
        for _ in range(count):
            item, position = _read(data, position, depth + 1)
            items.append(item)
        return items, _close_compound(position, end)

    return read


def _map(length: struct.Struct) -> _Reader:
    def read(data: bytes, position: int, depth: int) -> tuple[Value, int]:
        position, count, end = _open_compound(data, position, length, depth)
        if count % 2:
            raise DecodeError("a map with a key and no value")
        entries: dict[Value, Value] = {}
        for _ in range(count // 2):
            key, position = _read(data, position, depth + 1)
            value, position = _read(data, position, depth + 1)
            try:
                entries[key] = value
            except TypeError as error:
                raise DecodeError("a map whose key is a list or a map") from error
        return entries, _close_compound(position, end)

    return read


def _array(length: struct.Struct) -> _Reader:
    def read(data: bytes, position: int, depth: int) -> tuple[Value, int]:
        position, count, end = _open_compound(data, position, length, depth)
        if count == 0:
            # Some clients leave out the constructor of an empty array.
            return Array(()), end
        constructor = data[position]
        if constructor == _DESCRIBED or constructor >> 4 in _COMPOUND:
            raise DecodeError("arrays of lists, maps, arrays or described values")
        reader = _reader(constructor)
        position += 1
        items: list[Value] = []
        for _ in range(count):
            item, position = reader(data, position, depth + 1)
            items.append(item)
        return Array(tuple(items)), _close_compound(position, end)

    return read


def _read_described(data: bytes, position: int, depth: int) -> tuple[Value, int]:
    _check_depth(depth)
    descriptor, position = _read(data, position, depth + 1)
    value, position = _read(data, position, depth + 1)
    return Described(descriptor, value), position


def _open_compound(
    data: bytes, position: int, length: struct.Struct, depth: int
) -> tuple[int, int, int]:
    """Return where the items begin, how many they are, and where they end."""
    _check_depth(depth)
    begin = position + length.size
    end = _end(data, begin, length.unpack_from(data, position)[0])
    (count,) = length.unpack_from(data, begin)
    if count > MAXIMUM_COUNT:
        raise DecodeError(f"{count} items are more than {MAXIMUM_COUNT}")
    return begin + length.size, count, end


def _close_compound(position: int, end: int) -> int:
    if position != end:
        raise DecodeError("the items of a list, map or array do not fill its size")
    return end


def _end(data: bytes, position: int, size: int) -> int:
    end = position + size
    if end > len(data):
        raise DecodeError("the data ends within a value")
    return end


def _check_depth(depth: int) -> None:
    if depth >= MAXIMUM_DEPTH:
        raise DecodeError(f"values are nested deeper than {MAXIMUM_DEPTH}")


def _text(data: bytes) -> str:
    return data.decode()


def _symbol(data: bytes) -> Symbol:
    # ASCII by the standard; some clients make symbols of any text.
    return Symbol(data.decode())


def _all_readers() -> list[_Reader | None]:
    readers: list[_Reader | None] = [None] * 256
    readers[_DESCRIBED] = _read_described
    readers[0x40] = _constant(lambda: None)
    readers[0x41] = _constant(lambda: True)
    readers[0x42] = _constant(lambda: False)
    readers[0x43] = _constant(lambda: UnsignedInt(0))
    readers[0x44] = _constant(lambda: UnsignedLong(0))
    readers[0x45] = _constant(list)
    readers[0x50] = _number(">B", UnsignedByte)
    readers[0x51] = _number(">b", Byte)
    readers[0x52] = _number(">B", UnsignedInt)
    readers[0x53] = _number(">B", UnsignedLong)
    readers[0x54] = _number(">b", Int)
    readers[0x55] = _number(">b", int)
    readers[0x56] = _number(">?", bool)
    readers[0x60] = _number(">H", UnsignedShort)
    readers[0x61] = _number(">h", Short)
    readers[0x70] = _number(">I", UnsignedInt)
    readers[0x71] = _number(">i", Int)
    readers[0x72] = _number(">f", Float)
    readers[0x73] = _fixed_bytes(4, lambda data: Character(data.decode("utf-32-be")))
    readers[0x74] = _fixed_bytes(4, Decimal)
    readers[0x80] = _number(">Q", UnsignedLong)
    readers[0x81] = _number(">q", int)
    readers[0x82] = _number(">d", float)
    readers[0x83] = _number(">q", Timestamp)
    readers[0x84] = _fixed_bytes(8, Decimal)
    readers[0x94] = _fixed_bytes(16, Decimal)
    readers[0x98] = _fixed_bytes(16, lambda data: UUID(bytes=data))
    for high, length in ((0, _ONE_BYTE), (0x10, _FOUR_BYTES)):
        readers[0xA0 + high] = _variable_bytes(length, bytes)
        readers[0xA1 + high] = _variable_bytes(length, _text)
        readers[0xA3 + high] = _variable_bytes(length, _symbol)
        readers[0xC0 + high] = _list(length)
        readers[0xC1 + high] = _map(length)
        readers[0xE0 + high] = _array(length)
    return readers


_READERS: Final = _all_readers()
