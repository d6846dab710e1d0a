"""Claims: who gets a record, what the first claim of an attempt stores, and what is refused."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from shared.ports import ClaimVerdict, Envelope
from shared.record import UNFINISHED, Flow, RecordId, State, Verdict
from tests.support.store import (
    AMOUNT_CENTS,
    BODY,
    CUSTOMER,
    LEASE_SECONDS,
    PERIOD,
    StoreUnderTest,
    claim_request,
    envelope,
)

ENDED = [State.CHARGED, State.DECLINED, State.REJECTED, State.PROCESSING]


def test_the_first_claim_stores_everything_that_decides_the_request(
    billing: StoreUnderTest,
) -> None:
    """Goal: later holders, whatever their settings, find all of it in the row."""
    result = billing.claim(payment_method_id="pm_1", attempt=3, flow=Flow.CHARGE)
    record = result.record
    assert result.verdict is ClaimVerdict.CLAIMED
    assert record is not None
    assert record == billing.record()
    assert record.record_id == RecordId(CUSTOMER, PERIOD)
    assert record.key == "key-of-customer-1"
    assert record.fingerprint == claim_request().event.fingerprint
    assert (record.attempt, record.create_number) == (3, 0)
    assert (record.state, record.fence, record.attempt_fence) == (State.IN_PROGRESS, 1, 1)
    assert (record.flow, record.payment_method_id) == (Flow.CHARGE, "pm_1")
    assert record.create_parameters == {"amount": "5000", "currency": "usd"}
    assert (record.payment_id, record.verdict, record.code) == (None, None, None)
    assert (record.held_cents, record.doubts) == (AMOUNT_CENTS, 0)
    assert not record.create_in_doubt
    assert not record.is_takeover
    assert (record.lease_until - record.attempt_started_at).total_seconds() == pytest.approx(
        LEASE_SECONDS, abs=1
    )
    assert abs((result.database_time - record.attempt_started_at).total_seconds()) < 1
    assert billing.money() == (AMOUNT_CENTS, 0)


def test_another_claim_finds_a_live_lease_busy(billing: StoreUnderTest) -> None:
    """Goal: of two deliveries at one time, one may talk to Stripe."""
    first = billing.claimed()
    second = billing.claim()
    assert second.verdict is ClaimVerdict.BUSY
    assert second.record == first
    assert billing.money() == (AMOUNT_CENTS, 0)


def test_a_claim_sent_again_after_its_answer_was_lost_changes_nothing(
    billing: StoreUnderTest,
) -> None:
    """Goal: the same token gets the same lease, holds once and leaves one line."""
    request = claim_request()
    first = billing.store.claim(request)
    again = billing.store.claim(request)
    assert again.verdict is ClaimVerdict.CLAIMED
    assert again.record == first.record
    assert billing.money() == (AMOUNT_CENTS, 0)
    assert billing.decisions() == ["claimed"]


def test_a_takeover_sent_again_changes_nothing(billing: StoreUnderTest) -> None:
    """Goal: the fence rises once for one token."""
    billing.claimed()
    billing.pass_time(LEASE_SECONDS + 1)
    request = claim_request()
    first = billing.store.claim(request)
    again = billing.store.claim(request)
    assert again.record == first.record
    assert first.record is not None
    assert first.record.fence == 2
    assert billing.decisions() == ["claimed", "claimed"]


def test_a_lapsed_lease_is_taken_over_with_the_row_as_it_is(billing: StoreUnderTest) -> None:
    """Goal: the takeover raises the fence, and keeps the attempt, its hold and its request."""
    first = billing.claimed(payment_method_id="pm_1")
    assert billing.store.store_payment(first.lease, "pi_1") == "pi_1"
    billing.pass_time(LEASE_SECONDS + 1)
    second = billing.claimed(
        payment_method_id="pm_2", flow=Flow.CHARGE, create_parameters={"amount": "1"}, attempt=2
    )
    assert (second.fence, second.attempt_fence, second.attempt) == (2, 1, 1)
    assert second.is_takeover
    assert (second.flow, second.payment_method_id) == (Flow.PAYMENT_INTENT, "pm_1")
    assert second.create_parameters == first.create_parameters
    assert second.payment_id == "pi_1"
    assert second.held_cents == AMOUNT_CENTS
    assert billing.money() == (AMOUNT_CENTS, 0)


def test_a_takeover_asks_nothing_of_the_run(billing: StoreUnderTest) -> None:
    """Goal: a charge that may have been sent is finished, though its run closed meanwhile."""
    billing.claimed()
    billing.store.close_run(PERIOD, "by hand")
    billing.pass_time(LEASE_SECONDS + 1)
    assert billing.claim().verdict is ClaimVerdict.CLAIMED
    assert billing.money() == (AMOUNT_CENTS, 0)


@pytest.mark.parametrize("state", ENDED)
def test_an_ended_record_is_settled(billing: StoreUnderTest, state: State) -> None:
    """Goal: a redelivery finds what its record came to, and changes nothing."""
    before = billing.ended(state)
    held_cents, charged_cents = billing.money()
    result = billing.claim()
    assert result.verdict is ClaimVerdict.SETTLED
    assert result.record == before
    assert billing.record() == before
    assert billing.money() == (held_cents, charged_cents)
    assert billing.decisions()[-1] == f"already_{state}"


def test_a_canceled_record_is_settled_even_for_a_higher_attempt(billing: StoreUnderTest) -> None:
    """Goal: what an operator closed stays closed."""
    billing.claimed()
    billing.cancel(RecordId(CUSTOMER, PERIOD))
    assert billing.claim(attempt=2).verdict is ClaimVerdict.SETTLED
    assert billing.money() == (0, 0)


@pytest.mark.parametrize("state", [State.CHARGED, State.PROCESSING])
def test_a_higher_attempt_never_charges_what_is_charged(
    billing: StoreUnderTest, state: State
) -> None:
    """Goal: dunning asks for another try after a refusal only."""
    billing.ended(state)
    assert billing.claim(attempt=2).verdict is ClaimVerdict.SETTLED


@pytest.mark.parametrize("state", [State.DECLINED, State.REJECTED])
def test_a_higher_attempt_starts_anew_after_a_refusal(
    billing: StoreUnderTest, state: State
) -> None:
    """Goal: the new attempt takes the event's number and request, and holds its amount again."""
    first = billing.claimed(payment_method_id="pm_1")
    billing.store.store_payment(first.lease, "pi_1")
    billing.release(first, doubt=True, create_in_doubt=True, due_in_seconds=0)
    second = billing.claimed()
    billing.store.store_verdict(second.lease, Verdict(state, "lost_card", "The card is lost."))
    billing.finish(second, state, code="lost_card")
    assert billing.money() == (0, 0)
    billing.pass_time(100)

    third = billing.claimed(
        attempt=7, payment_method_id="pm_2", flow=Flow.CHARGE, create_parameters={"amount": "5"}
    )
    assert (third.attempt, third.create_number) == (7, 0)
    assert (third.state, third.fence, third.attempt_fence) == (State.IN_PROGRESS, 3, 3)
    assert not third.is_takeover
    assert (third.flow, third.payment_method_id) == (Flow.CHARGE, "pm_2")
    assert third.create_parameters == {"amount": "5"}
    assert (third.payment_id, third.verdict, third.code) == (None, None, None)
    assert third.doubts == 0
    assert third.create_in_doubt, "the orphan of the first attempt is still to be swept"
    assert third.attempt_started_at > first.attempt_started_at
    assert third.lease_until > third.attempt_started_at
    assert third.key == first.key
    assert billing.money() == (AMOUNT_CENTS, 0)


