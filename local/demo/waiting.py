"""Waiting for a condition, never longer than was said, and not after Ctrl-C."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

POLL_SECONDS: Final = 0.2

_interrupted = threading.Event()


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition; return whether it came true in time.

    Raises:
        KeyboardInterrupt: There was one, and a library swallowed it.
    """
    give_up = time.monotonic() + seconds
    while not condition():
        if _interrupted.is_set():
            raise KeyboardInterrupt
        if time.monotonic() > give_up:
            return False
        time.sleep(POLL_SECONDS)
    return True


@contextmanager
def ending_when_interrupted() -> Iterator[None]:
    """End on Ctrl-C and on SIGTERM alike, so that the child processes are ended on the way out.

    The exception alone does not do: raised inside a callback of a library, it may be swallowed.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        _interrupted.set()
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _interrupted.clear()
    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
