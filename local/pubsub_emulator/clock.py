"""The emulator's time: real time, or faster, so that tests need not wait for minutes to pass."""

import time
from collections.abc import Callable
from typing import Final

SLOWEST: Final = 0.01
FASTEST: Final = 1000.0


class Clock:
    """Time since the emulator started, by the real clock and by the broker's."""

    def __init__(self, speed: float = 1.0, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Start at zero.

        Args:
            speed: How many of the broker's seconds pass in a real one. At 20, an ack deadline of
                ten seconds lapses after half a second; so do backoffs and retention.
            monotonic: Tells real time.

        Raises:
            ValueError: The speed is out of bounds.
        """
        if not SLOWEST <= speed <= FASTEST:
            raise ValueError(f"the speed lies between {SLOWEST} and {FASTEST}")
        self._speed = speed
        self._monotonic = monotonic
        self._started_at = monotonic()

    def real_now(self) -> float:
        """Return the real seconds since the start."""
        return self._monotonic() - self._started_at

    def now(self) -> float:
        """Return the broker's seconds since the start."""
        return self.real_now() * self._speed

    def to_real(self, seconds: float) -> float:
        """Return how many real seconds the broker's take."""
        return seconds / self._speed

    def from_real(self, seconds: float) -> float:
        """Return how many of the broker's seconds pass in real ones."""
        return seconds * self._speed
