"""A client that speaks AMQP frame by frame, without sockets."""

from typing import Any, Final, TypeVar

from local.servicebus_emulator.clock import MovableClock
from local.servicebus_emulator.connection import Connection
from local.servicebus_emulator.encoding import encode
from local.servicebus_emulator.frames import (
    AMQP_HEADER,
    SASL_HEADER,
    Frame,
    FrameReader,
    FrameType,
    encode_frame,
)
from local.servicebus_emulator.hub import Hub
from local.servicebus_emulator.options import EmulatorOptions, QueueOptions, SubscriptionOptions
from local.servicebus_emulator.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Composite,
    Detach,
    Disposition,
    Error,
    Flow,
    Open,
    Outcome,
    Rejected,
    SaslInit,
    SaslOutcome,
    Transfer,
    composite_from,
    decode_performative,
    described,
    encode_performative,
)
from local.servicebus_emulator.sections import Section, section_value, split_sections
from local.servicebus_emulator.wire_types import (
    Described,
    Symbol,
    UnsignedByte,
    UnsignedInt,
    UnsignedLong,
    Value,
)
from tests.servicebus_emulator.support import (
    EPOCH,
    DeskClock,
    DeskScheduler,
    encoded_message,
    section,
)

CHANNEL = 0
Wanted = TypeVar("Wanted", bound=Composite)


OPENING: Final[tuple[Composite, ...]] = (
    Open("peer", max_frame_size=UnsignedInt(65_536)),
    Begin(None, UnsignedInt(0), UnsignedInt(1000), UnsignedInt(1000)),
)


def attach_sender(address: str, handle: int = 1) -> Attach:
    """Attaches a link to send on."""
    return Attach(
        f"sender-{handle}",
        UnsignedInt(handle),
        SENDER,
        source=terminus(0x28, f"reply-{handle}"),
        target=terminus(0x29, address),
        initial_delivery_count=UnsignedInt(0),
    )


def attach_receiver(
    address: str, handle: int = 2, *, settled: bool = False, reply_to: str = "here"
) -> Attach:
    """Attaches a link to receive on."""
    return Attach(
        f"receiver-{handle}",
        UnsignedInt(handle),
        RECEIVER,
        snd_settle_mode=UnsignedByte(1 if settled else 0),
        rcv_settle_mode=UnsignedByte(0 if settled else 1),
        source=terminus(0x28, address),
        target=terminus(0x29, reply_to),
    )


def credit(
    link_credit: int,
    handle: int = 2,
    *,
    delivery_count: int = 0,
    window: int = 1000,
    drain: bool = False,
    echo: bool = False,
) -> Flow:
    """Lets the emulator send."""
    return Flow(
        UnsignedInt(0),
        UnsignedInt(window),
        UnsignedInt(0),
        UnsignedInt(1000),
        handle=UnsignedInt(handle),
        delivery_count=UnsignedInt(delivery_count),
        link_credit=UnsignedInt(link_credit),
        drain=drain,
        echo=echo,
    )


def terminus(descriptor: int, address: Value, *more: Value) -> Described:
    """A source or a target."""
    return Described(UnsignedLong(descriptor), [address, *more])