@pytest.mark.parametrize("state", [State.DECLINED, State.REJECTED])
@pytest.mark.parametrize("attempt", [1, 2])
def test_an_attempt_that_is_not_higher_changes_nothing(
    billing: StoreUnderTest, state: State, attempt: int
) -> None:
    """Goal: a redelivery cannot ask for another try."""
    before = billing.finish(billing.claimed(attempt=2), state).record
    result = billing.claim(attempt=attempt)
    assert result.verdict is ClaimVerdict.SETTLED
    assert result.record == before


def test_a_new_attempt_sent_again_changes_nothing(billing: StoreUnderTest) -> None:
    """Goal: the answer of a new attempt's claim may be lost too."""
    billing.ended(State.DECLINED)
    request = claim_request(attempt=2)
    first = billing.store.claim(request)
    again = billing.store.claim(request)
    assert again.verdict is ClaimVerdict.CLAIMED
    assert again.record == first.record
    assert billing.money() == (AMOUNT_CENTS, 0)


def test_a_parked_record_starts_again_with_the_next_create_number(
    billing: StoreUnderTest,
) -> None:
    """Goal: its PaymentIntent is canceled; the same attempt asks Stripe for another one."""
    first = billing.claimed(payment_method_id="pm_1")
    billing.store.store_payment(first.lease, "pi_1")
    billing.store.store_verdict(first.lease, Verdict(State.PARKED, "cap_reached", "The cap."))
    billing.finish(first, State.PARKED, code="cap_reached")
    assert billing.money() == (0, 0)

    second = billing.claimed(
        payment_method_id="pm_2", flow=Flow.CHARGE, create_parameters={"amount": "5"}
    )
    assert (second.attempt, second.create_number) == (1, 1)
    assert (second.state, second.fence, second.attempt_fence) == (State.IN_PROGRESS, 2, 2)
    assert (second.payment_id, second.verdict, second.code) == (None, None, None)
    assert (second.flow, second.payment_method_id) == (Flow.PAYMENT_INTENT, "pm_1")
    assert second.create_parameters == first.create_parameters
    assert billing.money() == (AMOUNT_CENTS, 0)

    billing.finish(second, State.PARKED, code="cap_reached")
    assert billing.claimed().create_number == 2


