"""Links on which clients receive: a queue's messages, or the answers to their requests."""

from collections import deque
from typing import Final
from uuid import uuid4

from local.servicebus_emulator.errors import RESOURCE_LIMIT_EXCEEDED, LinkFailure
from local.servicebus_emulator.faults import DELIVERY_FAULTS, Candidate, Fault, FaultKind
from local.servicebus_emulator.hub import Appointment, Hub
from local.servicebus_emulator.journal import DeliveryRecord
from local.servicebus_emulator.links import COUNTER_MASK, Delivery, Link, LinkPort
from local.servicebus_emulator.messages import encode_delivery
from local.servicebus_emulator.performatives import Flow
from local.servicebus_emulator.queues import Entry, Queue

MAXIMUM_PENDING_RESPONSES: Final = 1000


class OutgoingLink(Link):
    """A link on which this end sends, as far as the peer gives credit."""

    def __init__(self, port: LinkPort, handle: int) -> None:
        super().__init__(port, handle)
        self._credit = 0
        self._delivery_count = 0

    def start(self) -> None:
        """Wait for credit."""

    def on_flow(self, flow: Flow) -> None:
        """Take the credit, use it, and give back what is left of it when asked to."""
        if flow.link_credit is not None:
            known_count = flow.delivery_count or 0
            credit = (known_count + flow.link_credit - self._delivery_count) & COUNTER_MASK
            # A peer that did not yet see the newest deliveries may seem to owe credit.
            self._credit = credit if credit <= COUNTER_MASK // 2 else 0
        self.resume()
        if flow.drain:
            self._delivery_count = (self._delivery_count + self._credit) & COUNTER_MASK
            self._credit = 0
            self._port.send_link_flow(self.handle, self._delivery_count, 0, drain=True)
        elif flow.echo:
            self._port.send_link_flow(self.handle, self._delivery_count, self._credit)

    def _send(self, delivery_tag: bytes, payload: bytes, delivery: Delivery | None) -> None:
        self._credit -= 1
        self._delivery_count = (self._delivery_count + 1) & COUNTER_MASK
        self._port.send_message(self.handle, delivery_tag, payload, delivery)


class DeliveryLink(OutgoingLink):
    """Brings a queue's messages to a consumer.

    Args:
        port: The session that it is attached to.
        handle: What the peer calls it there.
        hub: What all connections share.
        queue: Whose messages it brings.
        deletes: Whether a message is gone once it is sent; else it is locked.
    """

    def __init__(
        self, port: LinkPort, handle: int, hub: Hub, queue: Queue, *, deletes: bool
    ) -> None:
        super().__init__(port, handle)
        self._hub = hub
        self._queue = queue
        self._deletes = deletes
        self._delayed: set[Appointment] = set()

    @property
    def is_ready(self) -> bool:
        """Whether a message can be delivered now."""
        return self._credit > len(self._delayed) and self._port.can_send

    def start(self) -> None:
        """Wait for messages."""
        self._hub.dispenser(self._queue).add(self)

    def stop(self) -> None:
        """Wait no more; what is locked stays locked."""
        self._hub.dispenser(self._queue).remove(self)
        for appointment in self._delayed:
            appointment.cancel()
        self._delayed.clear()

    def resume(self) -> None:
        """Take what is there."""
        self._hub.dispenser(self._queue).dispense()

    def deliver_next(self) -> None:
        """Take the next message and deliver it, unless a fault has other plans."""
        entry = self._queue.take_next() if self._deletes else self._queue.lock_next()
        assert entry is not None, "the dispenser looks first"
        self._record(entry)
        kinds = DELIVERY_FAULTS
        if entry.is_copy:
            # Else a queue would never run out of copies.
            kinds -= {FaultKind.DELIVERY_DUPLICATED}
        candidate = Candidate(self._queue.path, message_id=entry.message.message_id)
        fault = self._hub.faults.choose(kinds, candidate)
        payload, delivery = self._encode(entry), self._delivery(entry)
        if fault is None:
            self._deliver(payload, delivery)
        else:
            self._deliver_badly(fault, entry, payload, delivery)

    def _record(self, entry: Entry) -> None:
        self._hub.journal.delivered(
            DeliveryRecord(
                queue=self._queue.path,
                message_id=entry.message.message_id,
                lock_token=entry.lock_token,
                delivery_count=entry.delivery_count,
                at=self._hub.clock.now(),
            )
        )

    def _encode(self, entry: Entry) -> bytes:
        stamps = self._queue.stamps if self._deletes else self._queue.locked_stamps
        return encode_delivery(entry.message, stamps(entry))

    def _delivery(self, entry: Entry) -> Delivery | None:
        return None if entry.lock_token is None else Delivery(self._queue, entry.lock_token)

    def _deliver(self, payload: bytes, delivery: Delivery | None) -> None:
        token = uuid4() if delivery is None else delivery.lock_token
        self._send(token.bytes_le, payload, delivery)

    def _deliver_badly(
        self, fault: Fault, entry: Entry, payload: bytes, delivery: Delivery | None
    ) -> None:
        match fault.kind:
            case FaultKind.DELIVERY_DELAYED:
                self._deliver_later(fault.seconds, payload, delivery)
            case FaultKind.DELIVERY_DUPLICATED:
                self._deliver(payload, delivery)
                self._queue.copy(entry)
            case FaultKind.DELIVERY_CUT:
                self._deliver(payload, delivery)
                self._port.cut()
            case _:
                assert fault.kind is FaultKind.DELIVERY_DROPPED, "no other fault was asked for"

    def _deliver_later(self, seconds: float, payload: bytes, delivery: Delivery | None) -> None:
        def deliver() -> None:
            self._delayed.discard(appointment)
            # A consumer that took its credit back wants nothing any more.
            if self._credit > 0:
                self._deliver(payload, delivery)

        appointment = self._hub.scheduler.call_later(seconds, deliver)
        self._delayed.add(appointment)


class ResponseLink(OutgoingLink):
    """Brings the answers to requests.

    Args:
        port: The session that it is attached to.
        handle: What the peer calls it there.
        node: The path of what answers.
        reply_address: What the peer calls its end.
    """

    def __init__(self, port: LinkPort, handle: int, node: str, reply_address: str) -> None:
        super().__init__(port, handle)
        self.node = node
        self.reply_address = reply_address
        self._pending: deque[bytes] = deque()

    def respond(self, payload: bytes) -> None:
        """Send an answer as soon as there is credit.

        Raises:
            LinkFailure: Too many answers are waiting already.
        """
        if len(self._pending) >= MAXIMUM_PENDING_RESPONSES:
            raise LinkFailure("too many responses wait for credit", RESOURCE_LIMIT_EXCEEDED)
        self._pending.append(payload)
        self.resume()

    def resume(self) -> None:
        """Send what waits."""
        while self._pending and self._credit > 0 and self._port.can_send:
            self._send(uuid4().bytes_le, self._pending.popleft(), None)

    def stop(self) -> None:
        """Forget what waits."""
        self._pending.clear()
