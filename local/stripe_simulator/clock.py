"""A clock that can be set: real time with an offset, or frozen until told otherwise."""

import time
from collections.abc import Callable


class SettableClock:
    """Seconds since the epoch, moved on demand. Never reads wall time unless made by `real`."""

    def __init__(self, base: Callable[[], float], offset_seconds: float) -> None:
        self._base = base
        self._offset_seconds = offset_seconds

    @classmethod
    def real(cls) -> "SettableClock":
        """Return a clock that runs with real time until it is moved."""
        return cls(time.time, 0.0)

    @classmethod
    def frozen(cls, epoch_seconds: float) -> "SettableClock":
        """Return a clock that stands at `epoch_seconds` until it is moved."""
        return cls(lambda: 0.0, epoch_seconds)

    def now(self) -> float:
        """Return the current time in seconds since the epoch."""
        return self._base() + self._offset_seconds

    def advance(self, seconds: float) -> None:
        """Move the clock forward, or backward when `seconds` is negative."""
        self._offset_seconds += seconds

    def set(self, epoch_seconds: float) -> None:
        """Move the clock to `epoch_seconds`."""
        self._offset_seconds = epoch_seconds - self._base()
