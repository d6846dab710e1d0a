"""The messages of one subscription: which wait, which are out, and who has them until when.

Messages stand in lanes. Those with the same ordering key share a lane, if the subscription keeps
order; any other message has a lane to itself. Out of a lane messages go in order, and only to one
consumer at a time; a message that fails takes those behind it back with it, acknowledged or not,
as Pub/Sub does.

No threads, no clock, no I/O: whoever calls says what time it is.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from local.pubsub_emulator.journal import EventKind, Journal
from local.pubsub_emulator.messages import Delivery, Message
from local.pubsub_emulator.settings import SubscriptionSettings
from local.pubsub_emulator.timetable import Timetable

MAXIMUM_COPIES: Final = 1000

DeadLetterTray = Callable[[Message, int], bool]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a consumer wants.

    Attributes:
        consumer: Who asks: a stream, or one single pull.
        lease_seconds: How long it gets each message for.
        messages: How many it takes at once, at most.
        bytes: From how many bytes on nothing more is taken at once.
        outstanding_messages: How many it may have out altogether; 0 for any number.
        outstanding_bytes: From how many bytes out altogether it gets no more; 0 for any number.
    """

    consumer: str
    lease_seconds: float
    messages: int = 1
    bytes: int = 4 * 1024 * 1024
    outstanding_messages: int = 0
    outstanding_bytes: int = 0


@dataclass(frozen=True, slots=True)
class BacklogSummary:
    """How many messages a subscription holds: all, and those of them that are out."""

    messages: int
    outstanding: int


@dataclass(slots=True, eq=False)
class _Lane:
    key: str
    waiting: "deque[_Entry]" = field(default_factory=deque)
    out: "deque[_Entry]" = field(default_factory=deque)
    consumer: str = ""

    def is_open_to(self, consumer: str) -> bool:
        return not self.out or self.consumer == consumer


@dataclass(slots=True, eq=False)
class _Entry:
    message: Message
    lane: _Lane
    received_at: float
    failures: int = 0
    # Acknowledged while a message before it was still out.
    acked_ahead: bool = False
    # Of its newest delivery and that one's copies; an older id settles nothing.
    leases: "list[_Lease]" = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class _Lease:
    ack_id: str
    entry: _Entry
    consumer: str


@dataclass(slots=True)
class _Load:
    messages: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Room:
    messages: float
    bytes: float

    @property
    def is_left(self) -> bool:
        return self.messages > 0 and self.bytes > 0

    def take(self, size_bytes: int) -> None:
        self.messages -= 1
        self.bytes -= size_bytes


