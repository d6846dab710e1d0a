"""Parts that are made when first needed: once for all threads, again after a failure."""

import threading
from collections.abc import Callable

import pytest

from shared.once import Once
from tests.support.bench import at_once


class Crowded(Once[str]):
    """Lets nobody try before so many threads have found that the part is not made yet."""

    def __init__(self, make: Callable[[], str], threads: int) -> None:
        super().__init__(make)
        self._inside = threading.Barrier(threads)

    def _make_in_turn(self, tries_before: int) -> str:
        self._inside.wait(timeout=10)
        return super()._make_in_turn(tries_before)


def test_part_is_made_once_for_all_threads() -> None:
    """Goal: requests that come at one instant share one pool of connections."""
    made: list[str] = []

    def make() -> str:
        made.append(f"part {len(made)}")
        return made[-1]

    once = Crowded(make, threads=8)
    got: list[str] = []
    at_once(*[lambda: got.append(once.get())] * 8)
    assert len(made) == 1
    assert got == made * 8


def test_failure_is_not_kept() -> None:
    """Goal: a database that comes back is found without a new deployment."""
    outcomes = iter([ValueError("away"), ValueError("still away"), None])

    def make() -> str:
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome
        return "part"

    once = Once(make)
    for problem in ("away", "still away"):
        with pytest.raises(ValueError, match=problem):
            once.get()
    assert once.get() == "part"
    assert once.get() == "part"


def test_waiting_threads_share_a_failure() -> None:
    """Goal: while the database is away, requests do not queue up for a timeout each."""
    attempts: list[None] = []

    def make() -> str:
        attempts.append(None)
        raise ValueError("away")

    once = Crowded(make, threads=8)

    def get() -> None:
        with pytest.raises(ValueError, match="away"):
            once.get()

    at_once(*[get] * 8)
    assert len(attempts) == 1
