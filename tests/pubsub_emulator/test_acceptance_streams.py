"""Google's streaming client: leases, leaving messages, flow control, order, exactly-once."""

from typing import Any

import pytest
from google.api_core.exceptions import NotFound
from google.cloud.pubsub_v1.subscriber.exceptions import AcknowledgeError, AcknowledgeStatus

from tests.pubsub_emulator.support import (
    PATIENCE_SECONDS,
    PROJECT,
    Cloud,
    eventually,
    except_on_gclouds,
    on_both,
)

TOLERANCE_SECONDS = 0.2


def acknowledge(message: Any, _: int) -> None:
    """Handle a message well."""
    message.ack()


def leave(message: Any, seconds: int) -> None:
    """Give up a message so that it comes back after a while, without a nack."""
    message.modify_ack_deadline(seconds)
    message.drop()


@on_both
def test_every_message_is_handled_once(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription()
    published = {b"%d" % number for number in range(30)}
    with cloud.consuming(subscription, acknowledge, max_messages=5) as consumer:
        futures = [cloud.publisher.publish(topic, data) for data in published]
        for future in futures:
            future.result(timeout=PATIENCE_SECONDS)
        consumer.wait_for(30)
    assert sorted(consumer.data) == sorted(published)
    assert cloud.pull_now(subscription) == []


@on_both
def test_a_message_says_what_it_is(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription(
        dead_letter_policy={"dead_letter_topic": cloud.topic(), "max_delivery_attempts": 5}
    )
    message_id = cloud.publish(topic, b"what", "a-key", color="blue")
    with cloud.consuming(subscription, acknowledge) as consumer:
        consumer.wait_for(1)
    message = consumer.seen[0].message
    assert message.message_id == message_id
    assert message.ordering_key == "a-key"
    assert dict(message.attributes) == {"color": "blue"}
    assert message.delivery_attempt == 1


@on_both
def test_a_nack_brings_a_message_back(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription()

    def nack_at_first(message: Any, before: int) -> None:
        message.ack() if before == 2 else message.nack()

    with cloud.consuming(subscription, nack_at_first) as consumer:
        cloud.publish(topic, b"again")
        consumer.wait_for(3)
    assert consumer.data == [b"again"] * 3


@on_both
def test_a_message_that_is_left_frees_its_slot_and_comes_back_in_time(cloud: Cloud) -> None:
    """Goal: with room for one message, leaving one stops no other, and costs no nack.

    Method: without the server's flow control, which counts a message until its lease ends.
    """
    topic, subscription = cloud.topic_with_subscription()

    def leave_one(message: Any, before: int) -> None:
        if message.data == b"left" and before == 0:
            leave(message, 2)
        else:
            message.ack()

    options = {"max_messages": 1, "use_legacy_flow_control": True}
    with cloud.consuming(subscription, leave_one, **options) as consumer:
        cloud.publish(topic, b"left")
        consumer.wait_for(1)
        cloud.publish(topic, b"next")
        consumer.wait_for(3)
    assert consumer.data == [b"left", b"next", b"left"]
    assert consumer.seen[1].at_seconds - consumer.seen[0].at_seconds < 1.5
    (seconds,) = consumer.seconds_between(b"left")
    assert 2.0 - TOLERANCE_SECONDS < seconds < 4.0


@except_on_gclouds("it ignores max_outstanding_messages")
def test_the_server_counts_a_message_until_its_lease_ends(cloud: Cloud) -> None:
    """Goal: with the client's default, a message that was left still fills its place."""
    topic, subscription = cloud.topic_with_subscription()

    def leave_one(message: Any, before: int) -> None:
        if message.data == b"left" and before == 0:
            leave(message, 1)
        else:
            message.ack()

    cloud.publish(topic, b"left")
    with cloud.consuming(subscription, leave_one, max_messages=1) as consumer:
        consumer.wait_for(1)
        cloud.publish(topic, b"next")
        consumer.wait_for(3)
    waited_seconds = consumer.seen[1].at_seconds - consumer.seen[0].at_seconds
    assert waited_seconds > 1.0 - TOLERANCE_SECONDS


@on_both
def test_a_callback_that_only_returns_keeps_its_message(cloud: Cloud) -> None:
    """Goal: neither ack nor nack: the client extends the lease, past the ack deadline, for ever.

    Method: another message, of which the same is left to lapse, shows when it would be back.
    """
    topic, subscription = cloud.topic_with_subscription(ack_deadline_seconds=1)

    def keep_one(message: Any, before: int) -> None:
        if message.data == b"kept":
            return
        if before == 0:
            leave(message, 2)
        else:
            message.ack()

    with cloud.consuming(subscription, keep_one) as consumer:
        cloud.publish(topic, b"kept")
        cloud.publish(topic, b"witness")
        eventually(lambda: consumer.count(b"witness") == 2)
        assert consumer.count(b"kept") == 1
        for one in consumer.seen:
            one.message.ack()


@on_both
def test_a_subscription_that_is_missing_or_goes_away_ends_the_stream(cloud: Cloud) -> None:
    with pytest.raises(NotFound):
        cloud.subscriber.subscribe(f"{PROJECT}/subscriptions/missing", print).result(timeout=10)
    topic, subscription = cloud.topic_with_subscription()
    seen: list[Any] = []
    future = cloud.subscriber.subscribe(subscription, lambda message: seen.append(message.ack()))
    cloud.publish(topic, b"connected")
    eventually(lambda: bool(seen))
    cloud.subscriber.delete_subscription(subscription=subscription)
    with pytest.raises(NotFound):
        future.result(timeout=10)


@on_both
def test_dead_letters_from_a_stream(cloud: Cloud) -> None:
    dead_letter_topic, dead_letters = cloud.topic_with_subscription()
    topic, subscription = cloud.topic_with_subscription(
        dead_letter_policy={"dead_letter_topic": dead_letter_topic, "max_delivery_attempts": 5}
    )
    with cloud.consuming(subscription, lambda message, _: message.nack()) as consumer:
        cloud.publish(topic, b"poison")
        (letter,) = cloud.pull(dead_letters)
    assert [one.message.delivery_attempt for one in consumer.seen] == [1, 2, 3, 4, 5]
    assert letter.message.data == b"poison"


@on_both
def test_order_is_kept_in_a_stream(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription(enable_message_ordering=True)
    with cloud.consuming(subscription, acknowledge) as consumer:
        for number in range(20):
            cloud.publish(topic, b"%d" % number, ordering_key=f"key-{number % 2}")
        consumer.wait_for(20)
    for start in (0, 1):
        mine = [data for data in consumer.data if int(data) % 2 == start]
        assert mine == [b"%d" % number for number in range(start, 20, 2)]


@on_both
def test_a_message_that_is_left_restarts_its_key_in_order(cloud: Cloud) -> None:
    """Goal: what came behind it comes again, acknowledged or not, and no storm breaks out."""
    topic, subscription = cloud.topic_with_subscription(enable_message_ordering=True)

    def leave_first(message: Any, before: int) -> None:
        if message.data == b"0" and before == 0:
            leave(message, 1)
        else:
            message.ack()

    with cloud.consuming(subscription, leave_first) as consumer:
        for number in range(3):
            cloud.publish(topic, b"%d" % number, ordering_key="key")
        eventually(lambda: consumer.count(b"0") == 2, seconds=5.0)
        eventually(lambda: consumer.count(b"2") == 2, seconds=2.0)
    assert consumer.data == [b"0", b"1", b"2", b"0", b"1", b"2"]


@on_both
def test_exactly_once_tells_that_an_ack_counted(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription(enable_exactly_once_delivery=True)
    answers: list[Any] = []

    def acknowledge_and_ask(message: Any, _: int) -> None:
        answers.append(message.ack_with_response())

    with cloud.consuming(subscription, acknowledge_and_ask) as consumer:
        cloud.publish(topic, b"one")
        cloud.publish(topic, b"two")
        consumer.wait_for(2)
        results = [answer.result(timeout=PATIENCE_SECONDS) for answer in answers]
    assert results == [AcknowledgeStatus.SUCCESS] * 2
    assert cloud.pull_now(subscription) == []


@on_both
def test_exactly_once_tells_that_an_ack_came_too_late(cloud: Cloud) -> None:
    """Goal: after a redelivery only the newest delivery can be acknowledged."""
    topic, subscription = cloud.topic_with_subscription(enable_exactly_once_delivery=True)

    def leave_first(message: Any, before: int) -> None:
        if before == 0:
            leave(message, 1)

    with cloud.consuming(subscription, leave_first) as consumer:
        cloud.publish(topic, b"late")
        consumer.wait_for(2)
        first, second = (one.message for one in consumer.seen)
        with pytest.raises(AcknowledgeError) as caught:
            first.ack_with_response().result(timeout=PATIENCE_SECONDS)
        status = second.ack_with_response().result(timeout=PATIENCE_SECONDS)
    assert caught.value.error_code is AcknowledgeStatus.INVALID_ACK_ID
    assert status is AcknowledgeStatus.SUCCESS


@on_both
def test_exactly_once_answers_nacks_and_extensions(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription(enable_exactly_once_delivery=True)
    answers: list[Any] = []

    def nack_first(message: Any, before: int) -> None:
        if before == 0:
            answers.append(message.modify_ack_deadline_with_response(30))
            answers.append(message.nack_with_response())
        else:
            answers.append(message.ack_with_response())

    with cloud.consuming(subscription, nack_first) as consumer:
        cloud.publish(topic, b"back")
        consumer.wait_for(2)
        eventually(lambda: len(answers) == 3)
        results = [answer.result(timeout=PATIENCE_SECONDS) for answer in answers]
    assert results == [AcknowledgeStatus.SUCCESS] * 3
