"""Dead letters in Service Bus: the sub-queue of a queue or subscription, or a queue of their own.

They are received in peek-lock mode. A letter that is passed over cannot be handed back without
counting as a delivery, nor received by its number: so it stays locked until its lock runs out or
the place is closed. In a dead-letter queue nothing limits deliveries.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ops.dead_letters.letters import DeadLetter
from ops.errors import PlaceUnavailable
from shared.dead_letter_attributes import ORIGINAL_MESSAGE_ID
from shared.servicebus_values import read_body, read_properties, read_text

if TYPE_CHECKING:
    from azure.servicebus import (
        ServiceBusClient,
        ServiceBusReceivedMessage,
        ServiceBusReceiver,
        ServiceBusSender,
    )
    from azure.servicebus.amqp import AmqpAnnotatedMessage

    from shared.settings import ServiceBusSettings

Result = TypeVar("Result")

PEEK_BATCH = 100
# How long the queue may stay silent before it counts as empty.
TAKE_SECONDS = 2.0
CALL_SECONDS = 20.0
# Less than this, and the lock is renewed before the letter is sent.
LOCK_MARGIN_SECONDS = 15.0
# Letters that are given back at the end; the locks of more have to run out.
PASSED_OVER_KEPT = 500
# A link hands out no more than 5,000 letters that nobody has settled.
PASSED_OVER_PER_LINK = 2_000

_ADDED_BY_DEAD_LETTERING = frozenset({"DeadLetterReason", "DeadLetterErrorDescription"})

_PROBLEMS = {
    "MessagingEntityNotFoundError": "there is no such queue, topic or subscription",
    "ServiceBusAuthenticationError": "access is denied: it takes the rights to listen and to send",
    "ServiceBusAuthorizationError": "access is denied: it takes the rights to listen and to send",
    "ServiceBusConnectionError": "it cannot be reached",
}


@dataclass(frozen=True, slots=True)
class Entities:
    """Where dead letters are received, and where they are sent.

    Args:
        source: the queue or topic; a queue of dead letters' own where `is_own_queue`.
        subscription: of the topic; None for a queue.
        destination: the queue or topic that is billed from.
        is_own_queue: whether the source is a queue that dead letters are forwarded to.
    """

    source: str
    subscription: str | None
    destination: str
    is_own_queue: bool

    @property
    def name(self) -> str:
        """The source as Service Bus writes it."""
        if self.is_own_queue:
            return self.source
        infix = f"/Subscriptions/{self.subscription}" if self.subscription else ""
        return f"{self.source}{infix}/$DeadLetterQueue"


def find_entities(servicebus: ServiceBusSettings, own_queue: str | None) -> Entities:
    """Say where to look and where to send.

    Args:
        servicebus: checked.
        own_queue: the queue that dead letters are forwarded to; None for the sub-queue.
    """
    destination = servicebus.queue or servicebus.topic
    assert destination is not None, "the settings were checked"
    if own_queue is not None:
        return Entities(own_queue, None, destination, is_own_queue=True)
    return Entities(destination, servicebus.subscription, destination, is_own_queue=False)


class ServiceBusDeadLetters:
    """Implements `DeadLetterPlace`. Entering connects.

    Args:
        servicebus: checked.
        entities: where to look and where to send.

    Raises:
        PlaceUnavailable: Service Bus cannot be reached, or refuses.
    """

    def __init__(self, servicebus: ServiceBusSettings, entities: Entities) -> None:
        self._settings = servicebus
        self._entities = entities
        self._stack = ExitStack()
        self._client: ServiceBusClient | None = None
        self._receiver: ServiceBusReceiver | None = None
        self._sender: ServiceBusSender | None = None
        self._passed_over: deque[ServiceBusReceivedMessage] = deque(maxlen=PASSED_OVER_KEPT)
        self._passed_over_on_link = 0

    @property
    def name(self) -> str:
        """See `DeadLetterPlace.name`."""
        return self._entities.name

    @property
    def peeks_freely(self) -> bool:
        """See `DeadLetterPlace.peeks_freely`."""
        return True

    @property
    def counts_deliveries(self) -> bool:
        """See `DeadLetterPlace.counts_deliveries`. Only an ordinary queue has a limit."""
        return self._entities.is_own_queue

    def __enter__(self) -> Self:
        self._client = self._stack.enter_context(self._call(_connect, self._settings))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._give_back()
        self._close_receiver()
        self._stack.close()

    @property
    def sends_any_body(self) -> bool:
        """See `DeadLetterPlace.sends_any_body`."""
        return True

    def peek(self) -> Iterator[Sequence[DeadLetter]]:
        """See `DeadLetterPlace.peek`."""
        next_number = 1
        while True:
            receiver = self._open_receiver()
            found = self._call(receiver.peek_messages, PEEK_BATCH, sequence_number=next_number)
            if not found:
                return
            next_number = max(message.sequence_number or 0 for message in found) + 1
            # In an ordinary queue there may also be messages that are deferred or scheduled.
            yield [_read_letter(message) for message in found if message.state.name == "ACTIVE"]

    def take(self, count: int) -> Sequence[DeadLetter]:
        """See `DeadLetterPlace.take`."""
        if self._passed_over_on_link >= PASSED_OVER_PER_LINK:
            self._give_back()
            self._close_receiver()
        receiver = self._open_receiver()
        found = self._call(receiver.receive_messages, count, max_wait_time=TAKE_SECONDS)
        return [_read_letter(message) for message in found]

    def holds(self, letter: DeadLetter) -> bool:
        """See `DeadLetterPlace.holds`."""
        until: datetime | None = letter.handle.locked_until_utc
        margin = timedelta(seconds=LOCK_MARGIN_SECONDS)
        if until is not None and until - datetime.now(UTC) > margin:
            return True
        receiver = self._open_receiver()
        return _succeeds(receiver.renew_message_lock, letter.handle, timeout=CALL_SECONDS)

    def send(self, letter: DeadLetter, *, fresh_id: bool) -> str:
        """See `DeadLetterPlace.send`."""
        copy = copy_of(letter.handle, fresh_id=fresh_id)
        self._call(self._open_sender().send_messages, copy, timeout=CALL_SECONDS)
        assert copy.properties is not None
        return read_text(copy.properties.message_id)

    def settle(self, letter: DeadLetter) -> bool:
        """See `DeadLetterPlace.settle`."""
        return _succeeds(self._open_receiver().complete_message, letter.handle)

    def remove(self, letter: DeadLetter) -> bool:
        """See `DeadLetterPlace.remove`."""
        return self.settle(letter)

    def pass_over(self, letter: DeadLetter) -> None:
        """See `DeadLetterPlace.pass_over`."""
        self._passed_over.append(letter.handle)
        self._passed_over_on_link += 1

    def _give_back(self) -> None:
        """Free what was passed over and is still locked; it would be soon in any case."""
        receiver = self._receiver
        while receiver is not None and self._passed_over:
            message = self._passed_over.popleft()
            until = message.locked_until_utc
            if until is not None and until > datetime.now(UTC):
                _succeeds(receiver.abandon_message, message)

    def _open_receiver(self) -> ServiceBusReceiver:
        if self._receiver is None:
            assert self._client is not None, "the place was not entered"
            entities = self._entities
            sub_queue: Any = None if entities.is_own_queue else "deadletter"
            if entities.subscription is not None:
                receiver = self._client.get_subscription_receiver(
                    entities.source, entities.subscription, sub_queue=sub_queue
                )
            else:
                receiver = self._client.get_queue_receiver(entities.source, sub_queue=sub_queue)
            self._receiver = self._call(receiver.__enter__)
        return self._receiver

    def _close_receiver(self) -> None:
        if self._receiver is not None:
            self._receiver.close()
        self._receiver = None
        self._passed_over_on_link = 0

    def _open_sender(self) -> ServiceBusSender:
        if self._sender is None:
            assert self._client is not None, "the place was not entered"
            # Of a queue and of a topic it is the same one.
            sender = self._client.get_queue_sender(self._entities.destination)
            self._sender = self._call(lambda: self._stack.enter_context(sender))
        return self._sender

    def _call(self, call: Callable[..., Result], *given: Any, **named: Any) -> Result:
        try:
            return call(*given, **named)
        except Exception as error:
            raise PlaceUnavailable(f"{self.name}: {_problem(error)}") from error


def _connect(servicebus: ServiceBusSettings) -> ServiceBusClient:
    import logging

    from azure_function.client import make_client

    # The SDK's warnings would stand between ours.
    logging.getLogger("azure").addHandler(logging.NullHandler())
    return make_client(servicebus)


def copy_of(message: ServiceBusReceivedMessage, *, fresh_id: bool) -> AmqpAnnotatedMessage:
    """Make the message that is sent again: the same, without the traces of its death.

    A received message cannot be sent as it is: it would keep its dead-letter properties, its
    delivery count, and the moment at which it expires.
    """
    from azure.servicebus.amqp import AmqpAnnotatedMessage

    original = message.raw_amqp_message
    properties = dict(original.properties.items()) if original.properties else {}
    properties.pop("absolute_expiry_time", None)
    properties.pop("creation_time", None)
    application_properties: dict[Any, Any] = {
        name: value
        for name, value in (original.application_properties or {}).items()
        if read_text(name) not in _ADDED_BY_DEAD_LETTERING
    }
    if fresh_id:
        application_properties.setdefault(ORIGINAL_MESSAGE_ID, read_text(message.message_id))
        properties["message_id"] = str(uuid.uuid4())
    time_to_live = original.header.time_to_live if original.header else None
    copy = AmqpAnnotatedMessage(
        header={"time_to_live": time_to_live},
        properties=properties,
        application_properties=application_properties,
        **_body_of(original),
    )
    if message.partition_key is not None:
        copy.annotations = {b"x-opt-partition-key": message.partition_key}
    return copy


def _body_of(original: AmqpAnnotatedMessage) -> dict[str, Any]:
    kind = original.body_type.value
    body = original.body
    return {f"{kind}_body": body if kind == "value" else list(body)}


def _read_letter(message: ServiceBusReceivedMessage) -> DeadLetter:
    properties = read_properties(message.application_properties)
    return DeadLetter(
        position=str(message.sequence_number),
        message_id=read_text(message.message_id),
        body=read_body(message.body),
        reason=read_text(message.dead_letter_reason),
        description=read_text(message.dead_letter_error_description),
        since=message.enqueued_time_utc or datetime.now(UTC),
        delivery_count=message.delivery_count,
        properties={
            name: value
            for name, value in properties.items()
            if name not in _ADDED_BY_DEAD_LETTERING
        },
        correlation_id=read_text(message.correlation_id),
        handle=message,
    )


def _succeeds(call: Callable[..., object], *given: Any, **named: Any) -> bool:
    """Try what may fail without harm: the letter then is there twice, or comes back."""
    try:
        call(*given, **named)
    except Exception:  # noqa: BLE001 (a lost lock, a lost answer, a lost link: all the same here)
        return False
    return True


def _problem(error: Exception) -> str:
    name = type(error).__name__
    return _PROBLEMS.get(name, f"Service Bus did not do as asked ({name})")
