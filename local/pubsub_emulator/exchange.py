"""The broker as everybody meets it: one lock, and time that passes.

Requests from many threads are let in one at a time; a thread of its own lets happen what only
takes time; and whoever waits for something is woken by every change.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from local.pubsub_emulator.backlog import Demand
from local.pubsub_emulator.broker import Broker
from local.pubsub_emulator.clock import Clock
from local.pubsub_emulator.errors import Unavailable
from local.pubsub_emulator.faults import FaultPlan
from local.pubsub_emulator.gate import Gate, Settlement
from local.pubsub_emulator.journal import (
    Event,
    EventFilter,
    EventKind,
    Journal,
    Path,
    names_resource,
)
from local.pubsub_emulator.messages import Delivery, Draft
from local.pubsub_emulator.settings import Limits

STOP_SECONDS: Final = 10.0
# Nothing depends on it: whoever waits is woken by every change.
LONGEST_WAIT_SECONDS: Final = 60.0


@dataclass(slots=True, eq=False)
class StreamTicket:
    """A pull stream that is open; `is_cut` tells it to end as if the connection had broken."""

    subscription: str
    is_cut: bool = False


class Exchange:
    """Everything that happens in the emulator goes through here."""

    def __init__(self, clock: Clock, limits: Limits | None = None, seed: int = 0) -> None:
        """Prepare an empty broker; `start` lets its time pass.

        Args:
            clock: Tells the time.
            limits: What the broker allows.
            seed: Decides which improbable faults strike.
        """
        self._clock = clock
        self._journal = Journal(clock.real_now)
        self._broker = Broker(clock.now, lambda: datetime.now(UTC), self._journal, limits)
        self._faults = FaultPlan(seed)
        self._gate = Gate(self._broker, self._faults, self._journal, clock)
        self._streams: set[StreamTicket] = set()
        lock = threading.Lock()
        self._changed = threading.Condition(lock)
        self._planned = threading.Condition(lock)
        self._version = 0
        self._closed = threading.Event()
        self._timekeeper = threading.Thread(
            target=self._keep_time, name="pubsub-emulator-time", daemon=True
        )

    @property
    def clock(self) -> Clock:
        """Tells the time."""
        return self._clock

    @property
    def is_closed(self) -> bool:
        """Whether the emulator is stopping."""
        return self._closed.is_set()

    @property
    def version(self) -> int:
        """A number that grows with every change; see `wait`."""
        with self._changed:
            return self._version

    def start(self) -> None:
        """Let time pass."""
        self._timekeeper.start()

    def close(self) -> None:
        """Refuse everything from now on and wake everybody who waits."""
        with self._changed:
            self._closed.set()
            self._note_change()
        self._timekeeper.join(STOP_SECONDS)

    def wait(self, version: int, seconds: float) -> None:
        """Wait until something has changed since the version, but not for longer than that."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != version or self.is_closed, seconds)

    def wake(self) -> None:
        """Let everybody who waits look again."""
        with self._changed:
            self._note_change()

    @contextmanager
    def look(self) -> Iterator[Broker]:
        """Let one caller at a time look at the broker.

        Raises:
            Unavailable: The emulator is stopping.
        """
        with self._changed:
            if self.is_closed:
                raise Unavailable("The emulator is stopping.")
            yield self._broker

    @contextmanager
    def administer(self) -> Iterator[Broker]:
        """Let one caller at a time change the broker; faults do not strike here.

        Raises:
            Unavailable: The emulator is stopping.
        """
        with self.look() as broker:
            try:
                yield broker
            finally:
                self._note_change()

    @contextmanager
    def plan_faults(self) -> Iterator[FaultPlan]:
        """Let one caller at a time change what goes wrong."""
        with self._changed:
            yield self._faults

    def events(self, wanted: EventFilter) -> list[Event]:
        """Return what was written down."""
        with self._changed:
            return self._journal.find(wanted)

    def publish(self, topic: str, drafts: Sequence[Draft]) -> list[str]:
        """Take messages in and return their ids; see `Gate.publish`."""
        with self.administer():
            return self._gate.publish(topic, drafts)

    def take(self, subscription: str, demand: Demand, path: Path) -> list[Delivery]:
        """Hand out messages that are waiting, without waiting for more; see `Gate.take`."""
        with self.look():
            before = self._journal.recorded
            try:
                return self._gate.take(subscription, demand, path)
            finally:
                if self._journal.recorded != before:
                    self._note_change()

    def settle(self, subscription: str, settlements: Sequence[Settlement], path: Path) -> None:
        """Acknowledge, give back or extend deliveries; see `Gate.carry_out`."""
        with self.look():
            request = self._gate.receive(subscription, settlements, path)
        self._closed.wait(request.hold_seconds)
        with self.administer():
            self._gate.carry_out(request)

    def open_stream(self, subscription: str) -> StreamTicket:
        """Note that somebody pulls by a stream.

        Raises:
            BrokerError: There is no such subscription, or its messages are pushed.
        """
        with self.administer() as broker:
            broker.check_pullable(subscription)
            ticket = StreamTicket(subscription)
            self._streams.add(ticket)
            self._journal.record(EventKind.STREAM_OPENED, subscription, path=Path.STREAM)
            return ticket

    def close_stream(self, ticket: StreamTicket) -> None:
        """Note that a stream ended."""
        with self._changed:
            self._streams.discard(ticket)
            self._journal.record(EventKind.STREAM_CLOSED, ticket.subscription, path=Path.STREAM)
            self._note_change()

    def cut_streams(self, subscription: str | None = None) -> int:
        """End the streams of a subscription, or all, with UNAVAILABLE; return how many."""
        with self._changed:
            cut = [one for one in self._streams if names_resource(subscription, one.subscription)]
            for ticket in cut:
                ticket.is_cut = True
            self._note_change()
            return len(cut)

    def _note_change(self) -> None:
        self._version += 1
        self._changed.notify_all()
        self._planned.notify()

    def _keep_time(self) -> None:
        with self._planned:
            while not self.is_closed:
                if self._gate.advance():
                    self._note_change()
                self._planned.wait(self._seconds_to_next())

    def _seconds_to_next(self) -> float:
        next_at = self._gate.next_at()
        if next_at is None:
            return LONGEST_WAIT_SECONDS
        real_seconds = self._clock.to_real(next_at - self._clock.now())
        return min(max(real_seconds, 0.0), LONGEST_WAIT_SECONDS)
