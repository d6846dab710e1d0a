"""Goal: frames and performatives are cut out of any stream of bytes, or the stream is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.servicebus_emulator.encoding import encode
from local.servicebus_emulator.errors import ConnectionFailure, DecodeError
from local.servicebus_emulator.frames import (
    AMQP_HEADER,
    HEARTBEAT,
    MAXIMUM_FRAME_BYTES,
    SASL_HEADER,
    Frame,
    FrameReader,
    FrameType,
    ProtocolHeader,
    encode_frame,
)
from local.servicebus_emulator.performatives import (
    Accepted,
    Attach,
    Begin,
    Composite,
    Detach,
    Disposition,
    Error,
    Flow,
    Modified,
    Open,
    Received,
    Rejected,
    Released,
    SaslInit,
    SaslMechanisms,
    Transfer,
    composite_from,
    decode_performative,
    described,
    encode_performative,
    error_of,
    outcome_from,
)
from local.servicebus_emulator.wire_types import (
    Described,
    Symbol,
    UnsignedInt,
    UnsignedLong,
    UnsignedShort,
    Value,
)
from tests.servicebus_emulator.support import unhurried

PERFORMATIVES: list[Composite] = [
    Open("me", max_frame_size=UnsignedInt(512), properties={Symbol("product"): "x"}),
    Begin(UnsignedShort(1), UnsignedInt(0), UnsignedInt(10), UnsignedInt(10)),
    Attach("link", UnsignedInt(1), True, target=described(Error(Symbol("any")))),
    Flow(None, UnsignedInt(1), UnsignedInt(2), UnsignedInt(3), drain=True),
    Transfer(UnsignedInt(1), UnsignedInt(2), b"tag", settled=True, more=False),
    Disposition(True, UnsignedInt(1), state=described(Accepted())),
    Detach(UnsignedInt(1), error=error_of("amqp:not-found", "no")),
    SaslMechanisms([Symbol("ANONYMOUS")]),
    SaslInit(Symbol("ANONYMOUS"), b""),
]


def take_all(reader: FrameReader) -> list[ProtocolHeader | Frame]:
    taken = []
    while (unit := reader.take()) is not None:
        taken.append(unit)
    return taken


@unhurried
@given(
    st.lists(
        st.tuples(st.integers(0, 0xFFFF), st.binary(max_size=300), st.sampled_from(FrameType)),
        max_size=8,
    ),
    st.lists(st.integers(1, 50), min_size=1, max_size=10),
)
def test_frames_survive_however_they_are_cut(
    given_frames: list[tuple[int, bytes, FrameType]], sizes: list[int]
) -> None:
    stream = AMQP_HEADER + b"".join(encode_frame(*each) for each in given_frames)
    reader = FrameReader()
    taken: list[ProtocolHeader | Frame] = []
    position = step = 0
    while position < len(stream):
        size = sizes[step % len(sizes)]
        reader.feed(stream[position : position + size])
        taken += take_all(reader)
        position, step = position + size, step + 1

    expected = [Frame(kind, channel, body) for channel, body, kind in given_frames]
    assert taken == [ProtocolHeader(AMQP_HEADER), *expected]


def test_a_header_may_come_again() -> None:
    reader = FrameReader()
    reader.feed(SASL_HEADER + HEARTBEAT)
    assert take_all(reader) == [ProtocolHeader(SASL_HEADER), Frame(0, 0, b"")]

    reader.expect_header()
    reader.feed(AMQP_HEADER)
    assert take_all(reader) == [ProtocolHeader(AMQP_HEADER)]


def test_an_extended_frame_header_is_left_out() -> None:
    reader = FrameReader()
    reader.feed(AMQP_HEADER + b"\x00\x00\x00\x0e\x03\x00\x00\x05" + b"more" + b"hi")

    assert take_all(reader)[1] == Frame(0, 5, b"hi")


@pytest.mark.parametrize(
    "frame",
    [
        b"\x00\x00\x00\x07\x02\x00\x00\x00",
        b"\x00\x00\x00\x08\x01\x00\x00\x00",
        b"\x00\x00\x00\x08\x03\x00\x00\x00",
        (MAXIMUM_FRAME_BYTES + 1).to_bytes(4, "big") + b"\x02\x00\x00\x00",
    ],
    ids=["too short", "offset too small", "offset too large", "too large"],
)
def test_what_is_no_frame_is_refused_before_it_is_there(frame: bytes) -> None:
    reader = FrameReader()
    reader.feed(AMQP_HEADER + frame)
    reader.take()

    with pytest.raises(ConnectionFailure) as failure:
        reader.take()
    assert failure.value.condition == "amqp:connection:framing-error"


@pytest.mark.parametrize("performative", PERFORMATIVES, ids=lambda each: type(each).__name__)
def test_performatives_survive(performative: Composite) -> None:
    body = encode_performative(performative) + b"payload"

    assert decode_performative(body) == (performative, b"payload")


def test_trailing_fields_may_be_left_out() -> None:
    body = encode(Described(UnsignedLong(0x14), [UnsignedInt(3)]))

    assert decode_performative(body) == (Transfer(UnsignedInt(3)), b"")


@pytest.mark.parametrize(
    "value",
    [
        "text",
        Described(UnsignedLong(0x14), "text"),
        Described(UnsignedLong(0x99), []),
        Described(Symbol("amqp:open:list"), ["me"]),
        Described(UnsignedLong(0x14), []),
        Described(UnsignedLong(0x17), [None, None]),
        Described(UnsignedLong(0x14), ["text"]),
        Described(UnsignedLong(0x12), ["link", UnsignedInt(1), None]),
        Described(UnsignedLong(0x14), [UnsignedLong(1)]),
    ],
    ids=repr,
)
def test_what_is_no_performative_is_refused(value: Value) -> None:
    with pytest.raises(DecodeError):
        composite_from(value)


def test_delivery_states_are_final_or_not() -> None:
    for outcome in (Accepted(), Rejected(), Released(), Modified(delivery_failed=True)):
        assert outcome_from(described(outcome)) == outcome
    assert outcome_from(None) is None
    assert outcome_from(described(Received(UnsignedInt(0), UnsignedLong(0)))) is None

    with pytest.raises(DecodeError, match="no delivery state"):
        outcome_from(described(Error(Symbol("amqp:not-found"))))
