"""Dead letters on both brokers, over one database and one Stripe, and the command line."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from google.pubsub_v1.types import ReceivedMessage

from local.pubsub_emulator import Effect, Fault, Target
from shared.dead_letter_attributes import (
    DELIVERY_COUNT,
    DESCRIPTION,
    MESSAGE_ID,
    REASON,
)
from tests.support.pulling import PullDesk
from tests.support.servicebus import PERIOD, Desk, running_consumer, wait_until

QUEUE = "usage"
CENTRAL_QUEUE = "central"
DAY_SECONDS = 86_400.0
DESCRIBED = "the run's cap does not leave room for this amount"

_REPOSITORY = Path(__file__).resolve().parents[2]


class Morgue:
    """Two brokers with dead letters, and what bills from them.

    Args:
        azure: its queue is billed from.
        google: its subscription is billed from.
    """

    def __init__(self, azure: Desk, google: PullDesk) -> None:
        self.azure = azure
        self.google = google
        self.stripe = azure.stripe
        self._stack = ExitStack()
        client = ServiceBusClient.from_connection_string(azure.emulator.connection_string)
        self._client = self._stack.enter_context(client)
        self._receivers: dict[str, Any] = {}
        self._senders: dict[str, Any] = {}

    @property
    def environment(self) -> dict[str, str]:
        """The settings of a deployment on both clouds."""
        return {
            **self.google.environment,
            **self.azure.environment,
            "PUBSUB_TOPIC": self.google.topic,
            "PUBSUB_DEAD_LETTER_SUBSCRIPTION": self.google.dead_letter_subscription,
        }

    def close(self) -> None:
        """Close the connections."""
        self._stack.close()

    def bury_in_azure(
        self,
        letters: Mapping[str, bytes],
        reason: str = "CapReached",
        queue: str = QUEUE,
        **properties: Any,
    ) -> None:
        """Dead-letter messages of the queue, by message id."""
        sender, receiver = self._links(queue)
        sender.send_messages(
            [
                ServiceBusMessage(body, message_id=message_id, **properties)
                for message_id, body in letters.items()
            ]
        )
        left = len(letters)
        while left:
            for message in receiver.receive_messages(left, max_wait_time=5):
                receiver.dead_letter_message(message, reason=reason, error_description=DESCRIBED)
                left -= 1

    def put_in_central_queue(self, letters: Mapping[str, bytes]) -> None:
        """Put messages where dead letters are forwarded to, as Service Bus does."""
        sender, _ = self._links(CENTRAL_QUEUE)
        died: dict[Any, Any] = {
            "DeadLetterReason": "CapReached",
            "DeadLetterErrorDescription": DESCRIBED,
        }
        for message_id, body in letters.items():
            sender.send_messages(
                ServiceBusMessage(body, message_id=message_id, application_properties=dict(died))
            )

    def bury_in_google(
        self, letters: Mapping[str, bytes], reason: str = "CapReached", **attributes: str
    ) -> None:
        """Publish messages to the dead-letter topic as consumers do, by message id."""
        for message_id, body in letters.items():
            self.google.cloud.publish(
                self.google.dead_letter_topic,
                body,
                **{
                    REASON: reason,
                    DESCRIPTION: DESCRIBED,
                    MESSAGE_ID: message_id,
                    DELIVERY_COUNT: "3",
                    **attributes,
                },
            )

    def park(
        self, letters: Mapping[str, bytes], reason: str = "CapReached", customer_id: str = ""
    ) -> None:
        """Put messages into our own table, by message id."""
        for message_id, body in letters.items():
            self.azure.execute(
                """
                INSERT INTO chargeonce.parked_events (
                    reason, description, body, transport, message_id, delivery_count, attributes,
                    customer_id, billing_period
                )
                VALUES (%s, %s, %s, 'servicebus', %s, 1, '{}', %s, %s)
                """,
                [reason, DESCRIBED, body, message_id, customer_id or message_id, PERIOD],
            )

    def azure_dead_letters(self, queue: str = QUEUE) -> int:
        """How many lie in the queue's dead-letter queue."""
        return self.azure.emulator.queue(queue).dead_lettered

    def google_dead_letters(self) -> int:
        """How many lie in the dead-letter subscription."""
        return self.google.cloud.control.backlog(self.google.dead_letter_subscription).messages

    def sent_to_azure(self) -> int:
        """How many messages wait in the queue."""
        status = self.azure.emulator.queue(QUEUE)
        return status.active + status.locked

    def sent_to_google(self) -> int:
        """How many messages wait in the subscription."""
        return self.google.cloud.control.backlog(self.google.subscription).messages

    def shorten_leases(self) -> None:
        """Let leases on Pub/Sub's dead letters last a second, whatever a client asks for."""
        subscription = self.google.dead_letter_subscription
        self.google.cloud.subscriber.update_subscription(
            request={
                "subscription": {"name": subscription, "ack_deadline_seconds": 1},
                "update_mask": {"paths": ["ack_deadline_seconds"]},
            }
        )
        extensions = Fault(Target.EXTENSION, Effect.LOSE, resource=subscription)
        self.google.cloud.control.inject(extensions)

    def waiting_in_azure(self) -> list[Any]:
        """Take what waits in the queue."""
        _, receiver = self._links(QUEUE)
        messages = receiver.receive_messages(50, max_wait_time=2)
        for message in messages:
            receiver.complete_message(message)
        return list(messages)

    def waiting_in_google(self, count: int) -> list[ReceivedMessage]:
        """Take what waits in the subscription."""
        letters = self.google.cloud.pull(self.google.subscription, count)
        self.google.cloud.acknowledge(self.google.subscription, *letters)
        return letters

    def let_days_pass(self, days: int) -> None:
        """Move Stripe's clock on, so that it forgets its idempotency keys, and the records' age."""
        self.stripe.advance_clock(days * DAY_SECONDS)
        self.azure.execute(
            """
            UPDATE chargeonce.records
            SET attempt_started_at = attempt_started_at - make_interval(days => %(days)s),
                claimed_at = claimed_at - make_interval(days => %(days)s),
                lease_until = lease_until - make_interval(days => %(days)s),
                due_at = due_at - make_interval(days => %(days)s)
            """,
            {"days": days},
        )

    @contextmanager
    def billed(self) -> Iterator[None]:
        """Bill from both brokers while the block runs."""
        patience = {
            name: value
            for name, value in self.azure.environment.items()
            if name.startswith(("STRIPE_", "CHARGE_", "CLAIM_"))
        }
        with running_consumer(self.azure.environment), self.google.worker(**patience):
            yield

    def wait_until_billed(self, seconds: float = 90.0) -> None:
        """Wait until both brokers are rid of their messages; those that were left come at once."""

        def is_done() -> bool:
            queue = self.azure.emulator.queue(QUEUE)
            if queue.active == 0 and queue.locked > 0:
                self.azure.lapse_locks()
            return self.sent_to_azure() + self.sent_to_google() == 0

        wait_until(is_done, seconds, poll_seconds=0.5)

    def charges(self) -> Counter[str]:
        """How often each customer was charged, by Stripe's ledger."""
        return self.google.charges()

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start the real command line."""
        return subprocess.Popen(
            [sys.executable, "-m", "ops", *arguments],
            cwd=_REPOSITORY,
            env={"PATH": os.environ["PATH"], "COLUMNS": "160", **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _links(self, queue: str) -> tuple[Any, Any]:
        if queue not in self._senders:
            sender = self._client.get_queue_sender(queue)
            self._senders[queue] = self._stack.enter_context(sender)
            receiver = self._client.get_queue_receiver(queue)
            self._receivers[queue] = self._stack.enter_context(receiver)
        return self._senders[queue], self._receivers[queue]
