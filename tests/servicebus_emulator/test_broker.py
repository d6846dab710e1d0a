"""Goal: a namespace has the queues, topics and subscriptions that it was given, and no others."""

import pytest

from local.servicebus_emulator import queues
from local.servicebus_emulator.broker import Broker, Topic, entity_path
from local.servicebus_emulator.errors import EntityNotFound, NotAllowed, QuotaExceeded
from local.servicebus_emulator.messages import Message
from local.servicebus_emulator.options import (
    EmulatorOptions,
    QueueOptions,
    QueueSettings,
    SubscriptionOptions,
)
from tests.servicebus_emulator.support import EPOCH, DeskClock, message

OPTIONS = EmulatorOptions(
    queues=[QueueOptions("Billing", QueueSettings(lock_seconds=5))],
    topics=["empty"],
    subscriptions=[
        SubscriptionOptions("usage", "billing"),
        SubscriptionOptions("usage", "audit", QueueSettings(max_delivery_count=1)),
    ],
)


@pytest.fixture
def clock() -> DeskClock:
    return DeskClock()


@pytest.fixture
def broker(clock: DeskClock) -> Broker:
    return Broker(OPTIONS, clock)


def test_everything_is_found_whatever_its_case(broker: Broker) -> None:
    paths = [queue.path for queue in broker.sources()]
    assert paths == [
        "Billing",
        "Billing/$DeadLetterQueue",
        "usage/Subscriptions/billing",
        "usage/Subscriptions/billing/$DeadLetterQueue",
        "usage/Subscriptions/audit",
        "usage/Subscriptions/audit/$DeadLetterQueue",
    ]
    for path in paths:
        assert broker.source(path.upper()).path == path
        assert broker.entity(path.lower()).path == path
    assert isinstance(broker.destination("USAGE"), Topic)
    assert broker.source("billing").settings.lock_seconds == 5


def test_what_is_not_there_is_not_found(broker: Broker) -> None:
    for find in (broker.source, broker.destination, broker.entity):
        with pytest.raises(EntityNotFound, match="'nothing'"):
            find("nothing")


def test_topics_only_take_and_subscriptions_only_give(broker: Broker) -> None:
    with pytest.raises(NotAllowed, match="is a topic"):
        broker.source("usage")
    for path in ("usage/subscriptions/billing", "billing/$deadletterqueue"):
        with pytest.raises(NotAllowed, match="nothing can be sent"):
            broker.destination(path)


def publish(broker: Broker, *messages: Message) -> list[int]:
    return broker.destination("usage").publish(list(messages))


def test_every_subscription_gets_a_copy(broker: Broker) -> None:
    assert publish(broker, message("a"), message("b")) == [1, 2]

    for name in ("billing", "audit"):
        entries = broker.source(f"usage/subscriptions/{name}").peek(1, 10)
        assert [entry.message.message_id for entry in entries] == ["a", "b"]
        assert [entry.enqueued_sequence_number for entry in entries] == [1, 2]


def test_a_topic_without_subscriptions_forgets(broker: Broker) -> None:
    broker.destination("empty").publish([message("a")])

    assert broker.next_due() is None


def test_a_topic_keeps_scheduled_messages_until_their_time(
    broker: Broker, clock: DeskClock
) -> None:
    later = [message(name, scheduled_at=EPOCH + 60) for name in ("a", "b")]
    first, _ = publish(broker, *later)
    broker.destination("usage").cancel([first])
    subscription = broker.source("usage/subscriptions/billing")
    assert subscription.peek(1, 10) == []
    assert broker.next_due() == EPOCH + 60

    clock.advance(60)
    broker.run_due()
    (entry,) = subscription.peek(1, 10)
    assert entry.message.message_id == "b"
    assert broker.next_due() is None


def test_a_full_subscription_fills_its_topic(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "MAXIMUM_QUEUE_BYTES", message("a").size_bytes + 1024)
    publish(broker, message("a"))

    with pytest.raises(QuotaExceeded):
        publish(broker, message("b"))


def test_the_nearest_time_of_all_queues_counts(broker: Broker, clock: DeskClock) -> None:
    due: list[float] = []
    broker.on_due(due.append)
    broker.destination("billing").publish([message("a")])
    publish(broker, message("b"))
    broker.source("usage/subscriptions/billing").lock_next()
    broker.source("billing").lock_next()

    assert due == [EPOCH + 60, EPOCH + 5]
    assert broker.next_due() == EPOCH + 5
    clock.advance(5)
    broker.run_due()
    assert broker.next_due() == EPOCH + 60


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("billing", "billing"),
        ("/billing/", "billing"),
        ("amqps://localhost:5672/usage/Subscriptions/billing", "usage/Subscriptions/billing"),
        ("sb://[::1]:5672/billing/$DeadLetterQueue", "billing/$DeadLetterQueue"),
        ("amqp://[nonsense/billing", "billing"),
        ("amqp://host", ""),
    ],
)
def test_addresses_may_be_urls(address: str, path: str) -> None:
    assert entity_path(address) == path


@pytest.mark.parametrize(
    "name", ["", "-a", "a b", "a?", "$cbs", "a/$management", "a:b", "/a", "a/", "a" * 300]
)
def test_names_follow_the_rules(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        EmulatorOptions(queues=[QueueOptions(name)])
    with pytest.raises(ValueError, match="cannot be the name"):
        EmulatorOptions(subscriptions=[SubscriptionOptions("usage", name)])


def test_names_are_given_once() -> None:
    with pytest.raises(ValueError, match="two of the"):
        EmulatorOptions(queues=[QueueOptions("a"), QueueOptions("A")])
    with pytest.raises(ValueError, match="two of the"):
        EmulatorOptions(queues=[QueueOptions("a")], topics=["a"])
    with pytest.raises(ValueError, match="two of the"):
        EmulatorOptions(subscriptions=[SubscriptionOptions("t", "s")] * 2)


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="at most 300"):
        QueueSettings(lock_seconds=301)
    with pytest.raises(ValueError, match="at most 300"):
        QueueSettings(advertised_lock_seconds=0)
    with pytest.raises(ValueError, match="max_delivery_count"):
        QueueSettings(max_delivery_count=0)
    with pytest.raises(ValueError, match="port"):
        EmulatorOptions(port=70_000)
