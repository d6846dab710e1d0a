"""Python types for what AMQP tells apart and Python does not.

Python's own types stand for their nearest relative: `int` for long, `float` for double, `str`
for string, `bytes` for binary, `list` and `dict` for list and map.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID


class UnsignedByte(int):
    """0 to 255."""

    __slots__ = ()


class UnsignedShort(int):
    """0 to 65,535."""

    __slots__ = ()


class UnsignedInt(int):
    """0 to 2^32 - 1."""

    __slots__ = ()


class UnsignedLong(int):
    """0 to 2^64 - 1."""

    __slots__ = ()


class Byte(int):
    """-128 to 127."""

    __slots__ = ()


class Short(int):
    """-32,768 to 32,767."""

    __slots__ = ()


class Int(int):
    """-2^31 to 2^31 - 1."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since the epoch."""

    __slots__ = ()


class Float(float):
    """A number with 32 bits."""

    __slots__ = ()


class Character(str):
    """One Unicode character."""

    __slots__ = ()


class Symbol(str):
    """A name from a constrained domain."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Decimal:
    """A decimal number, kept as it was encoded: 4, 8 or 16 bytes."""

    encoded: bytes


@dataclass(frozen=True, slots=True)
class Array:
    """Items of one type."""

    items: tuple["Value", ...]


@dataclass(frozen=True, slots=True)
class Described:
    """A value with a descriptor that gives it a meaning."""

    descriptor: "Value"
    value: "Value"


Value: TypeAlias = (
    bool
    | int
    | float
    | str
    | bytes
    | UUID
    | Decimal
    | Array
    | Described
    | Sequence["Value"]
    | Mapping[Any, "Value"]
    | None
)
