"""The stores under test: one set of helpers over both, and a way to move each one's time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import uuid4

import psycopg

from shared.event import UsageEvent
from shared.operations import Operations
from shared.ports import (
    AttemptLine,
    ClaimRequest,
    ClaimResult,
    ClaimVerdict,
    DueRecord,
    Ending,
    Envelope,
    FinishResult,
    KeptMessage,
    Note,
    Orphanage,
    ParkedEvent,
    PeriodStatus,
    Rebuilds,
    Records,
    Release,
    Reports,
    Run,
    RunKeys,
    Runs,
)
from shared.record import Flow, Record, RecordId, State
from shared.spend_watch import RunsNearCap
from shared.store.memory_run_keys import KeyedMemoryStore
from shared.store.operations import PostgresOperations
from shared.store.postgres import PostgresStore
from shared.store.run_keys import PostgresRunKeys
from tests.support.clock import ManualClock

PERIOD = "2026-11"
CUSTOMER = "customer-1"
AMOUNT_CENTS = 5000
CAP_CENTS = 12_000
LEASE_SECONDS = 180.0
BODY = b'{"customer_id":"customer-1"}'
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


class AnyStore(Records, Runs, Reports, Rebuilds, Orphanage, RunsNearCap, Protocol):
    """What both stores implement."""


@dataclass(frozen=True, slots=True)
class ParkedMessage:
    """A parked event, as either store keeps it."""

    reason: str
    description: str
    body: bytes
    transport: str
    message_id: str
    delivery_count: int | None
    attributes: Mapping[str, str]
    billing_period: str | None


def envelope(message_id: str = "message-1", delivery_count: int | None = 1) -> Envelope:
    """A delivery."""
    return Envelope("pubsub-push", message_id, delivery_count, {"source": "test"})


def claim_request(customer_id: str = CUSTOMER, **changes: Any) -> ClaimRequest:
    """A claim of the usual event under a fresh token; changes go to the event or the request."""
    event_fields = {name: changes.pop(name) for name in list(changes) if name in _EVENT_FIELDS}
    event = UsageEvent(
        **{
            "customer_id": customer_id,
            "billing_period": PERIOD,
            "stripe_customer_id": "cus_1",
            "amount_cents": AMOUNT_CENTS,
            "currency": "usd",
            **event_fields,
        }
    )
    request = {
        "key": f"key-of-{customer_id}",
        "event": event,
        "body": BODY,
        "envelope": envelope(),
        "flow": Flow.PAYMENT_INTENT,
        "create_parameters": {"amount": str(event.amount_cents), "currency": event.currency},
        "require_run": True,
        "lease_seconds": LEASE_SECONDS,
        "token": str(uuid4()),
    }
    return ClaimRequest(**{**request, **changes})


_EVENT_FIELDS = frozenset(
    {
        "billing_period",
        "stripe_customer_id",
        "amount_cents",
        "currency",
        "payment_method_id",
        "description",
        "attempt",
    }
)


class StoreUnderTest(ABC):
    """A store with a run that has room for two of the usual amounts, and shorthand for its calls.

    Args:
        store: empty.
        operations: the same store, as an operator's commands see it.
        run_keys: the same store, as whoever mints vault keys sees it.
    """

    def __init__(self, store: AnyStore, operations: Operations, run_keys: RunKeys) -> None:
        self.store = store
        self.operations = operations
        self.run_keys = run_keys

    @abstractmethod
    def pass_time(self, seconds: float) -> None:
        """Move the store's time on."""

    @abstractmethod
    def parked_messages(self) -> list[ParkedMessage]:
        """The parked events, oldest first."""

    @abstractmethod
    def suspend(self) -> None:
        """Make it look as if the database had lost commits."""

    @abstractmethod
    def fail_over(self) -> None:
        """Change the server's timeline, or make it look so; nothing else is lost."""

    @abstractmethod
    def lose(self, record_id: RecordId) -> None:
        """Lose a record, as a failover may."""

    @abstractmethod
    def cancel(self, record_id: RecordId) -> None:
        """Do what an operator's `cancel` will do: close an untouched record for good."""

    def open_run(self, cap_cents: int = CAP_CENTS, currency: str = "usd") -> Run:
        """Open the usual run."""
        run, opened = self.store.open_run(PERIOD, currency, 10_000, cap_cents)
        assert opened
        return run

    def run(self) -> Run:
        """The usual run."""
        run = self.store.get_run(PERIOD)
        assert run is not None
        return run

    def money(self) -> tuple[int, int]:
        """What the usual run holds and has charged."""
        run = self.run()
        return run.held_cents, run.charged_cents

    def claim(self, customer_id: str = CUSTOMER, **changes: Any) -> ClaimResult:
        """Claim the usual event."""
        return self.store.claim(claim_request(customer_id, **changes))

    def claimed(self, customer_id: str = CUSTOMER, **changes: Any) -> Record:
        """Claim the usual event, which must succeed."""
        result = self.claim(customer_id, **changes)
        assert result.verdict is ClaimVerdict.CLAIMED
        assert result.record is not None
        return result.record

    def resume(self, customer_id: str = CUSTOMER, token: str | None = None) -> ClaimResult:
        """Take a record over without a message."""
        return self.store.resume(
            RecordId(customer_id, PERIOD),
            Envelope("reconcile"),
            LEASE_SECONDS,
            token or str(uuid4()),
        )

    def record(self, customer_id: str = CUSTOMER) -> Record | None:
        """The record as it is."""
        return self.store.get_record(RecordId(customer_id, PERIOD))

    def finish(
        self,
        record: Record,
        state: State,
        payment_id: str | None = None,
        code: str | None = None,
        parked: ParkedEvent | None = None,
    ) -> FinishResult:
        """Write an ending; a charge is of `pi_1` unless something else is said."""
        if state is State.CHARGED and payment_id is None:
            payment_id = "pi_1"
        note = Note(envelope(), str(state), code, "req_1")
        return self.store.finish(record, Ending(state, payment_id, code), note, parked)

    def release(
        self,
        record: Record,
        *,
        doubt: bool = False,
        create_in_doubt: bool = False,
        code: str | None = "code",
        due_in_seconds: float | None = 60.0,
        parked: ParkedEvent | None = None,
    ) -> None:
        """Give the lease up."""
        release = Release(doubt, create_in_doubt, code, due_in_seconds)
        note = Note(envelope(), "in_doubt" if doubt else "transient", code, "req_1")
        self.store.release(record.lease, release, note, parked)

    def ended(self, state: State, customer_id: str = CUSTOMER) -> Record:
        """A record that was claimed and ended."""
        result = self.finish(self.claimed(customer_id), state)
        assert result.written
        assert result.record is not None
        return result.record

    def keep(
        self,
        customer_id: str = CUSTOMER,
        message_id: str = "message-1",
        billing_period: str = PERIOD,
        body: bytes = BODY,
    ) -> None:
        """Keep the usual message, near its broker's limit."""
        event = claim_request(customer_id, billing_period=billing_period).event
        note = Note(envelope(message_id, 9), "handed_over", "run_missing")
        self.store.keep(event, body, note)

    def take_due(self) -> str | None:
        """Take up what has been due for longest; the customer of its record."""
        taken = self.store.take_due(LEASE_SECONDS)
        return taken.record.customer_id if taken else None

    def take_kept(self) -> KeptMessage | None:
        """Take up the kept message that has been due for longest."""
        return self.store.take_kept(LEASE_SECONDS)

    def kept_count(self) -> int:
        """How many messages of the usual period are kept."""
        return self.store.status(PERIOD).kept_message_count

    def due(self, limit: int = 100) -> list[str]:
        """The customers whose records are due."""
        return [record_id.customer_id for record_id in self.store.due(limit)]

    def attempts(self, customer_id: str = CUSTOMER, limit: int = 100) -> Sequence[AttemptLine]:
        """The record's attempts."""
        return self.store.attempts(RecordId(customer_id, PERIOD), limit)

    def decisions(self, customer_id: str = CUSTOMER) -> list[str]:
        """What was decided about the record's deliveries."""
        return [line.decision for line in self.attempts(customer_id)]

    def reasons(self) -> list[str]:
        """Why messages were parked."""
        return [message.reason for message in self.parked_messages()]


