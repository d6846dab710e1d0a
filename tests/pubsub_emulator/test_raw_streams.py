"""StreamingPull as other languages' clients use it: acks and deadlines on the stream itself."""

from typing import Any

import pytest
from google.api_core.exceptions import (
    GoogleAPICallError,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
)

from local.pubsub_emulator import Effect, EventFilter, EventKind, Fault, Path, Target
from local.pubsub_emulator import subscriber_service as service_module
from tests.pubsub_emulator.support import Cloud, RawStream, eventually, streaming


def test_acks_and_deadlines_on_the_stream_itself(own: Cloud) -> None:
    topic, subscription = own.topic_with_subscription(enable_message_ordering=True)
    with streaming(own, subscription) as stream:
        own.publish(topic, b"one", ordering_key="a")
        first = stream.receive()
        stream.send(
            modify_deadline_ack_ids=[first.received_messages[0].ack_id], modify_deadline_seconds=[0]
        )
        again = stream.receive()
        stream.send(ack_ids=[again.received_messages[0].ack_id])
        eventually(lambda: own.control.backlog(subscription).messages == 0)
    assert first.subscription_properties.message_ordering_enabled
    assert not first.subscription_properties.exactly_once_delivery_enabled
    (ack,) = own.control.events(EventFilter(kind=EventKind.ACK, resource=subscription))
    (nack,) = own.control.events(EventFilter(kind=EventKind.NACK, resource=subscription))
    assert ack.path is nack.path is Path.STREAM


def test_exactly_once_confirms_on_the_stream(own: Cloud) -> None:
    topic, subscription = own.topic_with_subscription(enable_exactly_once_delivery=True)
    own.publish(topic, b"one")
    with streaming(own, subscription) as stream:
        ack_id = stream.receive().received_messages[0].ack_id
        stale = f"{subscription}:1-99"
        stream.send(modify_deadline_ack_ids=[ack_id, stale], modify_deadline_seconds=[30, 30])
        extended = stream.receive()
        stream.send(ack_ids=[ack_id])
        acknowledged = stream.receive()
        own.control.inject(Fault(Target.ACK, Effect.REFUSE, resource=subscription))
        stream.send(ack_ids=[stale])
        refused = stream.receive()
    assert list(extended.modify_ack_deadline_confirmation.ack_ids) == [ack_id]
    assert list(extended.modify_ack_deadline_confirmation.invalid_ack_ids) == [stale]
    assert list(acknowledged.acknowledge_confirmation.ack_ids) == [ack_id]
    assert list(refused.acknowledge_confirmation.temporary_failed_ack_ids) == [stale]
    every = (extended, acknowledged, refused)
    assert all(one.subscription_properties.exactly_once_delivery_enabled for one in every)


def test_the_stream_decides_how_long_a_lease_is(own: Cloud) -> None:
    """Goal: not the subscription's deadline counts, and a later request may change it."""
    topic, subscription = own.topic_with_subscription(ack_deadline_seconds=600)
    with streaming(own, subscription, stream_ack_deadline_seconds=1) as stream:
        own.publish(topic, b"one")
        first, second = stream.receive(), stream.receive()
        stream.send(stream_ack_deadline_seconds=600)
        third = stream.receive()
    ack_ids = {one.received_messages[0].ack_id for one in (first, second, third)}
    assert len(ack_ids) == 3
    lapsed = own.control.events(EventFilter(kind=EventKind.LAPSED, resource=subscription))
    assert len(lapsed) == 2


def test_limits_hold_the_rest_back_until_something_is_settled(own: Cloud) -> None:
    topic, subscription = own.topic_with_subscription()
    for number in range(3):
        own.publish(topic, b"%d" % number)
    with streaming(own, subscription, max_outstanding_messages=2) as stream:
        first = stream.receive()
        stream.send(ack_ids=[first.received_messages[0].ack_id])
        second = stream.receive()
    assert [len(one.received_messages) for one in (first, second)] == [2, 1]


