"""A broker on the desk: its time stands still until a test moves it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from local.pubsub_emulator import Event, EventFilter, EventKind, Limits
from local.pubsub_emulator.backlog import Demand
from local.pubsub_emulator.broker import Broker, Topic
from local.pubsub_emulator.clock import Clock
from local.pubsub_emulator.faults import FaultPlan
from local.pubsub_emulator.gate import Gate
from local.pubsub_emulator.journal import Journal
from local.pubsub_emulator.messages import Delivery, Draft
from local.pubsub_emulator.settings import SubscriptionSettings

TOPIC = "projects/desk/topics/orders"
SUBSCRIPTION = "projects/desk/subscriptions/billing"
DEAD_LETTER_TOPIC = "projects/desk/topics/dead"
DEAD_LETTERS = "projects/desk/subscriptions/dead"
EPOCH = datetime(2026, 11, 30, tzinfo=UTC)


class Desk:
    """A broker with a topic and one subscription, and one for dead letters."""

    def __init__(self, limits: Limits | None = None, **settings: Any) -> None:
        """Set the desk.

        Args:
            limits: What the broker allows.
            settings: Of the subscription.
        """
        self._now = 0.0
        self.clock = Clock(monotonic=lambda: self._now)
        self.journal = Journal(self.clock.real_now)
        self.broker = Broker(
            self.clock.now, lambda: EPOCH + timedelta(seconds=self._now), self.journal, limits
        )
        self.faults = FaultPlan(seed=1)
        self.gate = Gate(self.broker, self.faults, self.journal, self.clock)
        self.broker.create_topic(Topic(TOPIC))
        self.broker.create_topic(Topic(DEAD_LETTER_TOPIC))
        self.broker.create_subscription(SubscriptionSettings(SUBSCRIPTION, TOPIC, **settings))
        self.broker.create_subscription(SubscriptionSettings(DEAD_LETTERS, DEAD_LETTER_TOPIC))

    def pass_time(self, seconds: float) -> None:
        """Move the time, and let happen what is due."""
        self._now += seconds
        self.gate.advance()

    def publish(self, *data: bytes, key: str = "") -> list[str]:
        """Publish messages and return their ids."""
        return self.broker.publish(TOPIC, [Draft(one, ordering_key=key) for one in data])

    def take(self, messages: int = 10, consumer: str = "me", **demand: Any) -> list[Delivery]:
        """Take messages, for ten seconds unless the demand says otherwise."""
        wanted = {"lease_seconds": 10.0, **demand}
        return self.broker.take(SUBSCRIPTION, Demand(consumer, messages=messages, **wanted))

    def take_data(self, messages: int = 10, consumer: str = "me", **demand: Any) -> list[bytes]:
        """Take messages and return only what they carry."""
        return [one.message.content.data for one in self.take(messages, consumer, **demand)]

    def take_one(self, consumer: str = "me", **demand: Any) -> Delivery:
        """Take the one message that there is."""
        (delivery,) = self.take(10, consumer, **demand)
        return delivery

    def acknowledge(self, delivery: Delivery) -> bool:
        """Acknowledge, and return whether it counted."""
        return self.broker.acknowledge(SUBSCRIPTION, delivery.ack_id)

    def nack(self, delivery: Delivery) -> bool:
        """Give back, and return whether it counted."""
        return self.broker.give_back(SUBSCRIPTION, delivery.ack_id)

    def extend(self, delivery: Delivery, seconds: float) -> bool:
        """Extend, and return whether it counted."""
        return self.broker.extend(SUBSCRIPTION, delivery.ack_id, seconds)

    def dead_letters(self) -> list[bytes]:
        """Return what the dead letters carry."""
        demand = Demand("dead", 600.0, messages=1000)
        return [one.message.content.data for one in self.broker.take(DEAD_LETTERS, demand)]

    def events(self, kind: EventKind) -> list[Event]:
        """Return what happened."""
        return self.journal.find(EventFilter(kind=kind))