def timeless(result: object) -> object:
    """A result without its moments, which the stores take from different clocks."""
    if isinstance(result, Record):
        return replace(
            result,
            attempt_started_at=LONG_AGO,
            lease_until=LONG_AGO,
            updated_at=LONG_AGO,
            previous_claim_at=result.previous_claim_at and LONG_AGO,
        )
    if isinstance(result, Run):
        return replace(result, opened_at=LONG_AGO)
    if isinstance(result, ClaimResult):
        return (result.verdict, timeless(result.record))
    if isinstance(result, FinishResult):
        record: Any = timeless(result.record)
        return replace(result, record=record)
    if isinstance(result, PeriodStatus):
        oldest = result.oldest_unfinished
        return (
            timeless(result.run),
            dict(result.count_by_state),
            dict(result.cents_by_state),
            result.parked_event_count,
            result.kept_message_count,
            oldest and oldest.record_id,
        )
    if isinstance(result, DueRecord):
        return timeless(result.record)
    if isinstance(result, KeptMessage):
        return replace(result, number=0, age_seconds=0)
    if isinstance(result, tuple):
        return tuple(timeless(each) for each in result)
    return result


def everything_seen(stores: StoreUnderTest, customer_ids: Iterable[str]) -> list[object]:
    """All that can be seen of a store, without its moments."""
    seen: list[object] = [timeless(stores.store.status(PERIOD)), stores.due()]
    for customer_id in customer_ids:
        seen.append(timeless(stores.record(customer_id)))
        seen.extend(
            replace(line, noted_at=LONG_AGO) for line in stores.attempts(customer_id, limit=1000)
        )
    return [*seen, *stores.parked_messages()]


