"""What is forgotten, and what never is. On PostgreSQL, which alone keeps anything for long."""

import json

import pytest

from shared.housekeeping import (
    BATCH_LINES,
    MAX_BATCHES,
    CannotErase,
    Deleted,
    Obstacle,
    delete_old_lines,
    erase_customer,
)
from shared.ports import ClaimVerdict, Envelope, Note, ParkedEvent
from shared.record import RecordId, State
from shared.store.operations import PostgresOperations
from tests.support.store import AMOUNT_CENTS, CUSTOMER, PERIOD, PostgresUnderTest, timeless

PERSONAL = "Erika Mustermann"


@pytest.fixture
def billing(postgres: PostgresUnderTest) -> PostgresUnderTest:
    """The PostgreSQL store with a run that is large enough."""
    postgres.open_run(cap_cents=1_000_000)
    return postgres


def park(billing: PostgresUnderTest, customer_id: str, reason: str, message_id: str) -> None:
    """Keep a dead-lettered message."""
    billing.execute(
        f"""
        SELECT chargeonce.park(
            {"NULL" if customer_id == "" else f"'{customer_id}'"},
            {"NULL" if customer_id == "" else f"'{PERIOD}'"}, '{reason}', '', '{PERSONAL}',
            '{{"transport": "t", "message_id": "{message_id}", "attributes": {{}}}}'
        )
        """
    )


def grow_old(billing: PostgresUnderTest, days: int) -> None:
    """Let all lines be older by so many days."""
    billing.execute(
        f"""
        UPDATE chargeonce.attempts SET noted_at = noted_at - interval '{days} days';
        UPDATE chargeonce.parked_events SET parked_at = parked_at - interval '{days} days'
        """
    )


def delete_old(billing: PostgresUnderTest, days: int = 30, limit: int = 1000) -> Deleted:
    """One batch."""
    deleted: Deleted = billing.store.delete_old(days, limit)  # type: ignore[attr-defined]
    return deleted


def parked(billing: PostgresUnderTest) -> list[str]:
    """Whose dead-lettered messages are kept."""
    rows = billing.execute(
        "SELECT coalesce(customer_id, '') FROM chargeonce.parked_events ORDER BY id"
    )
    return [customer_id for (customer_id,) in rows]


def test_old_attempts_go_and_young_ones_stay(billing: PostgresUnderTest) -> None:
    """Goal: in bounded batches, oldest first; the last claim stays, however old."""
    for number in range(3):
        billing.ended(State.CHARGED, f"old-{number}")
    grow_old(billing, 31)
    assert delete_old(billing, limit=4).attempts == 4
    assert delete_old(billing).attempts == 1
    assert billing.decisions("old-2") == ["claimed"]
    assert delete_old(billing) == Deleted(0, 0)
    billing.ended(State.CHARGED, "young")
    assert delete_old(billing).attempts == 1
    assert billing.decisions("young") == ["claimed", "charged"]
    assert billing.run().charged_cents == 4 * AMOUNT_CENTS


@pytest.mark.parametrize(
    ("state", "reason", "goes"),
    [
        (State.CHARGED, "Conflict", True),
        (State.CANCELED, "CapReached", True),
        (State.REJECTED, "Rejected", True),
        (State.REJECTED, "CapReached", False),
        (State.DECLINED, "CapReached", False),
        (State.PARKED, "Parked", False),
        (State.IN_DOUBT, "Conflict", False),
        (None, "RunClosed", False),
    ],
)
def test_what_may_still_be_charged_is_kept(
    billing: PostgresUnderTest, state: State | None, reason: str, goes: bool
) -> None:
    if state is State.IN_DOUBT:
        billing.release(billing.claimed(), doubt=True)
    elif state is State.CANCELED:
        billing.claimed()
        billing.cancel(RecordId(CUSTOMER, PERIOD))
    elif state is not None:
        billing.ended(state)
    park(billing, CUSTOMER, reason, "message-1")
    assert delete_old(billing).parked_events == 0
    grow_old(billing, 31)
    assert delete_old(billing).parked_events == int(goes)
    assert parked(billing) == ([] if goes else [CUSTOMER])


def test_what_is_no_event_goes_when_it_is_old(billing: PostgresUnderTest) -> None:
    for number in range(3):
        park(billing, "", "InvalidEvent", f"message-{number}")
    grow_old(billing, 31)
    assert delete_old(billing, limit=2).parked_events == 2
    assert delete_old(billing, limit=2).parked_events == 1


