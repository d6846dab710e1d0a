"""Hands a queue's messages out to those who wait for them, in turn."""

from collections import deque
from typing import Protocol

from local.servicebus_emulator.queues import Queue


class Consumer(Protocol):
    """Somebody who waits for messages of one queue."""

    @property
    def is_ready(self) -> bool:
        """Whether a message can be delivered now."""
        ...

    def deliver_next(self) -> None:
        """Take the next message and deliver it."""
        ...


class Dispenser:
    """Brings the messages of one queue and its consumers together.

    Args:
        queue: The queue.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._consumers: deque[Consumer] = deque()
        self._is_dispensing = False
        queue.on_active(self.dispense)

    def add(self, consumer: Consumer) -> None:
        """Let a consumer wait for messages."""
        self._consumers.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Let a consumer wait no more."""
        if consumer in self._consumers:
            self._consumers.remove(consumer)

    def dispense(self) -> None:
        """Deliver as long as there are both messages and ready consumers."""
        # A delivery may make other messages available, and so call this again.
        if self._is_dispensing:
            return
        self._is_dispensing = True
        try:
            while self._queue.has_active and (consumer := self._next_ready()) is not None:
                consumer.deliver_next()
        finally:
            self._is_dispensing = False

    def _next_ready(self) -> Consumer | None:
        for _ in range(len(self._consumers)):
            consumer = self._consumers[0]
            self._consumers.rotate(-1)
            if consumer.is_ready:
                return consumer
        return None
