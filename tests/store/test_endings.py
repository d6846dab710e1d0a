"""Endings: what a holder may write, what a stale one may, and where the money goes."""

from dataclasses import replace

import pytest

from shared.outcome import Outcome
from shared.ports import ClaimVerdict, Ending, Note, ParkedEvent
from shared.record import FINAL, UNFINISHED, Lease, Record, RecordId, State, Verdict
from tests.support.store import (
    AMOUNT_CENTS,
    BODY,
    CUSTOMER,
    LEASE_SECONDS,
    PERIOD,
    StoreUnderTest,
    envelope,
)

WITHOUT_MONEY = [State.DECLINED, State.REJECTED, State.PARKED]
ENDINGS = [State.CHARGED, State.PROCESSING, *WITHOUT_MONEY]
VERDICT = Verdict(State.DECLINED, "lost_card", "The card is lost.")


def stale(billing: StoreUnderTest) -> tuple[Record, Record]:
    """A holder whose lease lapsed and was taken over, and its successor."""
    first = billing.claimed()
    billing.pass_time(LEASE_SECONDS + 1)
    return first, billing.claimed()


def test_a_charge_moves_the_hold_to_the_charged(billing: StoreUnderTest) -> None:
    """Goal: the record names its payment, holds nothing, and the run's sums agree."""
    record = billing.claimed()
    billing.store.store_verdict(record.lease, VERDICT)
    result = billing.finish(record, State.CHARGED, "pi_9")
    after = result.record
    assert result.written
    assert not result.second_payment
    assert not result.run_closed
    assert after is not None
    assert after == billing.record()
    assert (after.state, after.payment_id, after.code) == (State.CHARGED, "pi_9", None)
    assert after.verdict is None, "a verdict of a charge that then succeeded is void"
    assert (after.held_cents, after.fence) == (0, record.fence)
    assert billing.money() == (0, AMOUNT_CENTS)


@pytest.mark.parametrize("state", WITHOUT_MONEY)
def test_an_ending_without_money_releases_the_hold(billing: StoreUnderTest, state: State) -> None:
    """Goal: the room is there for others at once, and the record says why."""
    record = billing.claimed()
    billing.store.store_payment(record.lease, "pi_1")
    billing.store.store_verdict(record.lease, VERDICT)
    after = billing.finish(record, state, code="lost_card").record
    assert after is not None
    assert (after.state, after.code, after.held_cents) == (state, "lost_card", 0)
    assert (after.payment_id, after.verdict) == ("pi_1", VERDICT)
    assert billing.money() == (0, 0)


def test_processing_keeps_the_hold_and_is_looked_at_in_an_hour(billing: StoreUnderTest) -> None:
    """Goal: a bank debit may still succeed, so its money stays held."""
    after = billing.finish(billing.claimed(), State.PROCESSING, "pi_1").record
    assert after is not None
    assert (after.state, after.payment_id) == (State.PROCESSING, "pi_1")
    assert after.held_cents == AMOUNT_CENTS
    assert billing.money() == (AMOUNT_CENTS, 0)
    billing.pass_time(3500)
    assert billing.due() == []
    billing.pass_time(200)
    assert billing.due() == [CUSTOMER]


@pytest.mark.parametrize("state", ENDINGS)
def test_processing_ends_as_anything(billing: StoreUnderTest, state: State) -> None:
    """Goal: reconcile may find that the debit was paid, refused, or is still on its way."""
    billing.ended(State.PROCESSING)
    resumed = billing.resume().record
    assert resumed is not None
    assert billing.finish(resumed, state).written
    held_cents = AMOUNT_CENTS if state is State.PROCESSING else 0
    charged_cents = AMOUNT_CENTS if state is State.CHARGED else 0
    assert billing.money() == (held_cents, charged_cents)


@pytest.mark.parametrize("state", [State.PROCESSING, *WITHOUT_MONEY])
def test_a_stale_holder_cannot_end_a_record(billing: StoreUnderTest, state: State) -> None:
    """Goal: whoever took over may be confirming at this moment."""
    first, second = stale(billing)
    result = billing.finish(first, state)
    assert not result.written
    assert result.record == second
    assert billing.record() == second
    assert billing.money() == (AMOUNT_CENTS, 0)
    assert billing.decisions() == ["claimed", "claimed", state]


