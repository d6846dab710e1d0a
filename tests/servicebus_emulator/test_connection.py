"""Goal: connections and sessions come and go by the rules, and who breaks them loses his own.

Method: a client that speaks frame by frame, a transport without sockets, time that stands.
"""

import pytest

from local.servicebus_emulator.connection import OPEN_SECONDS
from local.servicebus_emulator.frames import (
    AMQP_HEADER,
    HEARTBEAT,
    SASL_HEADER,
    FrameType,
    encode_frame,
)
from local.servicebus_emulator.performatives import (
    SENDER,
    Attach,
    Begin,
    Close,
    Composite,
    End,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    encode_performative,
)
from local.servicebus_emulator.wire_types import (
    Symbol,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
)
from tests.servicebus_emulator.peer import Desk, Peer, error_in

# Handshakes.


def test_the_handshake_with_sasl(desk: Desk) -> None:
    peer = Peer(desk.hub)
    peer.connect()
    assert peer.transport.written.startswith(SASL_HEADER)

    heard = [each for _, each, _ in peer.listen()]
    mechanisms, outcome, opened, begun = heard
    assert isinstance(mechanisms, SaslMechanisms)
    assert outcome == SaslOutcome(UnsignedByte(0))
    assert isinstance(opened, Open)
    assert (opened.max_frame_size, opened.channel_max) == (65_536, 255)
    assert isinstance(begun, Begin)
    assert (begun.remote_channel, begun.handle_max) == (0, 255)


def test_the_handshake_without_sasl(desk: Desk) -> None:
    peer = Peer(desk.hub)
    peer.connection.receive(AMQP_HEADER)
    peer.say(Open("peer"))

    assert bytes(peer.transport.written).startswith(AMQP_HEADER)
    assert len(peer.heard(Open)) == 1


def test_an_unknown_header_is_answered_with_a_known_one(desk: Desk) -> None:
    peer = Peer(desk.hub)
    peer.connection.receive(b"GET / HT")
    peer.connection.receive(b"TP/1.1\r\n\r\n")

    assert bytes(peer.transport.written) == SASL_HEADER
    assert peer.transport.is_closed


def test_who_does_not_open_is_cut_off(desk: Desk) -> None:
    silent, opened = Peer(desk.hub), desk.peer()
    desk.pass_time(OPEN_SECONDS)

    assert silent.transport.is_aborted
    assert not opened.transport.is_closed


def test_heartbeats_come_twice_as_often_as_asked_for(desk: Desk) -> None:
    peer = Peer(desk.hub)
    peer.connect(idle_milliseconds=10_000)
    peer.listen()
    for _ in range(3):
        desk.pass_time(5)

    assert bytes(peer.transport.written) == 3 * HEARTBEAT
    peer.connection.lost()
    assert desk.scheduler.pending_count() == 0


def test_heartbeats_have_a_shortest_interval(desk: Desk) -> None:
    peer = Peer(desk.hub)
    peer.connect(idle_milliseconds=1)
    peer.listen()
    desk.pass_time(0.05)

    assert bytes(peer.transport.written) == b""


def test_heartbeats_of_the_peer_need_no_answer(peer: Peer) -> None:
    peer.connection.receive(HEARTBEAT)

    assert bytes(peer.transport.written) == b""
    assert not peer.transport.is_closed


@pytest.mark.parametrize(
    ("performative", "condition"),
    [
        (Open("again"), "amqp:not-allowed"),
        (Begin(None, UnsignedInt(0), UnsignedInt(1), UnsignedInt(1)), "amqp:not-allowed"),
        (SaslMechanisms([]), None),
    ],
    ids=["open twice", "begin twice", "mechanisms from a client"],
)
def test_what_is_said_at_the_wrong_time_ends_the_connection(
    peer: Peer, performative: Composite, condition: str | None
) -> None:
    peer.say(performative)

    if condition is None:
        (ended,) = peer.heard(End)
        assert error_in(ended.error).condition == "amqp:not-allowed"
    else:
        (closed,) = peer.heard(Close)
        assert error_in(closed.error).condition == condition
        assert peer.transport.is_closed


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (encode_frame(0, b"\x40"), "amqp:decode-error"),
        (encode_frame(0, b"\x00\x53\x10\xc0"), "amqp:decode-error"),
        (b"\xff\xff\xff\xff\x02\x00\x00\x00", "amqp:connection:framing-error"),
        (
            encode_frame(0, encode_performative(SaslOutcome(UnsignedByte(0))), FrameType.SASL),
            "amqp:not-implemented",
        ),
        (
            b"\x00\x00\x00\x0c\x02\x07\x00\x00" + b"\x00\x53\x18\x45",
            "amqp:connection:framing-error",
        ),
    ],
    ids=["no composite", "cut short", "too large", "sasl", "frame type"],
)
def test_nonsense_ends_the_connection(peer: Peer, data: bytes, condition: str) -> None:
    peer.connection.receive(data)

    (closed,) = peer.heard(Close)
    assert error_in(closed.error).condition == condition
    assert peer.transport.is_closed
    peer.connection.receive(b"whatever follows is not looked at")
    assert bytes(peer.transport.written) == b""


def test_frames_before_open_end_the_connection(desk: Desk) -> None:
    peer = Peer(desk.hub)
    peer.connection.receive(AMQP_HEADER)
    peer.say(Begin(None, UnsignedInt(0), UnsignedInt(1), UnsignedInt(1)))

    (closed,) = peer.heard(Close)
    assert error_in(closed.error).condition == "amqp:not-allowed"


def test_a_maximum_frame_size_below_the_smallest_is_refused(desk: Desk) -> None:
    peer = Peer(desk.hub)
    peer.connect(max_frame_bytes=511)

    assert len(peer.heard(Close)) == 1


def test_close_is_answered(peer: Peer) -> None:
    peer.say(Close())

    assert peer.heard(Close) == [Close()]
    assert peer.transport.is_closed


# Sessions.


def test_a_channel_that_is_too_high_ends_the_connection(peer: Peer) -> None:
    begin = Begin(None, UnsignedInt(0), UnsignedInt(1), UnsignedInt(1))
    peer.say(begin, channel=255)
    assert peer.heard(Begin)[0].remote_channel == UnsignedShort(255)
    peer.say(begin, channel=256)

    assert len(peer.heard(Close)) == 1


def test_frames_to_a_session_that_has_ended_are_ignored(peer: Peer) -> None:
    peer.attach_receiver("billing")
    peer.say(End())
    assert peer.heard(End) == [End()]

    peer.give_credit(10)
    peer.detach(2)
    assert peer.listen() == []
    assert not peer.transport.is_closed


@pytest.mark.parametrize(
    ("attach", "condition"),
    [
        (Attach("again", UnsignedInt(1), SENDER), "amqp:session:handle-in-use"),
        (Attach("high", UnsignedInt(256), SENDER), "amqp:resource-limit-exceeded"),
    ],
)
def test_a_handle_that_cannot_be_had_ends_the_session(
    peer: Peer, attach: Attach, condition: str
) -> None:
    peer.attach_sender("billing")
    peer.say(attach)

    (ended,) = peer.heard(End)
    assert error_in(ended.error).condition == condition


def test_sasl_with_a_password_is_welcome_too(desk: Desk) -> None:
    peer = Peer(desk.hub)
    peer.connection.receive(SASL_HEADER)
    init = encode_performative(SaslInit(Symbol("PLAIN"), b"\x00user\x00password"))
    peer.connection.receive(encode_frame(0, init, FrameType.SASL))

    assert peer.heard(SaslOutcome) == [SaslOutcome(UnsignedByte(0))]
