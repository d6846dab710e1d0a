"""An operator tries a failed record again: the next attempt, charged once whoever else asks."""

import json
from collections.abc import Callable

import pytest

from local.stripe_simulator import FaultKind
from shared.outcome import Outcome
from shared.ports import Payments
from shared.record import Flow, Record, State
from shared.retrying import RetryRefusal, refuse_retry, retry, retry_body
from tests.support.bench import (
    MONEY_PATHS,
    PERIOD,
    RULES,
    Bench,
    TappedPayments,
    at_once,
    kill_after,
    kill_before,
)


def decline(bench: Bench, flow: Flow = Flow.PAYMENT_INTENT) -> Record:
    """A record whose first attempt was declined; the customer has a good card since."""
    bench.customer()
    bench.fault(FaultKind.DECLINE, MONEY_PATHS[flow], code="insufficient_funds")
    assert bench.deliver(bench.biller(flow=flow), description="November") is Outcome.DECLINED
    return bench.record()


def attempts_at_stripe(bench: Bench) -> list[str]:
    """The attempt in the metadata of each payment that moved money."""
    return [entry.metadata["attempt"] for entry in bench.charges()]


def test_the_next_attempt_charges(bench: Bench, flow: Flow) -> None:
    """Goal: once, under the new number, with the amount and description of the first."""
    declined = decline(bench, flow)
    assert refuse_retry(declined, RULES.key_namespace) is None
    assert retry(bench.biller(flow=flow), declined, None) is Outcome.CHARGED
    bench.assert_charged_once()
    assert attempts_at_stripe(bench) == ["2"]
    assert bench.charges()[0].description == "November"
    assert bench.record().attempt == 2


def test_with_another_payment_method(bench: Bench) -> None:
    bench.customer(payment_method=None, source=None)
    assert bench.deliver() is Outcome.DECLINED
    assert retry(bench.biller(), bench.record(), None) is Outcome.DECLINED
    assert retry(bench.biller(), bench.record(), "pm_card_visa") is Outcome.CHARGED
    bench.assert_charged_once()
    assert attempts_at_stripe(bench) == ["3"]


def test_a_late_redelivery_of_either_attempt(bench: Bench, flow: Flow) -> None:
    """Goal: the first event, days later, finds the charge of the second attempt."""
    declined = decline(bench, flow)
    retry(bench.biller(flow=flow), declined, None)
    bench.let_hours_pass(30)
    for attempt in (1, 2, 3):
        outcome = bench.deliver(bench.biller(flow=flow), attempt=attempt, message_id=f"m{attempt}")
        assert outcome is Outcome.CHARGED
    bench.assert_charged_once()


def test_two_operators_at_one_instant(bench: Bench, flow: Flow) -> None:
    declined = decline(bench, flow)
    outcomes: list[Outcome] = []
    billers = [bench.biller(flow=flow) for _ in range(3)]
    at_once(
        *[
            lambda biller=biller: outcomes.append(retry(biller, declined, None))
            for biller in billers
        ]
    )
    assert Outcome.CHARGED in outcomes
    assert set(outcomes) <= {Outcome.CHARGED, Outcome.IN_PROGRESS_ELSEWHERE}
    bench.assert_charged_once()


def test_asked_again_after_it_failed_again(bench: Bench, flow: Flow) -> None:
    """Goal: who still has the first decline in mind does not open a third attempt."""
    declined = decline(bench, flow)
    bench.fault(FaultKind.DECLINE, MONEY_PATHS[flow], code="insufficient_funds")
    assert retry(bench.biller(flow=flow), declined, None) is Outcome.DECLINED
    assert retry(bench.biller(flow=flow), declined, None) is Outcome.DECLINED
    assert bench.record().attempt == 2
    bench.assert_nothing_charged()


