"""A connection: handshakes, sessions, and what ends it. Bytes in, bytes out, no sockets."""

from typing import Final, Protocol
from uuid import uuid4

from local.servicebus_emulator.errors import (
    FRAMING_ERROR,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    ConnectionFailure,
    SessionFailure,
    WireError,
)
from local.servicebus_emulator.frames import (
    AMQP_HEADER,
    HEARTBEAT,
    MAXIMUM_FRAME_BYTES,
    SASL_HEADER,
    SMALLEST_MAXIMUM_FRAME_BYTES,
    Frame,
    FrameReader,
    FrameType,
    ProtocolHeader,
    encode_frame,
)
from local.servicebus_emulator.hub import Appointment, Hub
from local.servicebus_emulator.outgoing import ResponseLink
from local.servicebus_emulator.performatives import (
    Begin,
    Close,
    Composite,
    End,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    decode_performative,
    encode_performative,
    error_of,
)
from local.servicebus_emulator.session import Session
from local.servicebus_emulator.wire_types import (
    Array,
    Symbol,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
)

MAXIMUM_CHANNEL: Final = 255
OPEN_SECONDS: Final = 60.0

_MECHANISMS: Final = Array((Symbol("ANONYMOUS"), Symbol("PLAIN"), Symbol("EXTERNAL")))
_MILLISECONDS: Final = 1000
# Twice as often as the peer asks for, as the standard suggests.
_HEARTBEATS_PER_TIME_OUT: Final = 2
_SHORTEST_BEAT_SECONDS: Final = 0.1


class Transport(Protocol):
    """What carries the bytes."""

    def write(self, data: bytes) -> None:
        """Send bytes."""
        ...

    def close(self) -> None:
        """Close once everything is sent."""
        ...

    def abort(self) -> None:
        """Cut, at once."""
        ...


