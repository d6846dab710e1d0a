"""The real client, sync or async, with its links kept open from test to test.

Opening a link takes half a second, so one `Sdk` lives as long as the session does, and each
flavour has entities of its own: a link that is left open may still take a message.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusMessageBatch,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSubQueue,
    aio,
)

from local.servicebus_emulator import QueueOptions, QueueSettings, SubscriptionOptions

Answer = TypeVar("Answer")
Client: TypeAlias = ServiceBusClient | aio.ServiceBusClient
Sender: TypeAlias = ServiceBusSender | aio.ServiceBusSender
Receiver: TypeAlias = ServiceBusReceiver | aio.ServiceBusReceiver
Messages: TypeAlias = ServiceBusMessage | list[ServiceBusMessage] | ServiceBusMessageBatch

FLAVOURS = ("sync", "async")
MAX_DELIVERY_COUNT = 3
LOCK_SECONDS = 30.0
# Times go over the wire in whole milliseconds.
ROUNDING_SECONDS = 0.001
PATIENCE_SECONDS = 30.0
# Without this a client waits seconds before it tries again.
BACKOFF_SECONDS = 0.02


def queue_options() -> list[QueueOptions]:
    """The queues of every flavour."""
    settings = QueueSettings(LOCK_SECONDS, None, MAX_DELIVERY_COUNT)
    return [QueueOptions(f"billing-{flavour}", settings) for flavour in FLAVOURS]


def subscription_options() -> list[SubscriptionOptions]:
    """The topics and subscriptions of every flavour."""
    return [
        SubscriptionOptions(f"usage-{flavour}", name)
        for flavour in FLAVOURS
        for name in ("billing", "audit")
    ]


def new_message(
    message_id: str = "m-1", body: str | bytes = "{}", **more: Any
) -> ServiceBusMessage:
    """A message to send."""
    return ServiceBusMessage(body, message_id=message_id, **more)


class Sdk:
    """A client of one flavour with one queue, one topic and two subscriptions to itself."""

    def __init__(self, flavour: str, connection_string: str) -> None:
        self._loop = asyncio.new_event_loop() if flavour == "async" else None
        kind = ServiceBusClient if self._loop is None else aio.ServiceBusClient
        self.client: Client = kind.from_connection_string(
            connection_string, retry_backoff_factor=BACKOFF_SECONDS
        )
        self.queue = f"billing-{flavour}"
        self.topic = f"usage-{flavour}"
        self._senders: dict[str, Sender] = {}
        self._receivers: dict[tuple[object, ...], Receiver] = {}

    def run(self, outcome: Coroutine[Any, Any, Answer] | Answer) -> Answer:
        """Wait for what a call of either flavour returns."""
        if isinstance(outcome, Coroutine):
            answer: Answer = self.wait(outcome)
            return answer
        return outcome

    def wait(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        """Wait for a coroutine, on the loop of the async client."""
        assert self._loop is not None, "only the async client has a loop"
        return self._loop.run_until_complete(coroutine)

    def close(self) -> None:
        """Close every link, all at once: each waits for a thread that sleeps for a second."""
        links = [*self._senders.values(), *self._receivers.values()]
        if self._loop is None:
            with ThreadPoolExecutor(len(links) + 1) as pool:
                list(pool.map(lambda link: link.close(), links))
        else:
            self.wait(self._close_all(links))
        self.run(self.client.close())
        if self._loop is not None:
            self._loop.close()

    async def _close_all(self, links: list[Sender | Receiver]) -> None:
        closing = [link.close() for link in links]
        await asyncio.gather(*(each for each in closing if each is not None))

    # Links.

    def sender(self, topic: str | None = None) -> Sender:
        """The sender of the queue, or of a topic."""
        name = topic or self.queue
        if name not in self._senders:
            make = self.client.get_queue_sender if topic is None else self.client.get_topic_sender
            self._senders[name] = make(name)
        return self._senders[name]

    def receiver(
        self, subscription: str | None = None, *, dead: bool = False, deletes: bool = False
    ) -> Receiver:
        """A receiver of the queue or of a subscription to the topic."""
        key = (subscription, dead, deletes)
        if key not in self._receivers:
            self._receivers[key] = self.new_receiver(subscription, dead=dead, deletes=deletes)
        return self._receivers[key]

    def new_receiver(
        self, subscription: str | None = None, *, dead: bool = False, deletes: bool = False
    ) -> Receiver:
        """A receiver that the test closes itself."""
        options: dict[str, Any] = {}
        if dead:
            options["sub_queue"] = ServiceBusSubQueue.DEAD_LETTER
        if deletes:
            options["receive_mode"] = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        if subscription is None:
            return self.client.get_queue_receiver(self.queue, **options)
        return self.client.get_subscription_receiver(self.topic, subscription, **options)

    # Calls.

    def send(self, messages: Messages, topic: str | None = None) -> None:
        self.run(self.sender(topic).send_messages(messages))

    def receive(
        self,
        count: int = 1,
        subscription: str | None = None,
        *,
        dead: bool = False,
        deletes: bool = False,
    ) -> list[ServiceBusReceivedMessage]:
        """Exactly so many messages."""
        receiver = self.receiver(subscription, dead=dead, deletes=deletes)
        received: list[ServiceBusReceivedMessage] = []
        while len(received) < count:
            more = self.run(
                receiver.receive_messages(
                    max_message_count=count - len(received), max_wait_time=PATIENCE_SECONDS
                )
            )
            assert more, f"only {len(received)} of {count} messages came"
            received += more
        return received

    def receive_one(
        self, subscription: str | None = None, *, dead: bool = False
    ) -> ServiceBusReceivedMessage:
        (received,) = self.receive(1, subscription, dead=dead)
        return received

    def complete(self, message: ServiceBusReceivedMessage, **which: Any) -> None:
        self.run(self.receiver(**which).complete_message(message))

    def abandon(self, message: ServiceBusReceivedMessage) -> None:
        self.run(self.receiver().abandon_message(message))

    def defer(self, message: ServiceBusReceivedMessage) -> None:
        self.run(self.receiver().defer_message(message))

    def dead_letter(
        self,
        message: ServiceBusReceivedMessage,
        reason: str | None = None,
        description: str | None = None,
        **which: Any,
    ) -> None:
        receiver = self.receiver(**which)
        self.run(
            receiver.dead_letter_message(message, reason=reason, error_description=description)
        )

    def renew(self, message: ServiceBusReceivedMessage) -> datetime:
        return self.run(self.receiver().renew_message_lock(message))

    def peek(
        self, count: int = 10, sequence_number: int = 1, **which: Any
    ) -> list[ServiceBusReceivedMessage]:
        receiver = self.receiver(**which)
        return self.run(receiver.peek_messages(count, sequence_number=sequence_number))

    def schedule(
        self, messages: list[ServiceBusMessage], at: float, topic: str | None = None
    ) -> list[int]:
        when = datetime.fromtimestamp(at, UTC)
        return self.run(self.sender(topic).schedule_messages(messages, when))

    def cancel(self, sequence_numbers: list[int]) -> None:
        self.run(self.sender().cancel_scheduled_messages(sequence_numbers))


def ids(messages: Sequence[ServiceBusMessage]) -> list[str | None]:
    """The ids of messages."""
    return [message.message_id for message in messages]


def token_of(message: ServiceBusReceivedMessage) -> UUID:
    """The lock token of a received message."""
    assert isinstance(message.lock_token, UUID)
    return message.lock_token


def body_of(message: ServiceBusReceivedMessage) -> bytes:
    """The body of a message with data."""
    return b"".join(message.body)
