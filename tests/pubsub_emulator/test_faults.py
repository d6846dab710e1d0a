"""Injected faults, seen by Google's client, and the record of what reached the broker."""

from typing import Any

import pytest
from google.api_core.exceptions import GoogleAPICallError, InternalServerError, PermissionDenied
from google.cloud.pubsub_v1.subscriber.exceptions import AcknowledgeStatus

from local.pubsub_emulator import (
    Effect,
    Event,
    EventFilter,
    EventKind,
    Fault,
    Outcome,
    Path,
    Target,
)
from tests.pubsub_emulator.support import PATIENCE_SECONDS, Cloud, eventually


def events(cloud: Cloud, subscription: str, kind: EventKind) -> list[Event]:
    """What happened to a subscription."""
    return cloud.control.events(EventFilter(kind=kind, resource=subscription))


def test_a_lost_extension_looks_like_a_success(own: Cloud) -> None:
    """Goal: the client believes that its lease runs, and the message is delivered again."""
    topic, subscription = own.topic_with_subscription(ack_deadline_seconds=1)
    own.control.inject(Fault(Target.EXTENSION, Effect.LOSE, resource=subscription))
    own.publish(topic, b"twice")
    (first,) = own.pull(subscription)
    own.set_deadline(subscription, first, 600)
    (second,) = own.pull(subscription, seconds=5.0)
    assert second.message.message_id == first.message.message_id
    (extension,) = events(own, subscription, EventKind.EXTENSION)
    assert (extension.outcome, extension.seconds) == (Outcome.LOST, 600)
    (lapsed,) = events(own, subscription, EventKind.LAPSED)
    assert lapsed.ack_id == first.ack_id


def test_a_refused_extension_is_an_error(own: Cloud) -> None:
    topic, subscription = own.topic_with_subscription()
    own.control.inject(
        Fault(Target.EXTENSION, Effect.REFUSE, resource=subscription, status="PERMISSION_DENIED")
    )
    own.publish(topic, b"refused")
    (received,) = own.pull(subscription)
    with pytest.raises(PermissionDenied):
        own.set_deadline(subscription, received, 600)
    # A nack is no extension.
    own.set_deadline(subscription, received, 0)
    assert [one.outcome for one in events(own, subscription, EventKind.EXTENSION)] == [
        Outcome.REFUSED
    ]


def test_only_the_next_ones_are_struck(own: Cloud) -> None:
    topic, subscription = own.topic_with_subscription()
    fault_id = own.control.inject(
        Fault(Target.EXTENSION, Effect.REFUSE, resource=subscription, nth=2, count=1)
    )
    own.publish(topic, b"extended")
    (received,) = own.pull(subscription)
    own.set_deadline(subscription, received, 30)
    with pytest.raises(InternalServerError):
        own.set_deadline(subscription, received, 30)
    own.set_deadline(subscription, received, 30)
    (injected,) = [one for one in own.control.faults() if one.fault_id == fault_id]
    assert (injected.fitted, injected.struck) == (3, 1)


def test_a_lost_ack_brings_the_message_back(own: Cloud) -> None:
    topic, subscription = own.topic_with_subscription(ack_deadline_seconds=1)
    own.control.inject(Fault(Target.ACK, Effect.LOSE, resource=subscription, count=1))
    own.publish(topic, b"twice")
    for _ in range(2):
        (received,) = own.pull(subscription)
        own.acknowledge(subscription, received)
    assert own.control.backlog(subscription).messages == 0
    outcomes = [one.outcome for one in events(own, subscription, EventKind.ACK)]
    assert outcomes == [Outcome.LOST, Outcome.APPLIED]


