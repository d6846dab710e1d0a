"""The records in PostgreSQL.

Every method that the billing core uses is one autocommitted statement, one round trip. No session
state is kept, so a transaction-pooling PgBouncer may stand in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import psycopg
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool, PoolTimeout

from shared.errors import PoolExhausted, RecordsUnavailable, RunError
from shared.event import Fingerprint
from shared.ports import (
    AttemptLine,
    ClaimRequest,
    ClaimResult,
    ClaimVerdict,
    Ending,
    Envelope,
    FinishResult,
    Identity,
    Note,
    ParkedEvent,
    PeriodStatus,
    Release,
    Run,
)
from shared.record import Flow, Lease, Record, RecordId, State, Verdict
from shared.store import queries

Result = TypeVar("Result")
Rows = Sequence[Sequence[Any]]

CONNECT_TIMEOUT_SECONDS = 10
POOL_WAIT_SECONDS = 10.0
MAX_TRIES = 2
RETRY_PAUSE_SECONDS = 0.2

# libpq's own limits: a server that vanished is noticed in half a minute, not in two hours.
_CONNECTION_PARAMETERS: Mapping[str, Any] = {
    "autocommit": True,
    "prepare_threshold": None,
    "connect_timeout": CONNECT_TIMEOUT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "chargeonce",
}


class PostgresStore:
    """Implements the ports `Records`, `Runs` and `Reports` over PostgreSQL. Safe for threads.

    Args:
        database_url: libpq connection string or URL.
        pool_size: the most connections to hold; one for each worker thread is right. They are
            opened when first needed.
        pool_wait_seconds: how long a thread waits for a free connection.
    """

    def __init__(
        self, database_url: str, pool_size: int, pool_wait_seconds: float = POOL_WAIT_SECONDS
    ) -> None:
        self._pool = ConnectionPool(
            database_url,
            kwargs=dict(_CONNECTION_PARAMETERS),
            min_size=0,
            max_size=pool_size,
            timeout=pool_wait_seconds,
            num_workers=1,
            name="chargeonce",
            open=True,
        )

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def identify(self, account_id: str | None, livemode: bool | None) -> Identity:
        """See `Records.identify`."""
        rows = self._run(queries.IDENTIFY, [account_id, livemode])
        return Identity(rows[0][0], rows[0][1])

    def claim(self, request: ClaimRequest) -> ClaimResult:
        """See `Records.claim`."""
        note = _note(Note(request.envelope, ""))
        rows = self._run(queries.CLAIM, [Jsonb(_claim(request)), note, request.body])
        return _read_claim_result(rows[0])

    def resume(
        self, record_id: RecordId, envelope: Envelope, lease_seconds: float, token: str
    ) -> ClaimResult:
        """See `Records.resume`."""
        note = _note(Note(envelope, ""))
        rows = self._run(queries.RESUME, [*_key(record_id), lease_seconds, token, note])
        return _read_claim_result(rows[0])

    def store_payment(self, lease: Lease, payment_id: str) -> str | None:
        """See `Records.store_payment`."""
        rows = self._run(queries.STORE_PAYMENT, [*_key(lease.record_id), lease.fence, payment_id])
        stored: str | None = rows[0][0]
        return stored

    def store_verdict(self, lease: Lease, verdict: Verdict) -> bool:
        """See `Records.store_verdict`."""
        rows = self._run(
            queries.STORE_VERDICT,
            [
                *_key(lease.record_id),
                lease.fence,
                verdict.state,
                verdict.code,
                _clean(verdict.message),
            ],
        )
        return bool(rows[0][0])

    def finish(
        self, record: Record, ending: Ending, note: Note, parked: ParkedEvent | None
    ) -> FinishResult:
        """See `Records.finish`."""
        rows = self._run(
            queries.FINISH,
            [
                *_key(record.record_id),
                record.fence,
                ending.state,
                ending.payment_id,
                ending.code,
                Jsonb(_row(record)) if ending.state is State.CHARGED else None,
                _note(note),
                *_parked(parked),
            ],
        )
        written, second_payment, run_closed, found = rows[0]
        return FinishResult(_read_record(found), written, second_payment, run_closed)

    def release(
        self, lease: Lease, release: Release, note: Note, parked: ParkedEvent | None
    ) -> None:
        """See `Records.release`."""
        self._run(
            queries.RELEASE,
            [
                *_key(lease.record_id),
                lease.fence,
                release.doubt,
                release.create_in_doubt,
                release.code,
                release.due_in_seconds,
                _note(note),
                *_parked(parked),
            ],
        )

    def park(self, parked: ParkedEvent, note: Note) -> None:
        """See `Records.park`."""
        self._run(
            queries.PARK, [parked.reason, _clean(parked.description), parked.body, _note(note)]
        )

    def due(self, limit: int) -> Sequence[RecordId]:
        """See `Records.due`."""
        return [RecordId(*row) for row in self._run(queries.DUE, [limit])]

    def open_run(
        self, billing_period: str, currency: str, expected_cents: int, cap_cents: int
    ) -> tuple[Run, bool]:
        """See `Runs.open_run`."""
        rows = self._run(queries.OPEN_RUN, [billing_period, currency, expected_cents, cap_cents])
        return self._existing_run(billing_period), bool(rows[0][0])

    def get_run(self, billing_period: str) -> Run | None:
        """See `Runs.get_run`."""
        rows = self._run(queries.GET_RUN, [billing_period])
        return Run(*rows[0]) if rows else None

    def close_run(self, billing_period: str, reason: str) -> Run:
        """See `Runs.close_run`."""
        self._run(queries.CLOSE_RUN, [reason, billing_period])
        return self._existing_run(billing_period)

    def raise_cap(self, billing_period: str, cap_cents: int) -> Run:
        """See `Runs.raise_cap`."""
        before = self._existing_run(billing_period)
        self._run(queries.RAISE_CAP, {"cap_cents": cap_cents, "billing_period": billing_period})
        if cap_cents <= before.cap_cents:
            raise RunError(
                f"the cap of run {billing_period} is {before.cap_cents}; "
                f"{cap_cents} would not raise it"
            )
        return self._existing_run(billing_period)

    def status(self, billing_period: str) -> PeriodStatus:
        """See `Reports.status`."""
        counts = self._run(queries.COUNT_BY_STATE, [billing_period])
        oldest = self._run(queries.OLDEST_UNFINISHED, [billing_period])
        return PeriodStatus(
            billing_period=billing_period,
            run=self.get_run(billing_period),
            count_by_state={State(state): count for state, count, _ in counts},
            cents_by_state={State(state): int(cents) for state, _, cents in counts},
            parked_event_count=self._run(queries.COUNT_PARKED, [billing_period])[0][0],
            oldest_unfinished=_read_record(oldest[0][0]) if oldest else None,
            database_time=self._run(queries.DATABASE_TIME, [])[0][0],
        )

    def get_record(self, record_id: RecordId) -> Record | None:
        """See `Reports.get_record`."""
        rows = self._run(queries.GET_RECORD, _key(record_id))
        return _read_record(rows[0][0]) if rows else None

    def attempts(self, record_id: RecordId, limit: int) -> Sequence[AttemptLine]:
        """See `Reports.attempts`."""
        return [AttemptLine(*row) for row in self._run(queries.ATTEMPTS, [*_key(record_id), limit])]

    def _existing_run(self, billing_period: str) -> Run:
        run = self.get_run(billing_period)
        if run is None:
            raise RunError(f"there is no run for period {billing_period}")
        return run

    def _run(self, query: str, parameters: Sequence[Any] | Mapping[str, Any]) -> Rows:
        def execute(connection: psycopg.Connection) -> Rows:
            cursor = connection.execute(query, parameters)
            return cursor.fetchall() if cursor.description else []

        return self._with_connection(execute)

    def _with_connection(self, work: Callable[[psycopg.Connection], Result]) -> Result:
        """Run one statement, once more if the connection turns out to be dead.

        Sending it again is safe although the first may have been committed: claims carry a token,
        every other write names its fence.
        """
        problem = ""
        for number in range(MAX_TRIES):
            if number > 0:
                # What else lies in the pool was most likely cut off with this one.
                self._pool.drain()
                time.sleep(RETRY_PAUSE_SECONDS)
            try:
                with self._pool.connection() as connection:
                    return work(connection)
            except PoolTimeout:
                raise PoolExhausted(
                    "no database connection came free in time: the database is away, or "
                    "DATABASE_POOL_SIZE is smaller than the number of threads"
                ) from None
            except psycopg.Error as error:
                problem = error.sqlstate or type(error).__name__
                if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                    break
        raise RecordsUnavailable(f"the database did not answer ({problem})")


def _key(record_id: RecordId) -> list[str]:
    return [record_id.customer_id, record_id.billing_period]


def _claim(request: ClaimRequest) -> dict[str, Any]:
    event = request.event
    return {
        "key": request.key,
        "customer_id": event.customer_id,
        "billing_period": event.billing_period,
        "stripe_customer_id": event.stripe_customer_id,
        "amount_cents": event.amount_cents,
        "currency": event.currency,
        "attempt": event.attempt,
        "payment_method_id": event.payment_method_id,
        "flow": request.flow,
        "create_parameters": dict(request.create_parameters),
        "require_run": request.require_run,
        "lease_seconds": request.lease_seconds,
        "token": request.token,
    }


def _note(note: Note) -> Jsonb:
    envelope = note.envelope
    return Jsonb(
        {
            "transport": envelope.transport,
            "message_id": _clean(envelope.message_id),
            "delivery_count": envelope.delivery_count,
            "attributes": {
                _clean(name): _clean(value) for name, value in envelope.attributes.items()
            },
            "decision": note.decision,
            "code": _clean(note.code),
            "request_id": _clean(note.request_id),
        }
    )


def _parked(parked: ParkedEvent | None) -> list[Any]:
    if parked is None:
        return [None, None]
    described = {"reason": parked.reason, "description": _clean(parked.description)}
    return [Jsonb(described), parked.body]


def _clean(text: str | None) -> str | None:
    """Replace what PostgreSQL's text cannot hold: an envelope is anybody's text."""
    if text is None:
        return None
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _row(record: Record) -> dict[str, Any]:
    """What it takes to bring back a row that the database lost."""
    fingerprint = record.fingerprint
    return {
        "customer_id": record.customer_id,
        "billing_period": record.billing_period,
        "key": record.key,
        "stripe_customer_id": fingerprint.stripe_customer_id,
        "amount_cents": fingerprint.amount_cents,
        "currency": fingerprint.currency,
        "attempt": record.attempt,
        "fence": record.fence,
        "attempt_fence": record.attempt_fence,
        "flow": record.flow,
        "create_parameters": dict(record.create_parameters),
        "create_number": record.create_number,
        "payment_method_id": record.payment_method_id,
    }


def _read_claim_result(row: Sequence[Any]) -> ClaimResult:
    verdict, database_time, found = row
    return ClaimResult(ClaimVerdict(verdict), _read_record(found), database_time)


def _read_record(row: Mapping[str, Any] | None) -> Record | None:
    if row is None:
        return None
    verdict_state = row["verdict_state"]
    return Record(
        customer_id=row["customer_id"],
        billing_period=row["billing_period"],
        key=row["key"],
        fingerprint=Fingerprint(row["amount_cents"], row["currency"], row["stripe_customer_id"]),
        attempt=row["attempt"],
        state=State(row["state"]),
        fence=row["fence"],
        attempt_fence=row["attempt_fence"],
        flow=Flow(row["flow"]),
        create_parameters=row["create_parameters"],
        create_number=row["create_number"],
        payment_method_id=row["payment_method_id"],
        payment_id=row["payment_id"],
        verdict=(
            Verdict(State(verdict_state), row["verdict_code"], row["verdict_message"])
            if verdict_state
            else None
        ),
        code=row["code"],
        held_cents=row["held_cents"],
        doubts=row["doubts"],
        create_in_doubt=row["create_in_doubt"],
        attempt_started_at=datetime.fromisoformat(row["attempt_started_at"]),
        lease_until=datetime.fromisoformat(row["lease_until"]),
        updated_at=datetime.fromisoformat(row["updated_at"]),
    )
