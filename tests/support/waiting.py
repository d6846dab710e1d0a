"""Waiting for a condition, with a bound."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 20.0
PAUSE_SECONDS = 0.01


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Return as soon as a condition holds.

    Args:
        holds: asked again and again.
        what: what is waited for, for the message when it does not come.
    """
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < give_up, f"waited {PATIENCE_SECONDS:g} s in vain until {what}"
        time.sleep(PAUSE_SECONDS)