def test_nothing_is_deleted_unless_it_is_asked(billing: PostgresUnderTest) -> None:
    """Goal: 0 days keep everything; a round ends with its time, or after so many batches."""

    class Endless:
        batches = 0

        def delete_old(self, retention_days: int, limit: int) -> Deleted:
            assert (retention_days, limit) == (30, BATCH_LINES)
            self.batches += 1
            return Deleted(BATCH_LINES, 0)

    lines = Endless()
    delete_old_lines(lines, 0)
    delete_old_lines(lines, 30, lambda: True)
    assert lines.batches == 0
    delete_old_lines(lines, 30, lambda: lines.batches >= 2)
    assert lines.batches == 2
    delete_old_lines(lines, 30)
    assert lines.batches == 2 + MAX_BATCHES


def personal_data(billing: PostgresUnderTest) -> bool:
    """Whether the customer's name stands anywhere in the database."""
    dumps = [
        billing.execute(f"SELECT coalesce(jsonb_agg(t)::text, '') FROM chargeonce.{table} AS t")
        for table in ("records", "attempts", "kept_messages", "adopted_payments")
    ]
    bodies = billing.execute("SELECT convert_from(body, 'UTF8') FROM chargeonce.parked_events")
    return PERSONAL in json.dumps([dumps, bodies], default=str)


def operations(billing: PostgresUnderTest) -> PostgresOperations:
    """The records as an operator sees them."""
    assert isinstance(billing.operations, PostgresOperations)
    return billing.operations


@pytest.mark.parametrize("state", [State.CHARGED, State.DECLINED])
def test_a_customer_is_erased(billing: PostgresUnderTest, state: State) -> None:
    """Goal: nothing personal is left; the proof is, and a redelivery meets it."""
    record = billing.claimed(
        create_parameters={"description": PERSONAL, "amount": "5000"},
        payment_method_id="pm_1",
        envelope=Envelope("servicebus", f"for {PERSONAL}", 1),
    )
    billing.finish(record, state, "pi_1", code="code")
    if state is State.CHARGED:
        park(billing, CUSTOMER, "Conflict", f"for {PERSONAL}")
    invalid = json.dumps({"customer_id": CUSTOMER, "note": PERSONAL}).encode()
    note = Note(Envelope("t", "invalid-1"), "invalid_event")
    billing.store.park(ParkedEvent("InvalidEvent", "", invalid), note)
    billing.ended(State.CHARGED, "customer-2")
    assert personal_data(billing)
    planned = erase_customer(operations(billing), CUSTOMER, dry_run=True)
    assert (list(planned.periods), planned.invalid_messages) == ([PERIOD], 1)
    assert personal_data(billing)
    for _ in range(2):
        erase_customer(operations(billing), CUSTOMER, dry_run=False)
        assert not personal_data(billing)
    erased = billing.record()
    assert erased is not None
    assert (erased.state, erased.payment_id, erased.key) == (state, "pi_1", record.key)
    assert erased.fingerprint == record.fingerprint
    assert (erased.create_parameters, erased.payment_method_id) == ({}, None)
    assert billing.decisions().count("erased") == 1
    assert billing.claim().verdict is ClaimVerdict.SETTLED
    assert billing.decisions("customer-2") == ["claimed", "charged"]


def test_what_may_still_be_charged_is_not_erased(billing: PostgresUnderTest) -> None:
    """Goal: one period that is not at its end keeps all of them."""
    billing.finish(billing.claimed(billing_period="2026-10", require_run=False), State.CHARGED)
    record_id = RecordId(CUSTOMER, "2026-10")
    before = billing.store.get_record(record_id)

    def obstacles() -> dict[str, Obstacle]:
        with pytest.raises(CannotErase) as refused:
            erase_customer(operations(billing), CUSTOMER, dry_run=False)
        assert timeless(billing.store.get_record(record_id)) == timeless(before)
        return dict(refused.value.obstacles)

    park(billing, CUSTOMER, "CapReached", "message-1")
    assert obstacles() == {PERIOD: Obstacle.PARKED_EVENT}
    billing.keep()
    assert obstacles() == {PERIOD: Obstacle.KEPT_MESSAGE}
    for state in (State.IN_PROGRESS, State.PARKED):
        record = billing.claimed()
        if state is State.PARKED:
            billing.finish(record, state)
        assert obstacles() == {PERIOD: Obstacle.UNFINISHED_RECORD}
        billing.pass_time(1000)
    assert billing.store.status(PERIOD).parked_event_count == 1


def test_of_a_stranger_nothing_is_kept(billing: PostgresUnderTest) -> None:
    park(billing, "", "InvalidEvent", "message-1")
    erased = erase_customer(operations(billing), "nobody", dry_run=False)
    assert (list(erased.periods), erased.invalid_messages) == ([], 0)
    assert parked(billing) == [""]
