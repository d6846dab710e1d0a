"""Single pulls: leases, nacks, backoff, dead letters and order, on both emulators."""

import time

import pytest
from google.api_core.exceptions import InvalidArgument

from tests.pubsub_emulator.support import Cloud, except_on_gclouds, on_both

# By how much a wait may be cut short: timers are not exact.
TOLERANCE_SECONDS = 0.1


@on_both
def test_what_was_acknowledged_never_comes_again(cloud: Cloud) -> None:
    """Method: a second message, pulled together with the first, shows when that would be back."""
    topic, subscription = cloud.topic_with_subscription(ack_deadline_seconds=1)
    cloud.publish(topic, b"done")
    cloud.publish(topic, b"witness")
    by_data = {one.message.data: one for one in cloud.pull(subscription, 2)}
    cloud.acknowledge(subscription, by_data[b"done"])
    assert [one.message.data for one in cloud.pull(subscription)] == [b"witness"]
    assert cloud.pull_now(subscription) == []


@on_both
def test_a_lease_that_lapses_brings_the_message_back(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription(ack_deadline_seconds=1)
    message_id = cloud.publish(topic, b"back")
    first = cloud.pull(subscription)[0]
    pulled_at = time.monotonic()
    second = cloud.pull(subscription)[0]
    assert time.monotonic() - pulled_at > 1.0 - TOLERANCE_SECONDS
    assert first.message.message_id == second.message.message_id == message_id
    assert first.ack_id != second.ack_id


@on_both
def test_nobody_else_gets_a_message_that_is_out(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription()
    cloud.publish(topic, b"mine")
    cloud.pull(subscription)
    assert cloud.pull_now(subscription) == []


@on_both
def test_a_lease_can_be_set_anew(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription(ack_deadline_seconds=1)
    cloud.publish(topic, b"longer")
    (received,) = cloud.pull(subscription)
    pulled_at = time.monotonic()
    cloud.set_deadline(subscription, received, 2)
    cloud.pull(subscription)
    assert time.monotonic() - pulled_at > 2.0 - TOLERANCE_SECONDS


@on_both
def test_a_nack_brings_the_message_back_at_once(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription(ack_deadline_seconds=60)
    cloud.publish(topic, b"again")
    (received,) = cloud.pull(subscription)
    cloud.set_deadline(subscription, received, 0)
    assert cloud.pull(subscription)[0].message.data == b"again"


@on_both
def test_a_late_ack_counts_until_the_message_is_delivered_again(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription(ack_deadline_seconds=1)
    cloud.publish(topic, b"late")
    (received,) = cloud.pull(subscription)
    # Until the lease has lapsed.
    time.sleep(1.2)
    cloud.acknowledge(subscription, received)
    cloud.publish(topic, b"marker")
    assert [one.message.data for one in cloud.pull(subscription)] == [b"marker"]


@on_both
def test_an_ack_of_an_older_delivery_settles_nothing(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription(ack_deadline_seconds=1)
    cloud.publish(topic, b"twice")
    (first,) = cloud.pull(subscription)
    (second,) = cloud.pull(subscription)
    cloud.acknowledge(subscription, first)
    cloud.set_deadline(subscription, second, 0)
    assert cloud.pull(subscription)[0].message.data == b"twice"


@on_both
def test_ack_ids_that_never_were(cloud: Cloud) -> None:
    _, subscription = cloud.topic_with_subscription()
    with pytest.raises(InvalidArgument):
        cloud.subscriber.acknowledge(subscription=subscription, ack_ids=["nonsense"])
    with pytest.raises(InvalidArgument):
        cloud.subscriber.acknowledge(subscription=subscription, ack_ids=[])
    with pytest.raises(InvalidArgument):
        cloud.subscriber.modify_ack_deadline(
            subscription=subscription, ack_ids=["nonsense"], ack_deadline_seconds=10
        )


@on_both
def test_a_deadline_in_the_past_is_refused(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription()
    cloud.publish(topic, b"kept")
    (received,) = cloud.pull(subscription)
    with pytest.raises(InvalidArgument):
        cloud.set_deadline(subscription, received, -1)


@except_on_gclouds("it lets a deadline be as long as it likes")
def test_a_deadline_of_more_than_ten_minutes_is_refused(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription()
    cloud.publish(topic, b"kept")
    (received,) = cloud.pull(subscription)
    with pytest.raises(InvalidArgument):
        cloud.set_deadline(subscription, received, 601)


@on_both
def test_a_pull_without_a_number_is_refused(cloud: Cloud) -> None:
    _, subscription = cloud.topic_with_subscription()
    with pytest.raises(InvalidArgument):
        cloud.pull_now(subscription, at_most=0)


@on_both
def test_a_pull_waits_for_a_message(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription()
    future = cloud.publisher.publish(topic, b"soon")
    answer = cloud.subscriber.pull(subscription=subscription, max_messages=1, timeout=10)
    future.result(timeout=10)
    assert [one.message.data for one in answer.received_messages] in ([b"soon"], [])


@on_both
def test_no_more_is_pulled_than_was_asked_for(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription()
    for number in range(5):
        cloud.publish(topic, b"%d" % number)
    first = cloud.pull_now(subscription, at_most=2)
    assert len(first) <= 2
    others = cloud.pull(subscription, 5 - len(first))
    assert len({one.message.message_id for one in [*first, *others]}) == 5


@on_both
def test_a_retry_policy_paces_redelivery(cloud: Cloud) -> None:
    """Goal: from the second failure on, the wait doubles up to the maximum."""
    policy = {"minimum_backoff": "0.400s", "maximum_backoff": "0.800s"}
    topic, subscription = cloud.topic_with_subscription(retry_policy=policy)
    cloud.publish(topic, b"paced")
    waits = _waits_after_nacks(cloud, subscription, 3)
    assert waits[1] > 0.4 - TOLERANCE_SECONDS, waits
    assert waits[2] > 0.8 - TOLERANCE_SECONDS, waits


@except_on_gclouds("its first redelivery under a retry policy is immediate")
def test_a_retry_policy_paces_the_first_redelivery_too(cloud: Cloud) -> None:
    policy = {"minimum_backoff": "1s", "maximum_backoff": "1s"}
    topic, subscription = cloud.topic_with_subscription(retry_policy=policy)
    cloud.publish(topic, b"paced")
    (wait,) = _waits_after_nacks(cloud, subscription, 1)
    assert wait > 1.0 - TOLERANCE_SECONDS


@on_both
def test_deliveries_are_counted_where_there_are_dead_letters(cloud: Cloud) -> None:
    """Goal: nacks and lapsed leases both count."""
    topic, subscription = cloud.topic_with_subscription(
        ack_deadline_seconds=1,
        dead_letter_policy={"dead_letter_topic": cloud.topic(), "max_delivery_attempts": 5},
    )
    cloud.publish(topic, b"counted")
    (first,) = cloud.pull(subscription)
    cloud.set_deadline(subscription, first, 0)
    (second,) = cloud.pull(subscription)
    (third,) = cloud.pull(subscription)
    attempts = [first.delivery_attempt, second.delivery_attempt, third.delivery_attempt]
    assert attempts == [1, 2, 3]


@on_both
def test_a_message_is_dead_lettered_after_its_last_attempt(cloud: Cloud) -> None:
    """Goal: exactly so many deliveries, then a copy with a new id that says where it was."""
    dead_letter_topic, dead_letters = cloud.topic_with_subscription()
    topic, subscription = cloud.topic_with_subscription(
        dead_letter_policy={"dead_letter_topic": dead_letter_topic, "max_delivery_attempts": 5}
    )
    message_id = cloud.publish(topic, b"poison", "a-key", color="red")
    deliveries = []
    for _ in range(5):
        deliveries += cloud.pull(subscription)
        cloud.set_deadline(subscription, deliveries[-1], 0)
    assert [one.delivery_attempt for one in deliveries] == [1, 2, 3, 4, 5]
    # gcloud's emulator forwards a message only when it is asked for once more.
    assert cloud.pull_now(subscription) == []
    (letter,) = cloud.pull(dead_letters)
    assert letter.message.data == b"poison"
    assert letter.message.ordering_key == "a-key"
    assert letter.message.message_id != message_id
    attributes = dict(letter.message.attributes)
    assert attributes.pop("color") == "red"
    published_at = deliveries[0].message.publish_time
    stamp = published_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert attributes == {
        "CloudPubSubDeadLetterSourceDeliveryCount": "5",
        "CloudPubSubDeadLetterSourceSubscription": subscription.rsplit("/", 1)[-1],
        "CloudPubSubDeadLetterSourceSubscriptionProject": "acceptance",
        "CloudPubSubDeadLetterSourceTopicPublishTime": stamp,
    }


@on_both
def test_order_is_kept_within_a_key(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription(enable_message_ordering=True)
    for number in range(6):
        cloud.publish(topic, b"%d" % number, ordering_key=f"key-{number % 2}")
    received = cloud.pull(subscription, 6)
    by_key = {
        key: [one.message.data for one in received if one.message.ordering_key == key]
        for key in ("key-0", "key-1")
    }
    assert by_key == {"key-0": [b"0", b"2", b"4"], "key-1": [b"1", b"3", b"5"]}


@on_both
def test_a_key_waits_until_its_message_is_settled(cloud: Cloud) -> None:
    """Goal: while a message is out, no other pull gets one of its key; another key's it does."""
    topic, subscription = cloud.topic_with_subscription(enable_message_ordering=True)
    cloud.publish(topic, b"a-1", ordering_key="a")
    (first,) = cloud.pull(subscription)
    cloud.publish(topic, b"a-2", ordering_key="a")
    cloud.publish(topic, b"b-1", ordering_key="b")
    assert [one.message.data for one in cloud.pull(subscription)] == [b"b-1"]
    assert cloud.pull_now(subscription) == []
    cloud.acknowledge(subscription, first)
    assert [one.message.data for one in cloud.pull(subscription)] == [b"a-2"]


@except_on_gclouds("it redelivers the message that failed after those that came behind it")
def test_a_failed_message_takes_those_behind_it_back(cloud: Cloud) -> None:
    """Goal: after a nack its key starts again from there, with what was acknowledged too early."""
    topic, subscription = cloud.topic_with_subscription(enable_message_ordering=True)
    for number in range(4):
        cloud.publish(topic, b"%d" % number, ordering_key="key")
    received = cloud.pull(subscription, 4)
    cloud.acknowledge(subscription, received[0], received[3])
    cloud.set_deadline(subscription, received[1], 0)
    again = cloud.pull(subscription, 3, seconds=3.0)
    assert [one.message.data for one in again] == [b"1", b"2", b"3"]


def _waits_after_nacks(cloud: Cloud, subscription: str, nacks: int) -> list[float]:
    (received,) = cloud.pull(subscription)
    waits = []
    for _ in range(nacks):
        cloud.set_deadline(subscription, received, 0)
        nacked_at = time.monotonic()
        (received,) = cloud.pull(subscription)
        waits.append(time.monotonic() - nacked_at)
    return waits
