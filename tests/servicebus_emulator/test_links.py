"""Goal: a link is what its client asked for or is refused, and what is sent on it arrives whole.

Method: a client that speaks frame by frame, a transport without sockets, time that stands.
"""

import pytest

from local.servicebus_emulator import incoming, session
from local.servicebus_emulator.messages import BATCH_FORMAT, MAXIMUM_MESSAGE_BYTES
from local.servicebus_emulator.performatives import (
    RECEIVER,
    SENDER,
    Accepted,
    Attach,
    Detach,
    Disposition,
    Flow,
    Rejected,
    Transfer,
    composite_from,
)
from local.servicebus_emulator.wire_types import (
    Symbol,
    UnsignedInt,
)
from tests.servicebus_emulator.peer import Desk, Peer, error_in, refusal, terminus
from tests.servicebus_emulator.support import encoded_message, section

# Links.


@pytest.mark.parametrize(
    ("attach", "condition"),
    [
        (Attach("l", UnsignedInt(1), SENDER, target=terminus(0x29, "nothing")), "amqp:not-found"),
        (
            Attach("l", UnsignedInt(1), RECEIVER, source=terminus(0x28, "nothing")),
            "amqp:not-found",
        ),
        (
            Attach("l", UnsignedInt(1), SENDER, target=terminus(0x29, "nothing/$management")),
            "amqp:not-found",
        ),
        (Attach("l", UnsignedInt(1), RECEIVER, source=terminus(0x28, "usage")), "amqp:not-allowed"),
        (
            Attach(
                "l",
                UnsignedInt(1),
                SENDER,
                target=terminus(0x29, "usage/Subscriptions/billing"),
            ),
            "amqp:not-allowed",
        ),
        (Attach("l", UnsignedInt(1), SENDER), "amqp:invalid-field"),
        (Attach("l", UnsignedInt(1), SENDER, target=terminus(0x29, None)), "amqp:invalid-field"),
        (
            Attach("l", UnsignedInt(1), SENDER, target=terminus(0x28, "billing")),
            "amqp:invalid-field",
        ),
        (
            Attach("l", UnsignedInt(1), SENDER, target=terminus(0x30, None)),
            "amqp:not-implemented",
        ),
        (
            Attach(
                "l",
                UnsignedInt(1),
                RECEIVER,
                source=terminus(0x28, None, None, None, None, True),
            ),
            "amqp:not-implemented",
        ),
        (
            Attach(
                "l",
                UnsignedInt(1),
                RECEIVER,
                source=terminus(
                    0x28,
                    "billing",
                    *[None] * 6,
                    {Symbol("com.microsoft:session-filter"): "session-1"},
                ),
            ),
            "amqp:not-implemented",
        ),
    ],
)
def test_a_link_that_cannot_be_had_is_detached(peer: Peer, attach: Attach, condition: str) -> None:
    peer.say(attach)

    (_, answer, _), (_, detach, _) = peer.listen()
    assert isinstance(answer, Attach)
    assert (answer.source, answer.target, answer.role) == (None, None, not attach.role)
    assert isinstance(detach, Detach)
    assert detach.closed
    assert error_in(detach.error).condition == condition
    peer.detach(1)
    assert peer.listen() == [], "the peer's own detach needs no answer"


def test_an_attached_link_mirrors_what_was_asked_for(peer: Peer) -> None:
    peer.attach_receiver("billing")
    (answer,) = peer.heard(Attach)

    assert (answer.name, answer.handle, answer.role) == ("receiver-2", 2, SENDER)
    assert answer.initial_delivery_count == 0
    assert answer.max_message_size == MAXIMUM_MESSAGE_BYTES
    assert answer.source == terminus(0x28, "billing")
    assert isinstance(answer.properties, dict)


def test_detach_is_answered_once(peer: Peer) -> None:
    peer.attach_sender("billing")
    peer.listen()
    peer.detach(1)
    assert peer.heard(Detach) == [Detach(UnsignedInt(1), closed=True)]

    peer.detach(1)
    assert peer.listen() == []


def test_a_message_on_a_link_that_carries_the_other_way_ends_it(peer: Peer) -> None:
    peer.attach_receiver("billing")
    peer.send(encoded_message(), handle=2)

    (detach,) = peer.heard(Detach)
    assert error_in(detach.error).condition == "amqp:link:transfer-limit-exceeded"


# What clients send.


