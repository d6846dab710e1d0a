"""What each path costs at the database, counted at the connection: one call, one commit."""

import json
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from shared.biller import Biller, BillingRules
from shared.outcome import Outcome
from shared.ports import (
    Delivery,
    Ending,
    NoResponse,
    Note,
    Release,
    StripeRequest,
    StripeResponse,
)
from shared.record import Flow, RecordId, State, Verdict
from shared.store.postgres import PostgresStore
from tests.support.clock import ManualClock
from tests.support.postgres_proxy import PostgresProxy
from tests.support.store import PERIOD, PostgresUnderTest, claim_request, envelope
from tests.support.waiting import wait_until

DECLINED_CARD = {
    "error": {"type": "card_error", "code": "card_declined", "message": "Your card was declined."}
}
NO_SUCH_CUSTOMER = {
    "error": {"type": "invalid_request_error", "code": "resource_missing", "message": "No."}
}


def intent(status: str) -> dict[str, object]:
    return {"object": "payment_intent", "id": "pi_1", "status": status, "livemode": False}


def charge(status: str) -> dict[str, object]:
    return {"object": "charge", "id": "ch_1", "status": status, "livemode": False}


class ScriptedStripe:
    """Answers each kind of request as it is told to.

    Args:
        answers: status and body by the last word of the path.
    """

    def __init__(self, **answers: tuple[int, Mapping[str, Any]]) -> None:
        self.answers: dict[str, tuple[int, Mapping[str, Any]]] = {
            "account": (200, {"object": "account", "id": "acct_1"}),
            "payment_intents": (200, intent("requires_payment_method")),
            "confirm": (200, intent("succeeded")),
            "cancel": (200, intent("canceled")),
            "charges": (200, charge("succeeded")),
            **answers,
        }

    def send(
        self, request: StripeRequest, timeout_seconds: float, vault_key: str | None = None
    ) -> StripeResponse | NoResponse:
        """See `Payments.send`."""
        status, body = self.answers[request.path.rsplit("/", 1)[-1]]
        return StripeResponse(status, {}, json.dumps(body).encode())


class IgnoredSettlement:
    """Settles nothing."""

    def complete(self) -> None:
        """See `Settlement.complete`."""

    def dead_letter(self, reason: str, description: str) -> None:
        """See `Settlement.dead_letter`."""

    def leave(self) -> None:
        """See `Settlement.leave`."""


class Counted:
    """A worker whose every word with the database is counted."""

    def __init__(self, proxy: PostgresProxy, store: PostgresStore) -> None:
        self._proxy = proxy
        self._store = store
        self._warm_ups = count()

    def deliver(
        self,
        stripe: ScriptedStripe,
        flow: Flow = Flow.PAYMENT_INTENT,
        body: bytes | None = None,
        delivery_count: int = 1,
        **fields: Any,
    ) -> tuple[Outcome, int]:
        """Handle a delivery; return its outcome and how many round trips it took."""
        event = {
            "customer_id": "customer-1",
            "billing_period": PERIOD,
            "stripe_customer_id": "cus_1",
            "amount_cents": 1000,
            "payment_method_id": "pm_1",
            **fields,
        }
        biller = Biller(self._store, stripe, ManualClock(), BillingRules(flow, key_livemode=False))
        # The account is looked up once for each process, not for each charge.
        warm_up = f"warm-up-{next(self._warm_ups)}"
        fine = {**event, "customer_id": warm_up, "amount_cents": 1, "payment_method_id": "pm_1"}
        self._handle(biller, json.dumps(fine).encode())
        self._proxy.reset()
        sent = json.dumps(event).encode() if body is None else body
        outcome = self._handle(biller, sent, delivery_count)
        assert self._proxy.transactions == self._proxy.round_trips, "each one is committed"
        assert self._proxy.connections == 0
        return outcome, self._proxy.round_trips

    def _handle(self, biller: Biller, body: bytes, delivery_count: int = 1) -> Outcome:
        delivery = Delivery(body, envelope(delivery_count=delivery_count))
        return biller.handle(delivery, IgnoredSettlement())


