"""The emulator's clock: real time that can be made to have passed.

Clients go by the real time. What the emulator's clock is ahead of it is taken off the times that
clients are told, and added to those that they ask for: to them, what is told to have passed
makes older things older and pending things nearer.
"""

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Tells the time, in seconds since the epoch."""

    def now(self) -> float:
        """Return the emulator's time; it never goes backwards."""
        ...

    def to_client(self, at: float) -> float:
        """Return a time of the emulator as clients are told."""
        ...

    def from_client(self, at: float) -> float:
        """Return a time that a client asks for as one of the emulator."""
        ...


class MovableClock:
    """The time of the machine at start, plus what passed since, plus what was added.

    Args:
        epoch_seconds: The time at start.
        passing: What passes; the difference of two of its answers counts.
    """

    def __init__(
        self,
        epoch_seconds: float | None = None,
        passing: Callable[[], float] = time.monotonic,
    ) -> None:
        self._passing = passing
        started_at = time.time() if epoch_seconds is None else epoch_seconds
        # Wall time may be set back while the emulator runs; locks must not feel it.
        self._base_seconds = started_at - passing()
        self._added_seconds = 0.0

    def now(self) -> float:
        """Return the emulator's time."""
        return self._passing() + self._base_seconds + self._added_seconds

    def to_client(self, at: float) -> float:
        """Return a time of the emulator as clients are told."""
        return at - self._added_seconds

    def from_client(self, at: float) -> float:
        """Return a time that a client asks for as one of the emulator."""
        return at + self._added_seconds

    def advance(self, seconds: float) -> None:
        """Let time have passed.

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError("the clock only moves forward")
        self._added_seconds += seconds
