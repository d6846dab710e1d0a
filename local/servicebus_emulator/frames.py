"""Frames: how performatives are packed on a connection, and cut out of what arrives."""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from local.servicebus_emulator.errors import FRAMING_ERROR, ConnectionFailure

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
HEARTBEAT: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"

MAXIMUM_FRAME_BYTES: Final = 65_536
SMALLEST_MAXIMUM_FRAME_BYTES: Final = 512
FRAME_HEADER_BYTES: Final = 8

_FRAME_HEADER: Final = struct.Struct(">IBBH")
_WORD_BYTES: Final = 4


class FrameType(IntEnum):
    """What a frame carries."""

    AMQP = 0
    SASL = 1


@dataclass(frozen=True, slots=True)
class ProtocolHeader:
    """The eight bytes that come before frames."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame; an empty body keeps a connection alive."""

    frame_type: int
    channel: int
    body: bytes


def encode_frame(channel: int, body: bytes, frame_type: FrameType = FrameType.AMQP) -> bytes:
    """Return a frame."""
    size = FRAME_HEADER_BYTES + len(body)
    return _FRAME_HEADER.pack(size, FRAME_HEADER_BYTES // _WORD_BYTES, frame_type, channel) + body


class FrameReader:
    """Cuts what arrives into protocol headers and frames.

    Holds at most one unfinished frame. A protocol header is expected at first, and after
    `expect_header`.
    """

    def __init__(self) -> None:
        self._buffer = b""
        self._position = 0
        self._header_expected = True

    def expect_header(self) -> None:
        """Take the next eight bytes for a protocol header."""
        self._header_expected = True

    def feed(self, data: bytes) -> None:
        """Add what arrived."""
        self._buffer = self._buffer[self._position :] + data
        self._position = 0

    def take(self) -> ProtocolHeader | Frame | None:
        """Return the next protocol header or frame, or None when more data is needed.

        Raises:
            ConnectionFailure: What arrived is no frame, or one that is too large.
        """
        available = len(self._buffer) - self._position
        if available < FRAME_HEADER_BYTES:
            return None
        if self._header_expected:
            self._header_expected = False
            return ProtocolHeader(self._cut(FRAME_HEADER_BYTES))
        size, offset_words, frame_type, channel = _FRAME_HEADER.unpack_from(
            self._buffer, self._position
        )
        offset = offset_words * _WORD_BYTES
        if not FRAME_HEADER_BYTES <= offset <= size <= MAXIMUM_FRAME_BYTES:
            raise ConnectionFailure(
                f"a frame of {size} bytes with an offset of {offset}", FRAMING_ERROR
            )
        if available < size:
            return None
        return Frame(frame_type, channel, self._cut(size)[offset:])

    def _cut(self, size: int) -> bytes:
        begin = self._position
        self._position = begin + size
        return self._buffer[begin : self._position]
