"""Two deliveries of one event, whatever lies between them: one charge."""

import json
from typing import Any
from uuid import uuid4

import pytest

from local.stripe_simulator import FaultKind
from shared.errors import RecordsUnavailable, SettlementFailed
from shared.outcome import Outcome
from shared.ports import (
    Delivery,
    Ending,
    Envelope,
    FinishResult,
    NoResponse,
    Note,
    StripeRequest,
    StripeResponse,
)
from shared.record import Flow, Lease, State
from shared.store.postgres import PostgresStore
from shared.stripe_requests import create_intent
from tests.support.bench import (
    CREATE_PATHS,
    MONEY_PATHS,
    PATIENCE_SECONDS,
    PERIOD,
    Bench,
    RecordedSettlement,
    TappedPayments,
    at_once,
    kill_after,
    kill_before,
    lose_looks,
    matches,
)

CONFIRM = MONEY_PATHS[Flow.PAYMENT_INTENT]
CANCEL = "/v1/payment_intents/*/cancel"


def test_two_consumers_at_one_instant(bench: Bench, flow: Flow) -> None:
    """Goal: one of them charges, the other leaves the message or finds the record finished."""
    bench.customer()
    outcomes: list[Outcome] = []
    consumers = [bench.biller(flow=flow) for _ in range(2)]
    at_once(
        *[
            lambda consumer=consumer: outcomes.append(bench.deliver(consumer))
            for consumer in consumers
        ]
    )
    assert Outcome.CHARGED in outcomes
    assert set(outcomes) <= {Outcome.CHARGED, Outcome.IN_PROGRESS_ELSEWHERE}
    assert bench.deliver(consumers[0]) is Outcome.CHARGED
    bench.assert_charged_once()


@pytest.mark.parametrize("has_proof", [True, False])
def test_holder_outlives_its_lease(bench: Bench, flow: Flow, has_proof: bool) -> None:
    """Goal: while Stripe answers, the lease lapses and another consumer takes over.

    Method: in the middle of the first consumer's request that moves money, a second consumer
    handles the same event to its end; then the first gets its answer, or none.
    """
    bench.customer()
    second_outcomes: list[Outcome] = []

    def after(
        request: StripeRequest, response: StripeResponse | NoResponse
    ) -> StripeResponse | NoResponse:
        if not matches(request, MONEY_PATHS[flow]):
            return response
        bench.lapse_leases()
        second_outcomes.append(bench.deliver(bench.biller(flow=flow), message_id="message-2"))
        return response if has_proof else NoResponse(sent=True, problem="read_timeout")

    first = bench.biller(TappedPayments(bench.payments, after=after), flow=flow)
    outcome = bench.deliver(first)
    assert second_outcomes == [Outcome.CHARGED]
    assert outcome in (Outcome.CHARGED, Outcome.IN_DOUBT)
    bench.assert_charged_once()


@pytest.mark.parametrize("acted", [True, False])
def test_create_answer_lost(bench: Bench, acted: bool) -> None:
    """Goal: a lost answer to create leaves at most an unconfirmed orphan."""
    bench.customer()
    bench.fault(FaultKind.CLOSE, CREATE_PATHS[Flow.PAYMENT_INTENT], acts=acted)
    assert bench.deliver() is Outcome.IN_DOUBT
    assert bench.record().create_in_doubt
    bench.assert_nothing_charged(held=5000)
    assert bench.deliver() is Outcome.CHARGED
    bench.assert_charged_once()


def test_create_answer_lost_and_its_key_pruned(bench: Bench) -> None:
    """Goal: a day later Stripe makes a second PaymentIntent; only the stored one is confirmed."""
    bench.customer()
    bench.fault(FaultKind.CLOSE, CREATE_PATHS[Flow.PAYMENT_INTENT])
    bench.deliver()
    bench.let_hours_pass(25)
    assert bench.deliver() is Outcome.CHARGED
    bench.assert_charged_once()


def test_two_workers_with_a_payment_intent_each(bench: Bench) -> None:
    """Goal: the one that was stored first is confirmed, by anyone; the other never.

    Method: after the first worker's create, the key is pruned and a second worker creates its own
    PaymentIntent, stores and confirms it; then the first worker goes on.
    """
    bench.customer()
    created: list[str] = []

    def after(
        request: StripeRequest, response: StripeResponse | NoResponse
    ) -> StripeResponse | NoResponse:
        if matches(request, CREATE_PATHS[Flow.PAYMENT_INTENT]):
            created.append("first")
            bench.let_hours_pass(25)
            assert bench.deliver() is Outcome.CHARGED
        return response

    outcome = bench.deliver(bench.biller(TappedPayments(bench.payments, after=after)))
    assert created == ["first"]
    assert outcome is Outcome.IN_PROGRESS_ELSEWHERE
    bench.assert_charged_once()
    assert bench.deliver() is Outcome.CHARGED


