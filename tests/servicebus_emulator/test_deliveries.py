"""Goal: messages come as far as credit goes, and each settlement gets the answer it deserves.

Method: a client that speaks frame by frame, a transport without sockets, time that stands.
"""

import pytest

from local.servicebus_emulator import dispenser, session
from local.servicebus_emulator.faults import Fault, FaultKind, Match
from local.servicebus_emulator.performatives import (
    RECEIVER,
    SENDER,
    Accepted,
    Close,
    Disposition,
    Flow,
    Modified,
    Outcome,
    Received,
    Rejected,
    Released,
    Transfer,
    composite_from,
    described,
    error_of,
)
from local.servicebus_emulator.wire_types import (
    Described,
    UnsignedInt,
    UnsignedLong,
)
from tests.servicebus_emulator.peer import Desk, Peer, publish, refusal
from tests.servicebus_emulator.support import encoded_message

# What clients receive.


def test_messages_come_as_far_as_credit_goes(desk: Desk, peer: Peer) -> None:
    publish(desk, "a", "b", "c")
    peer.attach_receiver("billing")
    assert peer.transfers() == []
    peer.give_credit(2)

    assert peer.received_ids() == ["a", "b"]
    peer.give_credit(1, delivery_count=2)
    assert peer.received_ids() == ["c"]
    publish(desk, "d")
    assert peer.transfers() == []


def test_a_peer_that_has_not_seen_the_newest_owes_nothing(desk: Desk, peer: Peer) -> None:
    publish(desk, "a", "b", "c")
    peer.attach_receiver("billing")
    peer.give_credit(2)
    peer.give_credit(1, delivery_count=0)

    assert peer.received_ids() == ["a", "b"]


def test_drain_returns_the_credit(desk: Desk, peer: Peer) -> None:
    publish(desk, "a")
    peer.attach_receiver("billing")
    peer.listen()
    peer.give_credit(10, drain=True)

    (_, transfer, _), (_, flow, _) = peer.listen()
    assert isinstance(transfer, Transfer)
    assert isinstance(flow, Flow)
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (10, 0, True)
    publish(desk, "b")
    assert peer.transfers() == []


def test_echo_tells_how_the_link_stands(desk: Desk, peer: Peer) -> None:
    peer.attach_receiver("billing")
    peer.listen()
    peer.give_credit(3, echo=True)

    (flow,) = peer.heard(Flow)
    assert (flow.link_credit, flow.delivery_count) == (3, 0)


def test_a_flow_without_credit_changes_none(desk: Desk, peer: Peer) -> None:
    peer.attach_receiver("billing")
    peer.give_credit(2)
    windows = (UnsignedInt(0), UnsignedInt(10), UnsignedInt(0), UnsignedInt(10))
    peer.say(Flow(*windows, handle=UnsignedInt(2)))
    publish(desk, "a")

    assert peer.received_ids() == ["a"]


def test_many_duplicates_do_not_pile_up_on_the_stack(desk: Desk, peer: Peer) -> None:
    publish(desk, *map(str, range(400)))
    desk.hub.faults.add(Fault(FaultKind.DELIVERY_DUPLICATED))
    peer.attach_receiver("billing")
    peer.give_credit(1000)

    assert len(peer.received_ids()) == 800


def test_nothing_follows_a_cut(desk: Desk, peer: Peer) -> None:
    publish(desk, "a", "b")
    desk.hub.faults.add(Fault(FaultKind.DELIVERY_CUT))
    peer.attach_receiver("billing")
    peer.give_credit(2)

    assert peer.received_ids() == ["a"]
    assert peer.transport.is_aborted
    assert desk.hub.broker.source("billing").counts().active == 1
    peer.connection.lost()


def test_a_delayed_delivery_is_forgotten_with_its_link(desk: Desk, peer: Peer) -> None:
    publish(desk, "a")
    desk.hub.faults.add(Fault(FaultKind.DELIVERY_DELAYED, seconds=5))
    peer.attach_receiver("billing")
    peer.give_credit(1)
    publish(desk, "b")
    assert desk.hub.broker.source("billing").counts().active == 1, "the credit is spoken for"
    peer.detach(2)
    peer.listen()
    desk.pass_time(10)

    assert peer.listen() == []


