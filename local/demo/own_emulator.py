"""Delivery by our own Pub/Sub emulator, which loses extensions and delivers twice now and then."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, Self

import grpc
from google.pubsub_v1 import PublisherClient, PubsubMessage, SubscriberClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from local.demo.broker import (
    ACK_DEADLINE_SECONDS,
    BACKOFF_SECONDS,
    DEAD_LETTER_SUBSCRIPTION,
    DEAD_LETTER_TOPIC,
    LEAVE_SECONDS,
    MOST_DELIVERIES,
    PROJECT,
    PULL_SUBSCRIPTION,
    SUBSCRIPTION,
    TOPIC,
    LeasesSeen,
)
from local.demo.plan import Message
from local.pubsub_emulator import (
    Effect,
    EmulatorProcess,
    EventFilter,
    EventKind,
    Fault,
    Outcome,
    Target,
)
from shared.dead_letter_attributes import MESSAGE_ID

CALL_SECONDS: Final = 30.0
MOST_LETTERS_PER_PULL: Final = 100
# So fast does its clock run: a lease of a minute, as Google's client takes it, lapses while
# somebody watches. What is to last some real seconds is set that much longer.
SPEED: Final = 5
LOST_EXTENSIONS: Final = 0.2
DELIVERED_TWICE: Final = 0.05


class OwnEmulatorBroker:
    """A topic with a push and a pull subscription and its dead letters, as a context manager."""

    name = "our Pub/Sub emulator"
    pull_subscription = PULL_SUBSCRIPTION

    def __init__(self, seed: int) -> None:
        """Prepare the emulator.

        Args:
            seed: Decides which extensions are lost, and what is delivered twice.
        """
        self._emulator = EmulatorProcess(project=PROJECT, seed=seed, speed=SPEED)
        self._running = ExitStack()

    @property
    def environment(self) -> Mapping[str, str]:
        """See `Broker.environment`."""
        return {
            "PUBSUB_EMULATOR_HOST": self._emulator.host_and_port,
            "PUBSUB_LEAVE_SECONDS": str(SPEED * LEAVE_SECONDS),
        }

    def __enter__(self) -> Self:
        """Start the emulator, and make topics and subscriptions but for the one that pushes."""
        with ExitStack() as starting:
            starting.enter_context(self._emulator)
            channel = starting.enter_context(grpc.insecure_channel(self._emulator.host_and_port))
            self._publisher = PublisherClient(transport=PublisherGrpcTransport(channel=channel))
            self._subscriber = SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))
            for topic in (TOPIC, DEAD_LETTER_TOPIC):
                self._publisher.create_topic(name=self._emulator.topic_path(topic))
            self._subscribe(DEAD_LETTER_TOPIC, DEAD_LETTER_SUBSCRIPTION)
            self._subscribe(TOPIC, PULL_SUBSCRIPTION, dead_letter_policy=self._policy())
            for fault in _faults():
                self._emulator.control.inject(fault)
            self._running = starting.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the emulator."""
        self._running.close()

    def push_to(self, endpoint: str) -> None:
        """See `Broker.push_to`."""
        shortest, longest = (f"{SPEED * seconds}s" for seconds in BACKOFF_SECONDS)
        self._subscribe(
            TOPIC,
            SUBSCRIPTION,
            push_config={"push_endpoint": endpoint},
            dead_letter_policy=self._policy(),
            retry_policy={"minimum_backoff": shortest, "maximum_backoff": longest},
        )

    def publish(self, messages: Sequence[Message]) -> Sequence[str]:
        """See `Broker.publish`."""
        published = self._publisher.publish(
            topic=self._emulator.topic_path(TOPIC),
            messages=[
                PubsubMessage(data=message.body, attributes=dict(message.attributes))
                for message in messages
            ],
            timeout=CALL_SECONDS,
        )
        return list(published.message_ids)

    def leases(self) -> LeasesSeen | None:
        """See `Broker.leases`."""
        control = self._emulator.control
        lost = control.events(EventFilter(kind=EventKind.EXTENSION, outcome=Outcome.LOST))
        too_late = control.events(EventFilter(kind=EventKind.ACK, outcome=Outcome.STALE))
        return LeasesSeen(
            not_extended=len(lost), ran_out=len({acknowledged.ack_id for acknowledged in too_late})
        )

    def dead_letters(self, count: int, within_seconds: float) -> frozenset[str]:
        """See `Broker.dead_letters`."""
        subscription = self._emulator.subscription_path(DEAD_LETTER_SUBSCRIPTION)
        found: set[str] = set()
        give_up = time.monotonic() + within_seconds
        while len(found) < count and time.monotonic() < give_up:
            pulled = self._subscriber.pull(
                subscription=subscription,
                max_messages=MOST_LETTERS_PER_PULL,
                timeout=CALL_SECONDS,
            )
            for letter in pulled.received_messages:
                found.add(letter.message.attributes.get(MESSAGE_ID, ""))
            ack_ids = [letter.ack_id for letter in pulled.received_messages]
            if ack_ids:
                self._subscriber.acknowledge(subscription=subscription, ack_ids=ack_ids)
        return frozenset(found)

    def _subscribe(self, topic: str, subscription: str, **settings: Any) -> None:
        request = {
            "name": self._emulator.subscription_path(subscription),
            "topic": self._emulator.topic_path(topic),
            "ack_deadline_seconds": SPEED * ACK_DEADLINE_SECONDS,
            **settings,
        }
        self._subscriber.create_subscription(request=request, timeout=CALL_SECONDS)

    def _policy(self) -> Mapping[str, object]:
        return {
            "dead_letter_topic": self._emulator.topic_path(DEAD_LETTER_TOPIC),
            "max_delivery_attempts": MOST_DELIVERIES,
        }


def _faults() -> Sequence[Fault]:
    """Leases that run out while Stripe answers, and second deliveries while the first runs."""
    return [
        Fault(
            Target.EXTENSION, Effect.LOSE, resource=PULL_SUBSCRIPTION, probability=LOST_EXTENSIONS
        ),
        Fault(
            Target.DELIVERY,
            Effect.DUPLICATE,
            resource=PULL_SUBSCRIPTION,
            probability=DELIVERED_TWICE,
        ),
    ]