def test_a_stale_holder_with_proof_ends_the_record(billing: StoreUnderTest) -> None:
    """Goal: proof of money is written whatever the fence; the successor finds it."""
    first, second = stale(billing)
    assert billing.finish(first, State.CHARGED, "pi_1").written
    assert billing.money() == (0, AMOUNT_CENTS)
    result = billing.finish(second, State.DECLINED)
    assert not result.written
    assert result.record is not None
    assert result.record.state is State.CHARGED
    assert billing.money() == (0, AMOUNT_CENTS)


@pytest.mark.parametrize("order", ["holder first", "successor first"])
def test_two_proofs_of_one_payment_are_one_charge(billing: StoreUnderTest, order: str) -> None:
    """Goal: holder and successor both saw it succeed; the money counts once, nobody is alarmed."""
    early, late = stale(billing) if order == "holder first" else reversed(stale(billing))
    assert billing.finish(early, State.CHARGED, "pi_1").written
    result = billing.finish(late, State.CHARGED, "pi_1")
    assert (result.written, result.second_payment) == (False, False)
    assert billing.money() == (0, AMOUNT_CENTS)
    assert billing.decisions() == ["claimed", "claimed", "charged", "charged"]


def test_proof_of_another_payment_is_a_double_charge(billing: StoreUnderTest) -> None:
    """Goal: it is told, however often it is asked, and the recorded payment stays."""
    first, second = stale(billing)
    billing.finish(second, State.CHARGED, "pi_1")
    for _ in range(2):
        result = billing.finish(first, State.CHARGED, "pi_2")
        assert (result.written, result.second_payment) == (False, True)
        assert result.record is not None
        assert result.record.payment_id == "pi_1"
    assert billing.money() == (0, AMOUNT_CENTS)


def test_a_double_charge_under_one_fence_is_told_too(billing: StoreUnderTest) -> None:
    """Goal: a holder that proves two payments does not pass for a repeated answer."""
    record = billing.claimed()
    billing.finish(record, State.CHARGED, "pi_1")
    assert billing.finish(record, State.CHARGED, "pi_2").second_payment


@pytest.mark.parametrize("state", [*WITHOUT_MONEY, State.CANCELED])
def test_proof_after_a_refusal_is_recorded(billing: StoreUnderTest, state: State) -> None:
    """Goal: what was proven impossible and happened all the same is money, and is counted."""
    record = billing.claimed()
    if state is State.CANCELED:
        billing.cancel(RecordId(CUSTOMER, PERIOD))
    else:
        billing.finish(record, state)
    assert billing.money() == (0, 0)
    result = billing.finish(record, State.CHARGED, "pi_1")
    assert result.written
    assert result.record is not None
    assert result.record.state is State.CHARGED
    assert billing.money() == (0, AMOUNT_CENTS)


def test_proof_of_an_earlier_attempt_ends_a_later_one(billing: StoreUnderTest) -> None:
    """Goal: the customer has paid, so the later attempt's hold becomes the charge."""
    first = billing.ended(State.DECLINED)
    billing.claimed(attempt=2)
    assert billing.finish(first, State.CHARGED, "pi_1").written
    assert billing.money() == (0, AMOUNT_CENTS)


@pytest.mark.parametrize("state", ENDINGS)
def test_an_ending_sent_again_after_its_answer_was_lost_is_written_once(
    billing: StoreUnderTest, state: State
) -> None:
    """Goal: the second answer is the first one's, and neither money nor lines count twice."""
    record = billing.claimed()
    first = billing.finish(record, state, code="code")
    again = billing.finish(record, state, code="code")
    assert again == first
    assert again.written
    charged_cents = AMOUNT_CENTS if state is State.CHARGED else 0
    assert billing.money()[1] == charged_cents
    assert billing.decisions() == ["claimed", state]


@pytest.mark.parametrize("first", WITHOUT_MONEY)
@pytest.mark.parametrize("second", [State.PROCESSING, *WITHOUT_MONEY])
def test_an_ended_record_ends_once(billing: StoreUnderTest, first: State, second: State) -> None:
    """Goal: only proof of money undoes an ending."""
    record = billing.claimed()
    before = billing.finish(record, first).record
    result = billing.finish(record, second)
    assert result.written == (first is second)
    assert result.record == before
    assert billing.record() == before


def test_a_record_that_was_released_cannot_be_ended_without_proof(
    billing: StoreUnderTest,
) -> None:
    """Goal: who gave the lease up has nothing more to say, although nobody took it."""
    record = billing.claimed()
    billing.release(record)
    assert not billing.finish(record, State.DECLINED).written
    assert billing.store.store_payment(record.lease, "pi_1") is None
    assert not billing.store.store_verdict(record.lease, VERDICT)
    assert billing.finish(record, State.CHARGED).written


