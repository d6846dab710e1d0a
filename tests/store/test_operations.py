"""What an operator does to records, on both stores."""

from contextlib import closing
from functools import partial
from typing import Any

import pytest

from shared.event import Fingerprint
from shared.operations import OPERATOR, RecordedPayment, Recording
from shared.ports import Envelope, Finding, Note
from shared.record import UNFINISHED, Flow, RecordId, State
from shared.store.operations import PostgresOperations
from tests.store.test_adoption import found, with_payment
from tests.support.bench import at_once
from tests.support.store import (
    AMOUNT_CENTS,
    CAP_CENTS,
    CUSTOMER,
    PERIOD,
    PostgresUnderTest,
    StoreUnderTest,
    timeless,
)

RECORD_ID = RecordId(CUSTOMER, PERIOD)
CLOSABLE = [State.DECLINED, State.REJECTED, State.PARKED]
NOTE = Note(Envelope(OPERATOR), "canceled", "code")


def record_payment(
    stores: StoreUnderTest,
    names: tuple[str, ...] = ("pi_1",),
    finding: Finding = Finding.CHARGED,
    *,
    only_new: bool = False,
    dry_run: bool = False,
    **changes: Any,
) -> RecordedPayment:
    """Record a payment for the usual event."""
    return stores.operations.record_payment(
        found(finding, names[-1], **changes),
        sorted(names),
        Envelope(OPERATOR),
        only_new=only_new,
        dry_run=dry_run,
    )


def test_a_record_is_examined_with_the_clock(billing: StoreUnderTest) -> None:
    assert billing.operations.examine(RECORD_ID) is None
    record = billing.claimed()
    billing.pass_time(100)
    examined = billing.operations.examine(RECORD_ID)
    assert examined is not None
    assert examined.record == billing.record()
    age_seconds = (examined.database_time - examined.record.attempt_started_at).total_seconds()
    assert 100 <= age_seconds < 160
    assert timeless(record) == timeless(examined.record)


@pytest.mark.parametrize("state", CLOSABLE)
def test_what_can_move_no_money_is_closed_for_good(billing: StoreUnderTest, state: State) -> None:
    """Goal: neither the same event, nor one that asks for another attempt, opens it again."""
    before = billing.ended(state)
    for _ in range(2):
        result = billing.operations.close_record(RECORD_ID, NOTE)
        assert result.closed
        assert result.record == billing.record()
    record = billing.record()
    assert record is not None
    assert (record.state, record.code, record.fence) == (State.CANCELED, "code", before.fence + 1)
    assert billing.decisions().count("canceled") == 1
    for attempt in (1, 2):
        assert billing.claim(attempt=attempt).verdict == "settled"
    assert billing.money() == (0, 0)


@pytest.mark.parametrize("state", sorted(UNFINISHED | {State.CHARGED}))
def test_what_may_move_money_is_not_closed(billing: StoreUnderTest, state: State) -> None:
    before = with_payment(billing, state, "pi_1")
    result = billing.operations.close_record(RECORD_ID, NOTE)
    assert not result.closed
    assert result.record == billing.record() == before


def test_there_is_nothing_to_close(billing: StoreUnderTest) -> None:
    result = billing.operations.close_record(RECORD_ID, NOTE)
    assert (result.closed, result.record) == (False, None)


@pytest.mark.parametrize("finding", [Finding.CHARGED, Finding.PROCESSING])
@pytest.mark.parametrize("only_new", [False, True])
def test_a_payment_makes_its_record(
    billing: StoreUnderTest, finding: Finding, only_new: bool
) -> None:
    """Goal: recorded once, with its money in the run, however often it is asked."""
    money = (AMOUNT_CENTS, 0) if finding is Finding.PROCESSING else (0, AMOUNT_CENTS)
    planned = record_payment(billing, finding=finding, only_new=only_new, dry_run=True)
    assert planned == RecordedPayment(Recording.RESTORED, None)
    assert billing.record() is None
    assert record_payment(billing, finding=finding, only_new=only_new).recording == "restored"
    record = billing.record()
    assert record is not None
    assert (record.state, record.payment_id) == (State(finding), "pi_1")
    assert billing.money() == money
    assert record_payment(billing, finding=finding, only_new=only_new).recording == "known"
    assert billing.record() == record
    assert billing.money() == money


@pytest.mark.parametrize("state", [state for state in State if state is not State.CHARGED])
def test_only_proof_changes_a_record(billing: StoreUnderTest, state: State) -> None:
    """Goal: what was read at Stripe brings a record forward; a mere word does not."""
    before = with_payment(billing, state, None)
    word = record_payment(billing, only_new=True)
    assert (word.recording, word.record) == (Recording.RECORD_EXISTS, before)
    assert billing.record() == before
    assert record_payment(billing).recording is Recording.BROUGHT_FORWARD
    record = billing.record()
    assert record is not None
    assert (record.state, record.payment_id) == (State.CHARGED, "pi_1")
    assert billing.money() == (0, AMOUNT_CENTS)