class MemoryUnderTest(StoreUnderTest):
    """The in-memory store under a clock that is moved by hand."""

    def __init__(self) -> None:
        self._clock = ManualClock()
        self._memory = KeyedMemoryStore(self._clock)
        super().__init__(self._memory, self._memory, self._memory)

    def pass_time(self, seconds: float) -> None:
        """See `StoreUnderTest`."""
        self._clock.advance(seconds)

    def parked_messages(self) -> list[ParkedMessage]:
        """See `StoreUnderTest`."""
        return [
            ParkedMessage(
                line.reason,
                line.description,
                line.body,
                line.envelope.transport,
                line.envelope.message_id,
                line.envelope.delivery_count,
                line.envelope.attributes,
                line.record_id.billing_period if line.record_id else None,
            )
            for line in self._memory.parked_events
        ]

    def suspend(self) -> None:
        """See `StoreUnderTest`."""
        self._memory.suspended = True

    def fail_over(self) -> None:
        """See `StoreUnderTest`."""
        self._memory.restore(self._memory.back_up())

    def lose(self, record_id: RecordId) -> None:
        """See `StoreUnderTest`."""
        del self._memory._rows[record_id]

    def cancel(self, record_id: RecordId) -> None:
        """See `StoreUnderTest`."""
        row = self._memory._rows[record_id]
        self._memory._end(row, Ending(State.CANCELED))