def test_a_delayed_ack_comes_too_late(own: Cloud) -> None:
    """Goal: the lease lapses meanwhile, and the second delivery is what the ack no longer meets."""
    topic, subscription = own.topic_with_subscription(ack_deadline_seconds=1)
    own.control.inject(Fault(Target.ACK, Effect.DELAY, resource=subscription, seconds=1.5, count=1))
    own.publish(topic, b"late")
    (first,) = own.pull(subscription)
    own.acknowledge(subscription, first)
    (second,) = own.pull(subscription, seconds=5.0)
    wanted = EventFilter(kind=EventKind.ACK, resource=subscription)
    acks = own.control.wait_for_events(wanted, at_least=2)
    assert [one.outcome for one in acks] == [Outcome.DELAYED, Outcome.STALE]
    own.acknowledge(subscription, second)
    assert own.control.backlog(subscription).messages == 0


def test_an_ack_whose_answer_is_lost_counts_all_the_same(own: Cloud) -> None:
    topic, subscription = own.topic_with_subscription()
    own.control.inject(Fault(Target.ACK, Effect.REFUSE, resource=subscription, acts=True))
    own.publish(topic, b"done")
    (received,) = own.pull(subscription)
    with pytest.raises(InternalServerError):
        own.acknowledge(subscription, received)
    assert own.control.backlog(subscription).messages == 0


def test_exactly_once_holds_a_delayed_ack_back_until_it_counts(own: Cloud) -> None:
    topic, subscription = own.topic_with_subscription(enable_exactly_once_delivery=True)
    own.control.inject(Fault(Target.ACK, Effect.DELAY, resource=subscription, seconds=0.5))
    answers: list[Any] = []

    def acknowledge(message: Any, _: int) -> None:
        answers.append(message.ack_with_response())

    with own.consuming(subscription, acknowledge) as consumer:
        own.publish(topic, b"held")
        consumer.wait_for(1)
        status = answers[0].result(timeout=PATIENCE_SECONDS)
    assert status is AcknowledgeStatus.SUCCESS
    (acked,) = events(own, subscription, EventKind.ACK)
    (delivered,) = events(own, subscription, EventKind.DELIVERED)
    assert acked.outcome is Outcome.APPLIED
    assert acked.at_seconds - delivered.at_seconds > 0.5


def test_exactly_once_repeats_an_ack_that_was_refused(own: Cloud) -> None:
    """Goal: the client gets details with the error, and does not take it for a success."""
    topic, subscription = own.topic_with_subscription(enable_exactly_once_delivery=True)
    own.control.inject(Fault(Target.ACK, Effect.REFUSE, resource=subscription, count=1))
    answers: list[Any] = []

    def acknowledge(message: Any, _: int) -> None:
        answers.append(message.ack_with_response())

    with own.consuming(subscription, acknowledge) as consumer:
        own.publish(topic, b"refused")
        consumer.wait_for(1)
        status = answers[0].result(timeout=PATIENCE_SECONDS)
    assert status is AcknowledgeStatus.SUCCESS
    outcomes = [one.outcome for one in events(own, subscription, EventKind.ACK)]
    assert outcomes == [Outcome.REFUSED, Outcome.APPLIED]


def test_a_duplicate_runs_beside_the_first_delivery(own: Cloud) -> None:
    """Goal: two consumers have the same message at once, and either ack settles it."""
    topic, subscription = own.topic_with_subscription()
    own.control.inject(Fault(Target.DELIVERY, Effect.DUPLICATE, resource=subscription, count=1))
    own.publish(topic, b"double")
    (first,) = own.pull(subscription)
    (second,) = own.pull(subscription)
    assert first.message.message_id == second.message.message_id
    assert first.ack_id != second.ack_id
    own.acknowledge(subscription, first)
    assert own.control.backlog(subscription).messages == 0


def test_a_lost_delivery_comes_back_when_its_lease_lapses(own: Cloud) -> None:
    topic, subscription = own.topic_with_subscription(ack_deadline_seconds=1)
    own.control.inject(Fault(Target.DELIVERY, Effect.LOSE, resource=subscription, count=1))
    own.publish(topic, b"late")
    (received,) = own.pull(subscription)
    lost, arrived = events(own, subscription, EventKind.DELIVERED)
    assert (lost.outcome, arrived.outcome) == (Outcome.LOST, Outcome.APPLIED)
    assert received.ack_id == arrived.ack_id


