"""An operator cancels: closed only when no money moved and none can, told the truth otherwise."""

from collections.abc import Iterator

import pytest

from local.stripe_simulator import FaultKind
from shared.canceling import CODE, Canceled, Canceler, CancelVerdict
from shared.key import idempotency_key
from shared.operations import OPERATOR
from shared.outcome import Outcome
from shared.ports import NoResponse, Payments, Records, StripeRequest, StripeResponse
from shared.record import Flow, RecordId, State
from shared.store.operations import PostgresOperations
from shared.stripe_requests import confirm_intent
from tests.support.bench import (
    CREATE_PATHS,
    MONEY_PATHS,
    PERIOD,
    RULES,
    Bench,
    ImpatientClock,
    TappedPayments,
    at_once,
    kill_after,
    kill_before,
    lose_looks,
)

RECORD_ID = RecordId("customer-1", PERIOD)
CONFIRM = MONEY_PATHS[Flow.PAYMENT_INTENT]
CREATE = CREATE_PATHS[Flow.PAYMENT_INTENT]
CANCEL = "/v1/payment_intents/*/cancel"
TWO_LEASES_HOURS = 2 * RULES.lease_seconds / 3600


@pytest.fixture
def operations(scenario_database_url: str) -> Iterator[PostgresOperations]:
    """The records as an operator sees them."""
    operations = PostgresOperations(scenario_database_url)
    yield operations
    operations.close()


class Desk:
    """An operator at the bench."""

    def __init__(self, bench: Bench, operations: PostgresOperations) -> None:
        self._bench = bench
        self._operations = operations

    def cancel(self, payments: Payments | None = None, records: Records | None = None) -> Canceled:
        """Cancel the usual record."""
        canceler = Canceler(
            records or self._bench.store,
            self._operations,
            payments or self._bench.payments,
            ImpatientClock(),
            RULES,
        )
        return canceler.cancel(RECORD_ID)

    def leave_alone(self, seconds: float) -> None:
        """Let the records look as if nobody had touched them for so long."""
        self._bench.execute(
            f"UPDATE chargeonce.records SET updated_at = now() - interval '{seconds} seconds'"
        )


@pytest.fixture
def desk(bench: Bench, operations: PostgresOperations) -> Desk:
    """An operator, and a customer who would pay."""
    bench.customer()
    return Desk(bench, operations)


def abandon(bench: Bench, path: str, *, sent: bool, flow: Flow = Flow.PAYMENT_INTENT) -> None:
    """Leave a record behind whose consumer died before or after a request; its lease is over."""
    payments = TappedPayments(
        bench.payments,
        before=None if sent else kill_before(path),
        after=kill_after(path) if sent else None,
    )
    bench.deliver_and_die(bench.biller(payments, flow=flow))
    bench.lapse_leases()


def assert_closed(bench: Bench, desk: Desk) -> None:
    """No money moved, none is held, and no event brings the record back."""
    record = bench.record()
    assert (record.state, record.code) == (State.CANCELED, CODE)
    assert desk.cancel().verdict is CancelVerdict.ALREADY_CANCELED
    bench.lapse_leases()
    for attempt in (1, 2):
        assert bench.deliver(attempt=attempt, message_id=f"late-{attempt}") is Outcome.CANCELED
    bench.reconcile()
    bench.assert_nothing_charged()


@pytest.mark.parametrize(
    ("path", "sent"),
    [(CREATE, False), (CREATE, True), (CONFIRM, False)],
    ids=["nothing-created", "created-not-stored", "stored"],
)
def test_no_money_moved(bench: Bench, desk: Desk, path: str, sent: bool) -> None:
    abandon(bench, path, sent=sent)
    assert desk.cancel().verdict is CancelVerdict.CANCELED
    assert bench.store.attempts(RECORD_ID, 10)[-1].transport == OPERATOR
    assert_closed(bench, desk)


def test_money_that_moved_is_recorded(bench: Bench, desk: Desk) -> None:
    """Goal: the confirm's answer was lost; canceling finds the charge and says so."""
    abandon(bench, CONFIRM, sent=True)
    assert desk.cancel().verdict is CancelVerdict.CHARGED
    bench.assert_charged_once()
    assert desk.cancel().verdict is CancelVerdict.CHARGED


@pytest.mark.parametrize("acted", [True, False])
def test_a_lost_answer_releases_nothing(bench: Bench, desk: Desk, acted: bool) -> None:
    """Goal: the hold stays, and reconcile finishes what the operator began."""
    abandon(bench, CONFIRM, sent=False)
    bench.fault(FaultKind.CLOSE, CANCEL, acts=acted)
    canceled = desk.cancel()
    assert canceled.verdict is CancelVerdict.IN_DOUBT
    assert bench.record().state is State.IN_DOUBT
    bench.assert_nothing_charged(held=5000)
    assert bench.reconcile() == {Outcome.CANCELED: 1}
    assert_closed(bench, desk)


