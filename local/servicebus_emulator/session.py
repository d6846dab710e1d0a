"""A session: its links, its windows, and the deliveries that a client may still settle."""

from collections import OrderedDict
from dataclasses import replace
from typing import Final, Protocol

from local.servicebus_emulator.attaching import open_link
from local.servicebus_emulator.errors import (
    HANDLE_IN_USE,
    LOCK_LOST,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    BrokerError,
    LinkFailure,
    SessionFailure,
)
from local.servicebus_emulator.frames import FRAME_HEADER_BYTES
from local.servicebus_emulator.hub import Hub
from local.servicebus_emulator.journal import Route, SettlementKind
from local.servicebus_emulator.links import COUNTER_MASK, Delivery, Link
from local.servicebus_emulator.messages import (
    DEAD_LETTER_DESCRIPTION,
    DEAD_LETTER_REASON,
    MAXIMUM_MESSAGE_BYTES,
)
from local.servicebus_emulator.outgoing import ResponseLink
from local.servicebus_emulator.performatives import (
    RECEIVER,
    SENDER,
    Accepted,
    Attach,
    Begin,
    Composite,
    Detach,
    Disposition,
    Error,
    Flow,
    Modified,
    Outcome,
    Rejected,
    Released,
    Transfer,
    composite_from,
    described,
    encode_performative,
    error_of,
    outcome_from,
    rejected,
)
from local.servicebus_emulator.settling import Settlement
from local.servicebus_emulator.wire_types import (
    Symbol,
    UnsignedInt,
    UnsignedLong,
    UnsignedShort,
    Value,
)

MAXIMUM_HANDLE: Final = 255
MAXIMUM_UNSETTLED: Final = 5000
WINDOW: Final = 65_535

_MAX_BATCH_SIZE: Final = "com.microsoft:max-message-batch-size"


class ConnectionPort(Protocol):
    """What a session needs of its connection."""

    @property
    def is_writable(self) -> bool:
        """Whether more may be sent without piling up."""
        ...

    @property
    def peer_frame_bytes(self) -> int:
        """How large a frame the peer takes."""
        ...

    def send(self, channel: int, performative: Composite, payload: bytes = b"") -> None:
        """Send a frame."""
        ...

    def find_response_link(self, node: str, reply_to: str | None) -> ResponseLink | None:
        """Return the link for an answer of a node, the one that reply-to names if possible."""
        ...

    def cut(self) -> None:
        """Cut the connection."""
        ...


