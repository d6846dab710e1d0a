"""Payments found at Stripe, on both stores: what each record makes of them, and its run."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.event import Fingerprint
from shared.ports import Adoption, AdoptResult, Envelope, Finding, FoundPayment
from shared.record import UNFINISHED, Flow, Record, RecordId, State, Verdict
from tests.support.store import (
    AMOUNT_CENTS,
    CUSTOMER,
    PERIOD,
    StoreUnderTest,
    timeless,
)

CREATED_AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
PARAMETERS = {"amount": str(AMOUNT_CENTS), "currency": "usd"}


def found(finding: Finding, payment_id: str = "pi_1", **changes: Any) -> FoundPayment:
    """A payment for the usual event."""
    fingerprint = Fingerprint(AMOUNT_CENTS, "usd", "cus_1")
    payment = FoundPayment(
        payment_id=payment_id,
        finding=finding,
        record_id=RecordId(CUSTOMER, PERIOD),
        key=f"key-of-{CUSTOMER}",
        attempt=1,
        fingerprint=fingerprint,
        flow=Flow.PAYMENT_INTENT,
        create_parameters=PARAMETERS,
        payment_method_id=None,
        created_at=CREATED_AT,
    )
    return replace(payment, **changes)


def adopt(
    stores: StoreUnderTest, finding: Finding, payment_id: str = "pi_1", **changes: Any
) -> AdoptResult:
    """Adopt a payment for the usual event."""
    return stores.store.adopt(found(finding, payment_id, **changes), Envelope("t"), dry_run=False)


def with_payment(
    stores: StoreUnderTest, state: State, payment_id: str | None, **changes: Any
) -> Record:
    """A record in a state, with a stored payment or none; unfinished ones keep no holder."""
    record = stores.claimed(**changes)
    if payment_id is not None:
        stores.store.store_payment(record.lease, payment_id)
    if state in (State.IN_PROGRESS, State.IN_DOUBT):
        stores.release(record, doubt=state is State.IN_DOUBT)
    elif state is State.CANCELED:
        stores.cancel(record.record_id)
    else:
        stores.finish(record, state, payment_id)
    stored = stores.record()
    assert stored is not None
    return stored


@pytest.mark.parametrize(
    ("finding", "state", "held", "charged"),
    [
        (Finding.CHARGED, State.CHARGED, 0, AMOUNT_CENTS),
        (Finding.PROCESSING, State.PROCESSING, AMOUNT_CENTS, 0),
        (Finding.UNCONFIRMED, State.IN_DOUBT, AMOUNT_CENTS, 0),
    ],
)
def test_a_lost_record_is_restored_with_its_money(
    billing: StoreUnderTest, finding: Finding, state: State, held: int, charged: int
) -> None:
    result = adopt(billing, finding, attempt=2, payment_method_id="pm_1")
    assert result.adoption is Adoption.RESTORED
    record = billing.record()
    assert record is not None
    assert timeless(result.record) == timeless(record)
    assert (record.state, record.payment_id, record.attempt) == (state, "pi_1", 2)
    assert record.key == f"key-of-{CUSTOMER}"
    assert record.fingerprint == Fingerprint(AMOUNT_CENTS, "usd", "cus_1")
    assert record.create_parameters == PARAMETERS
    assert record.payment_method_id == "pm_1"
    assert record.attempt_started_at == CREATED_AT
    assert billing.money() == (held, charged)
    assert record.held_cents == held
    assert billing.decisions() == ["restored"]
    assert not record.create_in_doubt


def test_what_may_still_be_charged_is_due_at_once_and_anybodys(billing: StoreUnderTest) -> None:
    """Goal: reconcile finishes it without a message, and a message finds no holder."""
    adopt(billing, Finding.UNCONFIRMED)
    billing.pass_time(1)
    assert billing.due() == [CUSTOMER]
    record = billing.claimed()
    assert record.payment_id == "pi_1"
    assert record.is_takeover


@pytest.mark.parametrize("finding", list(Finding))
def test_adopting_again_changes_nothing(billing: StoreUnderTest, finding: Finding) -> None:
    """Goal: a rebuild that is run twice, or by two, is one rebuild."""
    adopt(billing, finding)
    before, money = billing.record(), billing.money()
    assert adopt(billing, finding).adoption is Adoption.KNOWN
    assert billing.record() == before
    assert billing.money() == money
    assert billing.decisions() == ["restored"]


@pytest.mark.parametrize("finding", list(Finding))
@pytest.mark.parametrize("exists", [False, True])
def test_a_dry_run_writes_nothing(billing: StoreUnderTest, finding: Finding, exists: bool) -> None:
    before = with_payment(billing, State.IN_DOUBT, None) if exists else None
    money, decisions = billing.money(), billing.decisions()
    result = billing.store.adopt(found(finding), Envelope("t"), dry_run=True)
    assert result.adoption is (Adoption.BROUGHT_FORWARD if exists else Adoption.RESTORED)
    assert billing.record() == before
    assert billing.money() == money
    assert billing.decisions() == decisions


ANY_BUT_CHARGED = [state for state in State if state is not State.CHARGED]


@pytest.mark.parametrize("state", ANY_BUT_CHARGED)
@pytest.mark.parametrize("stored_id", [None, "pi_1", "pi_2"])
@pytest.mark.parametrize("attempt", [1, 2])
def test_proof_of_money_is_written_on_whatever_is_no_charge(
    billing: StoreUnderTest, state: State, stored_id: str | None, attempt: int
) -> None:
    with_payment(billing, state, stored_id)
    result = adopt(billing, Finding.CHARGED, attempt=attempt)
    assert result.adoption is Adoption.BROUGHT_FORWARD
    record = billing.record()
    assert record is not None
    assert (record.state, record.payment_id) == (State.CHARGED, "pi_1")
    assert (record.attempt, record.verdict, record.code) == (attempt, None, None)
    assert billing.money() == (0, AMOUNT_CENTS)
    # Another PaymentIntent was stored: the sweep looks whether it can still be confirmed.
    assert record.create_in_doubt == (stored_id == "pi_2")


def test_proof_of_an_earlier_attempt_leaves_the_attempt(billing: StoreUnderTest) -> None:
    billing.ended(State.DECLINED)
    billing.claimed(attempt=3)
    adopt(billing, Finding.CHARGED, attempt=1)
    record = billing.record()
    assert record is not None
    assert (record.state, record.attempt) == (State.CHARGED, 3)


@pytest.mark.parametrize(
    ("finding", "adoption"),
    [
        (Finding.CHARGED, Adoption.SECOND_PAYMENT),
        (Finding.PROCESSING, Adoption.BESIDE),
        (Finding.UNCONFIRMED, Adoption.BESIDE),
    ],
)
def test_a_charged_record_stays_what_it_is(
    billing: StoreUnderTest, finding: Finding, adoption: Adoption
) -> None:
    before = billing.ended(State.CHARGED)
    assert adopt(billing, finding, "pi_2", attempt=2).adoption is adoption
    record = billing.record()
    assert record is not None
    assert (record.state, record.payment_id, record.attempt) == (State.CHARGED, "pi_1", 1)
    assert record.fence == before.fence
    assert record.create_in_doubt == (adoption is Adoption.BESIDE)
    assert billing.money() == (0, AMOUNT_CENTS)
    assert billing.decisions() == ["claimed", "charged", str(adoption)]


@pytest.mark.parametrize("state", [State.IN_PROGRESS, State.IN_DOUBT])
def test_an_unfinished_record_gets_the_payment_that_it_lacks(
    billing: StoreUnderTest, state: State
) -> None:
    """Goal: only the PaymentIntent that a lost holder may have confirmed is confirmed."""
    before = with_payment(billing, state, None)
    assert adopt(billing, Finding.UNCONFIRMED).adoption is Adoption.BROUGHT_FORWARD
    record = billing.record()
    assert record is not None
    assert timeless(record) == timeless(replace(before, payment_id="pi_1"))
    assert adopt(billing, Finding.PROCESSING).adoption is Adoption.BROUGHT_FORWARD
    record = billing.record()
    assert record is not None
    assert record.state is State.PROCESSING
    assert billing.money() == (AMOUNT_CENTS, 0)
    assert adopt(billing, Finding.UNCONFIRMED).adoption is Adoption.KNOWN
    assert adopt(billing, Finding.PROCESSING).adoption is Adoption.KNOWN


def test_a_living_holder_keeps_its_lease(billing: StoreUnderTest) -> None:
    """Goal: a holder from before the loss, whose claim was not lost, goes on."""
    record = billing.claimed()
    adopt(billing, Finding.UNCONFIRMED)
    assert billing.store.store_payment(record.lease, "pi_2") == "pi_1"
    assert billing.finish(record, State.DECLINED).written


@pytest.mark.parametrize("state", [State.IN_PROGRESS, State.IN_DOUBT, State.PROCESSING])
@pytest.mark.parametrize("finding", [Finding.PROCESSING, Finding.UNCONFIRMED])
def test_the_first_stored_payment_stays(
    billing: StoreUnderTest, state: State, finding: Finding
) -> None:
    before = with_payment(billing, state, "pi_2")
    assert adopt(billing, finding).adoption is Adoption.BESIDE
    record = billing.record()
    assert timeless(record) == timeless(replace(before, create_in_doubt=True))


def test_what_lies_beside_is_noted_once(billing: StoreUnderTest) -> None:
    with_payment(billing, State.IN_DOUBT, "pi_2")
    adopt(billing, Finding.UNCONFIRMED)
    before = billing.record()
    adopt(billing, Finding.UNCONFIRMED)
    assert billing.record() == before
    assert billing.decisions()[-2:] == ["in_doubt", "beside"]


OVER = [State.DECLINED, State.REJECTED, State.PARKED]


@pytest.mark.parametrize("state", [*OVER, State.CANCELED])
def test_an_unconfirmed_payment_opens_nothing_that_is_over(
    billing: StoreUnderTest, state: State
) -> None:
    """Goal: it is no proof; a record is never moved backwards."""
    before = with_payment(billing, state, None)
    assert adopt(billing, Finding.UNCONFIRMED).adoption is Adoption.BESIDE
    assert timeless(billing.record()) == timeless(replace(before, create_in_doubt=True))
    assert billing.money() == (0, 0)


@pytest.mark.parametrize("state", [*OVER, State.CANCELED])
def test_money_on_its_way_is_followed_to_its_end(billing: StoreUnderTest, state: State) -> None:
    """Goal: no higher attempt opens beside it."""
    with_payment(billing, state, None)
    assert adopt(billing, Finding.PROCESSING).adoption is Adoption.BROUGHT_FORWARD
    record = billing.record()
    assert record is not None
    assert (record.state, record.payment_id) == (State.PROCESSING, "pi_1")
    assert billing.money() == (AMOUNT_CENTS, 0)
    assert billing.claim(attempt=2).record == record


@pytest.mark.parametrize("state", [*OVER, State.IN_PROGRESS, State.IN_DOUBT, State.PROCESSING])
@pytest.mark.parametrize("finding", [Finding.PROCESSING, Finding.UNCONFIRMED])
def test_a_lost_attempt_is_opened_again(
    billing: StoreUnderTest, state: State, finding: Finding
) -> None:
    """Goal: a PaymentIntent of a later attempt shows that the one before was over."""
    before = with_payment(billing, state, "pi_1")
    result = adopt(billing, finding, "pi_2", attempt=2, payment_method_id="pm_2")
    assert result.adoption is Adoption.BROUGHT_FORWARD
    record = billing.record()
    assert record is not None
    assert (record.attempt, record.payment_id) == (2, "pi_2")
    assert record.payment_method_id == "pm_2"
    assert record.state is (
        State.PROCESSING if finding is Finding.PROCESSING else State.IN_PROGRESS
    )
    assert (record.verdict, record.code, record.create_number) == (None, None, 0)
    assert record.fence > before.fence
    assert billing.money() == (AMOUNT_CENTS, 0)


def test_the_verdict_of_the_attempt_before_does_not_end_the_next(billing: StoreUnderTest) -> None:
    record = billing.claimed()
    billing.store.store_payment(record.lease, "pi_1")
    billing.store.store_verdict(record.lease, Verdict(State.DECLINED, "expired_card", "why"))
    billing.release(record, doubt=True)
    adopt(billing, Finding.UNCONFIRMED, "pi_2", attempt=2)
    after = billing.record()
    assert after is not None
    assert after.verdict is None


def test_a_closed_record_is_not_opened_by_a_later_attempt(billing: StoreUnderTest) -> None:
    with_payment(billing, State.CANCELED, None)
    assert adopt(billing, Finding.UNCONFIRMED, attempt=2).adoption is Adoption.BESIDE


@pytest.mark.parametrize(
    "fingerprint",
    [
        Fingerprint(AMOUNT_CENTS + 1, "usd", "cus_1"),
        Fingerprint(AMOUNT_CENTS, "eur", "cus_1"),
        Fingerprint(AMOUNT_CENTS, "usd", "cus_2"),
    ],
)
def test_a_payment_that_differs_is_never_to_be_confirmed(
    billing: StoreUnderTest, fingerprint: Fingerprint
) -> None:
    """Goal: only money that moved counts on a record that says something else."""
    with_payment(billing, State.IN_DOUBT, None)
    result = adopt(billing, Finding.UNCONFIRMED, attempt=2, fingerprint=fingerprint)
    assert result.adoption is Adoption.BESIDE
    record = billing.record()
    assert record is not None
    assert (record.payment_id, record.attempt) == (None, 1)
    assert adopt(billing, Finding.CHARGED, fingerprint=fingerprint).adoption is (
        Adoption.BROUGHT_FORWARD
    )
    assert billing.money() == (0, AMOUNT_CENTS)


def test_proof_counts_past_the_cap_and_closes_the_run(stores: StoreUnderTest) -> None:
    stores.open_run(cap_cents=AMOUNT_CENTS - 1)
    assert adopt(stores, Finding.CHARGED).run_closed
    assert not stores.run().is_open
    assert stores.money() == (0, AMOUNT_CENTS)


def test_a_hold_is_taken_back_past_the_cap(stores: StoreUnderTest) -> None:
    """Goal: no new claim fits as long as money of the lost history may move."""
    stores.open_run(cap_cents=AMOUNT_CENTS - 1)
    assert not adopt(stores, Finding.UNCONFIRMED).run_closed
    assert stores.money() == (AMOUNT_CENTS, 0)


@pytest.mark.parametrize("finding", list(Finding))
def test_a_lost_run_counts_the_restored_records_when_it_is_opened(
    stores: StoreUnderTest, finding: Finding
) -> None:
    adopt(stores, finding)
    record = stores.record()
    assert record is not None
    assert record.held_cents == 0
    stores.open_run()
    is_held = record.state in UNFINISHED
    assert stores.money() == ((AMOUNT_CENTS, 0) if is_held else (0, AMOUNT_CENTS))


def test_a_run_in_another_currency_holds_nothing(stores: StoreUnderTest) -> None:
    stores.open_run(currency="eur")
    adopt(stores, Finding.UNCONFIRMED)
    assert stores.money() == (0, 0)


def test_a_lost_holder_cannot_write_on_what_was_restored(billing: StoreUnderTest) -> None:
    """Goal: the claim of a lost holder is lost, whatever number it had."""
    lost = billing.claimed()
    billing.lose(lost.record_id)
    adopt(billing, Finding.UNCONFIRMED, "pi_2")
    assert billing.store.store_payment(lost.lease, "pi_1") is None
    assert not billing.store.store_verdict(lost.lease, Verdict(State.DECLINED, "code", "why"))
    assert not billing.finish(lost, State.DECLINED).written
    assert billing.finish(lost, State.CHARGED, "pi_2").written


def test_a_lease_in_another_attempt_is_over(billing: StoreUnderTest) -> None:
    """Goal: a holder of an attempt that the lost history had ended cannot end the next one."""
    holder = billing.claimed()
    adopt(billing, Finding.UNCONFIRMED, "pi_2", attempt=2)
    assert not billing.finish(holder, State.DECLINED, "pi_1").written
    assert billing.claimed().payment_id == "pi_2"