class Backlog:
    """The messages of one subscription."""

    def __init__(
        self, settings: SubscriptionSettings, journal: Journal, dead_letters: DeadLetterTray
    ) -> None:
        """Start empty.

        Args:
            settings: How the subscription behaves; may be replaced later.
            journal: Gets to know what time does.
            dead_letters: Called with a message that was delivered too often and the number of
                deliveries; returns whether it took the message.
        """
        self.settings = settings
        self._journal = journal
        self._dead_letters = dead_letters
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0
        self._ordered_lanes: dict[str, _Lane] = {}
        # Lanes whose next message may go out now, in turn.
        self._ready: OrderedDict[_Lane, None] = OrderedDict()
        self._backoffs: Timetable[_Lane] = Timetable()
        # A lease is running while its ack id stands here.
        self._deadlines: Timetable[str] = Timetable()
        self._leases: dict[str, _Lease] = {}
        self._copies: deque[_Entry] = deque(maxlen=MAXIMUM_COPIES)
        self._loads: dict[str, _Load] = {}
        self._deliveries = 0

    @property
    def size_bytes(self) -> int:
        """How many bytes its messages have together."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._entries)

    def summary(self) -> BacklogSummary:
        """Return how many messages there are."""
        outstanding = {lease.entry.message.message_id for lease in self._running()}
        return BacklogSummary(len(self._entries), len(outstanding))

    def add(self, message: Message, now: float) -> None:
        """Take in a message that was published."""
        lane = self._lane_for(message)
        entry = _Entry(message, lane, now)
        lane.waiting.append(entry)
        self._entries[message.message_id] = entry
        self._bytes += message.size_bytes
        self._make_ready(lane)

    def take(self, demand: Demand, now: float) -> list[Delivery]:
        """Hand out what the consumer may have now, for as long as it asks."""
        self.advance(now)
        room = self._room(demand)
        deliveries: list[Delivery] = []
        while self._copies and room.is_left:
            entry = self._copies.popleft()
            if self._is_out(entry):
                deliveries.append(self._lease(entry, demand, room, now))
        passed_over: list[_Lane] = []
        while self._ready and room.is_left:
            lane, _ = self._ready.popitem(last=False)
            if lane.is_open_to(demand.consumer):
                while lane.waiting and room.is_left:
                    deliveries.append(self._hand_out(lane, demand, room, now))
            if lane.waiting:
                passed_over.append(lane)
        for lane in reversed(passed_over):
            self._ready[lane] = None
            self._ready.move_to_end(lane, last=False)
        return deliveries

    def acknowledge(self, ack_id: str, now: float) -> bool:
        """Settle a message; return whether the ack id still could.

        A late one still can, as long as the message was not delivered again; not so with
        exactly-once delivery.
        """
        self.advance(now)
        lease = self._leases.get(ack_id)
        if lease is None or (self.settings.exactly_once and ack_id not in self._deadlines):
            return False
        self._settle(lease.entry)
        return True

    def extend(self, ack_id: str, seconds: float, now: float) -> bool:
        """Let a lease end so many seconds from now; return whether it was still running."""
        self.advance(now)
        if ack_id not in self._deadlines:
            return False
        self._deadlines.put(ack_id, now + seconds)
        return True

    def give_back(self, ack_id: str, now: float) -> bool:
        """Take a nack: the delivery failed. Return whether its lease was still running."""
        self.advance(now)
        if ack_id not in self._deadlines:
            return False
        lease = self._leases.pop(ack_id)
        lease.entry.leases.remove(lease)
        self._end(lease)
        self._fail_unless_out(lease.entry, now)
        return True

    def duplicate(self, ack_id: str) -> None:
        """Let the next one who asks get that message too, while this delivery still runs."""
        lease = self._leases.get(ack_id)
        if lease is not None and not self.settings.exactly_once:
            self._copies.append(lease.entry)

    def advance(self, now: float) -> None:
        """Let everything happen that is due by now."""
        while (ack_id := self._deadlines.pop_due(now)) is not None:
            lease = self._leases[ack_id]
            self._unload(lease)
            self._record(EventKind.LAPSED, lease.entry, lease.entry.failures + 1, ack_id)
            self._fail_unless_out(lease.entry, now)
        while (lane := self._backoffs.pop_due(now)) is not None:
            self._make_ready(lane)
        self._forget_old(now)

    def next_at(self) -> float | None:
        """Return when `advance` will have something to do, or None when nothing is planned."""
        planned = [self._deadlines.next_at(), self._backoffs.next_at()]
        return min((at for at in planned if at is not None), default=None)

    def _lane_for(self, message: Message) -> _Lane:
        key = message.ordering_key
        if not self.settings.ordered or not key:
            return _Lane("")
        return self._ordered_lanes.setdefault(key, _Lane(key))

    def _make_ready(self, lane: _Lane) -> None:
        if lane.waiting and lane not in self._backoffs:
            self._ready[lane] = None

    def _room(self, demand: Demand) -> _Room:
        load = self._loads.get(demand.consumer, _Load())
        unlimited = float("inf")
        messages = demand.outstanding_messages or unlimited
        size = demand.outstanding_bytes or unlimited
        return _Room(
            min(demand.messages, messages - load.messages), min(demand.bytes, size - load.bytes)
        )

    def _hand_out(self, lane: _Lane, demand: Demand, room: _Room, now: float) -> Delivery:
        entry = lane.waiting.popleft()
        self._forget_leases(entry)
        lane.out.append(entry)
        lane.consumer = demand.consumer
        return self._lease(entry, demand, room, now)

    def _lease(self, entry: _Entry, demand: Demand, room: _Room, now: float) -> Delivery:
        message = entry.message
        self._deliveries += 1
        ack_id = f"{self.settings.name}:{message.message_id}-{self._deliveries}"
        lease = _Lease(ack_id, entry, demand.consumer)
        entry.leases.append(lease)
        self._leases[ack_id] = lease
        self._deadlines.put(ack_id, now + demand.lease_seconds)
        load = self._loads.setdefault(demand.consumer, _Load())
        load.messages += 1
        load.bytes += message.size_bytes
        room.take(message.size_bytes)
        return Delivery(ack_id, message, entry.failures + 1)

    def _settle(self, entry: _Entry) -> None:
        lane = entry.lane
        is_first = not lane.out or lane.out[0] is entry
        # Exactly-once delivery promises that what was acknowledged never comes again.
        if is_first or self.settings.exactly_once:
            self._remove(entry)
        else:
            self._forget_leases(entry)
            entry.acked_ahead = True

    def _fail_unless_out(self, entry: _Entry, now: float) -> None:
        if self._is_out(entry):
            return
        entry.failures += 1
        policy = self.settings.dead_letter_policy
        exhausted = policy is not None and entry.failures >= policy.max_delivery_attempts
        if exhausted and self._dead_letters(entry.message, entry.failures):
            self._record(EventKind.DEAD_LETTERED, entry, entry.failures)
            self._remove(entry)
        else:
            self._take_back(entry, now)

    def _take_back(self, entry: _Entry, now: float) -> None:
        lane = entry.lane
        while (last := lane.out.pop()) is not entry:
            self._forget_leases(last)
            last.acked_ahead = False
            lane.waiting.appendleft(last)
        # Its own ack id is kept: a late acknowledgement may still settle it.
        lane.waiting.appendleft(entry)
        self._ready.pop(lane, None)
        backoff_seconds = self.settings.backoff_seconds(entry.failures)
        if backoff_seconds > 0:
            self._backoffs.put(lane, now + backoff_seconds)
        self._make_ready(lane)

    def _remove(self, entry: _Entry) -> None:
        lane = entry.lane
        self._forget(entry)
        if entry in lane.out:
            lane.out.remove(entry)
        else:
            first = lane.waiting.popleft()
            assert first is entry, "only a lane's first message can be settled before it goes out"
            # If the lane waits, it is because this one failed.
            self._backoffs.cancel(lane)
        while lane.out and lane.out[0].acked_ahead:
            self._forget(lane.out.popleft())
        if lane.waiting:
            self._make_ready(lane)
        else:
            self._ready.pop(lane, None)
        if not lane.waiting and not lane.out:
            self._ordered_lanes.pop(lane.key, None)

    def _forget(self, entry: _Entry) -> None:
        self._forget_leases(entry)
        self._bytes -= entry.message.size_bytes
        del self._entries[entry.message.message_id]

    def _forget_leases(self, entry: _Entry) -> None:
        for lease in entry.leases:
            del self._leases[lease.ack_id]
            self._end(lease)
        entry.leases.clear()

    def _end(self, lease: _Lease) -> None:
        if self._deadlines.cancel(lease.ack_id):
            self._unload(lease)

    def _unload(self, lease: _Lease) -> None:
        load = self._loads[lease.consumer]
        load.messages -= 1
        load.bytes -= lease.entry.message.size_bytes
        if load.messages == 0:
            del self._loads[lease.consumer]

    def _is_out(self, entry: _Entry) -> bool:
        return any(lease.ack_id in self._deadlines for lease in entry.leases)

    def _running(self) -> list[_Lease]:
        return [lease for lease in self._leases.values() if lease.ack_id in self._deadlines]

    def _forget_old(self, now: float) -> None:
        while self._entries:
            oldest = next(iter(self._entries.values()))
            if oldest.received_at + self.settings.retention_seconds > now:
                return
            self._record(EventKind.FORGOTTEN, oldest, oldest.failures)
            self._remove(oldest)

    def _record(self, kind: EventKind, entry: _Entry, attempt: int, ack_id: str = "") -> None:
        self._journal.record(
            kind,
            self.settings.name,
            message_id=entry.message.message_id,
            ack_id=ack_id,
            attempt=attempt,
        )