def test_what_is_stored_already_is_what_is_confirmed(bench: Bench) -> None:
    """Goal: one PaymentIntent is confirmed even if the row got another one meanwhile.

    Method: another of the same attempt is made and stored under the same lease, as a rebuild from
    Stripe's list does, just before the worker stores its own.
    """
    bench.customer()
    stored: list[str] = []

    class StoredMeanwhile:
        def __getattr__(self, name: str) -> Any:
            return getattr(bench.store, name)

        def store_payment(self, lease: Lease, payment_id: str) -> str | None:
            record = bench.record()
            other = create_intent(record, 99)
            answer = bench.payments.send(other, PATIENCE_SECONDS)
            assert isinstance(answer, StripeResponse)
            stored.append(json.loads(answer.body)["id"])
            assert bench.store.store_payment(lease, stored[0]) == stored[0]
            return bench.store.store_payment(lease, payment_id)

    records: Any = StoredMeanwhile()
    assert bench.deliver(bench.biller(records=records)) is Outcome.CHARGED
    bench.assert_charged_once()
    assert [entry.payment_intent for entry in bench.charges()] == stored


@pytest.mark.parametrize("hours", [0.1, 22, 25, 7 * 24, 30 * 24])
@pytest.mark.parametrize("acted", [True, False])
def test_answer_about_money_lost_then_redelivered(
    bench: Bench, flow: Flow, acted: bool, hours: float
) -> None:
    """Goal: a lost answer, then a redelivery minutes to weeks later, with keys pruned meanwhile."""
    bench.customer()
    silent = TappedPayments(bench.payments, before=lose_looks)
    bench.fault(FaultKind.CLOSE, MONEY_PATHS[flow], acts=acted)
    assert bench.deliver(bench.biller(silent, flow=flow)) is Outcome.IN_DOUBT
    bench.assert_run(held=5000, charged=0)
    bench.let_hours_pass(hours)
    assert bench.deliver(bench.biller(flow=flow), message_id="resubmitted") is Outcome.CHARGED
    bench.assert_charged_once()


@pytest.mark.parametrize("hours", [25, 7 * 24, 30 * 24])
def test_charged_event_resubmitted_later(bench: Bench, flow: Flow, hours: float) -> None:
    """Goal: a resubmission under a new message id finds the record, however late, and no Stripe."""
    bench.customer()
    bench.deliver(bench.biller(flow=flow))
    bench.let_hours_pass(hours)
    payments = TappedPayments(bench.payments)
    settlement = RecordedSettlement()
    outcome = bench.deliver(
        bench.biller(payments, flow=flow), message_id="resubmitted", settlement=settlement
    )
    assert outcome is Outcome.CHARGED
    assert settlement.calls == [("complete",)]
    assert payments.sent == []
    bench.assert_charged_once()


def test_answer_is_found_out_in_the_same_delivery(bench: Bench, flow: Flow) -> None:
    """Goal: after a lost answer one look at Stripe is enough when the money has moved."""
    bench.customer()
    bench.fault(FaultKind.CLOSE, MONEY_PATHS[flow])
    assert bench.deliver(bench.biller(flow=flow)) is Outcome.CHARGED
    bench.assert_charged_once()


def test_late_confirm_after_a_decline(bench: Bench) -> None:
    """Goal: a confirm that is still on its way when the decline is recorded cannot succeed.

    Method: the first worker's confirm is held back and its answer lost; the second worker's is
    declined; then the card becomes good and the held-back confirm arrives.
    """
    bench.customer()
    held_back: list[StripeRequest] = []

    def before(request: StripeRequest) -> NoResponse | None:
        if not matches(request, CONFIRM):
            return None
        held_back.append(request)
        return NoResponse(sent=True, problem="read_timeout")

    outcome = bench.deliver(bench.biller(TappedPayments(bench.payments, before=before)))
    assert outcome is Outcome.IN_DOUBT
    bench.fault(FaultKind.DECLINE, CONFIRM, code="insufficient_funds")
    assert bench.deliver() is Outcome.DECLINED
    late = bench.payments.send(held_back[0], 5)
    assert isinstance(late, StripeResponse)
    assert late.status == 400
    bench.assert_nothing_charged()
    assert bench.record().code == "insufficient_funds"


