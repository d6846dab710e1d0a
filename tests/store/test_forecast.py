"""A forecast says what a claim then says, and changes nothing."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest

from shared.forecast import Forecast, forecast
from shared.ports import ClaimVerdict
from shared.record import RecordId, State
from shared.store.dead_letters import PostgresDeadLetters
from tests.support.store import (
    AMOUNT_CENTS,
    CUSTOMER,
    LEASE_SECONDS,
    PERIOD,
    PostgresUnderTest,
    claim_request,
)

OPEN = "open_run"


@dataclass(frozen=True, slots=True)
class Case:
    """What stands in the database when the event comes, and what is expected of it."""

    name: str
    verdict: str
    claim: ClaimVerdict
    prepare: Callable[[PostgresUnderTest], object] = lambda _: None
    event: dict[str, Any] = field(default_factory=dict)
    has_run: bool = True


def ended(state: State) -> Callable[[PostgresUnderTest], object]:
    """A record that came to an end."""
    return lambda stores: stores.ended(state)


def in_doubt(stores: PostgresUnderTest, due_in_seconds: float | None = 60.0) -> None:
    """A record of which nobody knows whether it was charged."""
    stores.release(stores.claimed(), doubt=True, due_in_seconds=due_in_seconds)


def canceled(stores: PostgresUnderTest) -> None:
    """A record that an operator closed."""
    stores.ended(State.PARKED)
    stores.cancel(RecordId(CUSTOMER, PERIOD))


def lapsed(stores: PostgresUnderTest) -> None:
    """A record whose holder died."""
    stores.claimed()
    stores.pass_time(LEASE_SECONDS + 1)


def full(stores: PostgresUnderTest) -> None:
    """A run that has no room left."""
    stores.claimed("another-1")
    stores.claimed("another-2")


CASES = [
    Case("never tried", "new_charge", ClaimVerdict.CLAIMED),
    Case("no run", "run_missing", ClaimVerdict.RUN_MISSING, has_run=False),
    Case("no run needed", "new_charge", ClaimVerdict.CLAIMED, has_run=False),
    Case(
        "run closed",
        "run_closed",
        ClaimVerdict.RUN_CLOSED,
        lambda stores: stores.store.close_run(PERIOD, "done"),
    ),
    Case("no room", "cap_reached", ClaimVerdict.CAP_REACHED, full),
    Case(
        "other currency",
        "wrong_currency",
        ClaimVerdict.WRONG_CURRENCY,
        event={"currency": "eur"},
    ),
    Case("charged", "already_charged", ClaimVerdict.SETTLED, ended(State.CHARGED)),
    Case("declined", "already_declined", ClaimVerdict.SETTLED, ended(State.DECLINED)),
    Case("rejected", "already_rejected", ClaimVerdict.SETTLED, ended(State.REJECTED)),
    Case(
        "declined, next attempt",
        "new_charge",
        ClaimVerdict.CLAIMED,
        ended(State.DECLINED),
        {"attempt": 2},
    ),
    Case(
        "charged, next attempt",
        "already_charged",
        ClaimVerdict.SETTLED,
        ended(State.CHARGED),
        {"attempt": 2},
    ),
    Case("parked", "new_charge", ClaimVerdict.CLAIMED, ended(State.PARKED)),
    Case("processing", "already_processing", ClaimVerdict.SETTLED, ended(State.PROCESSING)),
    Case(
        "canceled",
        "already_canceled",
        ClaimVerdict.SETTLED,
        canceled,
    ),
    Case(
        "another amount",
        "conflict",
        ClaimVerdict.CONFLICT,
        ended(State.CHARGED),
        {"amount_cents": AMOUNT_CENTS + 1},
    ),
    Case(
        "another customer of Stripe's",
        "conflict",
        ClaimVerdict.CONFLICT,
        ended(State.CHARGED),
        {"stripe_customer_id": "cus_2"},
    ),
    Case(
        "in hand",
        "in_progress_elsewhere",
        ClaimVerdict.BUSY,
        lambda stores: stores.claimed(),
    ),
    Case("holder died", "continued_charge", ClaimVerdict.CLAIMED, lapsed),
    Case("in doubt", "continued_charge", ClaimVerdict.CLAIMED, in_doubt),
    Case(
        "for an operator",
        "conflict",
        ClaimVerdict.CONFLICT,
        lambda stores: in_doubt(stores, due_in_seconds=None),
    ),
    Case("commits lost", "transient", ClaimVerdict.SUSPENDED, lambda stores: stores.suspend()),
]


@pytest.fixture
def dead_letters(postgres: PostgresUnderTest) -> Iterator[PostgresDeadLetters]:
    """The store of the commands about dead letters, over the same database."""
    with closing(PostgresDeadLetters(postgres.database_url)) as store:
        yield store


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_forecast_is_what_the_claim_says(
    postgres: PostgresUnderTest, dead_letters: PostgresDeadLetters, case: Case
) -> None:
    if case.has_run:
        postgres.open_run()
    case.prepare(postgres)
    require_run = case.name != "no run needed"
    request = claim_request(require_run=require_run, **case.event)
    before = postgres.record()
    assert foretold(dead_letters, request.event, require_run).verdict == case.verdict
    assert postgres.record() == before
    assert postgres.store.claim(request).verdict is case.claim


def foretold(store: PostgresDeadLetters, event: Any, require_run: bool) -> Forecast:
    """The forecast for an event."""
    record_id = RecordId(event.customer_id, event.billing_period)
    return forecast(store.prospects([record_id])[record_id], event, require_run=require_run)


def test_only_the_very_same_event_counts_as_finished(
    postgres: PostgresUnderTest, dead_letters: PostgresDeadLetters
) -> None:
    """Goal: what may be dropped is proven by the record of that event, and by nothing less."""
    postgres.open_run()
    postgres.ended(State.DECLINED)

    def is_finished(**event: Any) -> bool:
        return foretold(dead_letters, claim_request(**event).event, True).is_finished

    assert is_finished()
    assert not is_finished(attempt=2)
    assert not is_finished(amount_cents=1)
    assert not is_finished(customer_id="somebody-else")
