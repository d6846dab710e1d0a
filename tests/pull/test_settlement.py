"""What the worker asks of Google's client for a message, call by call."""

import concurrent.futures
from collections.abc import Callable

import pytest
from google.cloud.pubsub_v1.subscriber.exceptions import AcknowledgeError, AcknowledgeStatus

from gcp_function.pull import PullSettlement
from shared.errors import SettlementFailed
from shared.ports import Delivery, Envelope
from tests.support.pubsub import RecordedDeadLetters


class RecordedMessage:
    """Stands in for the client's message, and remembers what is asked of it.

    Args:
        failure: what comes of an ack.
    """

    def __init__(self, failure: Exception | None = None) -> None:
        self._failure = failure
        self.calls: list[str] = []

    def ack_with_response(self) -> "concurrent.futures.Future[AcknowledgeStatus]":
        """Acknowledge."""
        self.calls.append("ack")
        future: concurrent.futures.Future[AcknowledgeStatus] = concurrent.futures.Future()
        if self._failure is None:
            future.set_result(AcknowledgeStatus.SUCCESS)
        else:
            future.set_exception(self._failure)
        return future

    def modify_ack_deadline(self, seconds: int) -> None:
        """Say when the lease ends."""
        self.calls.append(f"deadline {seconds}")

    def drop(self) -> None:
        """End the client's care for it."""
        self.calls.append("drop")


def settlement(
    message: RecordedMessage,
    delivery_count: int | None = None,
    dead_letters: RecordedDeadLetters | None = None,
) -> PullSettlement:
    """The settlement of a message."""
    delivery = Delivery(b"{", Envelope("pubsub-pull", "1", delivery_count))
    return PullSettlement(message, delivery, dead_letters or RecordedDeadLetters(), 10)


@pytest.mark.parametrize(
    ("delivery_count", "seconds"),
    [(None, 10), (1, 10), (2, 20), (4, 80), (7, 600), (1_000_000, 600)],
)
def test_leaving_sets_the_deadline_and_then_lets_go(
    delivery_count: int | None, seconds: int
) -> None:
    """Goal: without the first call it comes back any time, without the second not at all."""
    message = RecordedMessage()
    settlement(message, delivery_count).leave()
    assert message.calls == [f"deadline {seconds}", "drop"]


def test_a_dead_letter_is_published_before_the_ack() -> None:
    message = RecordedMessage()
    letters = RecordedDeadLetters()
    settlement(message, dead_letters=letters).dead_letter("InvalidEvent", "")
    assert (len(letters.letters), message.calls) == (1, ["ack"])


def test_a_message_is_left_when_the_dead_letter_is_not_safe() -> None:
    message = RecordedMessage()
    letters = RecordedDeadLetters(SettlementFailed("refused"))
    with pytest.raises(SettlementFailed, match="refused"):
        settlement(message, dead_letters=letters).dead_letter("InvalidEvent", "")
    assert message.calls == ["deadline 10", "drop"]


@pytest.mark.parametrize(
    ("failure", "told", "lock_lost"),
    [
        (lambda: AcknowledgeError(AcknowledgeStatus.INVALID_ACK_ID, None), "INVALID_ACK_ID", True),
        (lambda: AcknowledgeError(AcknowledgeStatus.OTHER, None), "OTHER", False),
        (concurrent.futures.TimeoutError, "TimeoutError", False),
        (lambda: ValueError("twice"), "ValueError", False),
    ],
)
def test_an_ack_that_fails_says_whether_the_lease_was_lost(
    failure: Callable[[], Exception], told: str, *, lock_lost: bool
) -> None:
    message = RecordedMessage(failure())
    with pytest.raises(SettlementFailed, match=told) as failed:
        settlement(message).complete()
    assert failed.value.lock_lost is lock_lost
