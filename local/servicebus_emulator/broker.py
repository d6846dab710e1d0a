"""The broker: every queue, topic and subscription of a namespace. No I/O."""

import itertools
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from local.servicebus_emulator.clock import Clock
from local.servicebus_emulator.errors import EntityNotFound, NotAllowed
from local.servicebus_emulator.messages import Message
from local.servicebus_emulator.options import EmulatorOptions, QueueSettings
from local.servicebus_emulator.queues import Queue

DEAD_LETTER_QUEUE: Final = "$DeadLetterQueue"
SUBSCRIPTIONS: Final = "Subscriptions"


class Topic:
    """Hands a copy of each message to each of its subscriptions, at the time it asks for.

    Args:
        path: The name by which clients address it.
        clock: Tells the time.
    """

    def __init__(self, path: str, clock: Clock) -> None:
        self.path = path
        self.subscriptions: list[Queue] = []
        self._incoming = Queue(path, QueueSettings(), clock)
        self._incoming.on_active(self._distribute)

    @property
    def incoming(self) -> Queue:
        """Where messages wait for their time."""
        return self._incoming

    def publish(self, messages: Sequence[Message]) -> list[int]:
        """Take all messages in, or none, and return the topic's sequence numbers for them.

        Raises:
            QuotaExceeded: The topic or a subscription has no room for them.
        """
        for subscription in self.subscriptions:
            subscription.check_room(messages)
        return self._incoming.publish(messages)

    def cancel(self, sequence_numbers: Sequence[int]) -> None:
        """Take scheduled messages out.

        Raises:
            MessageNotFound: One of them is not scheduled, or not any more; none was taken out.
        """
        self._incoming.cancel(sequence_numbers)

    def _distribute(self) -> None:
        while (entry := self._incoming.take_next()) is not None:
            for subscription in self.subscriptions:
                subscription.forward(entry.message, entry.sequence_number)


Destination: TypeAlias = Queue | Topic


class Broker:
    """A namespace.

    Args:
        options: Which queues, topics and subscriptions it has.
        clock: Tells the time.
    """

    def __init__(self, options: EmulatorOptions, clock: Clock) -> None:
        self._clock = clock
        self._sources: dict[str, Queue] = {}
        self._destinations: dict[str, Destination] = {}
        topics = {name: Topic(name, clock) for name in options.all_topics()}
        for name, topic in topics.items():
            self._destinations[name.lower()] = topic
        for queue in options.queues:
            made = self._make_queue(queue.name, queue.settings)
            self._destinations[queue.name.lower()] = made
        for each in options.subscriptions:
            path = f"{each.topic}/{SUBSCRIPTIONS}/{each.name}"
            topics[each.topic].subscriptions.append(self._make_queue(path, each.settings))
        self._timed = [*self._sources.values(), *(topic.incoming for topic in topics.values())]

    def _make_queue(self, path: str, settings: QueueSettings) -> Queue:
        numbers = itertools.count(1)
        dead_path = f"{path}/{DEAD_LETTER_QUEUE}"
        dead_letters = Queue(dead_path, settings, self._clock, numbers=numbers)
        queue = Queue(path, settings, self._clock, dead_letters, numbers)
        for each in (queue, dead_letters):
            self._sources[each.path.lower()] = each
        return queue

    def queues(self) -> list[Queue]:
        """Return every queue and subscription, without the dead-letter queues."""
        return [queue for queue in self._sources.values() if queue.dead_letters is not None]

    def sources(self) -> list[Queue]:
        """Return whatever can be received from, dead-letter queues included."""
        return list(self._sources.values())

    def source(self, path: str) -> Queue:
        """Return the queue to receive from.

        Raises:
            EntityNotFound: There is none.
            NotAllowed: It is a topic.
        """
        found = self._sources.get(path.lower())
        if found is not None:
            return found
        if path.lower() in self._destinations:
            raise NotAllowed(f"{path} is a topic: receive from one of its subscriptions")
        raise _not_found(path)

    def destination(self, path: str) -> Destination:
        """Return the queue or topic to publish to.

        Raises:
            EntityNotFound: There is none.
            NotAllowed: It is a subscription or a dead-letter queue.
        """
        found = self._destinations.get(path.lower())
        if found is not None:
            return found
        if path.lower() in self._sources:
            raise NotAllowed(f"nothing can be sent to {path}")
        raise _not_found(path)

    def entity(self, path: str) -> Destination:
        """Return the queue, subscription, dead-letter queue or topic of that name.

        Raises:
            EntityNotFound: There is none.
        """
        found = self._sources.get(path.lower()) or self._destinations.get(path.lower())
        if found is None:
            raise _not_found(path)
        return found

    def on_due(self, signal: Callable[[float], None]) -> None:
        """Call `signal` with the time whenever `next_due` has come nearer."""
        for queue in self._timed:
            queue.on_due(signal)

    def next_due(self) -> float | None:
        """Return when `run_due` will have something to do, or None."""
        times = [due for queue in self._timed if (due := queue.next_due()) is not None]
        return min(times, default=None)

    def run_due(self) -> None:
        """Do what is due in every queue and topic."""
        for queue in self._timed:
            queue.run_due()


def entity_path(address: str) -> str:
    """Return the path of a link's address, which may be a URL."""
    _, is_url, after_scheme = address.partition("://")
    path = after_scheme.partition("/")[2] if is_url else address
    return path.strip("/")


def _not_found(path: str) -> EntityNotFound:
    return EntityNotFound(
        f"The messaging entity '{path}' could not be found. To know more visit "
        "https://aka.ms/sbResourceMgrExceptions."
    )