class Session:
    """One session of a client.

    Args:
        hub: What all connections share.
        connection: What carries it.
        channel: The number that both ends use for it.
        begin: What the client began it with.
    """

    def __init__(self, hub: Hub, connection: ConnectionPort, channel: int, begin: Begin) -> None:
        self._hub = hub
        self._connection = connection
        self._channel = channel
        self._links: dict[int, Link] = {}
        self._unsettled: OrderedDict[int, tuple[int, Delivery]] = OrderedDict()
        self._next_delivery_id = 0
        self._next_outgoing_id = 0
        self._next_incoming_id = int(begin.next_outgoing_id)
        self._remote_window = int(begin.incoming_window)

    def start(self) -> None:
        """Tell the peer that the session is there."""
        self._send(
            Begin(
                remote_channel=UnsignedShort(self._channel),
                next_outgoing_id=UnsignedInt(self._next_outgoing_id),
                incoming_window=UnsignedInt(WINDOW),
                outgoing_window=UnsignedInt(WINDOW),
                handle_max=UnsignedInt(MAXIMUM_HANDLE),
            )
        )

    def stop(self) -> None:
        """End: the session was ended, or its connection is gone."""
        for link in self._links.values():
            link.stop()
        self._links.clear()
        self._unsettled.clear()

    def resume(self) -> None:
        """Go on: messages may be sent again."""
        for link in list(self._links.values()):
            link.resume()

    def response_links(self) -> list[ResponseLink]:
        """Return the links that bring answers to requests."""
        return [link for link in self._links.values() if isinstance(link, ResponseLink)]

    def handle(self, performative: Composite, payload: bytes) -> None:
        """Do what the peer says.

        Raises:
            SessionFailure: It may not say that.
            DecodeError: It makes no sense.
        """
        match performative:
            case Transfer():
                self._on_transfer(performative, payload)
            case Disposition():
                self._on_disposition(performative)
            case Flow():
                self._on_flow(performative)
            case Attach():
                self._on_attach(performative)
            case Detach():
                self._on_detach(performative)
            case _:
                name = type(performative).__name__
                raise SessionFailure(f"{name} has no place in a session", NOT_ALLOWED)

    # What links need.

    @property
    def can_send(self) -> bool:
        """Whether another message may be sent now."""
        return self._remote_window > 0 and self._connection.is_writable

    def send_message(
        self, handle: int, delivery_tag: bytes, payload: bytes, delivery: Delivery | None
    ) -> None:
        """Send a message, unsettled when there is something to settle."""
        delivery_id = self._next_delivery_id
        self._next_delivery_id = (delivery_id + 1) & COUNTER_MASK
        if delivery is not None:
            self._unsettled[delivery_id] = (handle, delivery)
            if len(self._unsettled) > MAXIMUM_UNSETTLED:
                self._unsettled.popitem(last=False)
        transfer = Transfer(
            handle=UnsignedInt(handle),
            delivery_id=UnsignedInt(delivery_id),
            delivery_tag=delivery_tag,
            message_format=UnsignedInt(0),
            settled=delivery is None,
            more=True,
        )
        # The flag does not change the size, so this is right for the last frame too.
        overhead_bytes = FRAME_HEADER_BYTES + len(encode_performative(transfer))
        room_bytes = self._connection.peer_frame_bytes - overhead_bytes
        for begin in range(0, max(len(payload), 1), room_bytes):
            chunk = payload[begin : begin + room_bytes]
            is_last = begin + room_bytes >= len(payload)
            self._send_transfer(replace(transfer, more=not is_last), chunk)
            transfer = Transfer(handle=UnsignedInt(handle), settled=transfer.settled)

    def _send_transfer(self, transfer: Transfer, payload: bytes) -> None:
        self._next_outgoing_id = (self._next_outgoing_id + 1) & COUNTER_MASK
        self._remote_window -= 1
        self._connection.send(self._channel, transfer, payload)

    def send_link_flow(
        self, handle: int, delivery_count: int, link_credit: int, *, drain: bool = False
    ) -> None:
        """Tell the peer how a link stands."""
        self._send(
            Flow(
                next_incoming_id=UnsignedInt(self._next_incoming_id),
                incoming_window=UnsignedInt(WINDOW),
                next_outgoing_id=UnsignedInt(self._next_outgoing_id),
                outgoing_window=UnsignedInt(WINDOW),
                handle=UnsignedInt(handle),
                delivery_count=UnsignedInt(delivery_count),
                link_credit=UnsignedInt(link_credit),
                drain=drain,
            )
        )

    def send_outcome(self, delivery_id: int, outcome: Outcome) -> None:
        """Settle a message of the peer."""
        self._send_disposition(RECEIVER, delivery_id, delivery_id, outcome)

    def find_response_link(self, node: str, reply_to: str | None) -> ResponseLink | None:
        """Return the link for an answer of a node, the one that reply-to names if possible."""
        return self._connection.find_response_link(node, reply_to)

    def cut(self) -> None:
        """Cut the connection."""
        self._connection.cut()

    # Links come and go.

    def _on_attach(self, attach: Attach) -> None:
        if attach.handle in self._links:
            raise SessionFailure(f"handle {attach.handle} is in use", HANDLE_IN_USE)
        if attach.handle > MAXIMUM_HANDLE:
            raise SessionFailure(f"handle {attach.handle} is too high", RESOURCE_LIMIT_EXCEEDED)
        try:
            link = open_link(self._hub, self, attach)
        except BrokerError as error:
            self._send(replace(_answer(attach), source=None, target=None))
            self._send_detach(int(attach.handle), error.condition, error.description)
            return
        self._links[link.handle] = link
        self._send(_answer(attach))
        link.start()

    def _on_detach(self, detach: Detach) -> None:
        # A link that was refused or has failed is detached by both ends.
        if self._stop_link(int(detach.handle)):
            self._send(Detach(detach.handle, closed=detach.closed))

    def _stop_link(self, handle: int) -> bool:
        link = self._links.pop(handle, None)
        if link is None:
            return False
        link.stop()
        for delivery_id in [each for each, (its, _) in self._unsettled.items() if its == handle]:
            del self._unsettled[delivery_id]
        return True

    def _send_detach(self, handle: int, condition: str, description: str) -> None:
        self._send(Detach(UnsignedInt(handle), closed=True, error=error_of(condition, description)))

    # Messages and credit.

    def _on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        self._next_incoming_id = (self._next_incoming_id + 1) & COUNTER_MASK
        link = self._links.get(int(transfer.handle))
        if link is None:
            # Messages may be under way to a link that has just failed.
            return
        try:
            link.receive(transfer, payload)
        except LinkFailure as failure:
            self._stop_link(link.handle)
            self._send_detach(link.handle, failure.condition, failure.description)

    def _on_flow(self, flow: Flow) -> None:
        seen = int(flow.next_incoming_id or 0)
        window = (seen + flow.incoming_window - self._next_outgoing_id) & COUNTER_MASK
        # What is still under way may exceed what the peer grants.
        self._remote_window = window if window <= COUNTER_MASK // 2 else 0
        if flow.handle is None:
            self.resume()
            return
        link = self._links.get(int(flow.handle))
        if link is not None:
            link.on_flow(flow)

    # Settlements.

    def _on_disposition(self, disposition: Disposition) -> None:
        outcome = outcome_from(disposition.state)
        if disposition.role is SENDER or outcome is None:
            return
        first = int(disposition.first)
        last = first if disposition.last is None else int(disposition.last)
        is_answered = not disposition.settled
        known = self._known_deliveries(first, last)
        if not known and is_answered:
            lost = rejected(LOCK_LOST, "The delivery is unknown or was settled already.")
            self._send_disposition(SENDER, first, last, lost)
        for delivery_id in known:
            _, delivery = self._unsettled.pop(delivery_id)
            self._settle(delivery_id, delivery, outcome, is_answered=is_answered)

    def _known_deliveries(self, first: int, last: int) -> list[int]:
        # The peer chooses the range, so it must not decide how long this takes.
        if last - first < len(self._unsettled):
            return [each for each in range(first, last + 1) if each in self._unsettled]
        return [each for each in self._unsettled if first <= each <= last]

    def _settle(
        self, delivery_id: int, delivery: Delivery, outcome: Outcome, *, is_answered: bool
    ) -> None:
        verdict = self._hub.settler.settle(
            delivery.queue, delivery.lock_token, _settlement(outcome), Route.LINK
        )
        if is_answered and verdict.is_answered:
            answer = _echo(outcome)
            if verdict.error is not None:
                answer = rejected(verdict.error.condition, verdict.error.description)
            self._send_disposition(SENDER, delivery_id, delivery_id, answer)
        if verdict.cuts:
            self.cut()

    def _send_disposition(self, role: bool, first: int, last: int, outcome: Outcome) -> None:
        self._send(
            Disposition(
                role=role,
                first=UnsignedInt(first),
                last=UnsignedInt(last),
                settled=True,
                state=described(outcome),
            )
        )

    def _send(self, performative: Composite) -> None:
        self._connection.send(self._channel, performative)