@pytest.mark.parametrize(
    "change",
    [{"amount_cents": 5001}, {"currency": "eur"}, {"stripe_customer_id": "cus_2"}],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.parametrize("state", [None, State.CHARGED, State.DECLINED, State.PARKED])
def test_an_event_with_another_fingerprint_is_a_conflict(
    billing: StoreUnderTest, change: dict[str, Any], state: State | None
) -> None:
    """Goal: whatever the record's state, another amount is never charged beside the first."""
    before = billing.ended(state) if state else billing.claimed()
    result = billing.claim(**change, attempt=2)
    assert result.verdict is ClaimVerdict.CONFLICT
    assert result.record == before
    assert billing.record() == before
    assert billing.reasons() == ["Conflict"]


def test_doubt_that_only_an_operator_may_end_is_a_conflict(billing: StoreUnderTest) -> None:
    """Goal: no delivery and no timer goes on with it, an operator can, and its hold stays."""
    billing.release(billing.claimed(), doubt=True, due_in_seconds=None)
    billing.pass_time(1e6)
    assert billing.claim().verdict is ClaimVerdict.CONFLICT
    assert billing.due() == []
    assert billing.money() == (AMOUNT_CENTS, 0)
    assert billing.resume().verdict is ClaimVerdict.CLAIMED
    assert billing.claim().verdict is ClaimVerdict.BUSY, "while the operator is at it"


def test_a_period_without_a_run_waits(stores: StoreUnderTest) -> None:
    """Goal: nothing is stored before the run is open; the message comes again."""
    result = stores.claim()
    assert (result.verdict, result.record) == (ClaimVerdict.RUN_MISSING, None)
    assert stores.record() is None
    assert stores.reasons() == []
    assert stores.decisions() == ["run_missing"]
    stores.open_run()
    assert stores.claim().verdict is ClaimVerdict.CLAIMED


def test_a_run_is_not_needed_where_the_settings_say_so(stores: StoreUnderTest) -> None:
    """Goal: such a record holds nothing, and ends as usual."""
    record = stores.claimed(require_run=False)
    assert record.held_cents == 0
    assert stores.finish(record, State.CHARGED).written
    assert stores.store.get_run(PERIOD) is None


def test_a_run_that_is_there_counts_although_it_is_not_required(billing: StoreUnderTest) -> None:
    """Goal: a cap holds for everybody."""
    billing.claimed(require_run=False)
    assert billing.money() == (AMOUNT_CENTS, 0)
    billing.store.close_run(PERIOD, "by hand")
    assert billing.claim("customer-2", require_run=False).verdict is ClaimVerdict.RUN_CLOSED


REFUSALS = [
    (ClaimVerdict.RUN_CLOSED, "RunClosed"),
    (ClaimVerdict.WRONG_CURRENCY, "WrongCurrency"),
    (ClaimVerdict.CAP_REACHED, "CapReached"),
]


def _make_run_refuse(stores: StoreUnderTest, verdict: ClaimVerdict) -> None:
    if verdict is ClaimVerdict.CAP_REACHED:
        stores.open_run(cap_cents=AMOUNT_CENTS - 1)
    elif verdict is ClaimVerdict.WRONG_CURRENCY:
        stores.open_run(currency="eur")
    else:
        stores.open_run()
        stores.store.close_run(PERIOD, "by hand")


@pytest.mark.parametrize(("verdict", "reason"), REFUSALS)
def test_a_refusal_by_the_run_leaves_no_row_and_keeps_the_message_once(
    stores: StoreUnderTest, verdict: ClaimVerdict, reason: str
) -> None:
    """Goal: the message is about to be dead-lettered, so it is kept whole; its hold is not."""
    _make_run_refuse(stores, verdict)
    for _ in range(2):
        result = stores.claim(envelope=envelope("message-7", delivery_count=3))
        assert (result.verdict, result.record) == (verdict, None)
    assert stores.record() is None
    assert stores.money() == (0, 0)
    (message,) = stores.parked_messages()
    assert (message.reason, message.description) == (reason, str(verdict))
    assert (message.body, message.billing_period) == (BODY, PERIOD)
    assert (message.transport, message.message_id) == ("pubsub-push", "message-7")
    assert (message.delivery_count, message.attributes) == (3, {"source": "test"})
    assert stores.decisions() == [str(verdict)] * 2

    stores.claim(envelope=envelope("message-8"))
    assert len(stores.parked_messages()) == 2, "another message is another loss"


@pytest.mark.parametrize("state", [State.DECLINED, State.REJECTED, State.PARKED])
def test_a_run_that_refuses_another_attempt_leaves_the_record_as_it_is(
    billing: StoreUnderTest, state: State
) -> None:
    """Goal: the cap is asked again for a new attempt, and its no undoes nothing."""
    before = billing.ended(state)
    billing.store.close_run(PERIOD, "by hand")
    result = billing.claim(attempt=2)
    assert result.verdict is ClaimVerdict.RUN_CLOSED
    assert result.record == before
    assert billing.record() == before
    assert billing.reasons() == ["RunClosed"]


def test_the_cap_is_exact(billing: StoreUnderTest) -> None:
    """Goal: a claim that fills the cap to the cent passes, one cent more does not."""
    assert billing.claim("customer-1").verdict is ClaimVerdict.CLAIMED
    assert billing.claim("customer-2").verdict is ClaimVerdict.CLAIMED
    assert billing.claim("customer-3", amount_cents=2001).verdict is ClaimVerdict.CAP_REACHED
    assert billing.claim("customer-3", amount_cents=2000).verdict is ClaimVerdict.CLAIMED
    assert billing.claim("customer-4", amount_cents=1).verdict is ClaimVerdict.CAP_REACHED
    assert billing.money() == (12_000, 0)


def test_what_is_charged_counts_against_the_cap(billing: StoreUnderTest) -> None:
    """Goal: charged and held share one cap."""
    billing.ended(State.CHARGED, "customer-1")
    billing.claimed("customer-2")
    assert billing.money() == (AMOUNT_CENTS, AMOUNT_CENTS)
    assert billing.claim("customer-3").verdict is ClaimVerdict.CAP_REACHED


def test_a_rejected_record_keeps_each_message_that_finds_it(billing: StoreUnderTest) -> None:
    """Goal: such messages are dead-lettered, so each is kept once, as the first was."""
    billing.ended(State.REJECTED)
    for message_id in ("message-1", "message-2", "message-2"):
        billing.claim(envelope=envelope(message_id))
    assert billing.reasons() == ["Rejected", "Rejected"]
    assert [kept.description for kept in billing.parked_messages()] == ["already_rejected"] * 2


@pytest.mark.parametrize("state", [State.CHARGED, State.DECLINED, State.PROCESSING])
def test_other_settled_records_keep_no_message(billing: StoreUnderTest, state: State) -> None:
    """Goal: those messages are completed, nothing is lost with them."""
    billing.ended(state)
    billing.claim()
    assert billing.reasons() == []


def test_a_suspended_database_claims_and_resumes_nothing(billing: StoreUnderTest) -> None:
    """Goal: a database that may have lost the record of a charge charges nobody."""
    billing.ended(State.CHARGED, "customer-2")
    before = billing.claimed()
    billing.pass_time(LEASE_SECONDS + 1)
    before = replace(before, lease_until=before.lease_until)
    billing.suspend()
    for customer_id in ("customer-1", "customer-2", "customer-3"):
        assert billing.claim(customer_id).verdict is ClaimVerdict.SUSPENDED
    assert billing.resume().verdict is ClaimVerdict.SUSPENDED
    after = billing.record()
    assert after is not None
    assert after.fence == before.fence
    assert billing.record("customer-3") is None
    assert billing.reasons() == []


def test_proof_is_recorded_in_a_suspended_database(billing: StoreUnderTest) -> None:
    """Goal: a charge under way when the database failed over is still written down."""
    record = billing.claimed()
    billing.suspend()
    assert billing.store.store_payment(record.lease, "pi_1") == "pi_1"
    assert billing.finish(record, State.CHARGED).written


def test_resume_takes_over_only_what_is_unfinished_and_free(billing: StoreUnderTest) -> None:
    """Goal: reconcile neither disturbs a holder nor opens what has ended."""
    assert billing.resume().verdict is ClaimVerdict.SETTLED
    assert billing.resume().record is None
    record = billing.claimed()
    assert billing.resume().verdict is ClaimVerdict.BUSY
    billing.release(record, doubt=True)
    result = billing.resume()
    assert result.verdict is ClaimVerdict.CLAIMED
    assert result.record is not None
    assert (result.record.state, result.record.fence) == (State.IN_DOUBT, 2)
    billing.finish(result.record, State.CHARGED)
    assert billing.resume().verdict is ClaimVerdict.SETTLED
    assert billing.decisions() == ["claimed", "in_doubt", "claimed", "charged"]


@pytest.mark.parametrize("state", [*ENDED, State.PARKED])
def test_resume_of_an_ended_record(billing: StoreUnderTest, state: State) -> None:
    """Goal: of all endings only `processing` is driven on, because Stripe will answer later."""
    before = billing.ended(state)
    result = billing.resume()
    expected = ClaimVerdict.CLAIMED if state in UNFINISHED else ClaimVerdict.SETTLED
    assert result.verdict is expected
    assert result.record is not None
    assert result.record.state is before.state


def test_resume_sent_again_changes_nothing(billing: StoreUnderTest) -> None:
    """Goal: the answer of a resume may be lost too."""
    billing.release(billing.claimed())
    token = str(uuid4())
    first, again = billing.resume(token=token), billing.resume(token=token)
    assert again.verdict is ClaimVerdict.CLAIMED
    assert again.record == first.record
    assert billing.decisions() == ["claimed", "transient", "claimed"]


def test_resume_lasts_as_long_as_it_says(billing: StoreUnderTest) -> None:
    """Goal: reconcile's lease keeps everybody else off, and ends."""
    billing.release(billing.claimed())
    assert billing.resume().verdict is ClaimVerdict.CLAIMED
    billing.pass_time(LEASE_SECONDS - 10)
    assert billing.claim().verdict is ClaimVerdict.BUSY
    billing.pass_time(20)
    assert billing.claim().verdict is ClaimVerdict.CLAIMED


def test_text_that_a_database_cannot_hold_is_replaced(billing: StoreUnderTest) -> None:
    """Goal: an envelope is anybody's text, and must not keep its message from being handled."""
    odd = Envelope("pubsub-push", "a\x00b\ud800", None, {"k\x00": "v\udfff", "fine": "é😀"})
    billing.store.close_run(PERIOD, "by\x00hand")
    billing.claim(envelope=odd)
    (message,) = billing.parked_messages()
    assert message.message_id == "a\ufffdb\ufffd"
    assert message.delivery_count is None
    assert message.attributes == {"k\ufffd": "v\ufffd", "fine": "é😀"}
    assert billing.attempts()[0].message_id == "a\ufffdb\ufffd"
    assert billing.run().closed_reason == "by\ufffdhand"


def test_a_message_id_of_any_length_is_kept_in_part(billing: StoreUnderTest) -> None:
    """Goal: an index holds it, and an index entry has a limit."""
    billing.store.close_run(PERIOD, "by hand")
    for _ in range(2):
        billing.claim(envelope=envelope("".join(str(uuid4()) for _ in range(300))))
    first, second = billing.parked_messages()
    assert len(first.message_id) == len(second.message_id) == 512
    assert first.message_id != second.message_id
