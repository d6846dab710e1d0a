"""Records that may have left PaymentIntents behind, on both stores."""

from datetime import timedelta

import pytest

from shared.record import State
from tests.support.store import StoreUnderTest

QUIET_SECONDS = 360.0


def doubted(stores: StoreUnderTest, limit: int = 100) -> list[str]:
    """The customers to look at."""
    found = stores.store.doubted_creates(limit, QUIET_SECONDS)
    return sorted(each.record_id.customer_id for each in found)


@pytest.fixture
def quiet(billing: StoreUnderTest) -> StoreUnderTest:
    """One record whose create was in doubt, one whose was not; long untouched."""
    billing.release(billing.claimed(), doubt=True, create_in_doubt=True)
    billing.release(billing.claimed("customer-2"), doubt=True)
    billing.pass_time(QUIET_SECONDS + 1)
    return billing


def test_only_those_whose_create_was_in_doubt(quiet: StoreUnderTest) -> None:
    assert doubted(quiet) == ["customer-1"]


def test_only_those_that_were_not_touched_lately(quiet: StoreUnderTest) -> None:
    quiet.claimed()
    assert doubted(quiet) == []
    quiet.pass_time(QUIET_SECONDS + 1)
    assert doubted(quiet) == ["customer-1"]


def test_none_in_a_suspended_database(quiet: StoreUnderTest) -> None:
    quiet.suspend()
    assert doubted(quiet) == []


def test_no_more_than_the_limit(billing: StoreUnderTest) -> None:
    for customer_id in ("customer-1", "customer-2"):
        billing.release(billing.claimed(customer_id), create_in_doubt=True)
    billing.pass_time(QUIET_SECONDS + 1)
    assert len(doubted(billing, limit=1)) == 1
    assert doubted(billing) == ["customer-1", "customer-2"]


def test_they_are_looked_for_since_the_first_attempt(quiet: StoreUnderTest) -> None:
    """Goal: an attempt that was opened later does not hide what an earlier one left."""
    quiet.finish(quiet.claimed(), State.DECLINED)
    quiet.pass_time(3600)
    quiet.finish(quiet.claimed(attempt=2), State.DECLINED)
    quiet.pass_time(QUIET_SECONDS + 1)
    (found,) = quiet.store.doubted_creates(1, QUIET_SECONDS)
    record = quiet.record()
    assert record is not None
    assert record.attempt_started_at - found.since >= timedelta(seconds=3600)
    assert found.database_time - record.attempt_started_at >= timedelta(seconds=QUIET_SECONDS)


def test_the_doubt_is_cleared_unless_the_record_was_touched(quiet: StoreUnderTest) -> None:
    before = quiet.record()
    assert before is not None
    quiet.pass_time(1)
    claimed = quiet.claimed()
    assert not quiet.store.clear_create_doubt(before)
    assert quiet.store.clear_create_doubt(claimed)
    after = quiet.record()
    assert after is not None
    assert not after.create_in_doubt
    assert after.updated_at == claimed.updated_at
