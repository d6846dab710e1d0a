"""A queue: who holds which message, until when, and what becomes of it. No I/O.

A message is scheduled, active or locked. It leaves the queue when it is completed, received and
deleted, or dead-lettered. Times are the injected clock's; whoever owns the queue calls `run_due`
when `next_due` has come.
"""

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final
from uuid import UUID, uuid4

from local.servicebus_emulator.clock import Clock
from local.servicebus_emulator.errors import LockLost, MessageNotFound, QuotaExceeded
from local.servicebus_emulator.messages import Message, Stamps
from local.servicebus_emulator.options import QueueSettings

MAXIMUM_QUEUE_BYTES: Final = 256 * 1024 * 1024
MAX_DELIVERIES_REASON: Final = "MaxDeliveryCountExceeded"

# What a message costs beyond its own size.
_OVERHEAD_BYTES: Final = 1024
# Below this it does not pay to clear the schedule of what was renewed or settled.
_STALE_APPOINTMENTS: Final = 64


class EntryState(IntEnum):
    """Where a message is in its life; the numbers travel to clients."""

    ACTIVE = 0
    SCHEDULED = 2
    LOCKED = 100


@dataclass(slots=True, eq=False)
class Entry:
    """A message in a queue.

    Attributes:
        message: As it was published.
        sequence_number: Its place in the queue.
        enqueued_sequence_number: Its place where it was first published.
        enqueued_at: When it became part of the queue.
        state: Where it is in its life.
        delivery_count: How many deliveries failed.
        due_at: When its lock runs out, or when it becomes active.
        appointment: The number of the appointment that will see to it.
        lock_token: Names the lock.
        is_copy: Whether a fault made it out of another one.
        dead_letter_reason: Why it is a dead letter.
        dead_letter_description: The same for a human.
    """

    message: Message
    sequence_number: int
    enqueued_sequence_number: int
    enqueued_at: float
    state: EntryState = EntryState.ACTIVE
    delivery_count: int = 0
    due_at: float | None = None
    appointment: int | None = None
    lock_token: UUID | None = None
    is_copy: bool = False
    dead_letter_reason: str | None = None
    dead_letter_description: str | None = None

    @property
    def size_bytes(self) -> int:
        """What the message counts for in the queue's quota."""
        return self.message.size_bytes + _OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """How many messages of a queue are in which state."""

    active: int
    locked: int
    scheduled: int


def _ignore(*_arguments: object) -> None:
    """Do nothing: the default of both signals."""


