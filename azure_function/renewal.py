"""Keeping the lock of one message while it is being handled.

The SDK's AutoLockRenewer does not do for money. It cannot be told that a message is left, and so
would hold its lock for minutes more. Any error ends it for good, also one that would be over before
the lock is. And it uses the receiver while the message is being settled, which is not allowed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver

# Renewed when half of what is left has passed; after a failure, when half of the rest has.
RENEWAL_SHARE = 0.5
SHORTEST_PAUSE_SECONDS = 0.5
SHORTEST_CALL_SECONDS = 1.0


class LockRenewal:
    """Renews a message's lock from a thread of its own, between `__enter__` and `stop`.

    While it runs nobody else may use the receiver: receivers are not thread-safe.

    Args:
        receiver: which received the message.
        message: whose lock is kept.
        longest_seconds: when to stop renewing even if nobody says so.
        on_lost: told once, in the renewing thread, when the lock is lost; with the last error's
            type, or None when time ran out.
    """

    def __init__(
        self,
        receiver: ServiceBusReceiver,
        message: ServiceBusReceivedMessage,
        longest_seconds: float,
        on_lost: Callable[[str | None], None],
    ) -> None:
        self._receiver = receiver
        self._message = message
        self._give_up_at = time.monotonic() + longest_seconds
        self._on_lost = on_lost
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lock-renewal", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Renew no more. When it returns, the receiver is free. Safe to call again."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        problem: str | None = None
        while not self._stopped.wait(self._pause_seconds()):
            if time.monotonic() >= self._give_up_at:
                return
            left_seconds = self._left_seconds()
            if left_seconds <= 0:
                self._on_lost(problem)
                return
            problem = self._renew(left_seconds)
            if problem in _FINAL:
                self._on_lost(problem)
                return

    def _renew(self, left_seconds: float) -> str | None:
        """Try once; return what went wrong."""
        try:
            # Never beyond the lock's own end: `stop` waits for this.
            self._receiver.renew_message_lock(
                self._message, timeout=max(left_seconds, SHORTEST_CALL_SECONDS)
            )
        except Exception as error:  # noqa: BLE001 (tried again, or told to `on_lost`)
            return type(error).__name__
        return None

    def _pause_seconds(self) -> float:
        return max(self._left_seconds() * RENEWAL_SHARE, SHORTEST_PAUSE_SECONDS)

    def _left_seconds(self) -> float:
        locked_until = self._message.locked_until_utc
        if locked_until is None:
            return 0.0
        return (locked_until - datetime.now(UTC)).total_seconds()


# The broker's last word. Names, because the SDK is imported by whoever has a receiver.
_FINAL = frozenset({"MessageLockLostError", "MessageAlreadySettled"})
