"""Delivery by gcloud's Pub/Sub emulator."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from local.demo.broker import (
    ACK_DEADLINE_SECONDS,
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
from local.pubsub_emulator_gcloud import GcloudPubsubEmulator, PubsubEmulatorError
from shared.dead_letter_attributes import MESSAGE_ID


class EmulatorBroker:
    """A topic with a push subscription and its dead letters, as a context manager."""

    name = "gcloud's Pub/Sub emulator"
    pull_subscription = PULL_SUBSCRIPTION

    def __init__(self, program: Path) -> None:
        """Prepare the emulator.

        Args:
            program: Its start script.
        """
        self._pubsub = GcloudPubsubEmulator(program, PROJECT)

    @property
    def environment(self) -> Mapping[str, str]:
        """See `Broker.environment`."""
        return {
            "PUBSUB_EMULATOR_HOST": self._pubsub.host_and_port,
            "PUBSUB_LEAVE_SECONDS": str(LEAVE_SECONDS),
        }

    def __enter__(self) -> Self:
        """Start the emulator and make both topics.

        Raises:
            PubsubEmulatorError: It does not work here.
        """
        self._pubsub.__enter__()
        try:
            self._pubsub.create_topic(TOPIC)
            self._pubsub.create_topic(DEAD_LETTER_TOPIC)
            self._pubsub.create_subscription(DEAD_LETTER_TOPIC, DEAD_LETTER_SUBSCRIPTION)
            self._pubsub.create_subscription(
                TOPIC,
                PULL_SUBSCRIPTION,
                ack_deadline_seconds=ACK_DEADLINE_SECONDS,
                dead_letter_topic=DEAD_LETTER_TOPIC,
                max_delivery_attempts=MOST_DELIVERIES,
            )
        except BaseException as error:
            self._pubsub.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the emulator."""
        self._pubsub.__exit__(kind, error, traceback)

    def push_to(self, endpoint: str) -> None:
        """See `Broker.push_to`."""
        # Without a retry policy the emulator tries again about a second later. Under one, its
        # version 0.8.20 forgets to, once several messages wait at a time.
        self._pubsub.create_subscription(
            TOPIC,
            SUBSCRIPTION,
            push_endpoint=endpoint,
            ack_deadline_seconds=ACK_DEADLINE_SECONDS,
            dead_letter_topic=DEAD_LETTER_TOPIC,
            max_delivery_attempts=MOST_DELIVERIES,
        )

    def publish(self, messages: Sequence[Message]) -> Sequence[str]:
        """See `Broker.publish`."""
        return [
            self._pubsub.publish(TOPIC, message.body, message.attributes) for message in messages
        ]

    def leases(self) -> LeasesSeen | None:
        """See `Broker.leases`."""
        return None

    def dead_letters(self, count: int, within_seconds: float) -> frozenset[str]:
        """See `Broker.dead_letters`."""
        found: set[str] = set()
        give_up = time.monotonic() + within_seconds
        while len(found) < count:
            seconds_left = max(0.0, give_up - time.monotonic())
            try:
                messages = self._pubsub.pull(DEAD_LETTER_SUBSCRIPTION, 1, seconds_left)
            except PubsubEmulatorError:
                break
            found.update(message.attributes.get(MESSAGE_ID, "") for message in messages)
        return frozenset(found)