class Queue:
    """A queue, a subscription, or the dead-letter queue of either.

    Args:
        path: The name by which clients address it.
        settings: How it treats its consumers.
        clock: Tells the time.
        dead_letters: Where dead letters go. A dead-letter queue has none itself, and there a
            message may be delivered any number of times.
        numbers: The sequence numbers to give out. A queue shares them with its dead letters,
            because a message keeps its number when it is dead-lettered.
    """

    def __init__(
        self,
        path: str,
        settings: QueueSettings,
        clock: Clock,
        dead_letters: "Queue | None" = None,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.path = path
        self.settings = settings
        self.dead_letters = dead_letters
        self._numbers = itertools.count(1) if numbers is None else numbers
        self._clock = clock
        self._entries: dict[int, Entry] = {}
        self._active: list[tuple[int, Entry]] = []
        self._locks: dict[UUID, Entry] = {}
        self._appointments: list[tuple[float, int, Entry]] = []
        self._appointment_numbers = itertools.count()
        self._size_bytes = 0
        self._signal_active: Callable[[], None] = _ignore
        self._signal_due: Callable[[float], None] = _ignore

    def on_active(self, signal: Callable[[], None]) -> None:
        """Call `signal` whenever a message has become available."""
        self._signal_active = signal

    def on_due(self, signal: Callable[[float], None]) -> None:
        """Call `signal` with the time whenever `next_due` has come nearer."""
        self._signal_due = signal

    def configure(self, settings: QueueSettings) -> None:
        """Treat consumers otherwise from the next lock on, also those of the dead letters."""
        self.settings = settings
        if self.dead_letters is not None:
            self.dead_letters.configure(settings)

    # Publishing.

    def publish(self, messages: Sequence[Message]) -> list[int]:
        """Take all messages in, or none, and return their sequence numbers.

        A message that asks for a later time is scheduled.

        Raises:
            QuotaExceeded: There is no room for them.
        """
        self.check_room(messages)
        numbers = [self._take_in(message) for message in messages]
        self._signal_active()
        return numbers

    def check_room(self, messages: Sequence[Message]) -> None:
        """Raise `QuotaExceeded` when there is no room for these messages."""
        wanted_bytes = sum(message.size_bytes + _OVERHEAD_BYTES for message in messages)
        if self._size_bytes_with_dead_letters() + wanted_bytes > MAXIMUM_QUEUE_BYTES:
            raise QuotaExceeded(f"{self.path} holds {MAXIMUM_QUEUE_BYTES} bytes already")

    def _take_in(self, message: Message) -> int:
        now = self._clock.now()
        number = next(self._numbers)
        entry = Entry(message, number, number, now)
        self._insert(entry)
        due_at = now
        if message.scheduled_at is not None:
            due_at = self._clock.from_client(message.scheduled_at)
        if due_at > now:
            entry.state = EntryState.SCHEDULED
            self._appoint(entry, due_at)
        else:
            self._activate(entry)
        return number

    def forward(self, message: Message, enqueued_sequence_number: int) -> None:
        """Take a message in that a topic hands on: its time has come, and room was found."""
        number = next(self._numbers)
        self.admit(Entry(message, number, enqueued_sequence_number, self._clock.now()))

    def cancel(self, sequence_numbers: Sequence[int]) -> None:
        """Take scheduled messages out.

        Raises:
            MessageNotFound: One of them is not scheduled, or not any more; none was taken out.
        """
        entries = []
        for number in sequence_numbers:
            entry = self._entries.get(number)
            if entry is None or entry.state is not EntryState.SCHEDULED:
                raise MessageNotFound(f"no scheduled message has the sequence number {number}")
            entries.append(entry)
        for entry in entries:
            self._remove(entry)

    def copy(self, original: Entry) -> None:
        """Put a copy of a message in, as if the broker had two of it."""
        number = next(self._numbers)
        duplicate = Entry(
            original.message,
            number,
            original.enqueued_sequence_number,
            original.enqueued_at,
            delivery_count=original.delivery_count,
            is_copy=True,
            dead_letter_reason=original.dead_letter_reason,
            dead_letter_description=original.dead_letter_description,
        )
        self.admit(duplicate)

    def admit(self, entry: Entry) -> None:
        """Make a message that has its number already available here."""
        self._insert(entry)
        self._activate(entry)
        self._signal_active()

    def purge(self) -> None:
        """Forget every message, locked and dead ones too."""
        for entry in list(self._entries.values()):
            self._remove(entry)
        self._active.clear()
        if self.dead_letters is not None:
            self.dead_letters.purge()

    # Receiving.

    @property
    def has_active(self) -> bool:
        """Whether a message is available."""
        return bool(self._active)

    def lock_next(self) -> Entry | None:
        """Lock the next message and return it, or None when there is none."""
        if not self._active:
            return None
        _, entry = heapq.heappop(self._active)
        entry.state = EntryState.LOCKED
        entry.lock_token = uuid4()
        self._locks[entry.lock_token] = entry
        self._appoint(entry, self._clock.now() + self.settings.lock_seconds)
        return entry

    def take_next(self) -> Entry | None:
        """Take the next message out and return it, or None when there is none."""
        if not self._active:
            return None
        _, entry = heapq.heappop(self._active)
        self._remove(entry)
        return entry

    def stamps(self, entry: Entry) -> Stamps:
        """Return what the broker writes on a message for a client that looks at it."""
        is_scheduled = entry.state is EntryState.SCHEDULED
        return Stamps(
            delivery_count=entry.delivery_count,
            sequence_number=entry.sequence_number,
            enqueued_sequence_number=entry.enqueued_sequence_number,
            enqueued_at=self._clock.to_client(entry.enqueued_at),
            state=EntryState.SCHEDULED if is_scheduled else EntryState.ACTIVE,
            dead_letter_reason=entry.dead_letter_reason,
            dead_letter_description=entry.dead_letter_description,
        )

    def locked_stamps(self, entry: Entry) -> Stamps:
        """Return what the broker writes on a message for the consumer that holds its lock."""
        return replace(self.stamps(entry), locked_until=self._advertised_until(entry))

    def peek(self, from_sequence_number: int, maximum_count: int) -> list[Entry]:
        """Return messages in the order of their numbers, whatever their state."""
        candidates = (number for number in self._entries if number >= from_sequence_number)
        return [self._entries[number] for number in heapq.nsmallest(maximum_count, candidates)]

    def renew(self, lock_token: UUID) -> float:
        """Let a lock last its full time again; return until when, as clients are told.

        Raises:
            LockLost: It has run out.
        """
        entry = self._locked(lock_token)
        self._appoint(entry, self._clock.now() + self.settings.lock_seconds)
        return self._advertised_until(entry)

    # Settling.

    def complete(self, lock_token: UUID) -> None:
        """Take a locked message out.

        Raises:
            LockLost: Its lock has run out.
        """
        self._remove(self._locked(lock_token))

    def abandon(self, lock_token: UUID) -> None:
        """Make a locked message available again; its delivery has failed.

        Raises:
            LockLost: Its lock has run out.
        """
        entry = self._locked(lock_token)
        self._unlock(entry)
        self._fail_delivery(entry)
        self._signal_active()

    def release(self, lock_token: UUID) -> None:
        """Make a locked message available again as if it had not been delivered.

        Raises:
            LockLost: Its lock has run out.
        """
        entry = self._locked(lock_token)
        self._unlock(entry)
        self._activate(entry)
        self._signal_active()

    def dead_letter(self, lock_token: UUID, reason: str | None, description: str | None) -> None:
        """Move a locked message to the dead-letter queue; in there it stays where it is.

        Raises:
            LockLost: Its lock has run out.
        """
        entry = self._locked(lock_token)
        self._unlock(entry)
        self._move_to_dead_letters(entry, reason, description)

    # Time.

    def next_due(self) -> float | None:
        """Return when a lock runs out or a scheduled message becomes active, or None."""
        while self._appointments:
            due_at, number, entry = self._appointments[0]
            if entry.appointment == number:
                return due_at
            heapq.heappop(self._appointments)
        return None

    def run_due(self) -> None:
        """Do what is due: give back messages whose lock ran out, activate scheduled ones."""
        now = self._clock.now()
        anything_active = False
        while (due_at := self.next_due()) is not None and due_at <= now:
            _, _, entry = heapq.heappop(self._appointments)
            anything_active = True
            if entry.state is EntryState.LOCKED:
                self._unlock(entry)
                self._fail_delivery(entry)
            else:
                self._enter_queue(entry, now)
        if anything_active:
            self._signal_active()

    # Looking.

    @property
    def size_bytes(self) -> int:
        """What the messages count for in the quota, without the dead letters."""
        return self._size_bytes

    def counts(self) -> QueueCounts:
        """Return how many messages are in which state."""
        active, locked = len(self._active), len(self._locks)
        return QueueCounts(active, locked, len(self._entries) - active - locked)

    # Inside.

    def _advertised_until(self, entry: Entry) -> float:
        assert entry.due_at is not None, "only a locked message has a lock"
        advertised_at = entry.due_at
        if self.settings.advertised_lock_seconds is not None:
            locked_at = entry.due_at - self.settings.lock_seconds
            advertised_at = locked_at + self.settings.advertised_lock_seconds
        return self._clock.to_client(advertised_at)

    def _locked(self, lock_token: UUID) -> Entry:
        entry = self._locks.get(lock_token)
        if entry is not None and entry.due_at is not None and entry.due_at <= self._clock.now():
            # Whoever watches the time may come a little late.
            self.run_due()
            entry = None
        if entry is None:
            raise LockLost(
                "The lock supplied is invalid. Either the lock expired, or the message has "
                "already been removed from the queue."
            )
        return entry

    def _insert(self, entry: Entry) -> None:
        self._entries[entry.sequence_number] = entry
        self._size_bytes += entry.size_bytes

    def _remove(self, entry: Entry) -> None:
        self._unlock(entry)
        del self._entries[entry.sequence_number]
        self._size_bytes -= entry.size_bytes

    def _activate(self, entry: Entry) -> None:
        entry.state = EntryState.ACTIVE
        heapq.heappush(self._active, (entry.sequence_number, entry))

    def _unlock(self, entry: Entry) -> None:
        entry.due_at = entry.appointment = None
        if entry.lock_token is not None:
            del self._locks[entry.lock_token]
            entry.lock_token = None

    def _enter_queue(self, entry: Entry, now: float) -> None:
        # A scheduled message gets its place in the queue only now, and with it a new number.
        self._remove(entry)
        entry.sequence_number = next(self._numbers)
        entry.enqueued_sequence_number = entry.sequence_number
        entry.enqueued_at = now
        self._insert(entry)
        self._activate(entry)

    def _fail_delivery(self, entry: Entry) -> None:
        entry.delivery_count += 1
        limit = self.settings.max_delivery_count
        if self.dead_letters is None or entry.delivery_count < limit:
            self._activate(entry)
        else:
            self._move_to_dead_letters(
                entry,
                MAX_DELIVERIES_REASON,
                f"Message could not be consumed after {limit} delivery attempts.",
            )

    def _move_to_dead_letters(
        self, entry: Entry, reason: str | None, description: str | None
    ) -> None:
        entry.dead_letter_reason = reason
        entry.dead_letter_description = description
        self._remove(entry)
        # Anew, because what is stale in this queue's schedule must not find it in the other's.
        (self.dead_letters or self).admit(replace(entry))

    def _appoint(self, entry: Entry, due_at: float) -> None:
        number = next(self._appointment_numbers)
        entry.due_at, entry.appointment = due_at, number
        heapq.heappush(self._appointments, (due_at, number, entry))
        self._clear_stale_appointments()
        if self._appointments[0][1] == number:
            self._signal_due(due_at)

    def _clear_stale_appointments(self) -> None:
        kept_count = len(self._entries) - len(self._active)
        if len(self._appointments) > 2 * kept_count + _STALE_APPOINTMENTS:
            self._appointments = [
                appointment
                for appointment in self._appointments
                if appointment[2].appointment == appointment[1]
            ]
            heapq.heapify(self._appointments)

    def _size_bytes_with_dead_letters(self) -> int:
        dead_bytes = 0 if self.dead_letters is None else self.dead_letters.size_bytes
        return self._size_bytes + dead_bytes
