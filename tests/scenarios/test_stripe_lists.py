"""Reading Stripe's lists: whole, in order, again after trouble, never complete by mistake."""

import pytest

from local.stripe_simulator import Fault, FaultKind, Match
from shared.errors import StripeUnavailable
from shared.stripe_lists import PAGE_ATTEMPTS, StripeLists
from shared.throttle import Throttle
from tests.support.bench import PATIENCE_SECONDS, Bench, ImpatientClock

PATH = "/v1/customers"
COUNT = 250


@pytest.fixture
def lists(bench: Bench) -> StripeLists:
    """Lists of a Stripe that has more than two pages of customers."""
    for number in range(COUNT):
        bench.customer(f"cus_{number}")
    clock = ImpatientClock()
    return StripeLists(bench.payments, clock, Throttle(clock, 0), PATIENCE_SECONDS)


def trouble(bench: Bench, times: int) -> None:
    """Let Stripe answer 500 so many times."""
    bench.stripe.add_fault(Fault(FaultKind.SERVER_ERROR, Match(path=PATH, count=times), acts=False))


def test_every_object_once_newest_first(lists: StripeLists) -> None:
    ids = [item["id"] for item in lists.items(PATH, {})]
    assert ids == [f"cus_{number}" for number in reversed(range(COUNT))]


def test_a_cursor_goes_on_where_a_reading_got_to(lists: StripeLists) -> None:
    first = next(lists.pages(PATH, {}))
    rest = [item["id"] for page in lists.pages(PATH, {}, first.cursor) for item in page.items]
    assert len(rest) == COUNT - len(first.items)
    assert rest[0] == f"cus_{COUNT - len(first.items) - 1}"


def test_trouble_that_passes_is_waited_for(bench: Bench, lists: StripeLists) -> None:
    trouble(bench, PAGE_ATTEMPTS - 1)
    assert len(list(lists.items(PATH, {}))) == COUNT


def test_trouble_that_stays_is_no_end_of_the_list(bench: Bench, lists: StripeLists) -> None:
    trouble(bench, PAGE_ATTEMPTS)
    with pytest.raises(StripeUnavailable, match="/v1/customers"):
        list(lists.items(PATH, {}))


def test_what_is_missing_is_none_and_what_is_not_is_whole(lists: StripeLists) -> None:
    assert lists.get("/v1/customers/cus_nobody") is None
    assert (lists.get("/v1/customers/cus_7") or {})["id"] == "cus_7"