def test_proof_for_a_record_that_is_gone_brings_it_back(billing: StoreUnderTest) -> None:
    """Goal: the database lost the row in a failover; the holder still has all of it."""
    billing.finish(billing.claimed(payment_method_id="pm_1", attempt=4), State.PARKED)
    billing.release(billing.claimed(), doubt=True, create_in_doubt=True, due_in_seconds=0)
    record = billing.claimed()
    assert (record.attempt, record.create_number, record.doubts) == (4, 1, 1)
    billing.lose(record.record_id)
    result = billing.finish(record, State.CHARGED, "pi_1")
    assert result.written
    after = result.record
    assert after is not None
    assert after == billing.record()
    expected = replace(
        record,
        state=State.CHARGED,
        payment_id="pi_1",
        code=None,
        held_cents=0,
        previous_claim_at=None,
        lease_until=after.lease_until,
        updated_at=after.updated_at,
    )
    assert after == expected
    assert billing.run().charged_cents == AMOUNT_CENTS
    assert billing.claim().verdict is ClaimVerdict.SETTLED


@pytest.mark.parametrize("state", [State.PROCESSING, *WITHOUT_MONEY])
def test_without_proof_a_record_that_is_gone_stays_gone(
    billing: StoreUnderTest, state: State
) -> None:
    """Goal: the message comes again and starts from nothing."""
    record = billing.claimed()
    billing.lose(record.record_id)
    result = billing.finish(record, state)
    assert (result.written, result.record) == (False, None)
    assert billing.record() is None
    assert billing.store.store_payment(record.lease, "pi_1") is None
    assert not billing.store.store_verdict(record.lease, VERDICT)
    billing.release(record)
    assert billing.record() is None
    assert billing.decisions() == ["claimed", state, "transient"]


def test_late_proof_passes_the_cap_and_closes_the_run(billing: StoreUnderTest) -> None:
    """Goal: money that moved is always counted; nobody else is charged in that run."""
    late = billing.ended(State.DECLINED)
    billing.claimed("customer-2")
    billing.ended(State.CHARGED, "customer-3")
    result = billing.finish(late, State.CHARGED, "pi_1")
    assert (result.written, result.run_closed) == (True, True)
    run = billing.run()
    assert (run.held_cents, run.charged_cents) == (AMOUNT_CENTS, 2 * AMOUNT_CENTS)
    assert (run.is_open, run.closed_reason) == (False, "over_cap")
    assert billing.claim("customer-4", amount_cents=1).verdict is ClaimVerdict.RUN_CLOSED


def test_late_proof_within_the_cap_leaves_the_run_open(billing: StoreUnderTest) -> None:
    """Goal: the run closes over its cap, not at it."""
    late = billing.ended(State.DECLINED)
    billing.claimed("customer-2", amount_cents=7000)
    assert not billing.finish(late, State.CHARGED, "pi_1").run_closed
    assert billing.money() == (7000, AMOUNT_CENTS)
    assert billing.run().is_open


def test_only_money_closes_a_run_that_was_opened_over_its_cap(stores: StoreUnderTest) -> None:
    """Goal: a decline makes room, which is no reason to close; a charge up there is told."""
    records = [stores.claimed(name, require_run=False) for name in ("ann", "bob", "cid")]
    stores.open_run(cap_cents=AMOUNT_CENTS)
    assert not stores.finish(records[0], State.DECLINED).run_closed
    assert stores.run().is_open
    assert stores.finish(records[1], State.CHARGED).run_closed


def test_a_run_that_an_operator_closed_keeps_its_reason(billing: StoreUnderTest) -> None:
    """Goal: raising the cap later must not reopen what somebody closed by hand."""
    late = billing.ended(State.DECLINED)
    billing.claimed("customer-2")
    billing.claimed("customer-3")
    billing.store.close_run(PERIOD, "by hand")
    assert not billing.finish(late, State.CHARGED, "pi_1").run_closed
    assert billing.run().closed_reason == "by hand"
    assert billing.run().charged_cents == AMOUNT_CENTS


def test_an_ordinary_charge_of_a_run_over_its_cap_does_not_close_it_again(
    billing: StoreUnderTest,
) -> None:
    """Goal: one alarm for one cause."""
    late = billing.ended(State.DECLINED)
    held = [billing.claimed("customer-2"), billing.claimed("customer-3")]
    assert billing.finish(late, State.CHARGED, "pi_1").run_closed
    assert not any(billing.finish(record, State.CHARGED).run_closed for record in held)


