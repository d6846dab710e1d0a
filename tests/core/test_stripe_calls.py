"""Our own retries: the doubt of an earlier attempt is never forgotten, and the budget is kept."""

from collections.abc import Sequence

import pytest

from shared.budget import Budget
from shared.ports import NoResponse, StripeRequest, StripeResponse
from shared.stripe_answers import AnswerKind
from shared.stripe_calls import CallResult, StripeCalls
from shared.throttle import Throttle
from tests.support.clock import ManualClock

REQUEST = StripeRequest("post", "/v1/charges", {"amount": "100"}, "key")
OK = StripeResponse(200, {}, b'{"id": "ch_1"}')
SERVER_ERROR = StripeResponse(500, {}, b'{"error": {"type": "api_error"}}')
STORED_SERVER_ERROR = StripeResponse(500, {"idempotent-replayed": "true"}, SERVER_ERROR.body)
REFUSED = NoResponse(sent=False, problem="connection_refused")
TIMEOUT = NoResponse(sent=True, problem="read_timeout")
IN_USE = StripeResponse(
    409, {}, b'{"error": {"type": "invalid_request_error", "code": "idempotency_key_in_use"}}'
)


class ScriptedPayments:
    """Answers in the order of a script; each request takes as long as it is told."""

    def __init__(
        self, answers: Sequence[StripeResponse | NoResponse], clock: ManualClock, seconds: float
    ) -> None:
        self._answers = list(answers)
        self._clock = clock
        self._seconds = seconds
        self.sent: list[tuple[StripeRequest, float]] = []

    def send(
        self, request: StripeRequest, timeout_seconds: float, vault_key: str | None = None
    ) -> StripeResponse | NoResponse:
        """Play the next answer."""
        self.sent.append((request, timeout_seconds))
        self._clock.advance(self._seconds)
        return self._answers.pop(0)


def send(
    *answers: StripeResponse | NoResponse,
    max_attempts: int = 3,
    budget_seconds: float = 120,
    seconds: float = 0.1,
) -> tuple[CallResult, ScriptedPayments, ManualClock]:
    """Send one request against a script."""
    clock = ManualClock()
    payments = ScriptedPayments(answers, clock, seconds)
    calls = StripeCalls(payments, clock, Throttle(clock, 0), max_attempts)
    result = calls.send(REQUEST, Budget(clock, budget_seconds, attempt_seconds=35))
    return result, payments, clock


@pytest.mark.parametrize("first", [TIMEOUT, SERVER_ERROR])
def test_doubt_of_an_earlier_attempt_stays(first: StripeResponse | NoResponse) -> None:
    """Goal: "timeout, then refused" must not look as if nothing had been sent."""
    result, payments, _ = send(first, REFUSED, max_attempts=2)
    assert result.answer.kind is AnswerKind.NEVER_SENT
    assert result.maybe_executed
    assert len(payments.sent) == 2


def test_refused_twice_was_never_sent() -> None:
    """Goal: nothing sent is no doubt."""
    result, _, _ = send(REFUSED, REFUSED, max_attempts=2)
    assert not result.maybe_executed


def test_every_attempt_is_the_same_request() -> None:
    """Goal: a retry never changes key or parameters."""
    result, payments, _ = send(TIMEOUT, IN_USE, OK)
    assert result.answer.kind is AnswerKind.OK
    assert {id(request) for request, _ in payments.sent} == {id(REQUEST)}


def test_stored_failure_is_not_asked_for_again() -> None:
    """Goal: a replayed 5xx is stored under the key; repeating it only burns the budget."""
    result, payments, _ = send(SERVER_ERROR, STORED_SERVER_ERROR, OK)
    assert len(payments.sent) == 2
    assert result.answer.replayed
    assert result.maybe_executed


def test_no_attempt_starts_beyond_the_budget() -> None:
    """Goal: slow answers use the budget up, and then nothing more is sent."""
    result, payments, clock = send(TIMEOUT, TIMEOUT, OK, budget_seconds=80, seconds=35)
    assert len(payments.sent) == 2
    assert result.maybe_executed
    assert clock.monotonic() <= 80


def test_spent_budget_sends_nothing() -> None:
    """Goal: with no room for an attempt, the port is not called at all."""
    result, payments, _ = send(OK, budget_seconds=34)
    assert payments.sent == []
    assert result.answer.kind is AnswerKind.NEVER_SENT
    assert not result.maybe_executed


def test_pause_that_does_not_fit_is_not_waited_out() -> None:
    """Goal: where the throttle would eat up the budget, the message is left at once."""
    clock = ManualClock()
    payments = ScriptedPayments([OK, OK], clock, 0.1)
    throttle = Throttle(clock, requests_per_second=0.01)
    calls = StripeCalls(payments, clock, throttle, max_attempts=1)
    throttle.reserve()
    result = calls.send(REQUEST, Budget(clock, 120, attempt_seconds=35))
    assert result.answer.kind is AnswerKind.NEVER_SENT
    assert (payments.sent, clock.slept_seconds) == ([], [])


def test_attempts_are_bounded_and_paced() -> None:
    """Goal: a request is sent at most so often, with growing pauses."""
    _, payments, clock = send(IN_USE, IN_USE, IN_USE, OK, max_attempts=3)
    assert len(payments.sent) == 3
    assert clock.slept_seconds == pytest.approx([0.375, 0.75])


def test_clear_answer_ends_the_loop() -> None:
    """Goal: an answer that decides is not asked for twice."""
    _, payments, _ = send(OK, OK)
    assert len(payments.sent) == 1
