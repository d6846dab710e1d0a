"""The run: missing, closed, in another currency, full, and proof that comes late."""

from typing import Any

import pytest

from local.stripe_simulator import FaultKind
from shared.outcome import Outcome
from shared.ports import NoResponse, StripeRequest, StripeResponse
from shared.record import Flow, RecordId
from tests.support.bench import (
    MONEY_PATHS,
    PERIOD,
    Bench,
    RecordedSettlement,
    TappedPayments,
    at_once,
    matches,
)


def test_run_missing_waits_for_the_timer(bench: Bench, flow: Flow) -> None:
    """Goal: a period without a run is left, leaves no row, and is charged once the run is open."""
    bench.customer()
    settlement = RecordedSettlement()
    later = "2026-12"
    biller = bench.biller(flow=flow)
    outcome = bench.deliver(biller, billing_period=later, settlement=settlement)
    assert outcome is Outcome.RUN_MISSING
    assert settlement.calls == [("leave",)]
    assert bench.store.get_record(RecordId("customer-1", later)) is None
    bench.store.open_run(later, "usd", 5000, 5500)
    assert bench.deliver(biller, billing_period=later) is Outcome.CHARGED
    assert len(bench.charges()) == 1


def test_run_not_required(bench: Bench, flow: Flow) -> None:
    """Goal: without a run and without the need for one, a charge is made; a later run counts it."""
    bench.customer()
    later = "2026-12"
    biller = bench.biller(flow=flow, require_run=False)
    assert bench.deliver(biller, billing_period=later) is Outcome.CHARGED
    run, _ = bench.store.open_run(later, "usd", 5000, 5500)
    assert (run.held_cents, run.charged_cents) == (0, 5000)
    assert bench.deliver(biller, billing_period=later, customer_id="customer-2") is (
        Outcome.CAP_REACHED
    )
    assert len(bench.charges()) == 1


@pytest.mark.parametrize(
    ("fields", "outcome", "reason"),
    [
        ({"amount_cents": 2_000_000}, Outcome.CAP_REACHED, "CapReached"),
        ({"currency": "eur"}, Outcome.WRONG_CURRENCY, "WrongCurrency"),
    ],
)
def test_run_refuses(bench: Bench, fields: dict[str, Any], outcome: Outcome, reason: str) -> None:
    """Goal: a refused claim leaves no row, calls no Stripe, and its message is kept whole."""
    bench.customer()
    payments = TappedPayments(bench.payments)
    settlement = RecordedSettlement()
    assert bench.deliver(bench.biller(payments), settlement=settlement, **fields) is outcome
    assert settlement.calls[0][:2] == ("dead_letter", reason)
    assert bench.parked_reasons() == [reason]
    assert payments.sent == []
    assert bench.store.get_record(RecordId("customer-1", PERIOD)) is None
    bench.assert_nothing_charged()


def test_run_closed_refuses_new_claims(bench: Bench) -> None:
    """Goal: closing a run stops what has not begun."""
    bench.customer()
    bench.store.close_run(PERIOD, "operator")
    assert bench.deliver() is Outcome.RUN_CLOSED
    bench.assert_nothing_charged()


def test_run_closed_while_in_doubt_finishes_what_it_holds(bench: Bench, flow: Flow) -> None:
    """Goal: a takeover checks nothing of the run, because its money may already have moved."""
    bench.customer()
    bench.fault(FaultKind.CLOSE, MONEY_PATHS[flow], acts=False)
    assert bench.deliver(bench.biller(flow=flow)) is Outcome.IN_DOUBT
    bench.store.close_run(PERIOD, "operator")
    assert bench.deliver(bench.biller(flow=flow)) is Outcome.CHARGED
    bench.assert_charged_once()


def test_cap_holds_under_concurrency(bench: Bench, flow: Flow) -> None:
    """Goal: consumers that all see room for one more cannot spend it together.

    Method: eight customers of 3,000 race for a cap of 10,000.
    """
    bench.customer()
    period = "2026-W48"
    bench.store.open_run(period, "usd", 10_000, 10_000)
    outcomes: list[Outcome] = []

    def bill(number: int) -> None:
        outcomes.append(
            bench.deliver(
                bench.biller(flow=flow),
                customer_id=f"customer-{number}",
                billing_period=period,
                amount_cents=3000,
            )
        )

    at_once(*[lambda number=number: bill(number) for number in range(8)])
    assert sorted(outcomes) == sorted([Outcome.CHARGED] * 3 + [Outcome.CAP_REACHED] * 5)
    assert sum(entry.amount for entry in bench.charges()) == 9000


def test_hold_is_released_only_by_proof(bench: Bench, flow: Flow) -> None:
    """Goal: money in doubt leaves no room for others; a proven decline does."""
    bench.customer()
    period = "2026-W49"
    bench.store.open_run(period, "usd", 5000, 5000)
    bench.fault(FaultKind.CLOSE, MONEY_PATHS[flow], acts=False)
    biller = bench.biller(flow=flow)
    assert bench.deliver(biller, billing_period=period) is Outcome.IN_DOUBT
    other: dict[str, Any] = {"customer_id": "customer-2", "billing_period": period}
    assert bench.deliver(biller, **other) is Outcome.CAP_REACHED
    bench.fault(FaultKind.DECLINE, MONEY_PATHS[flow], code="lost_card")
    assert bench.deliver(biller, billing_period=period) is Outcome.DECLINED
    assert bench.deliver(biller, **other) is Outcome.CHARGED


def test_late_proof_beyond_the_cap_is_recorded_and_closes_the_run(bench: Bench) -> None:
    """Goal: money that moved is always counted, even past the cap, and the run then closes.

    Method: while the holder waits for its answer an operator's hand declares the record declined,
    which frees its hold, and another customer takes the room. Then the proof arrives.
    """
    bench.customer()
    period = "2026-W50"
    bench.store.open_run(period, "usd", 5000, 5000)

    def after(
        request: StripeRequest, response: StripeResponse | NoResponse
    ) -> StripeResponse | NoResponse:
        if matches(request, MONEY_PATHS[Flow.PAYMENT_INTENT]):
            bench.execute(
                """
                UPDATE chargeonce.records SET state = 'declined', held_cents = 0;
                UPDATE chargeonce.runs SET held_cents = 0 WHERE billing_period = '2026-W50'
                """
            )
            other: dict[str, Any] = {"customer_id": "customer-2", "billing_period": period}
            assert bench.deliver(**other) is Outcome.CHARGED
        return response

    holder = bench.biller(TappedPayments(bench.payments, after=after))
    assert bench.deliver(holder, billing_period=period) is Outcome.CHARGED
    run = bench.store.get_run(period)
    assert run is not None
    assert (run.charged_cents, run.held_cents) == (10_000, 0)
    assert (run.is_open, run.closed_reason) == (False, "over_cap")