def test_a_delayed_delivery_needs_its_credit_still(desk: Desk, peer: Peer) -> None:
    publish(desk, "a")
    desk.hub.faults.add(Fault(FaultKind.DELIVERY_DELAYED, seconds=5))
    peer.attach_receiver("billing")
    peer.give_credit(1)
    peer.give_credit(0, drain=True)
    peer.listen()
    desk.pass_time(10)

    assert peer.listen() == []
    assert desk.hub.broker.source("billing").counts().locked == 1


def test_a_closed_window_holds_messages_back(desk: Desk, peer: Peer) -> None:
    publish(desk, "a", "b")
    peer.attach_receiver("billing")
    peer.give_credit(10, window=1)
    assert peer.received_ids() == ["a"]

    peer.say(Flow(UnsignedInt(1), UnsignedInt(10), UnsignedInt(0), UnsignedInt(10)))
    assert peer.received_ids() == ["b"]


def test_a_client_that_does_not_read_gets_nothing_more(desk: Desk, peer: Peer) -> None:
    peer.attach_receiver("billing")
    peer.give_credit(10)
    peer.connection.pause()
    publish(desk, "a")
    assert peer.transfers() == []

    peer.connection.resume()
    assert peer.received_ids() == ["a"]


def test_a_large_message_is_split_to_the_frames_of_the_peer(desk: Desk) -> None:
    publish(desk, "a")
    desk.hub.broker.source("billing").purge()
    publisher = desk.peer()
    publisher.attach_sender("billing")
    publisher.send(encoded_message("large", b"x" * 5000))
    peer = Peer(desk.hub)
    peer.connect(max_frame_bytes=512)
    peer.attach_receiver("billing")
    peer.listen()
    peer.give_credit(1)

    written = bytes(peer.transport.written)
    parts = peer.transfers()
    first, last = parts[0][0], parts[-1][0]
    assert len(parts) > 10
    assert (first.delivery_id, first.more, last.more, last.delivery_id) == (0, True, False, None)
    assert all(part.more for part, _ in parts[:-1])
    sizes = []
    while written:
        size = int.from_bytes(written[:4], "big")
        sizes.append(size)
        written = written[size:]
    assert max(sizes) == 512, "frames are as large as they may be"


def test_messages_go_to_consumers_in_turn(desk: Desk) -> None:
    peers = [desk.peer() for _ in range(2)]
    for peer in peers:
        peer.attach_receiver("billing")
        peer.give_credit(10)
        peer.listen()
    publish(desk, "a", "b", "c", "d")

    assert [peer.received_ids() for peer in peers] == [["a", "c"], ["b", "d"]]


def test_locks_outlive_connections(desk: Desk, peer: Peer) -> None:
    publish(desk, "a")
    peer.attach_receiver("billing")
    peer.give_credit(1)
    peer.connection.lost()
    assert desk.hub.broker.source("billing").counts().locked == 1

    other = desk.peer()
    other.attach_receiver("billing")
    other.give_credit(1)
    assert other.received_ids() == []
    desk.pass_time(60)
    assert other.received_ids() == ["a"]


# Settlements.


def deliver(desk: Desk, peer: Peer, *message_ids: str) -> None:
    publish(desk, *message_ids)
    peer.attach_receiver("billing")
    peer.give_credit(len(message_ids))
    peer.listen()


@pytest.mark.parametrize(
    "outcome",
    [
        Accepted(),
        Modified(delivery_failed=True),
        Modified(delivery_failed=True, undeliverable_here=False),
        Rejected(error_of("com.microsoft:dead-letter", "text", {"DeadLetterReason": "why"})),
        Rejected(),
        Released(),
    ],
)
def test_the_answer_echoes_the_outcome(desk: Desk, peer: Peer, outcome: Outcome) -> None:
    deliver(desk, peer, "a")
    peer.settle(0, outcome)

    (disposition,) = peer.heard(Disposition)
    assert (disposition.first, disposition.role, disposition.settled) == (0, SENDER, True)
    echoed = Rejected() if isinstance(outcome, Rejected) else outcome
    assert composite_from(disposition.state) == echoed


