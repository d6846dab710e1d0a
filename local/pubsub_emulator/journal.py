"""The record of everything that reached the broker, for tests to assert on."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, Final, Self

MAXIMUM_EVENTS: Final = 100_000


class EventKind(StrEnum):
    """What happened."""

    PUBLISHED = "published"
    DELIVERED = "delivered"
    # What a subscriber asked for.
    ACK = "ack"
    NACK = "nack"
    EXTENSION = "extension"
    # What time did.
    LAPSED = "lapsed"
    DEAD_LETTERED = "dead_lettered"
    FORGOTTEN = "forgotten"
    # What became of streams.
    STREAM_OPENED = "stream_opened"
    STREAM_CLOSED = "stream_closed"


class Outcome(StrEnum):
    """What the broker made of a request."""

    APPLIED = "applied"
    # Too late: the ack id settles nothing any more.
    STALE = "stale"
    # What injected faults made of it. A delayed one is recorded again when it is applied.
    LOST = "lost"
    REFUSED = "refused"
    DELAYED = "delayed"


class Path(StrEnum):
    """How a message left, or a request arrived."""

    UNARY = "unary"
    STREAM = "stream"
    PUSH = "push"
    NONE = ""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    Attributes:
        sequence: Its number, from 1, without gaps.
        at_seconds: When, in seconds since the emulator started, by the real clock.
        kind: What happened.
        resource: The full name of the subscription, or of the topic that was published to.
        message_id: Which message; empty where none is concerned.
        ack_id: Under which delivery.
        attempt: The delivery's number, from 1.
        seconds: By how much an extension extends.
        path: How a message left, or a request arrived.
        outcome: What the broker made of it.
    """

    sequence: int
    at_seconds: float
    kind: EventKind
    resource: str
    message_id: str = ""
    ack_id: str = ""
    attempt: int = 0
    seconds: float = 0.0
    path: Path = Path.NONE
    outcome: Outcome = Outcome.APPLIED

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return the event that a JSON object describes."""
        fields = dict(given)
        kind, path = EventKind(fields.pop("kind")), Path(fields.pop("path"))
        return cls(kind=kind, path=path, outcome=Outcome(fields.pop("outcome")), **fields)

    def to_json(self) -> dict[str, Any]:
        """Return the event as a JSON object that `from_json` understands."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are asked for. What is not given does not limit it.

    Attributes:
        kind: What happened.
        resource: The full name of a subscription or topic, or its last part.
        message_id: Which message.
        outcome: What the broker made of it.
        after: Only events with a higher number.
    """

    kind: EventKind | None = None
    resource: str | None = None
    message_id: str | None = None
    outcome: Outcome | None = None
    after: int = 0

    def fits(self, event: Event) -> bool:
        """Return whether the event is asked for."""
        return (
            event.sequence > self.after
            and self.kind in (None, event.kind)
            and self.message_id in (None, event.message_id)
            and self.outcome in (None, event.outcome)
            and names_resource(self.resource, event.resource)
        )


class JournalOverflow(RuntimeError):
    """The events that were asked for are partly gone: only the newest are kept."""


class Journal:
    """The newest events, in order."""

    def __init__(self, seconds_since_start: Callable[[], float]) -> None:
        """Start an empty journal.

        Args:
            seconds_since_start: The real time, for `Event.at_seconds`.
        """
        self._seconds_since_start = seconds_since_start
        self._events: deque[Event] = deque(maxlen=MAXIMUM_EVENTS)
        self._recorded = 0

    @property
    def recorded(self) -> int:
        """How many events there have been."""
        return self._recorded

    def record(
        self,
        kind: EventKind,
        resource: str,
        *,
        message_id: str = "",
        ack_id: str = "",
        attempt: int = 0,
        seconds: float = 0.0,
        path: Path = Path.NONE,
        outcome: Outcome = Outcome.APPLIED,
    ) -> None:
        """Write down what happened; see `Event`."""
        self._recorded += 1
        self._events.append(
            Event(
                sequence=self._recorded,
                at_seconds=self._seconds_since_start(),
                kind=kind,
                resource=resource,
                message_id=message_id,
                ack_id=ack_id,
                attempt=attempt,
                seconds=seconds,
                path=path,
                outcome=outcome,
            )
        )

    def find(self, wanted: EventFilter, at_most: int = MAXIMUM_EVENTS) -> list[Event]:
        """Return the first events that fit.

        Raises:
            JournalOverflow: Some that might fit are gone.
        """
        gone = self._recorded - len(self._events)
        if wanted.after < gone:
            raise JournalOverflow(
                f"The first {gone} events are gone; ask for those after number {gone}."
            )
        return list(islice(self._fitting(wanted), at_most))

    def _fitting(self, wanted: EventFilter) -> Iterator[Event]:
        return (event for event in self._events if wanted.fits(event))


def names_resource(given: str | None, full_name: str) -> bool:
    """Return whether the name, full or only its last part, means that resource; None means any."""
    return given in (None, full_name) or full_name.rsplit("/", 1)[-1] == given