def test_the_stored_payment_is_the_first_writers(billing: StoreUnderTest) -> None:
    """Goal: only the stored PaymentIntent is ever confirmed, by anyone."""
    first, second = stale(billing)
    assert billing.store.store_payment(first.lease, "pi_stale") is None
    assert billing.store.store_payment(second.lease, "pi_1") == "pi_1"
    assert billing.store.store_payment(second.lease, "pi_2") == "pi_1"
    assert billing.store.store_payment(second.lease, "pi_1") == "pi_1"
    after = billing.record()
    assert after is not None
    assert after.payment_id == "pi_1"


def test_a_verdict_is_stored_under_the_fence(billing: StoreUnderTest) -> None:
    """Goal: recovery that finds the PaymentIntent canceled finishes with it; strangers cannot."""
    first, second = stale(billing)
    assert not billing.store.store_verdict(first.lease, VERDICT)
    unchanged = billing.record()
    assert unchanged is not None
    assert unchanged.verdict is None
    assert billing.store.store_verdict(second.lease, VERDICT)
    assert billing.store.store_verdict(second.lease, VERDICT)
    after = billing.record()
    assert after is not None
    assert after.verdict == VERDICT
    assert after.state is State.IN_PROGRESS
    assert billing.money() == (AMOUNT_CENTS, 0)


@pytest.mark.parametrize("fence", [0, 2])
def test_every_write_is_held_to_its_fence(billing: StoreUnderTest, fence: int) -> None:
    """Goal: neither an earlier nor a later fence passes for the present one."""
    record = billing.claimed()
    forged = replace(record, fence=fence)
    lease = Lease(record.record_id, fence)
    assert billing.store.store_payment(lease, "pi_1") is None
    assert not billing.store.store_verdict(lease, VERDICT)
    assert not billing.finish(forged, State.DECLINED).written
    billing.release(forged, doubt=True)
    assert billing.record() == record


@pytest.mark.parametrize("state", sorted(FINAL - {State.CANCELED}))
def test_an_ended_record_takes_no_payment_and_no_verdict(
    billing: StoreUnderTest, state: State
) -> None:
    """Goal: nothing is written to what has ended."""
    record = billing.claimed()
    before = billing.finish(record, state).record
    billing.store.store_payment(record.lease, "pi_other")
    billing.store.store_verdict(record.lease, VERDICT)
    billing.release(record, doubt=True)
    assert billing.record() == before


def test_a_message_that_will_be_dead_lettered_is_kept_with_its_ending(
    billing: StoreUnderTest,
) -> None:
    """Goal: body, reason and envelope stand in the same transaction as the record."""
    record = billing.claimed()
    parked = ParkedEvent(Outcome.REJECTED.reason, "no such\x00customer", BODY)
    for _ in range(2):
        billing.finish(record, State.REJECTED, code="resource_missing", parked=parked)
    (message,) = billing.parked_messages()
    assert (message.reason, message.description) == ("Rejected", "no such\ufffdcustomer")
    assert (message.body, message.message_id) == (BODY, "message-1")
    assert message.billing_period == PERIOD


def test_a_message_that_will_be_left_is_not_kept(billing: StoreUnderTest) -> None:
    """Goal: the record moved on without this holder, so its message is not dead-lettered."""
    first, _ = stale(billing)
    parked = ParkedEvent(Outcome.PARKED.reason, "canceled elsewhere", BODY)
    assert not billing.finish(first, State.PARKED, parked=parked).written
    assert billing.reasons() == []


def test_a_message_whose_record_was_rejected_by_the_successor_is_kept(
    billing: StoreUnderTest,
) -> None:
    """Goal: what a lost lease finds rejected is dead-lettered after all."""
    first, second = stale(billing)
    billing.finish(second, State.REJECTED)
    parked = ParkedEvent(Outcome.REJECTED.reason, "no such customer", BODY)
    assert not billing.finish(first, State.REJECTED, parked=parked).written
    assert billing.reasons() == ["Rejected"]


def test_a_transient_release_frees_the_record_at_once(billing: StoreUnderTest) -> None:
    """Goal: the next delivery goes on with it, under the hold that is there."""
    record = billing.claimed()
    billing.release(record, code="rate_limit")
    after = billing.record()
    assert after is not None
    assert (after.state, after.code, after.doubts) == (State.IN_PROGRESS, "rate_limit", 0)
    assert billing.money() == (AMOUNT_CENTS, 0)
    assert billing.claimed().fence == record.fence + 1


