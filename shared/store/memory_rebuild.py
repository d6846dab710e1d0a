"""Records in memory that can lose commits, as a database does in a failover, and be rebuilt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.ports import (
    Adoption,
    AdoptResult,
    AttemptLine,
    Clock,
    DoubtedCreate,
    Ending,
    Envelope,
    Finding,
    FoundPayment,
    Identity,
    Note,
    Rebuild,
    Run,
)
from shared.record import UNFINISHED, Record, RecordId, State
from shared.store.memory import MemoryStore, ParkedLine, _Row

FENCES_PER_HISTORY = 1_000_000

_WRITTEN = frozenset({Adoption.RESTORED, Adoption.BROUGHT_FORWARD})


@dataclass(frozen=True, slots=True)
class Backup:
    """Everything that the store knew at a moment."""

    rows: Sequence[_Row]
    runs: Sequence[Run]
    identity: Identity
    attempts: Sequence[tuple[RecordId | None, AttemptLine]]
    parked_events: Sequence[ParkedLine]
    rebuild: Rebuild | None
    fence_base: int


class LossyMemoryStore(MemoryStore):
    """Adds the ports `Rebuilds` and `Orphanage` to the store in memory, and a way to lose commits.

    Args:
        clock: stands in for the database's clock.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._made_at = clock.now()
        self._timeline = 1
        self._rebuild: Rebuild | None = None
        self._rebuilds = 0

    def back_up(self) -> Backup:
        """Everything known now."""
        with self._lock:
            return Backup(
                [replace(row) for row in self._rows.values()],
                list(self._runs.values()),
                self._identity,
                list(self._attempts),
                list(self.parked_events),
                self._rebuild,
                self._fence_base,
            )

    def restore(self, backup: Backup, *, keep_timeline: bool = False) -> None:
        """Forget everything committed since the backup.

        Args:
            backup: what is known again.
            keep_timeline: so that the loss is not seen, as with a copy of the server's files.
        """
        with self._lock:
            self._rows = {row.record.record_id: replace(row) for row in backup.rows}
            self._runs = {run.billing_period: run for run in backup.runs}
            self._identity = backup.identity
            self._attempts = list(backup.attempts)
            self.parked_events = list(backup.parked_events)
            self._parked_keys = {
                (line.envelope.transport, line.envelope.message_id, line.reason, line.body)
                for line in backup.parked_events
            }
            self._rebuild = backup.rebuild
            self._fence_base = backup.fence_base
            if not keep_timeline:
                self._timeline += 1
                self.suspended = True

    def adopt(self, found: FoundPayment, envelope: Envelope, *, dry_run: bool) -> AdoptResult:
        """See `Adoptions.adopt`."""
        with self._lock:
            row = self._rows.get(found.record_id)
            record = row.record if row else None
            adoption = judge_adoption(record, found)
            if dry_run or adoption is Adoption.KNOWN:
                return AdoptResult(adoption, record)
            if row is None:
                row = self._rows[found.record_id] = self._lost_row(found)
            run_closed = False
            is_noted = adoption is not Adoption.BESIDE or not row.record.create_in_doubt
            if adoption in _WRITTEN:
                run_closed = self._write_adoption(row, found, adoption)
            elif is_noted and adoption is Adoption.BESIDE:
                self._update(row, create_in_doubt=True)
            if is_noted:
                self._note_decision(found.record_id, Note(envelope, adoption), row.record)
            if adoption in _WRITTEN:
                self._hold_again(row)
            return AdoptResult(adoption, row.record, run_closed)

    def begin_rebuild(self, told_since: datetime | None, margin_seconds: float) -> Rebuild | None:
        """See `Rebuilds.begin_rebuild`."""
        with self._lock:
            self.suspended = self.suspended or told_since is not None
            if not self.suspended:
                return None
            begun = self._rebuild
            history = f"memory:{self._timeline}"
            if begun is None or told_since is not None or begun.history != history:
                moments = [
                    self._last_known_commit(),
                    *self._unnamed_attempts(),
                    *([told_since] if told_since else []),
                ]
                since = min(moments) - timedelta(seconds=margin_seconds)
                self._rebuilds += 1
                now = self._clock.now()
                self._rebuild = Rebuild(
                    self._rebuilds,
                    history,
                    now,
                    min(since, begun.since) if begun else since,
                    None,
                    None,
                    now,
                )
            assert self._rebuild is not None
            return replace(self._rebuild, database_time=self._clock.now())

    def note_rebuild_place(self, rebuild: Rebuild, list_path: str, cursor: str | None) -> None:
        """See `Rebuilds.note_rebuild_place`."""
        with self._lock:
            if self._is_present(rebuild) and self._rebuild is not None:
                self._rebuild = replace(self._rebuild, list_path=list_path, cursor=cursor)

    def finish_rebuild(self, rebuild: Rebuild) -> bool:
        """See `Rebuilds.finish_rebuild`."""
        with self._lock:
            if not self._is_present(rebuild) or rebuild.history != f"memory:{self._timeline}":
                return False
            self._rebuild = None
            self.suspended = False
            self._fence_base += FENCES_PER_HISTORY
            return True

    def doubted_creates(self, limit: int, quiet_seconds: float) -> Sequence[DoubtedCreate]:
        """See `Orphanage.doubted_creates`."""
        with self._lock:
            now = self._clock.now()
            untouched_since = now - timedelta(seconds=quiet_seconds)
            found = [
                DoubtedCreate(record_id, min(row.record.attempt_started_at, row.created_at), now)
                for record_id, row in self._rows.items()
                if row.record.create_in_doubt
                and row.record.updated_at <= untouched_since
                and not self.suspended
            ]
            found.sort(key=lambda _: self._clock.random())
            return found[:limit]

    def clear_create_doubt(self, record: Record) -> bool:
        """See `Orphanage.clear_create_doubt`."""
        with self._lock:
            row = self._rows.get(record.record_id)
            if row is None or row.record.updated_at != record.updated_at:
                return False
            row.record = replace(row.record, create_in_doubt=False)
            return True

    def _is_present(self, rebuild: Rebuild) -> bool:
        begun = self._rebuild
        return begun is not None and (begun.id, begun.history) == (rebuild.id, rebuild.history)

    def _last_known_commit(self) -> datetime:
        """Claims are granted by a whole database only; other lines may be younger than the loss."""
        claims = (
            line.noted_at for _, line in reversed(self._attempts) if line.decision == "claimed"
        )
        return next(claims, self._made_at)

    def _unnamed_attempts(self) -> Sequence[datetime]:
        """When the attempts began that may have a payment which the record does not name."""
        return [
            row.record.attempt_started_at
            for row in self._rows.values()
            if row.record.state in (State.IN_PROGRESS, State.IN_DOUBT)
            and row.record.payment_id is None
        ]

    def _lost_row(self, found: FoundPayment) -> _Row:
        now = self._clock.now()
        record = Record(
            customer_id=found.record_id.customer_id,
            billing_period=found.record_id.billing_period,
            key=found.key,
            fingerprint=found.fingerprint,
            attempt=found.attempt,
            state=State.IN_PROGRESS,
            fence=self._fence_base + 1,
            attempt_fence=self._fence_base + 1,
            flow=found.flow,
            create_parameters=dict(found.create_parameters),
            create_number=0,
            payment_method_id=found.payment_method_id,
            payment_id=None,
            verdict=None,
            code=None,
            held_cents=0,
            doubts=1,
            create_in_doubt=False,
            attempt_started_at=found.created_at,
            lease_until=now,
            updated_at=now,
        )
        return _Row(record, None, None, now, now)

    def _write_adoption(self, row: _Row, found: FoundPayment, adoption: Adoption) -> bool:
        """Write a found payment on a row; True when that closed the run."""
        stored_id = row.record.payment_id
        if found.attempt > row.record.attempt:
            self._open_lost_attempt(row, found)
        run_closed = False
        if found.finding is not Finding.UNCONFIRMED:
            self._update(row, fence=self._next_fence(row))
            run_closed = self._end(row, Ending(State(found.finding), found.payment_id))
        elif adoption is Adoption.RESTORED:
            self._update(row, state=State.IN_DOUBT)
            row.due_at = self._clock.now()
        leaves_another = stored_id is not None and stored_id != found.payment_id
        self._update(
            row,
            payment_id=found.payment_id,
            create_in_doubt=row.record.create_in_doubt or leaves_another,
        )
        return run_closed

    def _open_lost_attempt(self, row: _Row, found: FoundPayment) -> None:
        self._begin_attempt(row, holder=None, lease_seconds=0)
        self._update(
            row,
            attempt=found.attempt,
            flow=found.flow,
            create_parameters=dict(found.create_parameters),
            create_number=0,
            payment_method_id=found.payment_method_id,
        )

    def _hold_again(self, row: _Row) -> None:
        """Take a hold back, even past the cap: the lost history had granted it."""
        record = row.record
        run = self._runs.get(record.billing_period)
        if record.state not in UNFINISHED or record.held_cents or run is None:
            return
        amount_cents = record.fingerprint.amount_cents
        if run.currency == record.fingerprint.currency:
            self._runs[run.billing_period] = replace(run, held_cents=run.held_cents + amount_cents)
            row.record = replace(record, held_cents=amount_cents)


