"""The timers' leases, in both stores."""

from collections.abc import Callable

import pytest

from shared.ports import Timers
from shared.store.memory import MemoryStore
from shared.store.timers import PostgresTimers
from tests.support.clock import ManualClock
from tests.support.store import PostgresUnderTest

Lease = tuple[Timers, Callable[[], object]]


@pytest.fixture(params=["memory", "postgres"])
def lease(request: pytest.FixtureRequest) -> Lease:
    """The timers of each store in turn, and how to let a lease of a minute run out."""
    if request.param == "memory":
        clock = ManualClock()
        return MemoryStore(clock), lambda: clock.advance(60)
    postgres: PostgresUnderTest = request.getfixturevalue("postgres")
    postgres.execute("DELETE FROM chargeonce.timers")

    def run_out() -> None:
        postgres.execute("UPDATE chargeonce.timers SET lease_until = now()")

    return PostgresTimers(postgres.database_url), run_out


def test_a_lease_is_taken_once_until_it_has_run_out(lease: Lease) -> None:
    """Goal: a doubled firing does nothing, and a timer whose process died is free again."""
    timers, run_out = lease
    assert timers.take_timer_lease("one", 60)
    assert timers.take_timer_lease("other", 60)
    assert not timers.take_timer_lease("one", 60)
    run_out()
    assert timers.take_timer_lease("one", 60)