@pytest.fixture
def counted(postgres: PostgresUnderTest) -> Iterator[Counted]:
    """A worker behind a proxy that counts."""
    postgres.open_run(cap_cents=10**9)
    with PostgresProxy(postgres.database_url) as proxy:
        store = PostgresStore(proxy.url, 1)
        yield Counted(proxy, store)
        store.close()


def record_version(postgres: PostgresUnderTest) -> list[tuple[Any, ...]]:
    """What changes whenever a row is written or locked."""
    return postgres.execute(
        "SELECT ctid, xmin, xmax FROM chargeonce.records WHERE customer_id = 'customer-1'"
    )


def test_a_charge_in_two_steps_takes_three(counted: Counted) -> None:
    """Goal: claim, payment id, ending; the budget allows four."""
    assert counted.deliver(ScriptedStripe()) == (Outcome.CHARGED, 3)


def test_a_charge_in_one_step_takes_two(counted: Counted) -> None:
    """Goal: claim and ending; the budget allows three."""
    assert counted.deliver(ScriptedStripe(), Flow.CHARGE) == (Outcome.CHARGED, 2)


def test_a_decline_in_two_steps_takes_one_more(counted: Counted) -> None:
    """Goal: the verdict is written before the cancel; the budget allows five."""
    stripe = ScriptedStripe(confirm=(402, DECLINED_CARD))
    assert counted.deliver(stripe) == (Outcome.DECLINED, 4)


def test_a_decline_in_one_step_takes_no_more(counted: Counted) -> None:
    """Goal: there is nothing to cancel."""
    stripe = ScriptedStripe(charges=(402, DECLINED_CARD))
    assert counted.deliver(stripe, Flow.CHARGE) == (Outcome.DECLINED, 2)


def test_a_message_that_is_no_event_takes_one(
    counted: Counted, postgres: PostgresUnderTest
) -> None:
    """Goal: it is kept before it is dead-lettered."""
    assert counted.deliver(ScriptedStripe(), body=b"{") == (Outcome.INVALID_EVENT, 1)
    assert postgres.reasons() == ["InvalidEvent"]


