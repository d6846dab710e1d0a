"""Stripe away for a day: nothing floods the dead letters, and everything finishes afterwards."""

from dataclasses import replace

from local.stripe_simulator import Fault, FaultKind, Match
from shared.biller import Biller
from shared.breaker import Breaker
from shared.outcome import Outcome
from shared.ports import NoResponse, StripeRequest
from shared.record import Flow
from tests.support.bench import RULES, Bench, ImpatientClock, RecordedSettlement, TappedPayments
from tests.support.clock import ManualClock

CUSTOMERS = 20
MAX_DELIVERIES = 10


def test_outage_of_a_day_ends_with_every_customer_charged_once(bench: Bench, flow: Flow) -> None:
    """Goal: breaker, handing over and reconcile together need neither a human nor a dead letter.

    Method: every message is delivered up to the broker's limit while Stripe resets every
    connection, some of them after acting; a day later reconcile finishes them all.
    """
    bench.customer()
    bench.stripe.add_fault(Fault(FaultKind.RESET, Match(probability=0.3), acts=True))
    bench.stripe.add_fault(Fault(FaultKind.RESET, acts=False))
    clock = ImpatientClock()
    rules = replace(RULES, flow=flow, max_deliveries=MAX_DELIVERIES)
    biller = Biller(bench.store, bench.payments, clock, rules, Breaker(clock))
    settled = dict.fromkeys(range(CUSTOMERS), False)
    for count in range(1, MAX_DELIVERIES):
        for number in range(CUSTOMERS):
            settlement = RecordedSettlement()
            bench.deliver(
                biller,
                customer_id=f"customer-{number}",
                message_id=f"message-{number}",
                delivery_count=count,
                settlement=settlement,
            )
            assert settlement.calls[0][0] != "dead_letter"
            settled[number] = settlement.calls == [("complete",)]
    assert all(settled.values())
    assert bench.parked_reasons() == []
    bench.stripe.clear_faults()
    bench.let_hours_pass(25)
    assert bench.reconcile(bench.biller(flow=flow)).keys() == {Outcome.CHARGED}
    assert bench.kept_count() == 0
    assert len(bench.charges()) == CUSTOMERS
    assert len({entry.metadata["customer_id"] for entry in bench.charges()}) == CUSTOMERS
    bench.assert_run(held=0, charged=CUSTOMERS * 5000)


def test_open_breaker_leaves_messages_without_calling_stripe(bench: Bench) -> None:
    """Goal: once open, an instance leaves messages at once; one probe finds Stripe well again."""
    bench.customer()
    is_away = True

    def before(request: StripeRequest) -> NoResponse | None:
        return NoResponse(sent=False, problem="connection_refused") if is_away else None

    clock = ManualClock()
    payments = TappedPayments(bench.payments, before=before)
    biller = Biller(bench.store, payments, clock, RULES, Breaker(clock, threshold=3))
    for number in range(3):
        assert bench.deliver(biller, customer_id=f"customer-{number}") is Outcome.TRANSIENT
    is_away = False
    assert bench.deliver(biller, customer_id="customer-3") is Outcome.TRANSIENT
    assert payments.sent == []
    clock.advance(60)
    assert bench.deliver(biller, customer_id="customer-3") is Outcome.CHARGED


def test_near_the_limit_an_open_breaker_keeps_the_message(bench: Bench) -> None:
    """Goal: the last delivery leaves the message to reconcile rather than to the dead letters."""
    bench.customer()
    clock = ManualClock()
    breaker = Breaker(clock, threshold=1)
    breaker.note_unclear()
    payments = TappedPayments(bench.payments)
    biller = Biller(bench.store, payments, clock, RULES, breaker)
    settlement = RecordedSettlement()
    outcome = bench.deliver(biller, delivery_count=MAX_DELIVERIES - 1, settlement=settlement)
    assert outcome is Outcome.HANDED_OVER
    assert settlement.calls == [("complete",)]
    assert payments.sent == []
    assert bench.reconcile() == {Outcome.CHARGED: 1}
    bench.assert_charged_once()


def test_broker_that_does_not_count_is_never_handed_over(bench: Bench) -> None:
    """Goal: without a delivery limit there is nothing to hurry for."""
    bench.customer()
    bench.fault(FaultKind.RATE_LIMIT, "/v1/payment_intents/*/confirm")
    assert bench.deliver(delivery_count=None) is Outcome.TRANSIENT
