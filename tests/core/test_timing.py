"""Budget, breaker and throttle: what limits the calls of one delivery and of one instance."""

import pytest

from shared.breaker import Breaker
from shared.budget import Budget
from shared.throttle import Throttle
from tests.support.clock import ManualClock


def test_budget_starts_no_request_that_does_not_fit_whole() -> None:
    """Goal: no request starts when less than one attempt is left."""
    clock = ManualClock()
    budget = Budget(clock, budget_seconds=120, attempt_seconds=35)
    clock.advance(85)
    assert budget.allows_request()
    clock.advance(0.1)
    assert not budget.allows_request()


def test_budget_counts_the_wait_before_a_request() -> None:
    """Goal: a pause that would eat up the attempt's time keeps the request back."""
    budget = Budget(ManualClock(), budget_seconds=40, attempt_seconds=35)
    assert budget.allows_request(after_seconds=5)
    assert not budget.allows_request(after_seconds=6)


def test_frozen_instance_finds_its_budget_spent() -> None:
    """Goal: an instance that was frozen for hours sends nothing when it wakes up."""
    clock = ManualClock()
    budget = Budget(clock, budget_seconds=120, attempt_seconds=35)
    clock.advance(4 * 3600)
    assert not budget.allows_request()


def test_breaker_opens_after_unclear_answers_in_a_row() -> None:
    """Goal: one clear answer starts the count anew."""
    breaker = Breaker(ManualClock(), threshold=3, open_seconds=30)
    assert [breaker.note_unclear() for _ in range(2)] == [False, False]
    breaker.note_clear()
    assert [breaker.note_unclear() for _ in range(3)] == [False, False, True]
    assert breaker.is_open
    assert not breaker.allows()


def test_breaker_lets_one_probe_through_per_pause() -> None:
    """Goal: a single probe decides whether the others may ask again."""
    clock = ManualClock()
    breaker = Breaker(clock, threshold=1, open_seconds=30)
    breaker.note_unclear()
    clock.advance(31)
    assert not breaker.is_open
    assert [breaker.allows() for _ in range(3)] == [True, False, False]
    breaker.note_clear()
    assert [breaker.allows() for _ in range(3)] == [True, True, True]


def test_breaker_pauses_are_jittered() -> None:
    """Goal: instances that opened together do not probe together."""
    clock = ManualClock()
    clock.chance = 0.0
    breaker = Breaker(clock, threshold=1, open_seconds=30)
    breaker.note_unclear()
    clock.advance(15)
    assert breaker.allows()
    clock.chance = 0.99
    breaker = Breaker(clock, threshold=1, open_seconds=30)
    breaker.note_unclear()
    clock.advance(44)
    assert not breaker.allows()


def test_throttle_spaces_requests_out() -> None:
    """Goal: after a second's worth at once, requests go out at the rate."""
    clock = ManualClock()
    throttle = Throttle(clock, requests_per_second=4)
    waits = [throttle.reserve() for _ in range(8)]
    assert waits[:4] == [0.0] * 4
    assert waits[4:] == pytest.approx([0.25, 0.5, 0.75, 1.0])


def test_throttle_can_be_off() -> None:
    """Goal: zero means no limit."""
    throttle = Throttle(ManualClock(), requests_per_second=0)
    assert {throttle.reserve() for _ in range(1000)} == {0.0}