def test_a_fault_can_be_for_one_message(own: Cloud) -> None:
    topic, subscription = own.topic_with_subscription(ack_deadline_seconds=1)
    own.publish(topic, b"lucky")
    unlucky = own.publish(topic, b"unlucky")
    own.control.inject(Fault(Target.ACK, Effect.LOSE, message_id=unlucky, count=1))
    own.acknowledge(subscription, *own.pull(subscription, 2))
    (again,) = own.pull(subscription)
    assert again.message.data == b"unlucky"


def test_a_refused_publish(own: Cloud) -> None:
    topic, subscription = own.topic_with_subscription()
    own.control.inject(Fault(Target.PUBLISH, Effect.REFUSE, resource=topic, count=1))
    own.control.inject(Fault(Target.PUBLISH, Effect.REFUSE, resource=topic, count=1, acts=True))
    # The publisher repeats what failed with INTERNAL: once refused, once with a lost answer.
    own.publish(topic, b"thrice")
    assert own.control.backlog(subscription).messages == 2


def test_a_stream_that_is_cut_is_opened_again(own: Cloud) -> None:
    """Goal: the client reconnects by itself and goes on."""
    topic, subscription = own.topic_with_subscription()
    opened = EventFilter(kind=EventKind.STREAM_OPENED, resource=subscription)
    with own.consuming(subscription, lambda message, _: message.ack()) as consumer:
        own.publish(topic, b"before")
        consumer.wait_for(1)
        assert own.control.cut_streams(subscription) == 1
        own.control.wait_for_events(opened, at_least=2)
        own.publish(topic, b"after")
        consumer.wait_for(2)
    assert consumer.data == [b"before", b"after"]


def test_a_delivery_that_is_refused_cuts_the_stream(own: Cloud) -> None:
    topic, subscription = own.topic_with_subscription(ack_deadline_seconds=1)
    own.control.inject(
        Fault(Target.DELIVERY, Effect.REFUSE, resource=subscription, count=1, status="UNAVAILABLE")
    )
    own.publish(topic, b"lost")
    with pytest.raises(GoogleAPICallError):
        own.subscriber.pull(
            subscription=subscription, max_messages=1, retry=None, timeout=PATIENCE_SECONDS
        )
    (received,) = own.pull(subscription)
    assert received.message.data == b"lost"


def test_what_a_stream_asks_for_is_written_down(own: Cloud) -> None:
    """Goal: a message that is left without a nack is seen to have been."""
    topic, subscription = own.topic_with_subscription()

    def leave_once(message: Any, before: int) -> None:
        if before == 0:
            message.modify_ack_deadline(1)
            message.drop()
        else:
            message.ack()

    with own.consuming(subscription, leave_once) as consumer:
        own.publish(topic, b"left")
        consumer.wait_for(2)
        eventually(lambda: own.control.backlog(subscription).messages == 0)
    assert events(own, subscription, EventKind.NACK) == []
    assert len(events(own, subscription, EventKind.ACK)) == 1
    assert 1.0 in [one.seconds for one in events(own, subscription, EventKind.EXTENSION)]
    deliveries = events(own, subscription, EventKind.DELIVERED)
    assert [one.attempt for one in deliveries] == [1, 2]
    assert {one.path for one in deliveries} == {Path.STREAM}
    assert len(events(own, subscription, EventKind.LAPSED)) == 1


def test_the_record_can_be_asked_for_what_is_new(own: Cloud) -> None:
    topic, subscription = own.topic_with_subscription()
    own.publish(topic, b"old")
    last = own.control.events()[-1]
    message_id = own.publish(topic, b"new")
    (event,) = own.control.events(EventFilter(after=last.sequence))
    assert (event.kind, event.resource, event.message_id) == (
        EventKind.PUBLISHED,
        topic,
        message_id,
    )
    with pytest.raises(TimeoutError):
        own.control.wait_for_events(EventFilter(resource=subscription), wait_seconds=0.05)
