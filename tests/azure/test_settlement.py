"""Settling through the Functions host and through a receiver: whatever fails is one error."""

from collections.abc import Callable
from typing import Any

import pytest
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageLockLostError,
    OperationTimeoutError,
    ServiceBusError,
)

from azure_function.consumer import ReceiverSettlement
from azure_function.settlement import MAX_DESCRIPTION_CHARACTERS, FunctionSettlement
from shared.errors import SettlementFailed
from shared.ports import Settlement

MESSAGE: Any = object()


class Recorded:
    """Stands in for the host's actions, a receiver and a renewal; remembers what it was told.

    Args:
        failure: raised by whatever settles.
    """

    def __init__(self, failure: Exception | None = None) -> None:
        self._failure = failure
        self.calls: list[tuple[Any, ...]] = []

    def stop(self) -> None:
        """See `LockRenewal.stop`."""
        self.calls.append(("stop",))

    def complete(self, message: Any) -> None:
        """See `ServiceBusMessageActions.complete`."""
        self._settle("complete", message)

    def deadletter(self, message: Any, **texts: Any) -> None:
        """See `ServiceBusMessageActions.deadletter`."""
        self._settle("dead_letter", message, *texts.values())

    complete_message = complete

    def dead_letter_message(self, message: Any, **texts: Any) -> None:
        """See `ServiceBusReceiver.dead_letter_message`."""
        self._settle("dead_letter", message, *texts.values())

    def _settle(self, *call: Any) -> None:
        self.calls.append(call)
        if self._failure is not None:
            raise self._failure


class SettlementError(Exception):
    """As the extension raises it, which does not export it."""

    def __init__(self, original: Exception) -> None:
        super().__init__(f"[complete] Failed. Underlying error: {original}")
        self.original = original


def by_host(recorded: Any) -> Settlement:
    """A settlement through the host."""
    return FunctionSettlement(MESSAGE, recorded)


def by_receiver(recorded: Any) -> Settlement:
    """A settlement through a receiver."""
    return ReceiverSettlement(recorded, MESSAGE, recorded)


PATHS = pytest.mark.parametrize("settle_by", [by_host, by_receiver])


def told(recorded: Recorded) -> list[tuple[Any, ...]]:
    """What the broker was told."""
    return [call for call in recorded.calls if call != ("stop",)]


@PATHS
def test_each_way_of_settling_is_passed_on(settle_by: Callable[[Any], Settlement]) -> None:
    """Goal: complete and dead-letter reach the broker; leaving tells it nothing."""
    recorded = Recorded()
    settle_by(recorded).complete()
    settle_by(recorded).dead_letter("Reason", "a description")
    settle_by(recorded).leave()
    assert told(recorded) == [
        ("complete", MESSAGE),
        ("dead_letter", MESSAGE, "Reason", "a description"),
    ]


@PATHS
def test_long_description_is_cut(settle_by: Callable[[Any], Settlement]) -> None:
    """Goal: a description that the broker would refuse does not keep poison in the queue."""
    recorded = Recorded()
    settle_by(recorded).dead_letter("Reason", "x" * 10_000)
    assert len(told(recorded)[0][-1]) == MAX_DESCRIPTION_CHARACTERS


def test_renewal_is_stopped_before_the_receiver_is_used() -> None:
    """Goal: receivers are not thread-safe, and what is left must not be renewed on."""
    for settle in ("complete", "leave"):
        recorded = Recorded()
        getattr(by_receiver(recorded), settle)()
        assert recorded.calls[0] == ("stop",)


@pytest.mark.parametrize(
    ("failure", "lock_lost"),
    [
        (MessageLockLostError(), True),
        (MessageAlreadySettled(), False),
        (OperationTimeoutError(), False),
        (ServiceBusError("hunter2"), False),
        (ValueError("the handler has already been shut down"), False),
    ],
)
def test_failure_of_a_receiver_is_one_error(failure: Exception, lock_lost: bool) -> None:
    """Goal: the core logs and counts it; what it says quotes nothing."""
    settlement = by_receiver(Recorded(failure))
    for settle in (settlement.complete, lambda: settlement.dead_letter("Reason", "")):
        with pytest.raises(SettlementFailed, match=type(failure).__name__) as caught:
            settle()
        assert caught.value.lock_lost is lock_lost
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("failure", "lock_lost"),
    [
        (SettlementError(RuntimeError("The lock supplied is invalid. (MessageLockLost)")), True),
        (SettlementError(RuntimeError("FAILED_PRECONDITION")), False),
        (UnboundLocalError("locktoken"), False),
    ],
)
def test_failure_of_the_host_is_one_error(failure: Exception, lock_lost: bool) -> None:
    """Goal: whatever the extension raises, a settlement that failed is logged and no more."""
    with pytest.raises(SettlementFailed) as caught:
        by_host(Recorded(failure)).complete()
    assert caught.value.lock_lost is lock_lost