@pytest.mark.parametrize("sent", [False, True])
def test_killed_around_the_charge(bench: Bench, flow: Flow, sent: bool) -> None:
    """Goal: reconcile brings the operator's attempt to its end: one charge."""
    declined = decline(bench, flow)
    payments: Payments = TappedPayments(
        bench.payments,
        before=None if sent else kill_before(MONEY_PATHS[flow]),
        after=kill_after(MONEY_PATHS[flow]) if sent else None,
    )
    bench.die(lambda: retry(bench.biller(payments, flow=flow), declined, None))
    assert refuse_retry(bench.record(), RULES.key_namespace) is RetryRefusal.UNFINISHED
    assert bench.reconcile() == {Outcome.CHARGED: 1}
    bench.assert_charged_once()


def test_the_cap_is_checked_as_always(bench: Bench) -> None:
    declined = decline(bench)
    bench.execute("UPDATE chargeonce.runs SET cap_cents = 4999")
    assert retry(bench.biller(), declined, None) is Outcome.CAP_REACHED
    assert bench.record() == declined
    bench.assert_nothing_charged()


def _charged(bench: Bench) -> None:
    bench.customer()
    bench.deliver()


def _unfinished(bench: Bench) -> None:
    bench.customer()
    payments = TappedPayments(bench.payments, kill_before(MONEY_PATHS[Flow.PAYMENT_INTENT]))
    bench.deliver_and_die(bench.biller(payments))


def _parked(bench: Bench) -> None:
    bench.customer()
    bench.fault(FaultKind.SPEND_CAP, MONEY_PATHS[Flow.PAYMENT_INTENT])
    bench.deliver()


def _canceled(bench: Bench) -> None:
    decline(bench)
    bench.execute("UPDATE chargeonce.records SET state = 'canceled'")


def _worn_out(bench: Bench) -> None:
    decline(bench)
    bench.execute("UPDATE chargeonce.records SET attempt = 100")


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (_charged, RetryRefusal.CHARGED),
        (_unfinished, RetryRefusal.UNFINISHED),
        (_parked, RetryRefusal.PARKED),
        (_canceled, RetryRefusal.CANCELED),
        (_worn_out, RetryRefusal.TOO_MANY_ATTEMPTS),
    ],
)
def test_what_could_charge_twice_is_refused(
    bench: Bench, make: Callable[[Bench], None], refusal: RetryRefusal
) -> None:
    make(bench)
    assert refuse_retry(bench.record(), RULES.key_namespace) is refusal
    assert refusal.sentence


def test_another_namespace_is_refused(bench: Bench) -> None:
    """Goal: the new attempt's metadata would not name the record's own key."""
    assert refuse_retry(decline(bench), "another") is RetryRefusal.OTHER_NAMESPACE


def test_a_namespace_that_changed_between_two_attempts(bench: Bench, flow: Flow) -> None:
    """Goal: a charge whose answer was lost is found by what its request said, not by the row's key.

    Method: an event asks for the second attempt under another namespace; its consumer dies after
    the charge, and a day later Stripe has forgotten the key.
    """
    decline(bench, flow)
    payments = TappedPayments(bench.payments, after=kill_after(MONEY_PATHS[flow]))
    bench.deliver_and_die(bench.biller(payments, flow=flow, key_namespace="another"), attempt=2)
    bench.let_hours_pass(30)
    assert bench.deliver(bench.biller(flow=flow), attempt=2) is Outcome.CHARGED
    bench.assert_charged_once()


def test_the_event_is_what_a_producer_would_send(bench: Bench) -> None:
    assert json.loads(retry_body(decline(bench), "pm_1")) == {
        "customer_id": "customer-1",
        "billing_period": PERIOD,
        "stripe_customer_id": "cus_1",
        "amount_cents": 5000,
        "currency": "usd",
        "payment_method_id": "pm_1",
        "description": "November",
        "attempt": 2,
    }


def test_a_rejected_record_is_tried_again(bench: Bench) -> None:
    bench.customer()
    assert bench.deliver(payment_method_id="pm_unknown") is Outcome.REJECTED
    assert bench.record().state is State.REJECTED
    assert retry(bench.biller(), bench.record(), None) is Outcome.CHARGED
    bench.assert_charged_once()
