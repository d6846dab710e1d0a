"""Topics, subscriptions and publishing, on our emulator and on gcloud's."""

import time
from typing import Any

import pytest
from google.api_core.exceptions import AlreadyExists, InvalidArgument, NotFound, OutOfRange

from tests.pubsub_emulator.support import PROJECT, Cloud, except_on_gclouds, on_both

OTHER_PROJECT = "projects/other"


@on_both
def test_topics_are_made_found_listed_and_deleted(cloud: Cloud) -> None:
    first, second = sorted([cloud.topic(), cloud.topic()])
    assert cloud.publisher.get_topic(topic=first).name == first
    listed = [topic.name for topic in cloud.publisher.list_topics(project=PROJECT)]
    assert {first, second} <= set(listed)
    cloud.publisher.delete_topic(topic=first)
    with pytest.raises(NotFound):
        cloud.publisher.get_topic(topic=first)
    listed = [topic.name for topic in cloud.publisher.list_topics(project=PROJECT)]
    assert first not in listed
    assert second in listed


@on_both
def test_projects_do_not_see_each_other(cloud: Cloud) -> None:
    topic = f"{OTHER_PROJECT}/topics/alone"
    cloud.publisher.create_topic(name=topic)
    listed = [found.name for found in cloud.publisher.list_topics(project=OTHER_PROJECT)]
    assert listed == [topic]
    assert not list(cloud.subscriber.list_subscriptions(project=OTHER_PROJECT))


