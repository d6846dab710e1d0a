"""Sending to a Service Bus queue or topic. The SDK is imported when it is needed, not before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from ops.outgoing import Outgoing, SendFailed
from shared.settings import ServiceBusSettings

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient, ServiceBusMessageBatch
    from azure.servicebus import ServiceBusSender as SdkSender

# The SDK sees to it that a batch is not too large. More in one would show progress in leaps.
MESSAGES_PER_BATCH = 250
# All attempts of the SDK at one batch together.
SEND_SECONDS = 60.0
CONTENT_TYPE = "application/json"


class ServiceBusSender:
    """Implements the port `Sender` for a queue or a topic.

    The message ids are our own, so that a queue that detects duplicates knows an event again.

    Args:
        servicebus: checked; says which namespace, and which queue or topic of it.
        connect: makes a client of the SDK, in place of the usual one.
    """

    def __init__(
        self,
        servicebus: ServiceBusSettings,
        connect: Callable[[ServiceBusSettings], ServiceBusClient] | None = None,
    ) -> None:
        self._servicebus = servicebus
        self._connect = connect or _connect
        self._name = servicebus.queue or servicebus.topic or ""

    @property
    def destination(self) -> str:
        """See `Sender.destination`. Names the namespace too: there is one for tests, perhaps."""
        return f"{self._servicebus.host}/{self._name}"

    def send(self, messages: Iterable[Outgoing]) -> Iterator[str]:
        """See `Sender.send`."""
        with self._explained(), ExitStack() as stack:
            sender = self._open(stack)
            for batch, message_ids in _batches(sender, messages):
                sender.send_messages(batch, timeout=SEND_SECONDS)
                yield from message_ids

    def _open(self, stack: ExitStack) -> SdkSender:
        client = stack.enter_context(self._connect(self._servicebus))
        if self._servicebus.queue is not None:
            return stack.enter_context(client.get_queue_sender(self._name))
        return stack.enter_context(client.get_topic_sender(self._name))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the SDK's errors into ours. Their texts stay out: they may quote the key."""
        try:
            yield
        except Exception as error:
            problem = type(error).__name__
            if problem == "MessagingEntityNotFoundError":
                raise SendFailed(f"there is no queue or topic {self.destination}") from error
            raise SendFailed(f"{self.destination} takes no message ({problem})") from error


def _connect(servicebus: ServiceBusSettings) -> ServiceBusClient:
    from azure_function.client import make_client

    return make_client(servicebus)


def _batches(
    sender: SdkSender, messages: Iterable[Outgoing]
) -> Iterator[tuple[ServiceBusMessageBatch, Sequence[str]]]:
    """Fill batches as full as the namespace allows; with each, the ids of what is in it."""
    from azure.servicebus import ServiceBusMessage
    from azure.servicebus.exceptions import MessageSizeExceededError

    batch, message_ids = sender.create_message_batch(), list[str]()
    for outgoing in messages:
        message = ServiceBusMessage(
            outgoing.body, message_id=outgoing.message_id, content_type=CONTENT_TYPE
        )
        if len(message_ids) == MESSAGES_PER_BATCH:
            yield batch, message_ids
            batch, message_ids = sender.create_message_batch(), []
        try:
            batch.add_message(message)
        except MessageSizeExceededError:
            yield batch, message_ids
            batch, message_ids = sender.create_message_batch(), []
            # What does not fit into an empty one fits nowhere.
            batch.add_message(message)
        message_ids.append(outgoing.message_id)
    yield batch, message_ids