def test_a_message_in_many_frames(peer: Peer) -> None:
    peer.attach_sender("billing")
    peer.listen()
    whole = encoded_message(body=b"x" * 1000)
    first = Transfer(UnsignedInt(1), UnsignedInt(7), b"t", UnsignedInt(0), more=True)
    peer.say(first, whole[:400])
    peer.say(Transfer(UnsignedInt(1), more=True), whole[400:800])
    assert peer.listen() == []
    peer.say(Transfer(UnsignedInt(1), more=False), whole[800:])

    (disposition,) = peer.heard(Disposition)
    assert (disposition.first, disposition.role, disposition.settled) == (7, RECEIVER, True)
    assert composite_from(disposition.state) == Accepted()


def test_an_aborted_message_is_forgotten(desk: Desk, peer: Peer) -> None:
    peer.attach_sender("billing")
    peer.say(Transfer(UnsignedInt(1), UnsignedInt(0), b"t", more=True), encoded_message())
    peer.say(Transfer(UnsignedInt(1), aborted=True))
    peer.send(encoded_message("whole"), delivery_id=1)

    (entry,) = desk.hub.broker.source("billing").peek(1, 10)
    assert entry.message.message_id == "whole"


def test_a_settled_message_gets_no_answer(desk: Desk, peer: Peer) -> None:
    peer.attach_sender("billing")
    peer.listen()
    peer.say(Transfer(UnsignedInt(1), UnsignedInt(0), b"t", settled=True), encoded_message())

    assert peer.listen() == []
    assert desk.hub.broker.source("billing").counts().active == 1


@pytest.mark.parametrize(
    ("payload", "condition"),
    [
        (b"\x40", "amqp:decode-error"),
        (section(0x70, [None, None, UnsignedInt(5)]) + encoded_message(), "amqp:not-implemented"),
    ],
)
def test_a_message_that_cannot_be_taken_is_rejected(
    peer: Peer, payload: bytes, condition: str
) -> None:
    peer.attach_sender("billing")
    peer.send(payload)

    (disposition,) = peer.heard(Disposition)
    rejection = composite_from(disposition.state)
    assert isinstance(rejection, Rejected)
    assert error_in(rejection.error).condition == condition


def test_a_batch_is_taken_in_as_a_whole_or_not_at_all(desk: Desk, peer: Peer) -> None:
    peer.attach_sender("billing")
    spoiled = section(0x75, encoded_message("a")) + section(0x75, b"\x40")
    transfer = Transfer(UnsignedInt(1), UnsignedInt(0), b"t", UnsignedInt(BATCH_FORMAT))
    peer.say(transfer, spoiled)

    assert desk.hub.broker.source("billing").counts().active == 0


def test_a_message_that_is_too_large_is_rejected(peer: Peer) -> None:
    peer.attach_sender("billing")
    peer.listen()
    part = Transfer(UnsignedInt(1), UnsignedInt(0), b"t", more=True)
    for _ in range(100):
        peer.say(part, b"x" * 60_000)
    assert peer.listen() == []
    link = peer.connection._sessions[0]._links[1]
    assert isinstance(link, incoming.IncomingLink)
    assert len(link._payload) == MAXIMUM_MESSAGE_BYTES + 1, "the rest is not kept"
    peer.say(Transfer(UnsignedInt(1)), b"end")

    assert refusal(peer) == "amqp:link:message-size-exceeded"
    peer.send(encoded_message(), delivery_id=1)
    assert composite_from(peer.heard(Disposition)[0].state) == Accepted()


def test_a_message_without_credit_ends_the_link(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "INCOMING_CREDIT", 0)
    peer.attach_sender("billing")
    peer.send(encoded_message())

    (detach,) = peer.heard(Detach)
    assert error_in(detach.error).condition == "amqp:link:transfer-limit-exceeded"
    peer.send(encoded_message())
    assert peer.listen() == [], "what is still under way is ignored"


def test_credit_is_given_before_it_runs_out(peer: Peer) -> None:
    peer.attach_sender("billing")
    (flow,) = peer.heard(Flow)
    assert (flow.link_credit, flow.delivery_count) == (incoming.INCOMING_CREDIT, 0)

    for number in range(500):
        peer.send(encoded_message(), delivery_id=number)
    (flow,) = peer.heard(Flow)
    assert (flow.link_credit, flow.delivery_count) == (incoming.INCOMING_CREDIT, 500)
    assert (flow.next_incoming_id, flow.incoming_window) == (500, session.WINDOW)

    peer.give_credit(0, handle=1, echo=True)
    assert len(peer.heard(Flow)) == 1
