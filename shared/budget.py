"""The time that one delivery may spend at Stripe, over all its calls."""

from __future__ import annotations

from shared.ports import Clock


class Budget:
    """Counts down from the moment it is made.

    Args:
        clock: must go on while the machine is suspended, so that an instance that was frozen for
            hours finds its budget spent and sends nothing.
        budget_seconds: the whole of it.
        attempt_seconds: the most that one request may take, connecting included.
    """

    def __init__(self, clock: Clock, budget_seconds: float, attempt_seconds: float) -> None:
        self._clock = clock
        self._ends_at = clock.monotonic() + budget_seconds
        self.attempt_seconds = attempt_seconds

    @property
    def remaining_seconds(self) -> float:
        """What is left; negative once it is spent."""
        return self._ends_at - self._clock.monotonic()

    def allows_request(self, after_seconds: float = 0.0) -> bool:
        """Whether a whole request still fits, when it starts after a wait of `after_seconds`."""
        return self.remaining_seconds - after_seconds >= self.attempt_seconds
