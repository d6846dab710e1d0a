"""The way to the broker with a clock that the tests move: faults, delays, and what is recorded."""

import pytest

from local.pubsub_emulator import Effect, EventKind, Fault, Outcome, Path, Target
from local.pubsub_emulator import gate as gate_module
from local.pubsub_emulator.errors import InvalidAckIds, InvalidArgument, NotFound, ResourceExhausted
from local.pubsub_emulator.gate import Settlement
from tests.pubsub_emulator.desk import SUBSCRIPTION, Desk


def settle(desk: Desk, *settlements: Settlement) -> None:
    """Let a request in and carry it out at once."""
    desk.gate.carry_out(desk.gate.receive(SUBSCRIPTION, settlements, Path.UNARY))


def outcomes(desk: Desk, kind: EventKind) -> list[Outcome]:
    """What became of requests."""
    return [event.outcome for event in desk.events(kind)]


@pytest.mark.parametrize(
    "ack_id", ["", "nonsense", "projects/desk/subscriptions/other:1-1", f"{SUBSCRIPTION}:one-1"]
)
def test_an_ack_id_that_never_was_settles_nothing(ack_id: str) -> None:
    desk = Desk()
    desk.publish(b"one")
    delivery = desk.take_one()
    with pytest.raises(InvalidArgument):
        settle(desk, Settlement(Target.ACK, delivery.ack_id), Settlement(Target.ACK, ack_id))
    assert desk.acknowledge(delivery)
    assert outcomes(desk, EventKind.ACK) == []


def test_a_delayed_settlement_is_planned_and_then_applied() -> None:
    desk = Desk()
    desk.faults.inject(Fault(Target.ACK, Effect.DELAY, seconds=5.0))
    desk.publish(b"one")
    settle(desk, Settlement(Target.ACK, desk.take_one(lease_seconds=60.0).ack_id))
    assert desk.gate.next_at() == 5.0
    desk.pass_time(4.9)
    assert len(desk.events(EventKind.ACK)) == 1
    desk.pass_time(0.1)
    assert outcomes(desk, EventKind.ACK) == [Outcome.DELAYED, Outcome.APPLIED]
    assert desk.gate.next_at() is None


def test_a_delayed_settlement_may_outlive_its_subscription() -> None:
    desk = Desk()
    desk.faults.inject(Fault(Target.NACK, Effect.DELAY, seconds=5.0))
    desk.publish(b"one")
    settle(desk, Settlement(Target.NACK, desk.take_one().ack_id))
    desk.broker.delete_subscription(SUBSCRIPTION)
    desk.pass_time(5.0)
    assert outcomes(desk, EventKind.NACK) == [Outcome.DELAYED, Outcome.STALE]
    with pytest.raises(NotFound):
        settle(desk)


def test_delayed_settlements_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "MAXIMUM_DELAYED", 1)
    desk = Desk()
    desk.faults.inject(Fault(Target.ACK, Effect.DELAY, seconds=5.0))
    desk.publish(b"one", b"two")
    first, second = (Settlement(Target.ACK, one.ack_id) for one in desk.take())
    settle(desk, first)
    with pytest.raises(ResourceExhausted):
        settle(desk, second)


def test_exactly_once_names_what_came_too_late_and_settles_the_rest() -> None:
    desk = Desk(exactly_once=True)
    desk.publish(b"late", b"good")
    late = desk.take(1, lease_seconds=1.0)[0]
    good = desk.take(1, lease_seconds=60.0)[0]
    desk.pass_time(1.0)
    with pytest.raises(InvalidAckIds) as caught:
        settle(desk, *(Settlement(Target.ACK, one.ack_id) for one in (late, good)))
    assert caught.value.ack_ids == (late.ack_id,)
    assert outcomes(desk, EventKind.ACK) == [Outcome.STALE, Outcome.APPLIED]


def test_a_settlement_knows_its_message() -> None:
    desk = Desk()
    (message_id,) = desk.publish(b"one")
    assert Settlement(Target.ACK, desk.take_one().ack_id).message_id == message_id