def test_stripe_is_away(bench: Bench, desk: Desk) -> None:
    abandon(bench, CONFIRM, sent=False)
    payments = TappedPayments(
        bench.payments, before=lambda _: NoResponse(sent=False, problem="refused")
    )
    assert desk.cancel(payments).verdict is CancelVerdict.TRANSIENT
    bench.assert_nothing_charged(held=5000)
    bench.lapse_leases()
    assert desk.cancel().verdict is CancelVerdict.CANCELED
    assert_closed(bench, desk)


def test_a_look_that_fails_after_the_word_is_stored(bench: Bench, desk: Desk) -> None:
    """Goal: the operator is told that the cancel has begun, for reconcile goes on with it."""
    abandon(bench, CONFIRM, sent=False)
    canceled = desk.cancel(TappedPayments(bench.payments, before=lose_looks))
    assert canceled.verdict is CancelVerdict.IN_DOUBT
    assert "goes on with the cancel" in canceled.verdict.sentence
    assert bench.reconcile() == {Outcome.CANCELED: 1}
    assert_closed(bench, desk)


@pytest.mark.parametrize(
    ("step", "done"),
    [(step, done) for step in ("store_verdict", CANCEL, "finish") for done in (False, True)],
)
def test_killed_between_the_steps(bench: Bench, desk: Desk, step: str, done: bool) -> None:
    """Goal: whoever comes next goes on: nothing is charged once the operator's word is stored."""
    abandon(bench, CONFIRM, sent=False)
    if step == CANCEL:
        payments = TappedPayments(
            bench.payments,
            before=None if done else kill_before(CANCEL),
            after=kill_after(CANCEL) if done else None,
        )
        bench.die(lambda: desk.cancel(payments))
    else:
        bench.die(lambda: desk.cancel(records=bench.dying_store(step, commits=done)))
    is_stored = (step, done) != ("store_verdict", False)
    is_finished = (step, done) == ("finish", True)
    if not is_finished:
        assert desk.cancel().verdict is CancelVerdict.BUSY
        bench.assert_run(held=5000, charged=0)
    bench.lapse_leases()
    if is_stored:
        assert bench.deliver(message_id="message-2") is Outcome.CANCELED
        assert_closed(bench, desk)
    else:
        assert bench.deliver(message_id="message-2") is Outcome.CHARGED
        bench.assert_charged_once()


def test_a_confirm_that_comes_late_does_not_charge(bench: Bench, desk: Desk) -> None:
    """Goal: a consumer that was frozen before its confirm sends it after the cancel: refused."""
    bench.deliver_and_die(bench.biller(TappedPayments(bench.payments, kill_before(CONFIRM))))
    before = bench.record()
    bench.lapse_leases()
    desk.cancel()
    late = bench.payments.send(
        confirm_intent(before, before.payment_id or "", "pm_card_visa"), RULES.attempt_seconds
    )
    assert isinstance(late, StripeResponse)
    assert late.status == 400
    assert_closed(bench, desk)


def test_while_a_consumer_is_at_work(bench: Bench, desk: Desk) -> None:
    bench.deliver_and_die(bench.biller(TappedPayments(bench.payments, kill_before(CONFIRM))))
    before = bench.record()
    assert desk.cancel().verdict is CancelVerdict.BUSY
    assert bench.record() == before


@pytest.mark.parametrize(
    ("method", "state"),
    [("pm_card_chargeDeclined", State.DECLINED), ("pm_unknown", State.REJECTED)],
)
def test_what_failed_is_closed(bench: Bench, desk: Desk, method: str, state: State) -> None:
    """Goal: declined and rejected records get no further attempt."""
    bench.deliver(payment_method_id=method)
    assert bench.record().state is state
    assert desk.cancel().verdict is CancelVerdict.CANCELED
    assert_closed(bench, desk)


def test_a_bank_debit_on_its_way_is_not_stopped(bench: Bench, desk: Desk) -> None:
    """Goal: the hold stays; if the bank refuses, the record is closed and not declined."""
    bench.customer("cus_bank", payment_method="pm_usBankAccount_success", source=None)
    assert bench.deliver(stripe_customer_id="cus_bank") is Outcome.PROCESSING
    assert desk.cancel().verdict is CancelVerdict.PROCESSING
    bench.assert_nothing_charged(held=5000)
    bench.stripe.settle(decline_code="insufficient_funds")
    bench.lapse_leases()
    assert bench.reconcile() == {Outcome.CANCELED: 1}
    assert bench.record().state is State.CANCELED
    bench.assert_nothing_charged()


