"""What the tests of the emulator share: a desk clock, messages, and waiting with a bound."""

import socket
import time
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from hypothesis import HealthCheck, settings

from local.servicebus_emulator.encoding import encode
from local.servicebus_emulator.messages import Message, parse_message
from local.servicebus_emulator.wire_types import Described, Symbol, Timestamp, UnsignedLong, Value

Found = TypeVar("Found")

EPOCH = 1_796_000_000.0
# How fast an example runs is a matter of what else the machine does.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


class DeskClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self._now = EPOCH

    def now(self) -> float:
        return self._now

    def to_client(self, at: float) -> float:
        return at

    def from_client(self, at: float) -> float:
        return at

    def advance(self, seconds: float) -> None:
        self._now += seconds


class DeskScheduler:
    """Calls when it is told that time has passed."""

    def __init__(self, clock: DeskClock) -> None:
        self._clock = clock
        self._appointments: list[DeskAppointment] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> "DeskAppointment":
        appointment = DeskAppointment(self._clock.now() + delay, callback)
        self._appointments.append(appointment)
        return appointment

    def run_due(self) -> None:
        now = self._clock.now()
        due = [each for each in self._appointments if each.at <= now and not each.is_cancelled]
        self._appointments = [each for each in self._appointments if each not in due]
        for appointment in due:
            appointment.callback()

    def pending_count(self) -> int:
        return sum(not each.is_cancelled for each in self._appointments)


class DeskAppointment:
    def __init__(self, at: float, callback: Callable[[], None]) -> None:
        self.at = at
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


def section(descriptor: int, value: Value) -> bytes:
    """One encoded section of a message."""
    return encode(Described(UnsignedLong(descriptor), value))


def encoded_message(
    message_id: Value = "m-1", body: bytes = b"{}", scheduled_at: float | None = None
) -> bytes:
    """A message as a client encodes it."""
    annotations: dict[Value, Value] = {Symbol("x-opt-partition-key"): "p"}
    if scheduled_at is not None:
        scheduled = Timestamp(round(scheduled_at * 1000))
        annotations[Symbol("x-opt-scheduled-enqueue-time")] = scheduled
    return b"".join(
        (
            section(0x72, annotations),
            section(0x73, [message_id]),
            section(0x74, {"colour": "blue"}),
            section(0x75, body),
        )
    )


def message(message_id: str = "m-1", scheduled_at: float | None = None) -> Message:
    """A published message."""
    return parse_message(encoded_message(message_id, scheduled_at=scheduled_at))


def token_of(entry_token: UUID | None) -> UUID:
    """The lock token of an entry that is locked."""
    assert entry_token is not None
    return entry_token


def eventually(condition: Callable[[], Found], within_seconds: float = 30.0) -> Found:
    """Wait until a condition holds, return what it found, and fail when it does not in time."""
    give_up = time.monotonic() + within_seconds
    while not (found := condition()):
        assert time.monotonic() < give_up, "the condition did not come about in time"
        time.sleep(0.01)
    return found


def is_cut_off(connection: socket.socket) -> bool:
    """Whether the other end closes a connection without a word."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