def test_a_stream_whose_client_says_no_more_ends_well(own: Cloud) -> None:
    _, subscription = own.topic_with_subscription()
    stream = RawStream(own, subscription=subscription)
    stream.half_close()
    with pytest.raises(StopIteration):
        stream.receive()
    closed = EventFilter(kind=EventKind.STREAM_CLOSED, resource=subscription)
    own.control.wait_for_events(closed)


def test_a_client_that_goes_away_is_noticed(own: Cloud) -> None:
    _, subscription = own.topic_with_subscription()
    with streaming(own, subscription):
        opened = EventFilter(kind=EventKind.STREAM_OPENED, resource=subscription)
        own.control.wait_for_events(opened)
    closed = EventFilter(kind=EventKind.STREAM_CLOSED, resource=subscription)
    own.control.wait_for_events(closed)
    assert own.control.cut_streams(subscription) == 0


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ({"stream_ack_deadline_seconds": 0}, {}),
        ({"stream_ack_deadline_seconds": 601}, {}),
        ({}, {"stream_ack_deadline_seconds": 601}),
        ({}, {"subscription": "projects/acceptance/subscriptions/other"}),
        ({}, {"max_outstanding_messages": 5}),
        ({}, {"ack_ids": ["nonsense"]}),
        ({}, {"modify_deadline_ack_ids": ["nonsense"], "modify_deadline_seconds": [1]}),
        ({}, {"modify_deadline_ack_ids": ["nonsense"]}),
    ],
    ids=str,
)
def test_requests_that_make_no_sense(
    own: Cloud, first: dict[str, Any], later: dict[str, Any]
) -> None:
    _, subscription = own.topic_with_subscription()
    with streaming(own, subscription, **first) as stream:
        stream.send(**later)
        with pytest.raises(InvalidArgument):
            stream.receive()


def test_a_stream_needs_a_subscription(own: Cloud) -> None:
    stream = RawStream(own, subscription="projects/acceptance/subscriptions/missing")
    with pytest.raises(NotFound):
        stream.receive()
    stream.half_close()


def test_a_lost_delivery_does_not_stop_a_stream(own: Cloud) -> None:
    """Goal: what lies behind the lost one comes all the same."""
    topic, subscription = own.topic_with_subscription()
    own.control.inject(Fault(Target.DELIVERY, Effect.LOSE, resource=subscription, count=1))
    with streaming(own, subscription, max_outstanding_messages=2) as stream:
        own.publish(topic, b"lost")
        own.publish(topic, b"next")
        assert stream.receive().received_messages[0].message.data == b"next"


def test_a_refused_delivery_ends_a_stream(own: Cloud) -> None:
    topic, subscription = own.topic_with_subscription()
    own.control.inject(
        Fault(Target.DELIVERY, Effect.REFUSE, resource=subscription, status="ABORTED")
    )
    with streaming(own, subscription) as stream:
        own.publish(topic, b"lost")
        with pytest.raises(GoogleAPICallError, match="ABORTED"):
            stream.receive()


def test_streams_are_bounded(own: Cloud) -> None:
    """Goal: however many streams are opened, short calls still find a thread."""
    _, subscription = own.topic_with_subscription()
    streams = [
        RawStream(own, subscription=subscription) for _ in range(service_module.MAXIMUM_WAITING)
    ]
    opened = EventFilter(kind=EventKind.STREAM_OPENED, resource=subscription)
    own.control.wait_for_events(opened, at_least=service_module.MAXIMUM_WAITING)
    with streaming(own, subscription) as stream, pytest.raises(ResourceExhausted):
        stream.receive()
    assert own.subscriber.get_subscription(subscription=subscription).name == subscription
    for one in streams:
        one.cancel()
    closed = EventFilter(kind=EventKind.STREAM_CLOSED, resource=subscription)
    own.control.wait_for_events(closed, at_least=service_module.MAXIMUM_WAITING)
