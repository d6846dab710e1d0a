"""Runs: opened once, closed, raised; and what an operator sees of a period."""

import pytest

from shared.errors import RunError
from shared.ports import ClaimVerdict, Identity
from shared.record import RecordId, State
from tests.support.store import (
    AMOUNT_CENTS,
    CAP_CENTS,
    PERIOD,
    StoreUnderTest,
    envelope,
)


def test_a_run_is_opened_once(stores: StoreUnderTest) -> None:
    """Goal: both clouds' timers may fire together; the first one's numbers stand."""
    first, opened = stores.store.open_run(PERIOD, "usd", 10_000, 11_000)
    again, opened_again = stores.store.open_run(PERIOD, "eur", 20_000, 22_000)
    assert (opened, opened_again) == (True, False)
    assert again == first
    assert (first.billing_period, first.currency) == (PERIOD, "usd")
    assert (first.expected_cents, first.cap_cents) == (10_000, 11_000)
    assert (first.held_cents, first.charged_cents) == (0, 0)
    assert (first.is_open, first.closed_reason) == (True, None)
    assert stores.store.get_run(PERIOD) == first
    assert stores.store.get_run("2026-12") is None


def test_a_run_opened_late_counts_in_what_exists(stores: StoreUnderTest) -> None:
    """Goal: what was claimed without a cap falls under it from then on, to the cent."""
    held = stores.claimed("in-progress", require_run=False)
    doubtful = stores.claimed("in-doubt", require_run=False)
    stores.release(doubtful, doubt=True)
    for customer_id, state in [
        ("processing", State.PROCESSING),
        ("charged", State.CHARGED),
        ("declined", State.DECLINED),
        ("parked", State.PARKED),
    ]:
        stores.finish(stores.claimed(customer_id, require_run=False), state)
    stores.claimed("other-period", require_run=False, billing_period="2026-12")
    stores.claimed("other-currency", require_run=False, currency="eur")

    run, opened = stores.store.open_run(PERIOD, "usd", 10_000, 4 * AMOUNT_CENTS)
    assert opened
    assert (run.held_cents, run.charged_cents) == (3 * AMOUNT_CENTS, AMOUNT_CENTS)
    assert stores.claim("late", amount_cents=1).verdict is ClaimVerdict.CAP_REACHED

    stores.finish(held, State.CHARGED)
    assert stores.money() == (2 * AMOUNT_CENTS, 2 * AMOUNT_CENTS)
    resumed = stores.resume("in-doubt").record
    assert resumed is not None
    stores.finish(resumed, State.DECLINED)
    assert stores.money() == (AMOUNT_CENTS, 2 * AMOUNT_CENTS)
    other = stores.record("other-currency")
    assert other is not None
    assert other.held_cents == 0


def test_a_charge_in_another_currency_than_the_runs_is_not_counted_in_it(
    stores: StoreUnderTest,
) -> None:
    """Goal: cents of two currencies are never added up."""
    record = stores.claimed(require_run=False, currency="eur")
    stores.open_run()
    assert stores.finish(record, State.CHARGED).written
    assert stores.money() == (0, 0)


def test_a_closed_run_refuses_and_keeps_its_first_reason(stores: StoreUnderTest) -> None:
    """Goal: closing twice changes nothing."""
    stores.open_run()
    closed = stores.store.close_run(PERIOD, "first")
    assert (closed.is_open, closed.closed_reason) == (False, "first")
    assert stores.store.close_run(PERIOD, "second") == closed
    assert stores.claim().verdict is ClaimVerdict.RUN_CLOSED


def test_only_a_run_that_exists_is_closed_or_raised(stores: StoreUnderTest) -> None:
    """Goal: a mistyped period is told."""
    with pytest.raises(RunError, match="no run for period 2026-11"):
        stores.store.close_run(PERIOD, "by hand")
    with pytest.raises(RunError, match="no run for period 2026-11"):
        stores.store.raise_cap(PERIOD, 1)
    with pytest.raises(RunError, match="no run for period 2026-11"):
        stores.store.reopen_run(PERIOD)


def test_a_cap_is_only_raised(billing: StoreUnderTest) -> None:
    """Goal: a lower cap might already be passed."""
    before = billing.run()
    with pytest.raises(RunError, match=f"is {CAP_CENTS}; {CAP_CENTS - 1} would lower it"):
        billing.store.raise_cap(PERIOD, CAP_CENTS - 1)
    assert billing.run() == before


def test_a_cap_may_be_raised_again_after_a_lost_answer(billing: StoreUnderTest) -> None:
    """Goal: whoever does not know whether it was raised asks again."""
    raised = billing.store.raise_cap(PERIOD, 2 * CAP_CENTS)
    assert billing.store.raise_cap(PERIOD, 2 * CAP_CENTS) == raised