def _answer(attach: Attach) -> Attach:
    """Return the attach that mirrors the peer's."""
    is_sender = attach.role is RECEIVER
    return Attach(
        name=attach.name,
        handle=attach.handle,
        role=not attach.role,
        snd_settle_mode=attach.snd_settle_mode,
        rcv_settle_mode=attach.rcv_settle_mode,
        source=attach.source,
        target=attach.target,
        initial_delivery_count=UnsignedInt(0) if is_sender else None,
        max_message_size=UnsignedLong(MAXIMUM_MESSAGE_BYTES),
        properties={Symbol(_MAX_BATCH_SIZE): UnsignedLong(MAXIMUM_MESSAGE_BYTES)},
    )


def _settlement(outcome: Outcome) -> Settlement:
    match outcome:
        case Accepted():
            return Settlement(SettlementKind.COMPLETE)
        case Released():
            return Settlement(SettlementKind.RELEASE)
        case Modified(undeliverable_here=True):
            return Settlement(SettlementKind.DEFER)
        case Modified(delivery_failed=True):
            return Settlement(SettlementKind.ABANDON)
        case Modified():
            return Settlement(SettlementKind.RELEASE)
        case Rejected(error):
            reason, description = _dead_letter_texts(error)
            return Settlement(SettlementKind.DEAD_LETTER, reason, description)


def _dead_letter_texts(error: Value) -> tuple[str | None, str | None]:
    if error is None:
        return None, None
    composite = composite_from(error)
    info = composite.info if isinstance(composite, Error) else None
    if not isinstance(info, dict):
        return None, None
    reason, description = info.get(DEAD_LETTER_REASON), info.get(DEAD_LETTER_DESCRIPTION)
    return (
        reason if isinstance(reason, str) else None,
        description if isinstance(description, str) else None,
    )


def _echo(outcome: Outcome) -> Outcome:
    # Clients take a rejection that carries an error for a failure of the settlement itself.
    return Rejected() if isinstance(outcome, Rejected) else outcome
