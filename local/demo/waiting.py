"""Waiting for a condition, never longer than was said."""

import time
from collections.abc import Callable
from typing import Final

POLL_SECONDS: Final = 0.2


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition; return whether it came true in time."""
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(POLL_SECONDS)
    return True
