"""A clock that tests move by hand."""

from datetime import UTC, datetime, timedelta


class ManualClock:
    """Implements the port `Clock`; sleeping only moves the time on.

    Args:
        now: where the time starts.
    """

    def __init__(self, now: datetime = datetime(2026, 11, 30, tzinfo=UTC)) -> None:
        self._start = now
        self._elapsed_seconds = 0.0
        self._tokens = 0
        self.slept_seconds: list[float] = []
        self.chance = 0.5

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._elapsed_seconds += seconds

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._elapsed_seconds

    def now(self) -> datetime:
        """The present moment."""
        return self._start + timedelta(seconds=self._elapsed_seconds)

    def sleep(self, seconds: float) -> None:
        """Pass the time and remember how long it was."""
        self.slept_seconds.append(seconds)
        self.advance(seconds)

    def random(self) -> float:
        """Whatever the test set."""
        return self.chance

    def token(self) -> str:
        """A new UUID each time."""
        self._tokens += 1
        return f"00000000-0000-4000-8000-{self._tokens:012d}"