@pytest.mark.parametrize("state", sorted(UNFINISHED))
@pytest.mark.parametrize("flow", Flow)
def test_a_payment_from_outside_does_not_stop_a_charge_that_is_under_way(
    billing: StoreUnderTest, state: State, flow: Flow
) -> None:
    """Goal: a record whose own payment may yet succeed is to be canceled first."""
    own_payment = "pi_own" if flow is Flow.PAYMENT_INTENT else None
    before = with_payment(billing, state, own_payment, flow=flow)
    refused = record_payment(billing, is_own=False)
    assert (refused.recording, refused.record) == (Recording.RECORD_UNFINISHED, before)
    assert billing.record() == before
    names = ("pi_1", own_payment or "pi_1")
    assert record_payment(billing, names, is_own=own_payment is None).recording is (
        Recording.BROUGHT_FORWARD
    )


@pytest.mark.parametrize("only_new", [False, True])
def test_a_second_payment_is_told_and_changes_nothing(
    billing: StoreUnderTest, only_new: bool
) -> None:
    before = with_payment(billing, State.CHARGED, "pi_2")
    assert record_payment(billing, only_new=only_new).recording is Recording.SECOND_PAYMENT
    assert billing.record() == before
    assert billing.money() == (0, AMOUNT_CENTS)


@pytest.mark.parametrize(
    "fingerprint",
    [
        Fingerprint(AMOUNT_CENTS + 1, "usd", "cus_1"),
        Fingerprint(AMOUNT_CENTS, "eur", "cus_1"),
        Fingerprint(AMOUNT_CENTS, "usd", "cus_2"),
    ],
)
def test_what_contradicts_the_record_is_refused(
    billing: StoreUnderTest, fingerprint: Fingerprint
) -> None:
    before = with_payment(billing, State.IN_DOUBT, None)
    assert record_payment(billing, fingerprint=fingerprint).recording is Recording.DIFFERS
    assert billing.record() == before


@pytest.mark.parametrize("names", [("ch_1", "pi_1"), ("pi_1",), ("ch_1",)])
def test_a_payment_pays_for_one_record(billing: StoreUnderTest, names: tuple[str, ...]) -> None:
    """Goal: under none of its names is it recorded for another customer."""
    record_payment(billing, ("ch_1", "pi_1"))
    other = RecordId("customer-2", PERIOD)
    assert record_payment(billing, names, record_id=other).recording is Recording.PAYS_ELSEWHERE
    assert billing.record("customer-2") is None
    assert billing.money() == (0, AMOUNT_CENTS)


def test_a_payment_past_the_cap_is_recorded_and_closes_the_run(billing: StoreUnderTest) -> None:
    fingerprint = Fingerprint(CAP_CENTS + 1, "usd", "cus_1")
    result = record_payment(billing, fingerprint=fingerprint)
    assert result.run_closed
    assert billing.money() == (0, CAP_CENTS + 1)
    assert not billing.run().is_open


def test_two_operators_record_one_payment_for_two_customers(postgres: PostgresUnderTest) -> None:
    """Goal: at one instant, one of them is told no."""
    postgres.open_run(cap_cents=1_000_000)
    told: list[Recording] = []

    def record(operations: PostgresOperations, customer_id: str, number: int) -> None:
        payment = found(
            Finding.CHARGED, f"pi_{number}", record_id=RecordId(f"{customer_id}-{number}", PERIOD)
        )
        recorded = operations.record_payment(
            payment, (payment.payment_id,), Envelope(OPERATOR), only_new=False, dry_run=False
        )
        told.append(recorded.recording)

    with (
        closing(PostgresOperations(postgres.database_url)) as first,
        closing(PostgresOperations(postgres.database_url)) as second,
    ):
        for number in range(10):
            at_once(partial(record, first, "a", number), partial(record, second, "b", number))
    assert told.count(Recording.RESTORED) == told.count(Recording.PAYS_ELSEWHERE) == 10
    assert postgres.money() == (0, 10 * AMOUNT_CENTS)


def test_failed_records_come_in_pages(billing: StoreUnderTest) -> None:
    """Goal: by state and code, in the order of their customers, each once."""
    billing.store.raise_cap(PERIOD, 1_000_000)
    codes = {"a": "insufficient_funds", "b": "expired_card", "c": "insufficient_funds"}
    for customer_id, code in codes.items():
        billing.finish(billing.claimed(customer_id), State.DECLINED, code=code)
    billing.finish(billing.claimed("d"), State.REJECTED, code="insufficient_funds")
    billing.finish(billing.claimed("e"), State.PARKED, code="insufficient_funds")

    def customers(states: list[State], codes: list[str] | None, after: str = "") -> list[str]:
        page = billing.operations.failed_records(PERIOD, states, codes, after, 2)
        return [record.customer_id for record in page]

    both = [State.DECLINED, State.REJECTED]
    assert customers(both, ["insufficient_funds"]) == ["a", "c"]
    assert customers(both, ["insufficient_funds"], "c") == ["d"]
    assert customers([State.DECLINED], None) == ["a", "b"]
    assert customers(both, ["unknown"]) == []