ENDINGS: dict[Outcome, tuple[ScriptedStripe, dict[str, Any]]] = {
    Outcome.CHARGED: (ScriptedStripe(), {}),
    Outcome.PROCESSING: (ScriptedStripe(confirm=(200, intent("processing"))), {}),
    Outcome.DECLINED: (ScriptedStripe(confirm=(402, DECLINED_CARD)), {}),
    Outcome.REJECTED: (
        ScriptedStripe(cus_1=(404, NO_SUCH_CUSTOMER), payment_intents=(200, intent("x"))),
        {"payment_method_id": None},
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_duplicate_takes_one_and_leaves_the_record_alone(
    ending: Outcome, counted: Counted, postgres: PostgresUnderTest
) -> None:
    """Goal: nine of ten deliveries may be duplicates; each is one read and one line written."""
    stripe, fields = ENDINGS[ending]
    assert counted.deliver(stripe, **fields)[0] is ending
    version = record_version(postgres)
    lines = len(postgres.attempts())
    assert counted.deliver(stripe, **fields) == (ending, 1)
    assert record_version(postgres) == version
    assert len(postgres.attempts()) == lines + 1


def test_a_duplicate_of_what_an_operator_canceled_takes_one(
    counted: Counted, postgres: PostgresUnderTest
) -> None:
    """Goal: the same for the ending that no delivery brings about."""
    counted.deliver(ScriptedStripe(confirm=(402, DECLINED_CARD)))
    postgres.cancel(RecordId("customer-1", PERIOD))
    version = record_version(postgres)
    assert counted.deliver(ScriptedStripe()) == (Outcome.CANCELED, 1)
    assert record_version(postgres) == version


def test_a_busy_record_and_a_conflict_take_one_and_leave_the_record_alone(
    counted: Counted, postgres: PostgresUnderTest
) -> None:
    """Goal: who may not touch the record does not lock it either."""
    postgres.claimed("customer-1", amount_cents=1000)
    version = record_version(postgres)
    assert counted.deliver(ScriptedStripe()) == (Outcome.IN_PROGRESS_ELSEWHERE, 1)
    assert counted.deliver(ScriptedStripe(), amount_cents=1) == (Outcome.CONFLICT, 1)
    assert postgres.resume("customer-1").verdict == "busy"
    assert record_version(postgres) == version


def test_a_refused_claim_takes_one(counted: Counted, postgres: PostgresUnderTest) -> None:
    """Goal: whatever the run says, it says in the claim."""
    postgres.execute("UPDATE chargeonce.runs SET cap_cents = 1000")
    assert counted.deliver(ScriptedStripe(), amount_cents=1000) == (Outcome.CAP_REACHED, 1)
    assert postgres.money() == (0, 1)


def test_a_kept_message_takes_one_more(counted: Counted, postgres: PostgresUnderTest) -> None:
    """Goal: only near the broker's limit, and only where the message would be left."""
    assert counted.deliver(ScriptedStripe(), delivery_count=9) == (Outcome.CHARGED, 3)
    waiting: dict[str, Any] = {"customer_id": "waiting", "billing_period": "2027-01"}
    assert counted.deliver(ScriptedStripe(), **waiting) == (Outcome.RUN_MISSING, 1)
    kept = counted.deliver(ScriptedStripe(), delivery_count=9, **waiting)
    assert kept == (Outcome.HANDED_OVER, 2)


@pytest.mark.parametrize("rows", [0, 5], ids=["empty", "nearly empty"])
def test_records_are_found_by_their_key_whatever_was_there_when_the_session_began(
    migrated_database_url: str, rows: int
) -> None:
    """Goal: a session keeps its plans; those made on a small table must serve a large one.

    Method: the server counts its scans and what they read. One that read all of the period would
    read a thousand rows and more. No table of ours is ever scanned, however small.
    """
    store = PostgresStore(migrated_database_url, 1)
    store.open_run(PERIOD, "usd", 10**9, 10**9)
    note = Note(envelope(), "decided")

    def charge(customer_id: str) -> None:
        record = store.claim(claim_request(customer_id)).record
        assert record is not None
        store.store_payment(record.lease, "pi_1")
        store.store_verdict(record.lease, Verdict(State.DECLINED, "code", "message"))
        store.release(record.lease, Release(True, False, None, 0.0), note, None)
        token = str(uuid4())
        resumed = store.resume(record.record_id, envelope(), 180.0, token).record
        assert resumed is not None
        store.finish(resumed, Ending(State.CHARGED, "pi_1"), note, None)
        store.keep(claim_request(customer_id).event, customer_id.encode(), note)
        kept = store.take_kept(180.0)
        assert store.take_due(180.0) is None
        if kept is not None:
            store.drop_kept(kept.number)

    with psycopg.connect(migrated_database_url, autocommit=True) as connection:
        for number in range(rows):
            charge(f"early-{number}")
        connection.execute("ANALYZE chargeonce.records")
        store.close()
        before = _scanned(connection)
        store = PostgresStore(migrated_database_url, 1)
        for number in range(40):
            charge(f"customer-{number}")
        store.close()
        calls = 40 * 6
        sequential_scans, index_reads = (
            after - earlier for after, earlier in zip(_scanned(connection), before, strict=True)
        )
    # The set-up scans a few times, and may be counted late.
    assert sequential_scans < 40
    assert index_reads <= 2 * calls


def _scanned(connection: psycopg.Connection) -> tuple[int, int]:
    """How many sequential scans there were, and how many records index scans have read."""
    # A backend tells its statistics when it ends.
    others = "SELECT FROM pg_stat_activity WHERE application_name = 'chargeonce' AND datname = "
    query = f"{others} current_database()".encode()
    wait_until(lambda: not connection.execute(query).fetchall(), "the store's backend has ended")
    row = connection.execute(
        """
        SELECT
            (
                SELECT sum(seq_scan)::bigint FROM pg_stat_user_tables
                WHERE schemaname = 'chargeonce'
            ),
            (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'records')
        """
    ).fetchone()
    assert row is not None
    return row[0], row[1]