def test_killed_between_verdict_and_cancel(bench: Bench) -> None:
    """Goal: the stored verdict is finished by whoever comes next, and nothing is confirmed anew."""
    bench.customer()
    bench.fault(FaultKind.DECLINE, CONFIRM, code="lost_card")
    bench.deliver_and_die(bench.biller(TappedPayments(bench.payments, before=kill_before(CANCEL))))
    bench.lapse_leases()
    assert bench.deliver() is Outcome.DECLINED
    assert bench.record().code == "lost_card"
    bench.assert_nothing_charged()


def test_killed_between_a_caps_verdict_and_cancel(bench: Bench) -> None:
    """Goal: a stored verdict binds whoever comes next, even where a confirm would succeed now."""
    bench.customer()
    bench.fault(FaultKind.SPEND_CAP, CONFIRM)
    bench.deliver_and_die(bench.biller(TappedPayments(bench.payments, before=kill_before(CANCEL))))
    bench.lapse_leases()
    assert bench.deliver() is Outcome.CAP_REACHED
    bench.assert_nothing_charged()


def test_message_is_not_dead_lettered_without_its_copy(bench: Bench) -> None:
    """Goal: whoever learns too late that the record was rejected leaves the copy to the next.

    Method: the first consumer's decline comes when another holder has rejected the attempt.
    """
    bench.customer()
    bench.fault(FaultKind.DECLINE, CONFIRM)

    def after(
        request: StripeRequest, response: StripeResponse | NoResponse
    ) -> StripeResponse | NoResponse:
        if matches(request, CANCEL):
            bench.lapse_leases()
            record_id, envelope = bench.record().record_id, Envelope("reconcile")
            other = bench.store.resume(record_id, envelope, 180.0, str(uuid4())).record
            assert other is not None
            note = Note(envelope, "rejected")
            bench.store.finish(other, Ending(State.REJECTED, code="refused"), note, None)
        return response

    settlement = RecordedSettlement()
    biller = bench.biller(TappedPayments(bench.payments, after=after))
    assert bench.deliver(biller, settlement=settlement) is Outcome.IN_PROGRESS_ELSEWHERE
    assert (settlement.calls, bench.parked_reasons()) == ([("leave",)], [])
    settlement = RecordedSettlement()
    assert bench.deliver(settlement=settlement) is Outcome.REJECTED
    assert settlement.calls[0][:2] == ("dead_letter", "Rejected")
    assert bench.parked_reasons() == ["Rejected"]


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("path", [CREATE_PATHS[Flow.PAYMENT_INTENT], CONFIRM])
def test_killed_around_a_request(bench: Bench, path: str, side: str) -> None:
    """Goal: dying on either side of a request, the next delivery ends it with one charge."""
    bench.customer()
    kill = (
        TappedPayments(bench.payments, before=kill_before(path))
        if side == "before"
        else TappedPayments(bench.payments, after=kill_after(path))
    )
    bench.deliver_and_die(bench.biller(kill))
    assert bench.deliver() is Outcome.IN_PROGRESS_ELSEWHERE
    bench.lapse_leases()
    assert bench.deliver() is Outcome.CHARGED
    bench.assert_charged_once()


def test_canceled_by_somebody_else_is_parked(bench: Bench) -> None:
    """Goal: a PaymentIntent that is found canceled without a verdict holds nothing any more.

    Method: the process dies before confirm, somebody cancels at Stripe, a later delivery tries
    again with a new PaymentIntent.
    """
    bench.customer()
    bench.deliver_and_die(bench.biller(TappedPayments(bench.payments, before=kill_before(CONFIRM))))
    payment_id = bench.record().payment_id
    bench.payments.send(
        StripeRequest("post", f"/v1/payment_intents/{payment_id}/cancel", {}, "k"), 5
    )
    bench.lapse_leases()
    settlement = RecordedSettlement()
    assert bench.deliver(settlement=settlement) is Outcome.PARKED
    assert settlement.calls[0][:2] == ("dead_letter", "Parked")
    assert bench.parked_reasons() == ["Parked"]
    bench.assert_nothing_charged()
    assert bench.deliver() is Outcome.CHARGED
    bench.assert_charged_once()