def test_a_database_that_may_have_lost_commits(bench: Bench, desk: Desk) -> None:
    abandon(bench, CONFIRM, sent=False)
    bench.execute("UPDATE chargeonce.cluster SET timeline = 'FFFFFFFF'")
    assert desk.cancel().verdict is CancelVerdict.SUSPENDED
    bench.assert_nothing_charged(held=5000)


def test_there_is_no_record(desk: Desk) -> None:
    assert desk.cancel().verdict is CancelVerdict.NO_RECORD


def test_two_operators_at_one_instant(bench: Bench, desk: Desk) -> None:
    abandon(bench, CONFIRM, sent=False)
    verdicts: list[CancelVerdict] = []
    at_once(*[lambda: verdicts.append(desk.cancel().verdict) for _ in range(2)])
    assert CancelVerdict.CANCELED in verdicts
    assert_closed(bench, desk)


def test_an_operator_and_a_consumer_at_one_instant(bench: Bench, desk: Desk) -> None:
    """Goal: the record ends charged or canceled, and Stripe's ledger agrees."""
    abandon(bench, CONFIRM, sent=False)
    at_once(desk.cancel, lambda: bench.deliver(message_id="message-2"))
    bench.lapse_leases()
    bench.reconcile()
    if bench.record().state is State.CHARGED:
        bench.assert_charged_once()
    else:
        assert_closed(bench, desk)


class TestOneStep:
    """The Charges API has nothing to cancel: proof comes from time and from Stripe's list."""

    @pytest.mark.parametrize("sent", [False, True])
    def test_only_when_no_request_can_be_running(
        self, bench: Bench, desk: Desk, sent: bool
    ) -> None:
        abandon(bench, MONEY_PATHS[Flow.CHARGE], sent=sent, flow=Flow.CHARGE)
        assert desk.cancel().verdict is CancelVerdict.MAY_BE_RUNNING
        bench.let_hours_pass(TWO_LEASES_HOURS)
        desk.leave_alone(2 * RULES.lease_seconds)
        if sent:
            assert desk.cancel().verdict is CancelVerdict.CHARGED
            bench.assert_charged_once()
        else:
            assert desk.cancel().verdict is CancelVerdict.CANCELED
            assert_closed(bench, desk)

    def test_the_list_cannot_be_read(self, bench: Bench, desk: Desk) -> None:
        abandon(bench, MONEY_PATHS[Flow.CHARGE], sent=True, flow=Flow.CHARGE)
        bench.let_hours_pass(TWO_LEASES_HOURS)
        desk.leave_alone(2 * RULES.lease_seconds)
        canceled = desk.cancel(TappedPayments(bench.payments, before=lose_looks))
        assert canceled.verdict is CancelVerdict.TRANSIENT
        bench.assert_run(held=5000, charged=0)

    def test_a_record_in_conflict_stays_with_the_operator(self, bench: Bench, desk: Desk) -> None:
        """Goal: where an older consumer has used the key, nothing of ours charges by itself."""
        key = idempotency_key(RECORD_ID.customer_id, PERIOD, RULES.key_namespace)
        older = {"amount": "5000", "currency": "usd", "customer": "cus_1"}
        bench.payments.send(StripeRequest("post", MONEY_PATHS[Flow.CHARGE], older, key), 20)
        biller = bench.biller(flow=Flow.CHARGE)
        assert bench.deliver(biller) is Outcome.CONFLICT
        bench.let_hours_pass(30)
        desk.leave_alone(2 * RULES.lease_seconds)
        canceled = desk.cancel(TappedPayments(bench.payments, before=lose_looks))
        assert canceled.verdict is CancelVerdict.TRANSIENT
        bench.let_hours_pass(1)
        assert bench.reconcile(biller) == {}
        assert bench.deliver(biller, message_id="again") is Outcome.CONFLICT
        assert len(bench.charges()) == 1

    def test_the_decisive_look_is_under_the_lease(self, bench: Bench, desk: Desk) -> None:
        """Goal: a row that looks untouched, but was claimed a moment ago, is not closed."""
        abandon(bench, MONEY_PATHS[Flow.CHARGE], sent=True, flow=Flow.CHARGE)
        desk.leave_alone(2 * RULES.lease_seconds)
        canceled = desk.cancel()
        assert (canceled.verdict, canceled.code) == (
            CancelVerdict.IN_DOUBT,
            "earlier_request_may_be_running",
        )
        bench.assert_run(held=5000, charged=0)
