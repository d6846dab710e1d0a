"""Sending a request to Stripe: our own retries, inside the delivery's budget.

The SDK's retries are off because it reports only its last attempt, which hides an earlier one
that may have charged. Here the doubt of every attempt is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.budget import Budget
from shared.ports import Clock, Payments, StripeRequest
from shared.stripe_answers import Answer, AnswerKind, classify
from shared.throttle import Throttle

FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 8.0

_WORTH_RETRYING = frozenset(
    {AnswerKind.NEVER_SENT, AnswerKind.IN_DOUBT, AnswerKind.BUSY, AnswerKind.RATE_LIMITED}
)


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of a request over all its attempts.

    Args:
        answer: the last answer.
        maybe_executed: an attempt before the last one, or the last one, may have been executed
            without its answer being known.
    """

    answer: Answer
    maybe_executed: bool


class StripeCalls:
    """Sends requests for one worker process. Safe to share between threads.

    Args:
        payments: the port to Stripe.
        clock: time and chance.
        throttle: the instance's request rate.
        max_attempts: how often one request is sent at the most, always under the same key.
    """

    def __init__(
        self, payments: Payments, clock: Clock, throttle: Throttle, max_attempts: int
    ) -> None:
        self._payments = payments
        self._clock = clock
        self._throttle = throttle
        self._max_attempts = max_attempts

    def send(
        self, request: StripeRequest, budget: Budget, vault_key: str | None = None
    ) -> CallResult:
        """Send a request, and again while that may help and the budget allows it.

        Args:
            request: what to send; every attempt is the same to the letter.
            budget: the delivery's. No attempt starts unless it fits whole.
            vault_key: see `Payments.send`.
        """
        maybe_executed = False
        answer = Answer(AnswerKind.NEVER_SENT, code="budget_spent", message="the budget is spent")
        for number in range(self._max_attempts):
            pause_seconds = self._pause_seconds(number) + self._throttle.reserve()
            if not budget.allows_request(pause_seconds):
                break
            if pause_seconds > 0:
                self._clock.sleep(pause_seconds)
            answer = self._send_once(request, budget, vault_key)
            maybe_executed = maybe_executed or answer.kind is AnswerKind.IN_DOUBT
            # A replayed 5xx is stored under the key: asking again gets the same.
            if answer.kind not in _WORTH_RETRYING or answer.replayed:
                break
        return CallResult(answer, maybe_executed)

    def _send_once(self, request: StripeRequest, budget: Budget, vault_key: str | None) -> Answer:
        if not budget.allows_request():
            return Answer(AnswerKind.NEVER_SENT, code="budget_spent", message="the budget is spent")
        return classify(self._payments.send(request, budget.attempt_seconds, vault_key))

    def _pause_seconds(self, number: int) -> float:
        if number == 0:
            return 0.0
        longest: float = min(FIRST_RETRY_SECONDS * 2.0 ** (number - 1), LONGEST_RETRY_SECONDS)
        return longest * (0.5 + self._clock.random() / 2)
