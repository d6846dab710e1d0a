"""Goal: every value survives its encoding, and no bytes do more harm than a `DecodeError`."""

import contextlib
import math
import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.servicebus_emulator.decoding import MAXIMUM_DEPTH, decode, decode_from, skip
from local.servicebus_emulator.encoding import encode
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
from tests.servicebus_emulator.support import unhurried

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


def integers(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    if signed:
        return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return st.integers(0, 2**bits - 1)


DECIMALS = {size: st.binary(min_size=size, max_size=size).map(Decimal) for size in (4, 8, 16)}
SCALARS: dict[type, st.SearchStrategy[Value]] = {
    bool: st.booleans(),
    UnsignedByte: integers(8, signed=False).map(UnsignedByte),
    UnsignedShort: integers(16, signed=False).map(UnsignedShort),
    UnsignedInt: integers(32, signed=False).map(UnsignedInt),
    UnsignedLong: integers(64, signed=False).map(UnsignedLong),
    Byte: integers(8, signed=True).map(Byte),
    Short: integers(16, signed=True).map(Short),
    Int: integers(32, signed=True).map(Int),
    int: integers(64, signed=True),
    Timestamp: integers(64, signed=True).map(Timestamp),
    Float: st.floats(width=32, allow_nan=False).map(Float),
    float: st.floats(allow_nan=False),
    UUID: st.uuids(),
    bytes: st.binary(max_size=300),
    str: TEXT,
    Symbol: TEXT.map(Symbol),
}
ITEMS = [
    st.none(),
    *SCALARS.values(),
    *DECIMALS.values(),
    st.characters(exclude_categories=["Cs"]).map(Character),
]
ATOMS = st.one_of(
    *ITEMS, *(st.lists(item, max_size=5).map(lambda each: Array(tuple(each))) for item in ITEMS)
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(TEXT, inner, max_size=5),
        st.builds(Described, st.one_of(SCALARS[UnsignedLong], SCALARS[Symbol]), inner),
    ),
    max_leaves=12,
)


def shape(value: Value) -> object:
    """A value with the type of every part of it, which equality alone would not tell apart."""
    if isinstance(value, list):
        return [shape(item) for item in value]
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, Array):
        return (Array, [shape(item) for item in value.items])
    if isinstance(value, Described):
        return (Described, shape(value.descriptor), shape(value.value))
    return (type(value), value)


@unhurried
@given(VALUES)
def test_values_survive_with_their_types(value: Value) -> None:
    assert shape(decode(encode(value))) == shape(value)


@unhurried
@given(VALUES)
def test_skipping_ends_where_decoding_ends(value: Value) -> None:
    data = b"\x40" + encode(value) + b"\x40"

    assert skip(data, 1) == decode_from(data, 1)[1] == len(data) - 1


@unhurried
@given(VALUES, st.data())
def test_a_value_that_is_cut_short_is_refused(value: Value, choice: st.DataObject) -> None:
    whole = encode(value)
    cut = whole[: choice.draw(st.integers(0, len(whole) - 1))]

    with pytest.raises(DecodeError):
        decode(cut)
    with pytest.raises(DecodeError):
        skip(cut, 0)


CONSTRUCTORS = (0x00, 0x40, 0x41, 0x45, 0x53, 0x56, 0x73, 0x84, 0xA1, 0xA3, 0xC0, 0xC1, 0xE0)


@unhurried
@given(st.lists(st.one_of(st.sampled_from(CONSTRUCTORS), st.integers(0, 8)), max_size=40))
def test_arbitrary_bytes_are_refused_or_can_be_encoded_again(octets: list[int]) -> None:
    data = bytes(octets)
    with contextlib.suppress(DecodeError):
        skip(data, 0)
    try:
        value, _ = decode_from(data, 0)
    except DecodeError:
        return
    assert shape(decode(encode(value))) == shape(value)


def test_a_number_that_is_not_a_number_survives() -> None:
    decoded = decode(encode(math.nan))

    assert isinstance(decoded, float)
    assert math.isnan(decoded)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (None, "40"),
        (True, "41"),
        (UnsignedInt(0), "43"),
        (UnsignedInt(7), "5207"),
        (UnsignedInt(256), "7000000100"),
        (UnsignedLong(0x24), "5324"),
        (-1, "55ff"),
        (1000, "8100000000000003e8"),
        ("é", "a102c3a9"),
        (Symbol("a"), "a30161"),
        (b"", "a000"),
        ([], "45"),
        ([None], "c0020140"),
        ({"a": True}, "c10502a1016141"),
        (Array((1, 2)), "e0120281" + "0000000000000001" + "0000000000000002"),
        (Described(UnsignedLong(0x24), []), "00532445"),
        (Timestamp(1), "830000000000000001"),
    ],
)
def test_encodings_are_those_of_the_standard(value: Value, encoded: str) -> None:
    assert encode(value).hex() == encoded
    assert decode(bytes.fromhex(encoded)) == value


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("5601", True),
        ("5600", False),
        ("d00000000400000000", []),
        ("e00100", Array(())),
        ("e0020040", Array(())),
        ("e0020341", Array((True, True, True))),
        ("e0020240", Array((None, None))),
        ("e0021041", Array((True,) * 16)),
        ("73000000e9", "é"),
    ],
)
def test_other_encodings_are_understood_too(encoded: str, value: Value) -> None:
    assert decode(bytes.fromhex(encoded)) == value


@pytest.mark.parametrize(
    "encoded",
    [
        "",
        "3f",
        "a2",
        "a105",
        "b1ffffffff",
        "a101ff",
        "7300110000",
        "c0020240",
        "c0030140",
        "c1020140",
        "c103024540",
        "f0ffffffff00000001",
        "d0000000040001ffff",
        "4040",
        "c00601c003014040",
        "e00a0200a30164a101780179",
        "e0040145c00101",
        "00" * 40,
    ],
    ids=lambda encoded: encoded[:20] or "nothing",
)
def test_malformed_bytes_are_refused(encoded: str) -> None:
    with pytest.raises(DecodeError):
        decode(bytes.fromhex(encoded))


def test_nesting_has_a_limit() -> None:
    value: Value = None
    for _ in range(MAXIMUM_DEPTH):
        value = [value]
    assert decode(encode(value)) == value

    with pytest.raises(DecodeError, match="nested deeper"):
        decode(encode([value]))


def test_items_have_a_limit() -> None:
    count = 70_000
    nulls_in_an_array = b"\xf0" + struct.pack(">II", 5, count) + b"\x40"

    with pytest.raises(DecodeError, match="more than"):
        decode(nulls_in_an_array)


@pytest.mark.parametrize(
    "value", [UnsignedByte(256), UnsignedInt(-1), Int(2**31), 2**63, Decimal(b"123")]
)
def test_what_does_not_fit_is_refused(value: Value) -> None:
    with pytest.raises(ValueError, match=r"out of range|a decimal has"):
        encode(value)


@pytest.mark.parametrize("items", [(1, "a"), ([], []), (Described("d", 1),)])
def test_arrays_that_cannot_be_encoded_are_refused(items: tuple[Value, ...]) -> None:
    with pytest.raises(TypeError, match="array"):
        encode(Array(items))


def test_what_amqp_has_no_type_for_is_refused() -> None:
    with pytest.raises(TypeError, match="no type"):
        encode(object())  # type: ignore[arg-type]