class Connection:
    """One connection of a client.

    Args:
        hub: What all connections share.
        transport: What carries the bytes.
    """

    def __init__(self, hub: Hub, transport: Transport) -> None:
        self.peer_frame_bytes = SMALLEST_MAXIMUM_FRAME_BYTES
        self._hub = hub
        self._transport = transport
        self._reader = FrameReader()
        self._sessions: dict[int, Session] = {}
        self._is_open = False
        self._is_closed = False
        self._is_paused = False
        self._timer: Appointment = hub.scheduler.call_later(OPEN_SECONDS, self.cut)

    @property
    def is_writable(self) -> bool:
        """Whether more may be sent without piling up."""
        return not self._is_paused and not self._is_closed

    def receive(self, data: bytes) -> None:
        """Take in what arrived."""
        self._reader.feed(data)
        try:
            while not self._is_closed and (unit := self._reader.take()) is not None:
                if isinstance(unit, ProtocolHeader):
                    self._on_header(unit)
                else:
                    self._on_frame(unit)
        except WireError as error:
            self._close(error)

    def pause(self) -> None:
        """Deliver nothing more for now: too much waits to be sent."""
        self._is_paused = True

    def resume(self) -> None:
        """Deliver again."""
        self._is_paused = False
        for session in list(self._sessions.values()):
            session.resume()

    def lost(self) -> None:
        """End: the peer is gone."""
        self._finish()
        for session in self._sessions.values():
            session.stop()
        self._sessions.clear()

    def cut(self) -> None:
        """Cut the connection, without a word to the peer."""
        self._finish()
        self._transport.abort()

    def send(self, channel: int, performative: Composite, payload: bytes = b"") -> None:
        """Send a frame, unless the connection is closed already."""
        if not self._is_closed:
            body = encode_performative(performative) + payload
            self._transport.write(encode_frame(channel, body))

    def find_response_link(self, node: str, reply_to: str | None) -> ResponseLink | None:
        """Return the link for an answer of a node, the one that reply-to names if possible."""
        links = [
            link
            for session in self._sessions.values()
            for link in session.response_links()
            if link.node == node
        ]
        named = [link for link in links if link.reply_address == reply_to]
        return next(reversed(named or links), None)

    # Handshakes.

    def _on_header(self, header: ProtocolHeader) -> None:
        if header.data == SASL_HEADER:
            self._transport.write(SASL_HEADER)
            self._send_sasl(SaslMechanisms(_MECHANISMS))
        elif header.data == AMQP_HEADER:
            self._transport.write(AMQP_HEADER)
        else:
            # By the standard the answer to a header that is not understood is one that is.
            self._transport.write(SASL_HEADER)
            self._finish()
            self._transport.close()

    def _on_sasl(self, performative: Composite) -> None:
        if not isinstance(performative, SaslInit):
            raise ConnectionFailure("only the first step of SASL is supported", NOT_IMPLEMENTED)
        self._send_sasl(SaslOutcome(UnsignedByte(0)))
        self._reader.expect_header()

    def _send_sasl(self, performative: Composite) -> None:
        body = encode_performative(performative)
        self._transport.write(encode_frame(0, body, FrameType.SASL))

    # Frames.

    def _on_frame(self, frame: Frame) -> None:
        if not frame.body:
            return
        performative, payload = decode_performative(frame.body)
        if frame.frame_type == FrameType.SASL:
            self._on_sasl(performative)
        elif frame.frame_type != FrameType.AMQP:
            raise ConnectionFailure(f"frame type {frame.frame_type}", FRAMING_ERROR)
        elif isinstance(performative, Open):
            self._on_open(performative)
        elif not self._is_open:
            raise ConnectionFailure("the connection is not open yet", NOT_ALLOWED)
        elif isinstance(performative, Close):
            self._close(None)
        else:
            self._on_session_frame(frame.channel, performative, payload)

    def _on_open(self, performative: Open) -> None:
        if self._is_open:
            raise ConnectionFailure("the connection is open already", NOT_ALLOWED)
        wanted_bytes = performative.max_frame_size
        self.peer_frame_bytes = int(wanted_bytes or MAXIMUM_FRAME_BYTES)
        if self.peer_frame_bytes < SMALLEST_MAXIMUM_FRAME_BYTES:
            raise ConnectionFailure("the maximum frame size is too small", NOT_ALLOWED)
        self._is_open = True
        self._timer.cancel()
        self.send(
            0,
            Open(
                container_id=f"servicebus-emulator-{uuid4()}",
                max_frame_size=UnsignedInt(MAXIMUM_FRAME_BYTES),
                channel_max=UnsignedShort(MAXIMUM_CHANNEL),
            ),
        )
        if performative.idle_time_out:
            time_out_seconds = performative.idle_time_out / _MILLISECONDS
            interval_seconds = time_out_seconds / _HEARTBEATS_PER_TIME_OUT
            self._beat(max(interval_seconds, _SHORTEST_BEAT_SECONDS))

    def _beat(self, interval_seconds: float) -> None:
        def beat() -> None:
            self._transport.write(HEARTBEAT)
            self._beat(interval_seconds)

        self._timer = self._hub.scheduler.call_later(interval_seconds, beat)

    def _on_session_frame(self, channel: int, performative: Composite, payload: bytes) -> None:
        session = self._sessions.get(channel)
        if isinstance(performative, Begin):
            self._on_begin(channel, performative)
        elif session is None:
            # Frames may be under way to a session that has ended.
            return
        elif isinstance(performative, End):
            self._end_session(channel)
            self.send(channel, End())
        else:
            try:
                session.handle(performative, payload)
            except SessionFailure as failure:
                self._end_session(channel)
                error = error_of(failure.condition, failure.description)
                self.send(channel, End(error))

    def _on_begin(self, channel: int, begin: Begin) -> None:
        if channel in self._sessions:
            raise ConnectionFailure(f"channel {channel} is in use", NOT_ALLOWED)
        if channel > MAXIMUM_CHANNEL:
            raise ConnectionFailure(f"channel {channel} is too high", RESOURCE_LIMIT_EXCEEDED)
        session = Session(self._hub, self, channel, begin)
        self._sessions[channel] = session
        session.start()

    def _end_session(self, channel: int) -> None:
        session = self._sessions.pop(channel)
        session.stop()

    def _close(self, error: WireError | None) -> None:
        told = None if error is None else error_of(error.condition, error.description)
        self.send(0, Close(told))
        self._finish()
        self._transport.close()

    def _finish(self) -> None:
        self._is_closed = True
        self._timer.cancel()
