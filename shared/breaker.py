"""The breaker: an instance that gets no clear answers from Stripe stops asking for a while."""

from __future__ import annotations

import threading

from shared.ports import Clock

DEFAULT_THRESHOLD = 5
DEFAULT_OPEN_SECONDS = 30.0


class Breaker:
    """Opens after several unclear answers in a row; one probe closes it. Shared by threads.

    Args:
        clock: time and jitter.
        threshold: unclear answers in a row that open it.
        open_seconds: the mean pause; each is jittered by half to either side.
    """

    def __init__(
        self,
        clock: Clock,
        threshold: int = DEFAULT_THRESHOLD,
        open_seconds: float = DEFAULT_OPEN_SECONDS,
    ) -> None:
        self._clock = clock
        self._threshold = threshold
        self._open_seconds = open_seconds
        self._unclear = 0
        self._probe_at: float | None = None
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether Stripe is not to be asked now. Does not use up the probe."""
        with self._lock:
            return self._probe_at is not None and self._clock.monotonic() < self._probe_at

    def allows(self) -> bool:
        """Whether to ask Stripe now. While open, one caller per pause gets True: the probe."""
        with self._lock:
            if self._probe_at is None:
                return True
            if self._clock.monotonic() < self._probe_at:
                return False
            self._pause()
            return True

    def note_clear(self) -> None:
        """Stripe answered clearly, whatever it said."""
        with self._lock:
            self._unclear = 0
            self._probe_at = None

    def note_unclear(self) -> bool:
        """Stripe did not answer, or did not say; True when this opened the breaker."""
        with self._lock:
            self._unclear += 1
            if self._unclear < self._threshold or self._probe_at is not None:
                return False
            self._pause()
            return True

    def _pause(self) -> None:
        jitter = 0.5 + self._clock.random()
        self._probe_at = self._clock.monotonic() + self._open_seconds * jitter