def test_a_doubtful_release_is_remembered(billing: StoreUnderTest) -> None:
    """Goal: state, count and the possible orphan stay with the record until it ends."""
    billing.release(billing.claimed(), doubt=True, create_in_doubt=True)
    billing.release(billing.claimed(), doubt=True)
    billing.release(billing.claimed())
    after = billing.record()
    assert after is not None
    assert (after.state, after.doubts, after.create_in_doubt) == (State.IN_DOUBT, 2, True)
    assert billing.money() == (AMOUNT_CENTS, 0)


def test_a_release_sent_again_changes_nothing(billing: StoreUnderTest) -> None:
    """Goal: doubts and lines count once when the answer was lost."""
    record = billing.claimed()
    billing.release(record, doubt=True)
    before = billing.record()
    billing.release(record, doubt=True)
    assert billing.record() == before
    assert billing.decisions() == ["claimed", "in_doubt"]


def test_a_stale_release_changes_nothing(billing: StoreUnderTest) -> None:
    """Goal: a holder that woke up late cannot free its successor's lease."""
    first, second = stale(billing)
    billing.release(first, doubt=True)
    assert billing.record() == second
    assert billing.claim().verdict is ClaimVerdict.BUSY
    line = billing.attempts()[-2]
    assert (line.decision, line.fence, line.attempt) == ("in_doubt", 1, 1)


def test_doubt_never_hides_that_stripe_accepted(billing: StoreUnderTest) -> None:
    """Goal: `processing` is durable; a doubtful look at it does not take that back."""
    billing.ended(State.PROCESSING)
    resumed = billing.resume().record
    assert resumed is not None
    billing.release(resumed, doubt=True)
    after = billing.record()
    assert after is not None
    assert (after.state, after.doubts) == (State.PROCESSING, 1)
    assert billing.claim().verdict is ClaimVerdict.SETTLED


def test_a_released_conflict_keeps_its_message(billing: StoreUnderTest) -> None:
    """Goal: such a message is dead-lettered, so it is kept, once."""
    record = billing.claimed()
    parked = ParkedEvent(Outcome.CONFLICT.reason, "idempotency_error", BODY)
    for _ in range(2):
        billing.release(record, doubt=True, due_in_seconds=None, parked=parked)
    assert billing.reasons() == ["Conflict"]


def test_a_message_without_a_record_is_kept_once(billing: StoreUnderTest) -> None:
    """Goal: what is no event at all is dead-lettered too, and belongs to no period."""
    parked = ParkedEvent(Outcome.INVALID_EVENT.reason, "body: is not JSON\ud800", b"\x00\xff")
    note = Note(envelope("message-9"), "invalid_event", code="body")
    for _ in range(2):
        billing.store.park(parked, note)
    (message,) = billing.parked_messages()
    assert (message.reason, message.body) == ("InvalidEvent", b"\x00\xff")
    assert message.description == "body: is not JSON\ufffd"
    assert (message.message_id, message.billing_period) == ("message-9", None)


def test_codes_and_messages_are_stripes_text_and_may_hold_anything(
    billing: StoreUnderTest,
) -> None:
    """Goal: an answer that PostgreSQL cannot hold to the letter is written down all the same."""
    odd, kept = "a\x00\ud800", "a\ufffd\ufffd"
    record = billing.claimed()
    verdict = Verdict(State.DECLINED, odd, odd)
    assert billing.store.store_verdict(record.lease, verdict)
    billing.release(record, code=odd, due_in_seconds=0)
    released = billing.record()
    assert released is not None
    assert (released.code, released.verdict) == (kept, Verdict(State.DECLINED, kept, kept))

    record = billing.claimed()
    note = Note(envelope(), "declined", odd, odd)
    result = billing.store.finish(record, Ending(State.DECLINED, None, odd), note, None)
    assert result.record is not None
    assert result.record.code == kept
    line = billing.attempts()[-1]
    assert (line.code, line.request_id) == (kept, kept)


def test_holds_and_charges_add_up_to_the_runs(billing: StoreUnderTest) -> None:
    """Goal: whatever happened, the run's sums are those of its records."""
    for number, state in enumerate(ENDINGS):
        record = billing.claimed(f"customer-{number}", amount_cents=1000 + number)
        billing.finish(record, state)
    records = [billing.record(f"customer-{number}") for number in range(len(ENDINGS))]
    found = [record for record in records if record is not None]
    held_cents = sum(
        record.fingerprint.amount_cents for record in found if record.state in UNFINISHED
    )
    assert sum(record.held_cents for record in found) == held_cents
    assert billing.money() == (held_cents, 1000)