def judge_adoption(record: Record | None, found: FoundPayment) -> Adoption:
    """What a found payment means for a record; docs/rebuild.md has it as a table."""
    if record is None:
        return Adoption.RESTORED
    is_same = record.payment_id == found.payment_id
    if record.state is State.CHARGED:
        if is_same:
            return Adoption.KNOWN
        is_second = found.finding is Finding.CHARGED
        return Adoption.SECOND_PAYMENT if is_second else Adoption.BESIDE
    if found.finding is Finding.CHARGED:
        return Adoption.BROUGHT_FORWARD
    is_open = found.finding is Finding.UNCONFIRMED
    if is_open and (record.fingerprint != found.fingerprint or record.state is State.CANCELED):
        return Adoption.BESIDE
    if found.attempt > record.attempt:
        return Adoption.BROUGHT_FORWARD
    if record.state not in UNFINISHED:
        return Adoption.BESIDE if is_open else Adoption.BROUGHT_FORWARD
    if is_same:
        is_known = is_open or record.state is State.PROCESSING
        return Adoption.KNOWN if is_known else Adoption.BROUGHT_FORWARD
    is_unnamed = record.payment_id is None and found.attempt == record.attempt
    return Adoption.BROUGHT_FORWARD if is_unnamed else Adoption.BESIDE