def test_a_lost_lock_is_refused(desk: Desk, peer: Peer) -> None:
    deliver(desk, peer, "a")
    desk.pass_time(60)
    peer.settle(0, Accepted())

    assert refusal(peer) == "com.microsoft:message-lock-lost"


def test_deferral_is_refused(desk: Desk, peer: Peer) -> None:
    deliver(desk, peer, "a")
    peer.settle(0, Modified(delivery_failed=True, undeliverable_here=True))

    assert refusal(peer) == "amqp:not-implemented"
    assert desk.hub.broker.source("billing").counts().locked == 1


def test_an_unknown_delivery_is_refused(peer: Peer) -> None:
    peer.settle(0, Accepted(), last=0xFFFF_FFFF)

    assert refusal(peer) == "com.microsoft:message-lock-lost"


def test_a_range_settles_all_that_it_holds(desk: Desk, peer: Peer) -> None:
    deliver(desk, peer, "a", "b", "c")
    peer.settle(1, Accepted(), last=0xFFFF_FFFF)
    assert [each.first for each in peer.heard(Disposition)] == [1, 2]

    peer.settle(0, Accepted(), last=1)
    assert [each.first for each in peer.heard(Disposition)] == [0]
    assert desk.hub.broker.source("billing").counts().locked == 0


def test_a_settled_settlement_gets_no_answer(desk: Desk, peer: Peer) -> None:
    deliver(desk, peer, "a")
    peer.settle(0, Accepted(), settled=True)

    assert peer.listen() == []
    assert desk.hub.broker.source("billing").counts().locked == 0


@pytest.mark.parametrize("cuts", [True, False])
def test_a_lost_settlement_gets_no_answer(desk: Desk, peer: Peer, cuts: bool) -> None:
    deliver(desk, peer, "a")
    desk.hub.faults.add(Fault(FaultKind.SETTLEMENT_LOST, cuts=cuts))
    peer.settle(0, Accepted())

    assert peer.listen() == []
    assert peer.transport.is_aborted == cuts
    assert desk.hub.broker.source("billing").counts().locked == 0


def test_a_release_uses_up_no_fault(desk: Desk, peer: Peer) -> None:
    deliver(desk, peer, "a", "b")
    desk.hub.faults.add(Fault(FaultKind.SETTLEMENT_LOST, Match(count=1)))
    peer.settle(0, Released())
    assert len(peer.heard(Disposition)) == 1

    peer.settle(1, Accepted())
    assert peer.heard(Disposition) == []


def test_what_is_no_settlement_changes_nothing(desk: Desk, peer: Peer) -> None:
    deliver(desk, peer, "a")
    state = described(Received(UnsignedInt(0), UnsignedLong(0)))
    peer.say(Disposition(RECEIVER, UnsignedInt(0), state=state))
    peer.say(Disposition(RECEIVER, UnsignedInt(0)))
    peer.say(Disposition(SENDER, UnsignedInt(0), state=described(Accepted())))

    assert peer.listen() == []
    assert desk.hub.broker.source("billing").counts().locked == 1


def test_what_a_consumer_leaves_unsettled_has_a_limit(
    desk: Desk, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "MAXIMUM_UNSETTLED", 2)
    deliver(desk, peer, "a", "b", "c")
    peer.settle(0, Accepted())

    assert refusal(peer) == "com.microsoft:message-lock-lost"
    peer.settle(2, Accepted())
    assert len(peer.heard(Disposition)) == 1


def test_a_consumer_that_is_gone_is_forgotten(desk: Desk) -> None:
    queue = desk.hub.broker.source("billing")
    turnstile = dispenser.Dispenser(queue)

    class Nobody:
        is_ready = True

        def deliver_next(self) -> None:
            raise AssertionError("nobody is there")

    nobody = Nobody()
    turnstile.add(nobody)
    turnstile.remove(nobody)
    turnstile.remove(nobody)
    publish(desk, "a")
    assert queue.counts().active == 1


def test_a_plain_described_value_is_no_delivery_state(peer: Peer) -> None:
    peer.say(Disposition(RECEIVER, UnsignedInt(0), state=Described(UnsignedLong(0x77), [])))

    assert len(peer.heard(Close)) == 1