@on_both
def test_subscriptions_are_made_found_listed_and_deleted(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription(ack_deadline_seconds=42)
    found = cloud.subscriber.get_subscription(subscription=subscription)
    assert (found.name, found.topic, found.ack_deadline_seconds) == (subscription, topic, 42)
    listed = list(cloud.subscriber.list_subscriptions(project=PROJECT))
    assert subscription in [one.name for one in listed]
    assert list(cloud.publisher.list_topic_subscriptions(topic=topic)) == [subscription]
    cloud.subscriber.delete_subscription(subscription=subscription)
    with pytest.raises(NotFound):
        cloud.subscriber.get_subscription(subscription=subscription)
    assert not list(cloud.publisher.list_topic_subscriptions(topic=topic))


@on_both
def test_every_setting_comes_back(cloud: Cloud) -> None:
    dead_letter_topic = cloud.topic()
    settings: dict[str, Any] = {
        "ack_deadline_seconds": 600,
        "enable_message_ordering": True,
        "enable_exactly_once_delivery": True,
        "retry_policy": {"minimum_backoff": "1.500s", "maximum_backoff": "60s"},
        "dead_letter_policy": {
            "dead_letter_topic": dead_letter_topic,
            "max_delivery_attempts": 7,
        },
        "message_retention_duration": "3600s",
        "labels": {"team": "billing"},
    }
    _, subscription = cloud.topic_with_subscription(**settings)
    found = cloud.subscriber.get_subscription(subscription=subscription)
    assert found.ack_deadline_seconds == 600
    assert found.enable_message_ordering
    assert found.enable_exactly_once_delivery
    assert found.retry_policy.minimum_backoff.total_seconds() == 1.5
    assert found.retry_policy.maximum_backoff.total_seconds() == 60
    assert found.dead_letter_policy.dead_letter_topic == dead_letter_topic
    assert found.dead_letter_policy.max_delivery_attempts == 7
    assert found.message_retention_duration.total_seconds() == 3600
    assert dict(found.labels) == {"team": "billing"}


@on_both
def test_an_expiration_of_never_is_accepted(cloud: Cloud) -> None:
    _, subscription = cloud.topic_with_subscription(expiration_policy={})
    found = cloud.subscriber.get_subscription(subscription=subscription)
    assert "ttl" not in found.expiration_policy


@on_both
def test_only_what_the_mask_names_is_updated(cloud: Cloud) -> None:
    _, subscription = cloud.topic_with_subscription(labels={"kept": "yes"})
    changed = {
        "name": subscription,
        "ack_deadline_seconds": 33,
        "retry_policy": {"minimum_backoff": "2s", "maximum_backoff": "4s"},
        "labels": {"kept": "no"},
    }
    cloud.subscriber.update_subscription(
        request={
            "subscription": changed,
            "update_mask": {"paths": ["ack_deadline_seconds", "retry_policy"]},
        }
    )
    found = cloud.subscriber.get_subscription(subscription=subscription)
    assert found.ack_deadline_seconds == 33
    assert found.retry_policy.minimum_backoff.total_seconds() == 2
    assert dict(found.labels) == {"kept": "yes"}


@on_both
@pytest.mark.parametrize("paths", [[], ["topic"], ["enable_message_ordering"], ["nonsense"]])
def test_what_cannot_be_updated_is_refused(cloud: Cloud, paths: list[str]) -> None:
    topic, subscription = cloud.topic_with_subscription()
    request = {
        "subscription": {"name": subscription, "topic": topic},
        "update_mask": {"paths": paths},
    }
    with pytest.raises(InvalidArgument):
        cloud.subscriber.update_subscription(request=request)


@on_both
def test_names_that_are_taken(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription()
    with pytest.raises(AlreadyExists):
        cloud.publisher.create_topic(name=topic)
    with pytest.raises(AlreadyExists):
        cloud.subscriber.create_subscription(name=subscription, topic=topic)


@on_both
@pytest.mark.parametrize("name", ["ab", "1abc", "googabc", "a b c", "abc/def", "a" * 256])
def test_names_that_cannot_be(cloud: Cloud, name: str) -> None:
    with pytest.raises(InvalidArgument):
        cloud.publisher.create_topic(name=f"{PROJECT}/topics/{name}")
    with pytest.raises(InvalidArgument):
        cloud.subscriber.create_subscription(
            name=f"{PROJECT}/subscriptions/{name}", topic=cloud.topic()
        )


@on_both
def test_what_is_not_there_is_not_found(cloud: Cloud) -> None:
    topic, subscription = f"{PROJECT}/topics/missing", f"{PROJECT}/subscriptions/missing"
    with pytest.raises(NotFound):
        cloud.publish(topic, b"lost")
    with pytest.raises(NotFound):
        cloud.publisher.delete_topic(topic=topic)
    with pytest.raises(NotFound):
        cloud.subscriber.create_subscription(name=subscription, topic=topic)
    with pytest.raises(NotFound):
        cloud.subscriber.delete_subscription(subscription=subscription)
    with pytest.raises(NotFound):
        cloud.pull_now(subscription)
    with pytest.raises(NotFound):
        cloud.subscriber.acknowledge(subscription=subscription, ack_ids=[f"{subscription}:1"])
    with pytest.raises(NotFound):
        cloud.topic_with_subscription(
            dead_letter_policy={"dead_letter_topic": topic, "max_delivery_attempts": 5}
        )


@on_both
@pytest.mark.parametrize(
    "settings",
    [
        {"ack_deadline_seconds": 601},
        {"retry_policy": {"minimum_backoff": "601s"}},
        {"retry_policy": {"minimum_backoff": "20s", "maximum_backoff": "10s"}},
        {"message_retention_duration": "599s"},
        {"push_config": {"push_endpoint": "ftp://127.0.0.1/"}},
    ],
    ids=str,
)
def test_settings_out_of_bounds_are_refused(cloud: Cloud, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        cloud.topic_with_subscription(**settings)


@except_on_gclouds("it checks some settings loosely")
@pytest.mark.parametrize(
    "settings",
    [
        {"expiration_policy": {"ttl": "3600s"}},
        {
            "push_config": {"push_endpoint": "http://127.0.0.1/"},
            "enable_exactly_once_delivery": True,
        },
    ],
    ids=str,
)
def test_further_settings_are_refused(cloud: Cloud, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        cloud.topic_with_subscription(**settings)


@on_both
@pytest.mark.parametrize("attempts", [4, 101])
def test_too_few_or_too_many_delivery_attempts_are_refused(cloud: Cloud, attempts: int) -> None:
    policy = {"dead_letter_topic": cloud.topic(), "max_delivery_attempts": attempts}
    with pytest.raises(OutOfRange):
        cloud.topic_with_subscription(dead_letter_policy=policy)


@on_both
def test_a_message_arrives_as_it_was_published(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription()
    before = time.time()
    message_id = cloud.publish(topic, b"\x00\xff", "a-key", color="blue", empty="")
    (received,) = cloud.pull(subscription)
    message = received.message
    assert message.message_id == message_id
    assert message.data == b"\x00\xff"
    assert dict(message.attributes) == {"color": "blue", "empty": ""}
    assert message.ordering_key == "a-key"
    assert before - 1 <= message.publish_time.timestamp() <= time.time() + 1
    assert received.delivery_attempt == 0


@on_both
def test_every_subscription_gets_every_message_published_after_it(cloud: Cloud) -> None:
    topic, first = cloud.topic_with_subscription()
    cloud.publish(topic, b"one")
    second = cloud.subscription(topic)
    cloud.publish(topic, b"two")
    assert sorted(one.message.data for one in cloud.pull(first, 2)) == [b"one", b"two"]
    assert [one.message.data for one in cloud.pull(second)] == [b"two"]


@on_both
def test_message_ids_differ(cloud: Cloud) -> None:
    topic = cloud.topic()
    futures = [cloud.publisher.publish(topic, b"same") for _ in range(250)]
    assert len({future.result(timeout=10) for future in futures}) == 250


@on_both
def test_a_message_without_anything_is_refused(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription()
    with pytest.raises(InvalidArgument):
        cloud.publish(topic, b"")
    cloud.publish(topic, b"", only="an attribute")
    (received,) = cloud.pull(subscription)
    assert received.message.data == b""
    assert dict(received.message.attributes) == {"only": "an attribute"}


@on_both
def test_a_subscription_outlives_its_topic(cloud: Cloud) -> None:
    topic, subscription = cloud.topic_with_subscription()
    cloud.publish(topic, b"kept")
    cloud.publisher.delete_topic(topic=topic)
    found = cloud.subscriber.get_subscription(subscription=subscription)
    assert found.topic == "_deleted-topic_"
    assert [one.message.data for one in cloud.pull(subscription)] == [b"kept"]
