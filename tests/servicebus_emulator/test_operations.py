"""Goal: what the documentation says is supported works with the real client, sync and async."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import (
    AutoLockRenewer,
    ServiceBusMessageState,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    aio,
)
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
    ServiceBusError,
)

from local.servicebus_emulator import (
    QueueSettings,
    Route,
    ServiceBusEmulator,
    SettlementKind,
    SettlementOutcome,
)
from tests.servicebus_emulator.sdk import (
    LOCK_SECONDS,
    MAX_DELIVERY_COUNT,
    ROUNDING_SECONDS,
    Sdk,
    body_of,
    ids,
    new_message,
)
from tests.servicebus_emulator.support import eventually

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

# Sending.


def test_send_and_receive(sdk: Sdk) -> None:
    before = time.time()
    sdk.send(
        new_message(
            body=b"\x00body",
            application_properties={"attempt": 2, "tier": "gold"},
            subject="usage",
            correlation_id="c-1",
            content_type="application/json",
            partition_key="p",
        )
    )
    received = sdk.receive_one()

    assert (received.message_id, body_of(received)) == ("m-1", b"\x00body")
    assert received.application_properties == {b"attempt": 2, b"tier": b"gold"}
    assert (received.subject, received.correlation_id) == ("usage", "c-1")
    assert (received.content_type, received.partition_key) == ("application/json", "p")
    assert (received.delivery_count, received.state) == (0, ServiceBusMessageState.ACTIVE)
    assert received.enqueued_time_utc is not None
    assert before - 1 < received.enqueued_time_utc.timestamp() < time.time() + 1
    assert received.locked_until_utc is not None
    locked_seconds = received.locked_until_utc.timestamp() - time.time()
    assert LOCK_SECONDS - 5 < locked_seconds <= LOCK_SECONDS + ROUNDING_SECONDS


def test_send_a_list(sdk: Sdk) -> None:
    sdk.send([new_message(f"m-{number}") for number in range(20)])
    received = sdk.receive(20)

    assert ids(received) == [f"m-{number}" for number in range(20)]
    numbers = [message.sequence_number for message in received]
    assert numbers == sorted(set(numbers), key=lambda number: number or 0)


def test_send_a_batch(sdk: Sdk) -> None:
    batch = sdk.run(sdk.sender().create_message_batch())
    assert batch.max_size_in_bytes == 256 * 1024
    for number in range(10):
        batch.add_message(new_message(f"m-{number}", b"x" * 26_000))
    with pytest.raises(MessageSizeExceededError):
        batch.add_message(new_message(body=b"x" * 26_000))
    sdk.send(batch)

    assert len(sdk.receive(10)) == 10


def test_a_message_of_many_frames(sdk: Sdk) -> None:
    body = bytes(range(256)) * 1000
    sdk.send(new_message(body=body))

    assert body_of(sdk.receive_one()) == body


def test_a_message_above_the_limit(sdk: Sdk) -> None:
    with pytest.raises(MessageSizeExceededError):
        sdk.send(new_message(body=b"x" * 256 * 1024))
    sdk.send(new_message("small"))

    assert sdk.receive_one().message_id == "small", "the sender can go on"


# Receiving and settling.


def test_complete(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    sdk.send(new_message())
    received = sdk.receive_one()
    token = received.lock_token
    sdk.complete(received)

    queue = emulator.queue(sdk.queue)
    assert (queue.active, queue.locked, queue.dead_lettered) == (0, 0, 0)
    (record,) = emulator.settlements(sdk.queue)
    assert (record.message_id, record.lock_token) == ("m-1", token)
    assert (record.kind, record.outcome) == (SettlementKind.COMPLETE, SettlementOutcome.APPLIED)
    assert (record.route, record.answered) == (Route.LINK, True)
    with pytest.raises(MessageAlreadySettled):
        sdk.complete(received)


def test_abandon(sdk: Sdk) -> None:
    sdk.send(new_message())
    first = sdk.receive_one()
    sdk.abandon(first)
    again = sdk.receive_one()

    assert (again.message_id, again.delivery_count) == ("m-1", 1)
    assert again.lock_token != first.lock_token
    assert again.sequence_number == first.sequence_number


def test_dead_letter(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    sdk.send(new_message(application_properties={"kept": 1}))
    received = sdk.receive_one()
    sdk.dead_letter(received, "InvalidEvent", "amount_cents: must be positive")
    assert emulator.queue(sdk.queue).dead_lettered == 1

    (peeked,) = sdk.peek(dead=True)
    dead = sdk.receive_one(dead=True)
    for each in (peeked, dead):
        assert each.dead_letter_reason == "InvalidEvent"
        assert each.dead_letter_error_description == "amount_cents: must be positive"
        assert each.application_properties is not None
        assert each.application_properties[b"kept"] == 1
        assert each.sequence_number == received.sequence_number
    sdk.complete(dead, dead=True)
    assert emulator.queue(sdk.queue).dead_lettered == 0
    assert sdk.peek(dead=True) == []


def test_dead_letter_without_a_reason(sdk: Sdk) -> None:
    sdk.send(new_message())
    sdk.dead_letter(sdk.receive_one())
    dead = sdk.receive_one(dead=True)

    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == (None, None)


def test_too_many_abandons(sdk: Sdk) -> None:
    sdk.send(new_message())
    for failed in range(MAX_DELIVERY_COUNT):
        received = sdk.receive_one()
        assert received.delivery_count == failed
        sdk.abandon(received)
    dead = sdk.receive_one(dead=True)

    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert dead.delivery_count == MAX_DELIVERY_COUNT


def test_too_many_expiries(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    sdk.send(new_message())
    for _ in range(MAX_DELIVERY_COUNT):
        sdk.receive_one()
        emulator.advance_clock(LOCK_SECONDS)

    assert sdk.receive_one(dead=True).dead_letter_reason == "MaxDeliveryCountExceeded"


def test_a_lock_that_ran_out(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    sdk.send(new_message())
    first = sdk.receive_one()
    emulator.advance_clock(LOCK_SECONDS)
    again = sdk.receive_one()

    assert (again.message_id, again.delivery_count) == ("m-1", 1)
    with pytest.raises(MessageLockLostError):
        sdk.complete(first)
    (record,) = emulator.settlements(sdk.queue)
    assert (record.message_id, record.outcome) == ("m-1", SettlementOutcome.LOCK_LOST)
    sdk.complete(again)


def test_a_lock_that_ran_out_by_the_clients_own_clock(
    sdk: Sdk, emulator: ServiceBusEmulator
) -> None:
    emulator.configure_queue(sdk.queue, QueueSettings(lock_seconds=0.5))
    sdk.send(new_message())
    first = sdk.receive_one()
    again = sdk.receive_one()

    with pytest.raises(MessageLockLostError):
        sdk.complete(first)
    assert emulator.settlements(sdk.queue) == [], "the client did not even ask"
    first_delivery, second_delivery = emulator.deliveries(sdk.queue)
    assert second_delivery.at - first_delivery.at >= 0.5
    assert second_delivery.delivery_count == again.delivery_count == 1


def test_renew(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    sdk.send(new_message())
    received = sdk.receive_one()
    emulator.advance_clock(20)
    until = sdk.renew(received)
    assert LOCK_SECONDS - 5 < until.timestamp() - time.time() <= LOCK_SECONDS + ROUNDING_SECONDS

    emulator.advance_clock(20)
    sdk.complete(received)
    (renewal,) = emulator.renewals(sdk.queue)
    assert (renewal.message_id, renewal.outcome) == ("m-1", "renewed")


def test_renew_a_lock_that_ran_out(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    sdk.send(new_message())
    received = sdk.receive_one()
    emulator.advance_clock(LOCK_SECONDS)

    with pytest.raises(MessageLockLostError):
        sdk.renew(received)
    assert [renewal.outcome for renewal in emulator.renewals(sdk.queue)] == ["lock-lost"]


def test_renew_by_the_clients_own_renewer(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    # The client's renewer wakes late; a shorter lock might run out before.
    emulator.configure_queue(sdk.queue, QueueSettings(lock_seconds=6.0))
    sdk.send(new_message())
    received = sdk.receive_one()
    _renew_until(sdk, received, lambda: bool(emulator.renewals(sdk.queue)))
    sdk.complete(received)

    assert {renewal.outcome for renewal in emulator.renewals(sdk.queue)} == {"renewed"}


def test_receive_and_delete(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    sdk.send([new_message("a"), new_message("b")])
    received = sdk.receive(2, deletes=True)

    assert ids(received) == ["a", "b"]
    assert received[0].lock_token is None
    queue = emulator.queue(sdk.queue)
    assert (queue.active, queue.locked) == (0, 0)


def test_iterate(sdk: Sdk) -> None:
    sdk.send([new_message("a"), new_message("b")])
    receiver = sdk.new_receiver()
    seen: list[str | None] = []

    async def iterate(receiver: aio.ServiceBusReceiver) -> None:
        async for message in receiver:
            seen.append(message.message_id)
            await receiver.complete_message(message)
            if len(seen) == 2:
                return

    if isinstance(receiver, ServiceBusReceiver):
        for message in receiver:
            seen.append(message.message_id)
            receiver.complete_message(message)
            if len(seen) == 2:
                break
    else:
        sdk.wait(iterate(receiver))
    sdk.run(receiver.close())

    assert seen == ["a", "b"]


def test_what_an_idle_receiver_holds_is_freed_when_it_closes(
    sdk: Sdk, emulator: ServiceBusEmulator
) -> None:
    idle = sdk.new_receiver()
    # Peeking opens the link, which does not count as waiting then.
    sdk.run(idle.peek_messages())
    assert sdk.run(idle.receive_messages(max_wait_time=0.1)) == []
    sdk.send(new_message())
    assert len(emulator.deliveries(sdk.queue)) == 1, "its credit is still there"

    sdk.run(idle.close())
    assert sdk.receive_one().delivery_count == 0


def test_settle_through_management(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    sdk.send([new_message("a"), new_message("b"), new_message("c")])
    completed, abandoned, dead_lettered = sdk.receive(3)
    emulator.cut_connections()
    sdk.complete(completed)
    sdk.abandon(abandoned)
    sdk.dead_letter(dead_lettered, "why", "because")

    records = [each for each in emulator.settlements() if each.kind != SettlementKind.RELEASE]
    assert [(each.message_id, each.kind, each.route) for each in records] == [
        ("a", SettlementKind.COMPLETE, Route.MANAGEMENT),
        ("b", SettlementKind.ABANDON, Route.MANAGEMENT),
        ("c", SettlementKind.DEAD_LETTER, Route.MANAGEMENT),
    ]
    assert sdk.receive_one().delivery_count == 1
    assert emulator.queue(sdk.queue).dead_lettered == 1


# Looking and scheduling.


def test_peek(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    sdk.send([new_message(name) for name in "abc"])
    sdk.schedule([new_message("d")], time.time() + 60)
    locked = sdk.receive_one()
    peeked = sdk.peek()

    assert ids(peeked) == ["a", "b", "c", "d"]
    assert [message.state for message in peeked] == [ServiceBusMessageState.ACTIVE] * 3 + [
        ServiceBusMessageState.SCHEDULED
    ]
    assert locked.sequence_number is not None
    assert ids(sdk.peek(1, locked.sequence_number + 1)) == ["b"]
    assert sdk.peek(1, locked.sequence_number + 100) == []


def test_schedule_and_cancel(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    at = time.time() + 60
    numbers = sdk.schedule([new_message("a"), new_message("b")], at)
    assert emulator.queue(sdk.queue).scheduled == 2

    sdk.cancel(numbers[:1])
    with pytest.raises(MessageNotFoundError):
        sdk.cancel(numbers[:1])
    emulator.advance_clock(60)
    received = sdk.receive_one()
    assert received.message_id == "b"
    assert received.scheduled_enqueue_time_utc is not None
    assert round(received.scheduled_enqueue_time_utc.timestamp()) == round(at)
    assert received.sequence_number not in numbers
    assert emulator.queue(sdk.queue).scheduled == 0


def test_send_with_a_schedule(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    later = datetime.fromtimestamp(time.time() + 60, UTC)
    sdk.send([new_message("later", scheduled_enqueue_time_utc=later), new_message("now")])
    now = sdk.receive_one()
    assert now.message_id == "now"
    sdk.complete(now)

    emulator.advance_clock(60)
    assert sdk.receive_one().message_id == "later"


# Topics.


def test_topics(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    sdk.send([new_message("a"), new_message("b")], topic=sdk.topic)
    received = {name: sdk.receive(2, name) for name in ("billing", "audit")}
    for subscription, messages in received.items():
        assert ids(messages) == ["a", "b"]
        sdk.complete(messages[0], subscription=subscription)
    sdk.dead_letter(received["audit"][1], "why", subscription="audit")

    dead = sdk.receive_one("audit", dead=True)
    assert (dead.message_id, dead.dead_letter_reason) == ("b", "why")
    assert emulator.queue(f"{sdk.topic}/subscriptions/billing").locked == 1
    assert ids(sdk.peek(subscription="billing")) == ["b"]


def test_schedule_on_a_topic(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    sdk.schedule([new_message()], time.time() + 60, topic=sdk.topic)
    emulator.advance_clock(60)

    assert sdk.receive_one("billing").message_id == "m-1"
    assert sdk.receive_one("audit").message_id == "m-1"


# What is refused.


def test_an_unknown_entity(sdk: Sdk) -> None:
    sender = sdk.client.get_queue_sender("nothing")
    with pytest.raises(MessagingEntityNotFoundError, match="nothing"):
        sdk.run(sender.send_messages(new_message()))
    sdk.run(sender.close())


def test_deferral_is_not_supported(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    sdk.send(new_message())
    received = sdk.receive_one()

    with pytest.raises(ServiceBusError, match="deferral is not supported"):
        sdk.defer(received)
    with pytest.raises(ServiceBusError, match="not supported"):
        sdk.run(sdk.receiver().receive_deferred_messages([1]))
    assert emulator.settlements()[0].outcome == SettlementOutcome.NOT_SUPPORTED
    assert emulator.queue(sdk.queue).locked == 1


def test_time_to_live_is_not_supported(sdk: Sdk) -> None:
    with pytest.raises(ServiceBusError, match="time to live is not supported"):
        sdk.send(new_message(time_to_live=timedelta(seconds=5)))


def test_sessions_are_not_supported(sdk: Sdk) -> None:
    receiver = sdk.client.get_queue_receiver(sdk.queue, session_id="s-1")
    with pytest.raises(ServiceBusError, match="sessions are not supported"):
        sdk.run(receiver.receive_messages(max_wait_time=5))
    sdk.run(receiver.close())


def _renew_until(
    sdk: Sdk, received: ServiceBusReceivedMessage, condition: Callable[[], bool]
) -> None:
    receiver = sdk.receiver()

    async def renew(receiver: aio.ServiceBusReceiver) -> None:
        async with aio.AutoLockRenewer() as renewer:
            renewer.register(receiver, received)
            # The renewer works on this loop, so waiting must leave it free.
            await asyncio.to_thread(eventually, condition)

    if isinstance(receiver, ServiceBusReceiver):
        with AutoLockRenewer() as renewer:
            renewer.register(receiver, received)
            eventually(condition)
    else:
        sdk.wait(renew(receiver))
