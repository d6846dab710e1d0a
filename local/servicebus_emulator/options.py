"""What an emulator is started with."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

DEFAULT_LOCK_SECONDS: Final = 60.0
DEFAULT_MAX_DELIVERY_COUNT: Final = 10
MAXIMUM_LOCK_SECONDS: Final = 300.0
MAXIMUM_DELIVERY_COUNT: Final = 2000
LOOPBACK: Final = "127.0.0.1"

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,258}[A-Za-z0-9_])?")
_HIGHEST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """How a queue or subscription treats its consumers.

    Attributes:
        lock_seconds: How long a lock lasts.
        advertised_lock_seconds: How long the consumer is told that it lasts; None: the truth.
        max_delivery_count: How many deliveries may fail before a message is dead-lettered.

    Raises:
        ValueError: A value makes no sense.
    """

    lock_seconds: float = DEFAULT_LOCK_SECONDS
    advertised_lock_seconds: float | None = None
    max_delivery_count: int = DEFAULT_MAX_DELIVERY_COUNT

    def __post_init__(self) -> None:
        for seconds in (self.lock_seconds, self.advertised_lock_seconds):
            if seconds is not None and not 0.0 < seconds <= MAXIMUM_LOCK_SECONDS:
                raise ValueError(f"a lock lasts at most {MAXIMUM_LOCK_SECONDS:.0f} seconds")
        if not 1 <= self.max_delivery_count <= MAXIMUM_DELIVERY_COUNT:
            raise ValueError(f"max_delivery_count lies between 1 and {MAXIMUM_DELIVERY_COUNT}")


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """A queue to make."""

    name: str
    settings: QueueSettings = field(default_factory=QueueSettings)


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """A subscription to make; it gets a copy of whatever is published on the topic."""

    topic: str
    name: str
    settings: QueueSettings = field(default_factory=QueueSettings)


@dataclass(frozen=True, slots=True)
class EmulatorOptions:
    """Everything that an emulator is started with.

    Attributes:
        queues: The queues.
        topics: Names. The topic of a subscription need not be repeated here.
        subscriptions: The subscriptions.
        host: The address to listen on.
        port: The AMQP port; 0 takes any that is free.
        control_port: The port of the control API; 0 takes any that is free, None opens none.
        seed: What the faults' chances follow.

    Raises:
        ValueError: A name or a number makes no sense.
    """

    queues: Sequence[QueueOptions] = ()
    topics: Sequence[str] = ()
    subscriptions: Sequence[SubscriptionOptions] = ()
    host: str = LOOPBACK
    port: int = 0
    control_port: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _check_names("queue", [queue.name for queue in self.queues])
        _check_names("topic", self.topics)
        for topic in self.all_topics():
            own = [each.name for each in self.subscriptions if each.topic == topic]
            _check_names(f"subscription of {topic}", own)
        _check_names("queue or topic", [*(queue.name for queue in self.queues), *self.all_topics()])
        for port in (self.port, self.control_port or 0):
            if not 0 <= port <= _HIGHEST_PORT:
                raise ValueError(f"a port lies between 0 and {_HIGHEST_PORT}")

    def all_topics(self) -> list[str]:
        """Return every topic, also those that only a subscription names."""
        return list(dict.fromkeys([*self.topics, *(each.topic for each in self.subscriptions)]))


def _check_names(kind: str, names: Iterable[str]) -> None:
    seen = set()
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of a {kind}")
        if name.lower() in seen:
            raise ValueError(f"there are two of the {kind} {name!r}")
        seen.add(name.lower())