@pytest.mark.parametrize(
    ("lock_lost", "event"), [(True, "lock_lost"), (False, "settlement_failed")]
)
def test_settlement_lost_after_the_record(
    bench: Bench, caplog: pytest.LogCaptureFixture, lock_lost: bool, event: str
) -> None:
    """Goal: a lost settlement raises nothing, is named, and the next delivery finds the record."""
    bench.customer()
    settlement = RecordedSettlement(SettlementFailed("the lock is gone", lock_lost=lock_lost))
    assert bench.deliver(settlement=settlement) is Outcome.CHARGED
    assert f'"event": "{event}"' in caplog.text
    assert bench.deliver(message_id="again") is Outcome.CHARGED
    bench.assert_charged_once()


class _FailingStore:
    """The store with one method that fails, before or after it has committed."""

    def __init__(self, store: PostgresStore, method: str, *, commits: bool) -> None:
        self._store = store
        self._method = method
        self._commits = commits

    def __getattr__(self, name: str) -> Any:
        actual = getattr(self._store, name)
        if name != self._method:
            return actual

        def fail(*arguments: Any) -> FinishResult:
            if self._commits:
                actual(*arguments)
            raise RecordsUnavailable("the database did not answer")

        return fail


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize(
    ("flow", "method"),
    [
        (Flow.PAYMENT_INTENT, "claim"),
        (Flow.PAYMENT_INTENT, "store_payment"),
        (Flow.PAYMENT_INTENT, "finish"),
        (Flow.CHARGE, "claim"),
        (Flow.CHARGE, "finish"),
    ],
)
def test_database_gone(
    bench: Bench, caplog: pytest.LogCaptureFixture, flow: Flow, method: str, commits: bool
) -> None:
    """Goal: the database goes away at the claim, or between charge and record: leave, then once."""
    bench.customer()
    failing: Any = _FailingStore(bench.store, method, commits=commits)
    settlement = RecordedSettlement()
    outcome = bench.deliver(bench.biller(records=failing, flow=flow), settlement=settlement)
    assert outcome is Outcome.TRANSIENT
    assert settlement.calls == [("leave",)]
    assert '"code": "database_unavailable"' in caplog.text
    bench.lapse_leases()
    assert bench.deliver(bench.biller(flow=flow)) is Outcome.CHARGED
    bench.assert_charged_once()


def test_state_of_a_record_in_doubt_is_held_and_counted(bench: Bench, flow: Flow) -> None:
    """Goal: money in doubt stays held, and the row says how often it was in doubt."""
    bench.customer()
    bench.fault(FaultKind.CLOSE, MONEY_PATHS[flow], acts=False)
    assert bench.deliver(bench.biller(flow=flow)) is Outcome.IN_DOUBT
    record = bench.record()
    assert (record.state, record.doubts, record.held_cents) == (State.IN_DOUBT, 1, 5000)


def test_a_defect_at_one_record_does_not_stop_reconcile(bench: Bench) -> None:
    """Goal: the others are driven on, whatever is wrong with the first."""
    bench.customer()
    killer = TappedPayments(bench.payments, before=kill_before(CONFIRM))
    for customer_id in ("customer-1", "customer-2"):
        bench.deliver_and_die(bench.biller(killer), customer_id=customer_id)

    def before(request: StripeRequest) -> None:
        if request.path.endswith(str(bench.record("customer-1").payment_id)):
            raise ZeroDivisionError

    biller = bench.biller(TappedPayments(bench.payments, before=before))
    assert bench.reconcile(biller) == {Outcome.TRANSIENT: 1, Outcome.CHARGED: 1}


def test_one_key_whatever_brings_the_event(bench: Bench, flow: Flow) -> None:
    """Goal: the key comes from business fields alone, so even a lost row charges once in a day.

    Method: the row vanishes between two deliveries that have nothing of the envelope in common.
    """
    bench.customer()
    body = json.dumps(
        {
            "customer_id": "customer-1",
            "billing_period": PERIOD,
            "stripe_customer_id": "cus_1",
            "amount_cents": 5000,
        }
    ).encode()
    envelopes = [
        Envelope("pubsub-push", "message-1", 1, {"a": "1"}),
        Envelope("servicebus", "message-2", 7, {"b": "2"}),
    ]
    for envelope in envelopes:
        bench.execute("DELETE FROM chargeonce.records")
        outcome = bench.biller(flow=flow).handle(Delivery(body, envelope), RecordedSettlement())
        assert outcome is Outcome.CHARGED
    assert [entry.amount for entry in bench.charges()] == [5000]