class DeskTransport:
    """Keeps what is written, and knows how it ended."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_closed = False
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = self.is_closed = True


class Desk:
    """A broker whose time stands until it is moved."""

    def __init__(self) -> None:
        self._passing = DeskClock()
        self.clock = MovableClock(EPOCH, self._passing.now)
        self.scheduler = DeskScheduler(self._passing)
        options = EmulatorOptions(
            queues=[QueueOptions("billing"), QueueOptions("other")],
            subscriptions=[SubscriptionOptions("usage", "billing")],
        )
        self.hub = Hub(options, self.clock, self.scheduler)

    def pass_time(self, seconds: float) -> None:
        self._passing.advance(seconds)
        self.scheduler.run_due()
        self.hub.broker.run_due()

    def peer(self) -> "Peer":
        """A client whose session has begun."""
        peer = Peer(self.hub)
        peer.connect()
        return peer


class Peer:
    """One client with one connection and one session."""

    def __init__(self, hub: Hub) -> None:
        self.transport = DeskTransport()
        self.connection = Connection(hub, self.transport)
        self._reader = FrameReader()

    # Talking.

    def say(self, performative: Composite, payload: bytes = b"", channel: int = CHANNEL) -> None:
        """Send one frame."""
        body = encode_performative(performative) + payload
        self.connection.receive(encode_frame(channel, body))

    def connect(self, max_frame_bytes: int = 65_536, idle_milliseconds: int | None = None) -> None:
        """Shake hands, open, and begin a session."""
        self.connection.receive(SASL_HEADER)
        init = encode_performative(SaslInit(Symbol("ANONYMOUS"), b""))
        self.connection.receive(encode_frame(0, init, FrameType.SASL))
        self.connection.receive(AMQP_HEADER)
        idle = None if idle_milliseconds is None else UnsignedInt(idle_milliseconds)
        self.say(Open("peer", max_frame_size=UnsignedInt(max_frame_bytes), idle_time_out=idle))
        self.say(Begin(None, UnsignedInt(0), UnsignedInt(1000), UnsignedInt(1000)))

    def attach_sender(self, address: str, handle: int = 1) -> None:
        """Attach a link to send on."""
        self.say(attach_sender(address, handle))

    def attach_receiver(
        self, address: str, handle: int = 2, *, settled: bool = False, reply_to: str = "here"
    ) -> None:
        """Attach a link to receive on."""
        self.say(attach_receiver(address, handle, settled=settled, reply_to=reply_to))

    def send(self, payload: bytes, handle: int = 1, *, delivery_id: int = 0) -> None:
        """Send a message in one frame."""
        tag = delivery_id.to_bytes(4, "big")
        self.say(
            Transfer(UnsignedInt(handle), UnsignedInt(delivery_id), tag, UnsignedInt(0)), payload
        )

    def give_credit(self, link_credit: int, handle: int = 2, **more: Any) -> None:
        """Let the emulator send."""
        self.say(credit(link_credit, handle, **more))

    def settle(
        self, first: int, outcome: Outcome, *, last: int | None = None, settled: bool = False
    ) -> None:
        """Settle deliveries of the emulator."""
        self.say(
            Disposition(
                RECEIVER,
                UnsignedInt(first),
                None if last is None else UnsignedInt(last),
                settled=settled,
                state=described(outcome),
            )
        )

    def ask(self, operation: str, body: Value, handle: int = 1, *, reply_to: str = "here") -> None:
        """Send a request to a management node."""
        self.send(request(operation, body, reply_to), handle)

    def detach(self, handle: int) -> None:
        """Detach a link."""
        self.say(Detach(UnsignedInt(handle), closed=True))

    # Listening.

    def listen(self) -> list[tuple[int, Composite, bytes]]:
        """Everything heard since the last time, without headers and heartbeats."""
        heard: list[tuple[int, Composite, bytes]] = []
        self._reader.feed(bytes(self.transport.written))
        self.transport.written.clear()
        while (unit := self._reader.take()) is not None:
            if isinstance(unit, Frame) and unit.body:
                performative, payload = decode_performative(unit.body)
                if isinstance(performative, SaslOutcome):
                    self._reader.expect_header()
                heard.append((unit.channel, performative, payload))
        return heard

    def heard(self, wanted: type[Wanted]) -> list[Wanted]:
        """The performatives of one type heard since the last time; the others are forgotten."""
        return [each for _, each, _ in self.listen() if isinstance(each, wanted)]

    def transfers(self) -> list[tuple[Transfer, bytes]]:
        """The transfers heard since the last time."""
        return [(each, payload) for _, each, payload in self.listen() if isinstance(each, Transfer)]

    def received_ids(self) -> list[Value]:
        """The ids of the messages that came since the last time."""
        return [message_id_of(payload) for _, payload in self.transfers()]

    def answer(self) -> tuple[dict[str, Value], Value]:
        """The properties and the body of the one answer that came since the last time."""
        ((_, payload),) = self.transfers()
        sections = {kind: section_value(data) for kind, data in split_sections(payload)}
        properties = sections[Section.APPLICATION_PROPERTIES]
        assert isinstance(properties, dict)
        return {str(key): value for key, value in properties.items()}, sections.get(Section.VALUE)


def request(operation: str, body: Value, reply_to: str | None = "here") -> bytes:
    """A management request."""
    return b"".join(
        (
            section(0x73, ["request-1", None, None, None, reply_to]),
            section(0x74, {"operation": f"com.microsoft:{operation}"}),
            encode(Described(UnsignedLong(0x77), body)),
        )
    )


def message_id_of(payload: bytes) -> Value:
    """The id of an encoded message."""
    sections = {kind: section_value(data) for kind, data in split_sections(payload)}
    properties = sections[Section.PROPERTIES]
    assert isinstance(properties, list)
    first: Value = properties[0]
    return first


def error_in(value: Value) -> Error:
    """The error that a field holds."""
    error = composite_from(value)
    assert isinstance(error, Error)
    return error


def refusal(peer: Peer) -> Value:
    """The condition of the one rejection that came since the last time."""
    (disposition,) = peer.heard(Disposition)
    rejection = composite_from(disposition.state)
    assert isinstance(rejection, Rejected)
    return error_in(rejection.error).condition


def publish(desk: Desk, *message_ids: str) -> None:
    """Let another client publish."""
    publisher = desk.peer()
    publisher.attach_sender("billing")
    for number, message_id in enumerate(message_ids):
        publisher.send(encoded_message(message_id), delivery_id=number)
