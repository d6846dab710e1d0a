"""Keeping a lock: when it is renewed, when that is given up, and who is told."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from azure.servicebus.exceptions import MessageLockLostError, ServiceBusServerBusyError

from azure_function.renewal import LockRenewal
from tests.support.servicebus import wait_until


class Lock:
    """Stands in for a receiver and its message.

    Args:
        seconds: how long a lock lasts.
        failures: raised by renewals, one each.
    """

    def __init__(self, seconds: float, *failures: Exception) -> None:
        self._seconds = seconds
        self._failures = list(failures)
        self.locked_until_utc = self._later()
        self.renewals = 0
        self.timeouts: list[float] = []
        self.entered = threading.Event()
        self.hold = threading.Event()
        self.hold.set()

    def renew_message_lock(self, message: Any, *, timeout: float) -> None:
        """See `ServiceBusReceiver.renew_message_lock`."""
        assert message is self
        self.renewals += 1
        self.timeouts.append(timeout)
        self.entered.set()
        assert self.hold.wait(10)
        if self._failures:
            raise self._failures.pop(0)
        self.locked_until_utc = self._later()

    def _later(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._seconds)


def renewal_of(lock: Any, lost: list[str | None], longest_seconds: float = 60.0) -> LockRenewal:
    """A renewal that notes whether the lock is lost."""
    return LockRenewal(lock, lock, longest_seconds, lost.append)


def is_running() -> bool:
    """Whether any lock is being renewed."""
    return any(thread.name == "lock-renewal" for thread in threading.enumerate())


def test_lock_is_renewed_until_stopped() -> None:
    """Goal: each renewal comes before the lock runs out; after `stop` there is none."""
    lock, lost = Lock(1.2), list[str | None]()
    with renewal_of(lock, lost) as renewal:
        wait_until(lambda: lock.renewals >= 2)
        renewal.stop()
        renewals = lock.renewals
        assert lock.locked_until_utc > datetime.now(UTC)
    assert not is_running()
    assert (lock.renewals, lost) == (renewals, [])


def test_failure_that_is_over_in_time_loses_nothing() -> None:
    """Goal: one server-busy does not end the renewal, as it would end the SDK's."""
    lock, lost = Lock(2.0, ServiceBusServerBusyError()), list[str | None]()
    with renewal_of(lock, lost):
        wait_until(lambda: lock.renewals >= 3)
    assert lost == []


def test_lock_that_runs_out_is_told_once() -> None:
    """Goal: renewals that go on failing end with the lock, and say why."""
    failures = [ServiceBusServerBusyError() for _ in range(20)]
    lock, lost = Lock(1.2, *failures), list[str | None]()
    with renewal_of(lock, lost):
        wait_until(lambda: lost)
    assert lost == ["ServiceBusServerBusyError"]
    assert lock.renewals < 5


def test_lost_lock_is_told_at_once() -> None:
    """Goal: the broker's last word is not argued with."""
    lock, lost = Lock(1.2, MessageLockLostError()), list[str | None]()
    with renewal_of(lock, lost):
        wait_until(lambda: lost)
    assert (lost, lock.renewals) == (["MessageLockLostError"], 1)


def test_renewal_ends_by_itself() -> None:
    """Goal: a handler that never comes back does not hold the message for ever."""
    lock, lost = Lock(1.2), list[str | None]()
    with renewal_of(lock, lost, longest_seconds=0.1):
        wait_until(lambda: not is_running())
        assert (lock.renewals, lost) == (0, [])


def test_stop_waits_for_a_renewal_that_is_under_way() -> None:
    """Goal: when `stop` returns nobody uses the receiver; a request never outlasts the lock."""
    lock, lost = Lock(1.2), list[str | None]()
    lock.hold.clear()
    with renewal_of(lock, lost) as renewal:
        assert lock.entered.wait(10)
        stopped = threading.Thread(target=renewal.stop)
        stopped.start()
        assert stopped.is_alive()
        lock.hold.set()
        stopped.join(10)
        assert not stopped.is_alive()
    assert max(lock.timeouts) <= 1.2
