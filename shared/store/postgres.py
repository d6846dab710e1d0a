"""The records in PostgreSQL.

Every method is one autocommitted statement, one round trip. No session state is kept, so a
transaction-pooling PgBouncer may stand in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from shared.errors import RunError
from shared.event import UsageEvent
from shared.housekeeping import Deleted
from shared.ports import (
    Adoption,
    AdoptResult,
    AttemptLine,
    ClaimedKey,
    ClaimRequest,
    ClaimResult,
    ClaimVerdict,
    DoubtedCreate,
    DueRecord,
    Ending,
    Envelope,
    FinishResult,
    FoundPayment,
    Identity,
    KeptMessage,
    Note,
    ParkedEvent,
    PeriodStatus,
    Rebuild,
    Release,
    Run,
)
from shared.record import Lease, Record, RecordId, State, Verdict
from shared.runs import cap_would_fall, closed_over_cap
from shared.store import queries, rows
from shared.store.caller import POOL_WAIT_SECONDS, Caller
from shared.store.text import storable, storable_or_none


class PostgresStore:
    """Implements the ports of the records and runs over PostgreSQL. Safe for threads.

    Args:
        database_url: libpq connection string or URL.
        pool_size: the most connections to hold; one for each worker thread is right. They are
            opened when first needed.
        pool_wait_seconds: how long a thread waits for a free connection.

    Raises:
        SettingsError: the connection string cannot be read.
    """

    def __init__(
        self, database_url: str, pool_size: int, pool_wait_seconds: float = POOL_WAIT_SECONDS
    ) -> None:
        self._caller = Caller(database_url, pool_size, pool_wait_seconds)
        # Sending a statement again is safe although the first may have been committed: claims
        # carry a token, every other write to a record names its fence, and what reconcile has taken
        # up comes again.
        self._run = self._caller.run

    def close(self) -> None:
        """Close the connections."""
        self._caller.close()

    def identify(self, account_id: str | None, livemode: bool | None) -> Identity:
        """See `Records.identify`."""
        (row,) = self._run(queries.IDENTIFY, [account_id, livemode])
        return Identity(*row)

    def claim(self, request: ClaimRequest) -> ClaimResult:
        """See `Records.claim`."""
        (row,) = self._run(queries.CLAIM, rows.claim_parameters(request))
        return _read_claim_result(row)

    def resume(
        self, record_id: RecordId, envelope: Envelope, lease_seconds: float, token: str
    ) -> ClaimResult:
        """See `Records.resume`."""
        parameters = {
            "customer_id": record_id.customer_id,
            "billing_period": record_id.billing_period,
            "lease_seconds": lease_seconds,
            "token": token,
            "note": rows.envelope_parameter(envelope),
        }
        (row,) = self._run(queries.RESUME, parameters)
        return _read_claim_result(row)

    def store_payment(self, lease: Lease, payment_id: str) -> str | None:
        """See `Records.store_payment`."""
        parameters = [*_key(lease.record_id), lease.fence, payment_id]
        ((stored_id,),) = self._run(queries.STORE_PAYMENT, parameters)
        return str(stored_id) if stored_id is not None else None

    def store_verdict(self, lease: Lease, verdict: Verdict) -> bool:
        """See `Records.store_verdict`."""
        ((is_stored,),) = self._run(
            queries.STORE_VERDICT,
            [
                *_key(lease.record_id),
                lease.fence,
                verdict.state,
                storable(verdict.code),
                storable(verdict.message),
            ],
        )
        return bool(is_stored)

    def finish(
        self, record: Record, ending: Ending, note: Note, parked: ParkedEvent | None
    ) -> FinishResult:
        """See `Records.finish`."""
        is_charged = ending.state is State.CHARGED
        (row,) = self._run(
            queries.FINISH,
            [
                *_key(record.record_id),
                record.fence,
                ending.state,
                ending.payment_id,
                storable_or_none(ending.code),
                rows.lost_row_parameter(record) if is_charged else None,
                rows.note_parameter(note),
                *rows.parked_parameters(parked),
            ],
        )
        written, second_payment, run_closed, stored_row = row
        return FinishResult(rows.read_record(stored_row), written, second_payment, run_closed)

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
                storable_or_none(release.code),
                release.due_in_seconds,
                rows.note_parameter(note),
                *rows.parked_parameters(parked),
            ],
        )

    def park(self, parked: ParkedEvent, note: Note) -> None:
        """See `Records.park`."""
        self._run(
            queries.PARK,
            [parked.reason, storable(parked.description), parked.body, rows.note_parameter(note)],
        )

    def keep(self, event: UsageEvent, body: bytes, note: Note) -> None:
        """See `Records.keep`."""
        self._run(
            queries.KEEP,
            [
                event.customer_id,
                event.billing_period,
                event.attempt,
                body,
                rows.note_parameter(note),
            ],
        )

    def take_due(self, lease_seconds: float) -> DueRecord | None:
        """See `Records.take_due`."""
        ((stored_row, age_seconds),) = self._run(queries.TAKE_DUE, [lease_seconds])
        record = rows.read_record(stored_row)
        return DueRecord(record, age_seconds) if record else None

    def take_kept(self, lease_seconds: float) -> KeptMessage | None:
        """See `Records.take_kept`."""
        ((kept_row, body, age_seconds),) = self._run(queries.TAKE_KEPT, [lease_seconds])
        return rows.read_kept(kept_row, body, age_seconds) if kept_row else None

    def drop_kept(self, number: int) -> None:
        """See `Records.drop_kept`."""
        self._run(queries.DROP_KEPT, [number])

    def open_run(
        self, billing_period: str, currency: str, expected_cents: int, cap_cents: int
    ) -> tuple[Run, bool]:
        """See `Runs.open_run`."""
        parameters = [billing_period, currency, expected_cents, cap_cents]
        ((opened, stored_run),) = self._run(queries.OPEN_RUN, parameters)
        return rows.read_run(stored_run), opened

    def get_run(self, billing_period: str) -> Run | None:
        """See `Runs.get_run`."""
        found = self._run(queries.GET_RUN, [billing_period])
        return rows.read_run(found[0][0]) if found else None

    def close_run(self, billing_period: str, reason: str) -> Run:
        """See `Runs.close_run`."""
        parameters = {"billing_period": billing_period, "reason": storable(reason)}
        closed = self._run(queries.CLOSE_RUN, parameters)
        return rows.read_run(closed[0][0]) if closed else self._existing_run(billing_period)

    def reopen_run(self, billing_period: str) -> Run:
        """See `Runs.reopen_run`."""
        reopened = self._run(queries.REOPEN_RUN, {"billing_period": billing_period})
        if reopened:
            return rows.read_run(reopened[0][0])
        run = self._existing_run(billing_period)
        if not run.is_open:
            raise closed_over_cap(run)
        return run

    def raise_cap(self, billing_period: str, cap_cents: int) -> Run:
        """See `Runs.raise_cap`."""
        parameters = {"billing_period": billing_period, "cap_cents": cap_cents}
        raised = self._run(queries.RAISE_CAP, parameters)
        if raised:
            return rows.read_run(raised[0][0])
        run = self._existing_run(billing_period)
        if run.cap_cents > cap_cents:
            raise cap_would_fall(run, cap_cents)
        return run

    def take_runs_near_cap(self, percent: int) -> Sequence[Run]:
        """See `RunsNearCap.take_runs_near_cap`."""
        found = self._run(queries.TAKE_RUNS_NEAR_CAP, {"percent": percent})
        return [rows.read_run(stored_run) for (stored_run,) in found]

    def status(self, billing_period: str) -> PeriodStatus:
        """See `Reports.status`."""
        (row,) = self._run(queries.STATUS, {"billing_period": billing_period})
        run, counted, parked_event_count, kept_message_count, oldest, database_time = row
        return PeriodStatus(
            billing_period=billing_period,
            run=rows.read_run(run) if run else None,
            count_by_state={State(each["state"]): each["records"] for each in counted or []},
            cents_by_state={State(each["state"]): each["cents"] for each in counted or []},
            parked_event_count=parked_event_count,
            kept_message_count=kept_message_count,
            oldest_unfinished=rows.read_record(oldest),
            database_time=database_time,
        )

    def get_record(self, record_id: RecordId) -> Record | None:
        """See `Reports.get_record`."""
        found = self._run(queries.GET_RECORD, _key(record_id))
        return rows.read_record(found[0][0]) if found else None

    def attempts(self, record_id: RecordId, limit: int) -> Sequence[AttemptLine]:
        """See `Reports.attempts`."""
        found = self._run(queries.ATTEMPTS, [*_key(record_id), limit])
        return [AttemptLine(*row) for row in found]

    def due(self, limit: int) -> Sequence[RecordId]:
        """See `Reports.due`."""
        return [RecordId(*row) for row in self._run(queries.DUE, [limit])]

    def adopt(self, found: FoundPayment, envelope: Envelope, *, dry_run: bool) -> AdoptResult:
        """See `Adoptions.adopt`."""
        note = rows.envelope_parameter(envelope)
        parameters = [rows.found_parameter(found), found.finding, dry_run, note]
        ((adoption, run_closed, stored_row),) = self._run(queries.ADOPT, parameters)
        return AdoptResult(Adoption(adoption), rows.read_record(stored_row), run_closed)

    def begin_rebuild(self, told_since: datetime | None, margin_seconds: float) -> Rebuild | None:
        """See `Rebuilds.begin_rebuild`."""
        begun = self._run(queries.BEGIN_REBUILD, [told_since, margin_seconds])
        return Rebuild(*begun[0]) if begun else None

    def note_rebuild_place(self, rebuild: Rebuild, list_path: str, cursor: str | None) -> None:
        """See `Rebuilds.note_rebuild_place`."""
        parameters = [rebuild.id, rebuild.history, list_path, cursor]
        self._run(queries.NOTE_REBUILD_PLACE, parameters)

    def finish_rebuild(self, rebuild: Rebuild) -> bool:
        """See `Rebuilds.finish_rebuild`."""
        ((is_whole,),) = self._run(queries.FINISH_REBUILD, [rebuild.id, rebuild.history])
        return bool(is_whole)

    def doubted_creates(self, limit: int, quiet_seconds: float) -> Sequence[DoubtedCreate]:
        """See `Orphanage.doubted_creates`."""
        found = self._run(queries.DOUBTED_CREATES, [quiet_seconds, limit])
        return [
            DoubtedCreate(RecordId(customer_id, billing_period), since, database_time)
            for customer_id, billing_period, since, database_time in found
        ]

    def clear_create_doubt(self, record: Record) -> bool:
        """See `Orphanage.clear_create_doubt`."""
        parameters = [*_key(record.record_id), record.updated_at]
        return bool(self._run(queries.CLEAR_CREATE_DOUBT, parameters))

    def delete_old(self, retention_days: int, limit: int) -> Deleted:
        """See `OldLines.delete_old`."""
        ((attempts, parked_events),) = self._run(queries.DELETE_OLD, [retention_days, limit])
        return Deleted(attempts, parked_events)

    def _existing_run(self, billing_period: str) -> Run:
        run = self.get_run(billing_period)
        if run is None:
            raise RunError(f"there is no run for period {billing_period}")
        return run


def _key(record_id: RecordId) -> list[str]:
    return [record_id.customer_id, record_id.billing_period]


def _read_claim_result(row: Sequence[Any]) -> ClaimResult:
    verdict, database_time, stored_row, *key = row
    vault_key = ClaimedKey(*key) if key[0] is not None else None
    record = rows.read_record(stored_row)
    return ClaimResult(ClaimVerdict(verdict), record, database_time, vault_key)
