"""The usual consumers on Service Bus: a loop over a receiver whose locks the SDK renews."""

import threading
from collections.abc import Callable
from typing import Final

from azure.servicebus import (
    AutoLockRenewer,
    ServiceBusClient,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
)
from azure.servicebus.exceptions import MessageLockLostError, ServiceBusError

from local.usual_recipe.message import Message

RECEIVE_SECONDS: Final = 0.5
STOP_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 0.2
MAXIMUM_RENEWALS: Final = 64


class PeekLockMessage:
    """A message as Microsoft's client hands it over.

    Args:
        receiver: the client's.
        message: what it received.
    """

    def __init__(self, receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage) -> None:
        self._receiver = receiver
        self._message = message

    @property
    def body(self) -> bytes:
        """See `Message.body`."""
        return b"".join(self._message.body)

    @property
    def message_id(self) -> str:
        """See `Message.message_id`."""
        return str(self._message.message_id)

    def complete(self) -> None:
        """See `Message.complete`."""
        self._receiver.complete_message(self._message)

    def give_back(self) -> None:
        """See `Message.give_back`."""
        self._receiver.abandon_message(self._message)

    def leave(self) -> None:
        """See `Message.leave`.

        The renewer goes on renewing the lock for five minutes; that nobody expects it is part of
        the recipe.
        """


class PeekLockLoop:
    """Hands the messages of a queue to a consumer, in a thread, from `start` to `stop`.

    Args:
        connect: makes a client.
        queue: where to receive.
        handle: the consumer.
        batch: how many messages are taken at once, as advice for throughput has it.
    """

    def __init__(
        self,
        connect: Callable[[], ServiceBusClient],
        queue: str,
        handle: Callable[[Message], None],
        batch: int = 1,
    ) -> None:
        self._connect = connect
        self._queue = queue
        self._handle = handle
        self._batch = batch
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="usual-recipe", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Let it finish the message that it has in hand, and take no other."""
        self._stop.set()

    def join(self) -> None:
        """Wait until it has stopped."""
        self._thread.join(STOP_SECONDS)
        assert not self._thread.is_alive(), "the loop does not end"

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._receive()
            except Exception:  # noqa: BLE001 (its container would be started again)
                self._stop.wait(PAUSE_SECONDS)

    def _receive(self) -> None:
        with (
            self._connect() as client,
            AutoLockRenewer(max_workers=MAXIMUM_RENEWALS) as renewer,
            client.get_queue_receiver(self._queue, auto_lock_renewer=renewer) as receiver,
        ):
            while not self._stop.is_set():
                messages = receiver.receive_messages(self._batch, max_wait_time=RECEIVE_SECONDS)
                for message in messages:
                    if self._stop.is_set():
                        return
                    self._hand_over(PeekLockMessage(receiver, message))

    def _hand_over(self, message: PeekLockMessage) -> None:
        try:
            self._handle(message)
        except MessageLockLostError:
            # "Somebody else has it now."
            return
        except ServiceBusError:
            # "Something that can be tried again."
            message.give_back()
