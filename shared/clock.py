"""The real clock."""

from __future__ import annotations

import random
import time
import uuid
from datetime import UTC, datetime

# CLOCK_MONOTONIC stands still while a virtual machine is suspended; CLOCK_BOOTTIME does not.
_BOOT_TIME = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """Time and chance of the machine."""

    def monotonic(self) -> float:
        """Seconds that also pass while the machine is suspended, where the system can tell."""
        return time.monotonic() if _BOOT_TIME is None else time.clock_gettime(_BOOT_TIME)

    def now(self) -> datetime:
        """The present moment in UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def random(self) -> float:
        """A number in [0, 1)."""
        return random.random()  # noqa: S311 (jitter, not a secret)

    def token(self) -> str:
        """A fresh UUID."""
        return str(uuid.uuid4())