def test_what_was_closed_by_hand_is_reopened(billing: StoreUnderTest) -> None:
    """Goal: closing the wrong run can be undone."""
    billing.store.close_run(PERIOD, "by mistake")
    run = billing.store.reopen_run(PERIOD)
    assert (run.is_open, run.closed_reason) == (True, None)
    assert billing.store.reopen_run(PERIOD) == run == billing.run()
    assert billing.claim().verdict is ClaimVerdict.CLAIMED


def test_what_closed_over_its_cap_is_reopened_by_a_higher_cap_alone(
    billing: StoreUnderTest,
) -> None:
    """Goal: reopened as it is, nothing could be charged in it."""
    late = billing.ended(State.DECLINED)
    billing.claimed("customer-2")
    billing.claimed("customer-3")
    assert billing.finish(late, State.CHARGED).run_closed
    before = billing.run()
    with pytest.raises(RunError, match="raise the cap"):
        billing.store.reopen_run(PERIOD)
    assert billing.run() == before


def test_a_raised_cap_makes_room(billing: StoreUnderTest) -> None:
    """Goal: what the cap refused passes when it is delivered again."""
    billing.claimed("customer-1")
    billing.claimed("customer-2")
    assert billing.claim("customer-3").verdict is ClaimVerdict.CAP_REACHED
    raised = billing.store.raise_cap(PERIOD, CAP_CENTS + AMOUNT_CENTS)
    assert raised == billing.run()
    assert raised.cap_cents == CAP_CENTS + AMOUNT_CENTS
    assert billing.claim("customer-3").verdict is ClaimVerdict.CLAIMED


def test_raising_the_cap_reopens_a_run_that_closed_over_it(billing: StoreUnderTest) -> None:
    """Goal: that is what the operator wants who raises it."""
    late = billing.ended(State.DECLINED)
    billing.claimed("customer-2")
    billing.claimed("customer-3")
    assert billing.finish(late, State.CHARGED).run_closed
    run = billing.store.raise_cap(PERIOD, 10 * CAP_CENTS)
    assert (run.is_open, run.closed_reason) == (True, None)
    assert billing.claim("customer-4").verdict is ClaimVerdict.CLAIMED


def test_raising_the_cap_reopens_nothing_else(billing: StoreUnderTest) -> None:
    """Goal: what somebody closed by hand stays closed."""
    billing.store.close_run(PERIOD, "by hand")
    run = billing.store.raise_cap(PERIOD, 10 * CAP_CENTS)
    assert (run.is_open, run.closed_reason) == (False, "by hand")


def test_the_due_come_oldest_first_and_no_more_than_asked_for(billing: StoreUnderTest) -> None:
    """Goal: reconcile works off the longest waiting, in bounded steps."""
    pauses = {"late": 300.0, "early": 60.0, "middle": 120.0, "never": None}
    for customer_id, pause in pauses.items():
        record = billing.claimed(customer_id, amount_cents=1)
        billing.release(record, doubt=True, due_in_seconds=pause)
    assert billing.due() == []
    billing.pass_time(90)
    assert billing.due() == ["early"]
    billing.pass_time(1000)
    assert billing.due() == ["early", "middle", "late"]
    assert billing.due(limit=2) == ["early", "middle"]


def test_the_due_are_unfinished_and_free(billing: StoreUnderTest) -> None:
    """Goal: reconcile looks neither at what ended nor at what somebody holds."""
    billing.claimed("held", amount_cents=1)
    for state in (State.CHARGED, State.DECLINED, State.REJECTED, State.PARKED):
        billing.finish(billing.claimed(state, amount_cents=1), state)
    billing.pass_time(LEASE)
    assert billing.due() == ["held"], "a holder that died is found by its lapsed lease"
    assert billing.resume("held").verdict is ClaimVerdict.CLAIMED
    assert billing.due() == []


LEASE = 200


def test_a_taken_over_record_is_due_again_when_its_holder_dies(billing: StoreUnderTest) -> None:
    """Goal: a holder that dies loses no pause and no record."""
    billing.release(billing.claimed(), doubt=True)
    billing.claimed()
    assert billing.due() == []
    billing.pass_time(LEASE)
    assert billing.due() == ["customer-1"]