class PostgresUnderTest(StoreUnderTest):
    """The PostgreSQL store; time passes by shifting every moment in the rows back.

    Args:
        database_url: a migrated database.
    """

    def __init__(self, database_url: str) -> None:
        self.database_url = database_url
        self._postgres = PostgresStore(database_url, pool_size=4)
        self._operations = PostgresOperations(database_url)
        self._connection = psycopg.connect(database_url, autocommit=True)
        self._run_keys = PostgresRunKeys(database_url)
        super().__init__(self._postgres, self._operations, self._run_keys)

    def empty(self) -> None:
        """Begin anew. Rows are deleted one by one: of a few, that is faster than truncating."""
        self.execute(
            """
            DELETE FROM chargeonce.records;
            DELETE FROM chargeonce.runs;
            DELETE FROM chargeonce.attempts;
            DELETE FROM chargeonce.parked_events;
            DELETE FROM chargeonce.rebuilds;
            DELETE FROM chargeonce.adopted_payments;
            DELETE FROM chargeonce.kept_messages;
            UPDATE chargeonce.cluster
            SET account_id = NULL,
                fence_base = 0,
                livemode = NULL,
                timeline = chargeonce.present_timeline(),
                system_identifier = (SELECT system_identifier FROM pg_control_system())
            """
        )

    def close(self) -> None:
        """Close every connection."""
        self._postgres.close()
        self._operations.close()
        self._run_keys.close()
        self._connection.close()

    def pass_time(self, seconds: float) -> None:
        """See `StoreUnderTest`."""
        self._connection.execute(
            """
            UPDATE chargeonce.records
            SET attempt_started_at = attempt_started_at - make_interval(secs => %(seconds)s),
                claimed_at = claimed_at - make_interval(secs => %(seconds)s),
                previous_claim_at = previous_claim_at - make_interval(secs => %(seconds)s),
                lease_until = lease_until - make_interval(secs => %(seconds)s),
                due_at = due_at - make_interval(secs => %(seconds)s),
                created_at = created_at - make_interval(secs => %(seconds)s),
                updated_at = updated_at - make_interval(secs => %(seconds)s)
            """,
            {"seconds": seconds},
        )
        self._connection.execute(
            """
            UPDATE chargeonce.kept_messages
            SET kept_at = kept_at - make_interval(secs => %(seconds)s),
                due_at = due_at - make_interval(secs => %(seconds)s)
            """,
            {"seconds": seconds},
        )

    def parked_messages(self) -> list[ParkedMessage]:
        """See `StoreUnderTest`."""
        rows = self._connection.execute(
            """
            SELECT reason, description, body, transport, message_id, delivery_count, attributes,
                billing_period
            FROM chargeonce.parked_events
            ORDER BY id
            """
        ).fetchall()
        return [ParkedMessage(*row) for row in rows]

    def suspend(self) -> None:
        """See `StoreUnderTest`."""
        self._connection.execute("UPDATE chargeonce.cluster SET timeline = 'FFFFFFFF'")

    def fail_over(self) -> None:
        """See `StoreUnderTest`. What was noted of the timeline is changed in its place."""
        self.suspend()
        self._connection.execute("UPDATE chargeonce.rebuilds SET history = 'before ' || history")

    def lose(self, record_id: RecordId) -> None:
        """See `StoreUnderTest`."""
        self._connection.execute(
            "DELETE FROM chargeonce.records WHERE customer_id = %s AND billing_period = %s",
            [record_id.customer_id, record_id.billing_period],
        )

    def cancel(self, record_id: RecordId) -> None:
        """See `StoreUnderTest`."""
        key = [record_id.customer_id, record_id.billing_period]
        record = self._postgres.get_record(record_id)
        assert record is not None
        self._connection.execute(
            """
            UPDATE chargeonce.records
            SET state = 'canceled', holder = NULL, held_cents = 0, code = NULL, due_at = NULL
            WHERE customer_id = %s AND billing_period = %s
            """,
            key,
        )
        self._connection.execute(
            "UPDATE chargeonce.runs SET held_cents = held_cents - %s WHERE billing_period = %s",
            [record.held_cents, record_id.billing_period],
        )

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Do something to the database by hand, and return what it says."""
        cursor = self._connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []
