"""Goal: a delivered message is what was published, plus what the broker has to say."""

import contextlib

import pytest
from azure.servicebus import ServiceBusReceivedMessage
from hypothesis import given
from hypothesis import strategies as st

from local.servicebus_emulator.errors import DecodeError, NotSupported
from local.servicebus_emulator.messages import (
    BATCH_FORMAT,
    Stamps,
    encode_delivery,
    parse_message,
    parse_transfer,
)
from local.servicebus_emulator.sections import Section, section_value, split_sections
from local.servicebus_emulator.wire_types import (
    Symbol,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedLong,
    Value,
)
from tests.servicebus_emulator.support import EPOCH, encoded_message, section, unhurried

STAMPS = Stamps(
    delivery_count=2,
    sequence_number=7,
    enqueued_sequence_number=5,
    enqueued_at=EPOCH,
    locked_until=EPOCH + 30.5,
)


def sections_of(data: bytes) -> dict[Section, Value]:
    return {kind: section_value(encoded) for kind, encoded in split_sections(data)}


def test_the_broker_stamps_header_and_annotations() -> None:
    delivered = sections_of(encode_delivery(parse_message(encoded_message()), STAMPS))

    assert delivered[Section.HEADER] == [None, None, None, None, 2]
    assert delivered[Section.MESSAGE_ANNOTATIONS] == {
        "x-opt-partition-key": "p",
        "x-opt-sequence-number": 7,
        "x-opt-enqueue-sequence-number": 5,
        "x-opt-enqueued-time": round(EPOCH * 1000),
        "x-opt-message-state": 0,
        "x-opt-locked-until": round((EPOCH + 30.5) * 1000),
    }


def test_the_rest_stays_byte_for_byte() -> None:
    properties = section(0x73, ["id", b"user", "to", "subject"])
    application_properties = section(0x74, {"count": UnsignedByte(3), "text": "x" * 300})
    body = section(0x76, [1, 2]) + section(0x76, ["three"])
    footer = section(0x78, {Symbol("f"): b"\x00"})
    published = properties + application_properties + body + footer

    assert encode_delivery(parse_message(published), STAMPS).endswith(published)


def test_stamps_of_an_earlier_delivery_are_replaced() -> None:
    message = parse_message(encoded_message())
    again = parse_message(encode_delivery(message, STAMPS))
    delivered = sections_of(encode_delivery(again, Stamps(0, 9, 9, EPOCH)))

    annotations = delivered[Section.MESSAGE_ANNOTATIONS]
    assert isinstance(annotations, dict)
    assert annotations["x-opt-sequence-number"] == 9
    assert "x-opt-locked-until" not in annotations
    assert delivered[Section.HEADER] == [None, None, None, None, 0]


def test_durability_and_priority_are_kept() -> None:
    published = section(0x70, [True, UnsignedByte(9)]) + encoded_message()
    delivered = sections_of(encode_delivery(parse_message(published), STAMPS))

    assert delivered[Section.HEADER] == [True, 9, None, None, 2]


@pytest.mark.parametrize("application_properties", [None, {}, {"DeadLetterReason": "older"}])
def test_a_dead_letter_says_why(application_properties: dict[Value, Value] | None) -> None:
    published = section(0x75, b"body")
    if application_properties is not None:
        published = section(0x74, {**application_properties, "kept": 1}) + published
    stamps = Stamps(1, 1, 1, EPOCH, dead_letter_reason="why", dead_letter_description="because")
    delivered = sections_of(encode_delivery(parse_message(published), stamps))

    kept = {} if application_properties is None else {"kept": 1}
    assert delivered[Section.APPLICATION_PROPERTIES] == {
        **kept,
        "DeadLetterReason": "why",
        "DeadLetterErrorDescription": "because",
    }
    assert delivered[Section.DATA] == b"body"


def test_the_client_reads_it() -> None:
    delivered = encode_delivery(parse_message(encoded_message("id-1", b"body")), STAMPS)
    received = ServiceBusReceivedMessage.from_bytes(delivered)

    assert (received.message_id, received.sequence_number, received.delivery_count) == (
        "id-1",
        7,
        2,
    )
    assert b"".join(received.body) == b"body"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("text", "text"),
        (UnsignedLong(7), "7"),
        (b"\x01\xff", "01ff"),
        (None, ""),
    ],
)
def test_message_ids_of_every_type_are_known_as_text(given: Value, text: str) -> None:
    assert parse_message(encoded_message(given)).message_id == text
    assert parse_message(section(0x75, b"")).message_id == ""


def test_a_batch_holds_messages() -> None:
    batch = b"".join(section(0x75, encoded_message(f"m-{number}")) for number in range(3))

    ids = [message.message_id for message in parse_transfer(BATCH_FORMAT, batch)]
    assert ids == ["m-0", "m-1", "m-2"]
    assert len(parse_transfer(0, batch)) == 1


def test_a_time_in_the_annotations_is_the_schedule() -> None:
    assert parse_message(encoded_message(scheduled_at=EPOCH)).scheduled_at == EPOCH
    assert parse_message(encoded_message()).scheduled_at is None


def test_time_to_live_is_refused_rather_than_ignored() -> None:
    with pytest.raises(NotSupported, match="time to live"):
        parse_message(section(0x70, [None, None, UnsignedInt(1000)]) + encoded_message())


@pytest.mark.parametrize(
    "data",
    [
        b"\x40",
        section(0x79, b""),
        section(0x70, "not a list"),
        section(0x72, "not a map"),
        section(0x73, "not a list"),
        section(0x72, {Symbol("x-opt-scheduled-enqueue-time"): "soon"}),
        section(0x74, {"a": 1})[:-1],
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        parse_message(data)


@unhurried
@given(
    st.lists(
        st.one_of(
            st.sampled_from([0x00, 0x40, 0x45, 0x53, 0xA0, 0xA1, 0xC0, 0xC1]),
            st.integers(0x70, 0x79),
            st.integers(0, 4),
        ),
        max_size=40,
    )
)
def test_arbitrary_bytes_are_a_message_or_refused(octets: list[int]) -> None:
    with contextlib.suppress(DecodeError, NotSupported):
        parse_message(bytes(octets))
    with contextlib.suppress(DecodeError, NotSupported):
        parse_transfer(BATCH_FORMAT, bytes(octets))


def test_a_batch_of_anything_else_is_refused() -> None:
    with pytest.raises(DecodeError, match="not binary"):
        parse_transfer(BATCH_FORMAT, section(0x75, "text"))


def test_annotations_without_a_value_are_none() -> None:
    published = section(0x72, None) + section(0x74, None) + section(0x75, b"")

    assert parse_message(published).annotations == ()
    assert (
        parse_message(section(0x72, {Symbol("x-opt-scheduled-enqueue-time"): None})).scheduled_at
        is None
    )


def test_times_are_rounded_to_milliseconds() -> None:
    stamps = Stamps(0, 1, 1, EPOCH + 0.0006)
    delivered = sections_of(encode_delivery(parse_message(encoded_message()), stamps))

    annotations = delivered[Section.MESSAGE_ANNOTATIONS]
    assert isinstance(annotations, dict)
    assert annotations["x-opt-enqueued-time"] == Timestamp(round(EPOCH * 1000) + 1)