def test_status_counts_a_period(billing: StoreUnderTest) -> None:
    """Goal: the operator's page is of one moment and of one period."""
    states = [State.CHARGED, State.CHARGED, State.DECLINED, State.PROCESSING]
    for number, state in enumerate(states):
        billing.finish(billing.claimed(f"customer-{number}", amount_cents=100 + number), state)
    billing.release(billing.claimed("doubtful", amount_cents=50), doubt=True)
    billing.claim("too-much", amount_cents=99_999)
    billing.claimed("elsewhere", billing_period="2026-12", require_run=False)
    billing.claim("elsewhere", billing_period="2026-12", amount_cents=1)

    status = billing.store.status(PERIOD)
    assert status.billing_period == PERIOD
    assert status.run == billing.run()
    assert dict(status.count_by_state) == {
        State.CHARGED: 2,
        State.DECLINED: 1,
        State.PROCESSING: 1,
        State.IN_DOUBT: 1,
    }
    assert dict(status.cents_by_state) == {
        State.CHARGED: 201,
        State.DECLINED: 102,
        State.PROCESSING: 103,
        State.IN_DOUBT: 50,
    }
    assert status.parked_event_count == 1
    assert status.oldest_unfinished == billing.record("customer-3")
    assert abs((status.database_time - billing.run().opened_at).total_seconds()) < 60


def test_status_of_an_unknown_period_is_empty(stores: StoreUnderTest) -> None:
    """Goal: a mistyped period shows nothing rather than failing."""
    status = stores.store.status("2031-01")
    assert (status.run, status.oldest_unfinished, status.parked_event_count) == (None, None, 0)
    assert dict(status.count_by_state) == {}
    assert dict(status.cents_by_state) == {}


def test_attempts_tell_each_delivery(billing: StoreUnderTest) -> None:
    """Goal: transport, message, delivery count, decision, code and Stripe's request id."""
    record = billing.claimed(envelope=envelope("message-1", delivery_count=1))
    billing.claim(envelope=envelope("message-2", delivery_count=None))
    billing.finish(record, State.DECLINED, code="lost_card")
    billing.claim(envelope=envelope("message-1", delivery_count=2))
    told = [
        (
            line.transport,
            line.message_id,
            line.delivery_count,
            line.decision,
            line.code,
            line.request_id,
            line.attempt,
            line.fence,
        )
        for line in billing.attempts()
    ]
    assert told == [
        ("pubsub-push", "message-1", 1, "claimed", None, None, 1, 1),
        ("pubsub-push", "message-2", None, "busy", None, None, 1, 1),
        ("pubsub-push", "message-1", 1, "declined", "lost_card", "req_1", 1, 1),
        ("pubsub-push", "message-1", 2, "already_declined", None, None, 1, 1),
    ]
    assert [line.decision for line in billing.attempts(limit=2)] == ["declined", "already_declined"]
    assert billing.attempts("customer-2") == []


def test_a_record_is_found_by_its_whole_key(billing: StoreUnderTest) -> None:
    """Goal: one customer's periods and one period's customers are kept apart."""
    record = billing.claimed()
    billing.claimed("customer-2")
    billing.claimed(billing_period="2026-12", require_run=False)
    assert billing.store.get_record(RecordId("customer-1", PERIOD)) == record
    assert billing.store.get_record(RecordId("customer-3", PERIOD)) is None


def test_the_identity_is_the_first_writers(stores: StoreUnderTest) -> None:
    """Goal: one database serves one Stripe account and mode; later keys are held to it."""
    assert stores.store.identify(None, None) == Identity(None, None)
    assert stores.store.identify(None, False) == Identity(None, False)
    assert stores.store.identify("acct_1", True) == Identity("acct_1", False)
    assert stores.store.identify("acct_2", None) == Identity("acct_1", False)


def test_an_account_that_is_known_stays_while_the_mode_is_added(stores: StoreUnderTest) -> None:
    """Goal: the same when the mode comes last."""
    assert stores.store.identify("acct_1", None) == Identity("acct_1", None)
    assert stores.store.identify("acct_2", True) == Identity("acct_1", True)


def test_a_cap_that_is_nearly_used_up_is_told_once(billing: StoreUnderTest) -> None:
    """Goal: somebody hears of it before charges are blocked, once for each cap."""
    assert CAP_CENTS == 12_000
    billing.claimed("first")
    assert billing.store.take_runs_near_cap(90) == []
    charged = billing.claimed("second", amount_cents=5_799)
    billing.finish(charged, State.CHARGED)
    assert billing.store.take_runs_near_cap(90) == [], "one cent less than the share"
    billing.claimed("third", amount_cents=1)
    (run,) = billing.store.take_runs_near_cap(90)
    assert (run.held_cents, run.charged_cents, run.cap_cents) == (5_001, 5_799, 12_000)
    assert billing.store.take_runs_near_cap(90) == []

    billing.store.raise_cap(PERIOD, 20_000)
    assert billing.store.take_runs_near_cap(90) == []
    billing.claimed("fourth", amount_cents=9_000)
    assert [run.cap_cents for run in billing.store.take_runs_near_cap(90)] == [20_000]


def test_the_cap_of_a_closed_run_is_not_told(billing: StoreUnderTest) -> None:
    """Goal: where nothing is charged any more, nothing is about to be blocked."""
    billing.claimed(amount_cents=CAP_CENTS)
    billing.store.close_run(PERIOD, "done")
    assert billing.store.take_runs_near_cap(90) == []
