"""A token bucket: at most so many Stripe requests a second from this instance."""

from __future__ import annotations

import threading

from shared.ports import Clock


class Throttle:
    """Spaces requests out. Safe to share between threads.

    Args:
        clock: the time.
        requests_per_second: 0 switches it off. Up to one second's worth may go out at once.
    """

    def __init__(self, clock: Clock, requests_per_second: float) -> None:
        self._clock = clock
        self._rate = requests_per_second
        self._burst_seconds = 1.0
        self._next_at = clock.monotonic() - self._burst_seconds
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Take a place if one is free now; False changes nothing."""
        with self._lock:
            now = self._clock.monotonic()
            next_at = max(self._next_at + 1 / self._rate, now - self._burst_seconds)
            if next_at > now:
                return False
            self._next_at = next_at
            return True

    def reserve(self) -> float:
        """Reserve the next place and return how many seconds to wait for it."""
        if self._rate <= 0:
            return 0.0
        with self._lock:
            now = self._clock.monotonic()
            self._next_at = max(self._next_at + 1 / self._rate, now - self._burst_seconds)
            return max(0.0, self._next_at - now)
