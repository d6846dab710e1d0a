"""The records in memory: for tests of your own, and for the simulator.

It passes the same contract tests as the PostgreSQL store.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.errors import RunError
from shared.event import UsageEvent
from shared.outcome import Outcome
from shared.ports import (
    AttemptLine,
    ClaimRequest,
    ClaimResult,
    ClaimVerdict,
    Clock,
    Delivery,
    DueRecord,
    Ending,
    Envelope,
    FinishResult,
    Identity,
    KeptMessage,
    Note,
    ParkedEvent,
    PeriodStatus,
    Release,
    Run,
)
from shared.record import UNFINISHED, Lease, Record, RecordId, State, Verdict
from shared.runs import CLOSED_OVER_CAP, cap_would_fall, closed_over_cap
from shared.store.text import storable, storable_envelope, storable_or_none

FIRST_PAUSE = timedelta(minutes=1)

_DEAD_LETTERED = {
    ClaimVerdict.CONFLICT: Outcome.CONFLICT,
    ClaimVerdict.RUN_CLOSED: Outcome.RUN_CLOSED,
    ClaimVerdict.WRONG_CURRENCY: Outcome.WRONG_CURRENCY,
    ClaimVerdict.CAP_REACHED: Outcome.CAP_REACHED,
}


@dataclass(frozen=True, slots=True)
class ParkedLine:
    """One parked event as the store keeps it; without a record when it is no usage event."""

    record_id: RecordId | None
    reason: str
    description: str
    body: bytes
    envelope: Envelope


@dataclass(slots=True)
class _Row:
    """A record, whose token has it (None once given up), since when, and when reconcile looks.

    `looks` counts how often reconcile took it up in the attempt that began with `looks_fence`.
    """

    record: Record
    holder: str | None
    due_at: datetime | None
    claimed_at: datetime
    created_at: datetime
    looks: int = 0
    looks_fence: int = 0


@dataclass(slots=True)
class KeptLine:
    """One kept message as the store keeps it."""

    number: int
    event: UsageEvent
    body: bytes
    envelope: Envelope
    kept_at: datetime
    due_at: datetime
    looks: int = 0


class MemoryStore:
    """Implements the ports `Records`, `Runs`, `Reports` and `Timers` over dictionaries.

    Args:
        clock: stands in for the database's clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._rows: dict[RecordId, _Row] = {}
        self._runs: dict[str, Run] = {}
        self._near_cap_told_cents: dict[str, int] = {}
        self._identity = Identity(None, None)
        self._attempts: list[tuple[RecordId | None, AttemptLine]] = []
        self._parked_keys: set[tuple[str, str, str, bytes]] = set()
        self._kept_count = 0
        self.parked_events: list[ParkedLine] = []
        self._timers: dict[str, datetime] = {}
        self.kept_messages: list[KeptLine] = []
        self.suspended = False
        self._fence_base = 0

    def identify(self, account_id: str | None, livemode: bool | None) -> Identity:
        """See `Records.identify`."""
        with self._lock:
            known = self._identity
            self._identity = Identity(
                account_id if known.account_id is None else known.account_id,
                livemode if known.livemode is None else known.livemode,
            )
            return self._identity

    def claim(self, request: ClaimRequest) -> ClaimResult:
        """See `Records.claim`."""
        with self._lock:
            record_id = RecordId(request.event.customer_id, request.event.billing_period)
            row = self._rows.get(record_id)
            if row is not None and self._is_claimed_before(row, request.token):
                return ClaimResult(ClaimVerdict.CLAIMED, row.record, self._clock.now())
            verdict = self._decide_claim(request)
            record = self.get_record(record_id)
            self._note_claim(request, record_id, verdict, record)
            return ClaimResult(verdict, record, self._clock.now())

    def resume(
        self, record_id: RecordId, envelope: Envelope, lease_seconds: float, token: str
    ) -> ClaimResult:
        """See `Records.resume`."""
        with self._lock:
            row = self._rows.get(record_id)
            if row is not None and self._is_claimed_before(row, token):
                return ClaimResult(ClaimVerdict.CLAIMED, row.record, self._clock.now())
            if self.suspended:
                verdict = ClaimVerdict.SUSPENDED
            elif row is None or row.record.state not in UNFINISHED:
                verdict = ClaimVerdict.SETTLED
            else:
                verdict = self._take_over(row, lease_seconds, token)
            record = row.record if row else None
            if verdict is ClaimVerdict.CLAIMED:
                self._note_decision(record_id, Note(envelope, str(verdict)), record)
            return ClaimResult(verdict, record, self._clock.now())

    def store_payment(self, lease: Lease, payment_id: str) -> str | None:
        """See `Records.store_payment`."""
        with self._lock:
            row = self._held(lease)
            if row is None:
                return None
            if row.record.payment_id is None:
                self._update(row, payment_id=payment_id)
            return row.record.payment_id

    def store_verdict(self, lease: Lease, verdict: Verdict) -> bool:
        """See `Records.store_verdict`."""
        with self._lock:
            row = self._held(lease)
            if row is None:
                return False
            kept = Verdict(verdict.state, storable(verdict.code), storable(verdict.message))
            self._update(row, verdict=kept)
            return True

    def finish(
        self, record: Record, ending: Ending, note: Note, parked: ParkedEvent | None
    ) -> FinishResult:
        """See `Records.finish`."""
        with self._lock:
            row = self._rows.get(record.record_id)
            if row is not None and self._is_finished_before(row, record.lease, ending):
                self._park(record.record_id, parked, note.envelope)
                return FinishResult(row.record, written=True)
            result = self._write_ending(row, record, ending)
            self._note(record.record_id, note, record.fence)
            found = result.record
            # Where the lease is gone, the message is dead-lettered only if it was rejected.
            if result.written or (found is not None and found.state is State.REJECTED):
                self._park(record.record_id, parked, note.envelope)
            return result

    def release(
        self, lease: Lease, release: Release, note: Note, parked: ParkedEvent | None
    ) -> None:
        """See `Records.release`."""
        with self._lock:
            row = self._rows.get(lease.record_id)
            if row is not None and row.record.fence == lease.fence and row.holder is None:
                return
            self._note(lease.record_id, note, lease.fence)
            self._park(lease.record_id, parked, note.envelope)
            row = self._held(lease)
            if row is None:
                return
            record = row.record
            doubt = release.doubt and record.state is State.IN_PROGRESS
            self._update(
                row,
                state=State.IN_DOUBT if doubt else record.state,
                doubts=record.doubts + (1 if release.doubt else 0),
                create_in_doubt=record.create_in_doubt or release.create_in_doubt,
                code=storable_or_none(release.code),
                lease_until=self._clock.now(),
            )
            row.holder = None
            if release.due_in_seconds is None:
                row.due_at = None
            # What only an operator may drive on stays at rest.
            elif row.due_at is not None:
                pause = timedelta(seconds=release.due_in_seconds)
                row.due_at = _later(row.due_at, self._clock.now() + pause)

    def park(self, parked: ParkedEvent, note: Note) -> None:
        """See `Records.park`."""
        with self._lock:
            self._note(None, note, None)
            self._park(None, parked, note.envelope)

    def keep(self, event: UsageEvent, body: bytes, note: Note) -> None:
        """See `Records.keep`."""
        with self._lock:
            envelope = storable_envelope(note.envelope)
            name = (envelope.transport, envelope.message_id, body)
            if name in {
                (line.envelope.transport, line.envelope.message_id, line.body)
                for line in self.kept_messages
            }:
                return
            self._kept_count += 1
            now = self._clock.now()
            line = KeptLine(self._kept_count, event, body, envelope, now, now + FIRST_PAUSE)
            self.kept_messages.append(line)
            self._add_line(RecordId(event.customer_id, event.billing_period), note, None, None)

    def take_due(self, lease_seconds: float) -> DueRecord | None:
        """See `Records.take_due`."""
        with self._lock:
            due = self._due_rows()
            if self.suspended or not due:
                return None
            row = self._rows[due[0][1]]
            if row.looks_fence != row.record.attempt_fence:
                row.looks, row.looks_fence = 0, row.record.attempt_fence
            row.looks += 1
            now = self._clock.now()
            row.due_at = now + _reconcile_pause(row.looks, lease_seconds)
            age = now - row.record.attempt_started_at
            return DueRecord(row.record, age.total_seconds())

    def take_kept(self, lease_seconds: float) -> KeptMessage | None:
        """See `Records.take_kept`."""
        with self._lock:
            now = self._clock.now()
            due = [line for line in self.kept_messages if line.due_at <= now]
            if self.suspended or not due:
                return None
            line = min(due, key=lambda line: (line.due_at, line.number))
            line.looks += 1
            line.due_at = now + _reconcile_pause(line.looks, lease_seconds)
            return KeptMessage(
                number=line.number,
                event_id=RecordId(line.event.customer_id, line.event.billing_period),
                attempt=line.event.attempt,
                delivery=Delivery(line.body, replace(line.envelope, delivery_count=None)),
                age_seconds=(now - line.kept_at).total_seconds(),
            )

    def drop_kept(self, number: int) -> None:
        """See `Records.drop_kept`."""
        with self._lock:
            self.kept_messages = [line for line in self.kept_messages if line.number != number]

    def open_run(
        self, billing_period: str, currency: str, expected_cents: int, cap_cents: int
    ) -> tuple[Run, bool]:
        """See `Runs.open_run`."""
        with self._lock:
            if billing_period in self._runs:
                return self._runs[billing_period], False
            held_cents = charged_cents = 0
            for row in self._rows.values():
                record = row.record
                if (record.billing_period, record.fingerprint.currency) != (
                    billing_period,
                    currency,
                ):
                    continue
                if record.state in UNFINISHED:
                    self._update(row, held_cents=record.fingerprint.amount_cents)
                    held_cents += record.fingerprint.amount_cents
                elif record.state is State.CHARGED:
                    charged_cents += record.fingerprint.amount_cents
            run = Run(
                billing_period,
                currency,
                expected_cents,
                cap_cents,
                held_cents,
                charged_cents,
                True,
                None,
                self._clock.now(),
            )
            self._runs[billing_period] = run
            self._hasten_kept(run)
            return run, True

    def get_run(self, billing_period: str) -> Run | None:
        """See `Runs.get_run`."""
        with self._lock:
            return self._runs.get(billing_period)

    def close_run(self, billing_period: str, reason: str) -> Run:
        """See `Runs.close_run`."""
        with self._lock:
            run = self._existing_run(billing_period)
            if run.is_open:
                run = replace(run, is_open=False, closed_reason=storable(reason))
                self._runs[billing_period] = run
            return run

    def reopen_run(self, billing_period: str) -> Run:
        """See `Runs.reopen_run`."""
        with self._lock:
            run = self._existing_run(billing_period)
            if run.closed_reason == CLOSED_OVER_CAP:
                raise closed_over_cap(run)
            if run.is_open:
                return run
            run = replace(run, is_open=True, closed_reason=None)
            self._runs[billing_period] = run
            self._hasten_kept(run)
            return run

    def raise_cap(self, billing_period: str, cap_cents: int) -> Run:
        """See `Runs.raise_cap`."""
        with self._lock:
            run = self._existing_run(billing_period)
            if cap_cents == run.cap_cents:
                return run
            if cap_cents < run.cap_cents:
                raise cap_would_fall(run, cap_cents)
            reopens = run.closed_reason == CLOSED_OVER_CAP
            run = replace(
                run,
                cap_cents=cap_cents,
                is_open=run.is_open or reopens,
                closed_reason=None if reopens else run.closed_reason,
            )
            self._runs[billing_period] = run
            self._hasten_kept(run)
            return run

    def take_runs_near_cap(self, percent: int) -> Sequence[Run]:
        """See `RunsNearCap.take_runs_near_cap`."""
        with self._lock:
            near = [
                run
                for run in self._runs.values()
                if run.is_open
                and (run.held_cents + run.charged_cents) * 100 >= run.cap_cents * percent
                and self._near_cap_told_cents.get(run.billing_period) != run.cap_cents
            ]
            self._near_cap_told_cents.update((run.billing_period, run.cap_cents) for run in near)
            return near

    def status(self, billing_period: str) -> PeriodStatus:
        """See `Reports.status`."""
        with self._lock:
            records = [
                row.record
                for row in self._rows.values()
                if row.record.billing_period == billing_period
            ]
            cents: Counter[State] = Counter()
            for record in records:
                cents[record.state] += record.fingerprint.amount_cents
            unfinished = [record for record in records if record.state in UNFINISHED]
            return PeriodStatus(
                billing_period=billing_period,
                run=self._runs.get(billing_period),
                count_by_state=Counter(record.state for record in records),
                cents_by_state=cents,
                parked_event_count=sum(
                    line.record_id is not None and line.record_id.billing_period == billing_period
                    for line in self.parked_events
                ),
                kept_message_count=sum(
                    line.event.billing_period == billing_period for line in self.kept_messages
                ),
                oldest_unfinished=min(
                    unfinished,
                    key=lambda record: (record.attempt_started_at, record.customer_id),
                    default=None,
                ),
                database_time=self._clock.now(),
            )

    def get_record(self, record_id: RecordId) -> Record | None:
        """See `Reports.get_record`."""
        with self._lock:
            row = self._rows.get(record_id)
            return row.record if row else None

    def attempts(self, record_id: RecordId, limit: int) -> Sequence[AttemptLine]:
        """See `Reports.attempts`."""
        with self._lock:
            return [line for owner, line in self._attempts if owner == record_id][-limit:]

    def due(self, limit: int) -> Sequence[RecordId]:
        """See `Reports.due`."""
        with self._lock:
            now = self._clock.now()
            kept = [
                (line.due_at, RecordId(line.event.customer_id, line.event.billing_period))
                for line in self.kept_messages
                if line.due_at <= now
            ]
            return [record_id for _, record_id in sorted([*self._due_rows(), *kept], key=_age)][
                :limit
            ]

    def take_timer_lease(self, name: str, lease_seconds: float) -> bool:
        """See `Timers.take_timer_lease`."""
        with self._lock:
            now = self._clock.now()
            if name in self._timers and self._timers[name] > now:
                return False
            self._timers[name] = now + timedelta(seconds=lease_seconds)
            return True

    def records(self) -> Sequence[Record]:
        """All records, for a test to look at."""
        with self._lock:
            return [row.record for row in self._rows.values()]

    def _due_rows(self) -> list[tuple[datetime, RecordId]]:
        """Unfinished records that nobody holds and whose time has come, oldest first."""
        now = self._clock.now()
        due = [
            (row.due_at, record_id)
            for record_id, row in self._rows.items()
            if row.record.state in UNFINISHED
            and row.record.lease_until <= now
            and row.due_at is not None
            and row.due_at <= now
        ]
        return sorted(due, key=_age)

    def _hasten_kept(self, run: Run) -> None:
        """What waits for a run, or for room in it, need not wait any longer."""
        for line in self.kept_messages:
            if run.is_open and line.event.billing_period == run.billing_period:
                line.due_at, line.looks = self._clock.now(), 0

    def _is_claimed_before(self, row: _Row, token: str) -> bool:
        """Whether this very claim was made before and only its answer was lost."""
        return not self.suspended and row.record.state in UNFINISHED and row.holder == token

    def _decide_claim(self, request: ClaimRequest) -> ClaimVerdict:
        event = request.event
        record_id = RecordId(event.customer_id, event.billing_period)
        row = self._rows.get(record_id)
        if self.suspended:
            return ClaimVerdict.SUSPENDED
        if row is None:
            return self._insert(request, record_id)
        record = row.record
        if record.fingerprint != event.fingerprint:
            return ClaimVerdict.CONFLICT
        if record.state in (State.DECLINED, State.REJECTED) and event.attempt > record.attempt:
            return self._start_attempt(row, request)
        if record.state is State.PARKED:
            return self._start_again(row, request)
        if record.state not in (State.IN_PROGRESS, State.IN_DOUBT):
            return ClaimVerdict.SETTLED
        # Where reconcile is not to look, only an operator may go on.
        if row.due_at is None and record.lease_until <= self._clock.now():
            return ClaimVerdict.CONFLICT
        return self._take_over(row, request.lease_seconds, request.token)

    def _insert(self, request: ClaimRequest, record_id: RecordId) -> ClaimVerdict:
        refusal, held_cents = self._hold(request)
        if refusal is not None:
            return refusal
        now = self._clock.now()
        event = request.event
        record = Record(
            customer_id=record_id.customer_id,
            billing_period=record_id.billing_period,
            key=request.key,
            fingerprint=event.fingerprint,
            attempt=event.attempt,
            state=State.IN_PROGRESS,
            fence=self._fence_base + 1,
            attempt_fence=self._fence_base + 1,
            flow=request.flow,
            create_parameters=dict(request.create_parameters),
            create_number=0,
            payment_method_id=event.payment_method_id,
            payment_id=None,
            verdict=None,
            code=None,
            held_cents=held_cents,
            doubts=0,
            create_in_doubt=False,
            attempt_started_at=now,
            lease_until=now + timedelta(seconds=request.lease_seconds),
            updated_at=now,
        )
        self._rows[record_id] = _Row(record, request.token, now, now, now)
        return ClaimVerdict.CLAIMED

    def _start_attempt(self, row: _Row, request: ClaimRequest) -> ClaimVerdict:
        refusal, held_cents = self._hold(request)
        if refusal is not None:
            return refusal
        self._open_attempt(row, request, held_cents)
        self._update(
            row,
            attempt=request.event.attempt,
            flow=request.flow,
            create_parameters=dict(request.create_parameters),
            create_number=0,
            payment_method_id=request.event.payment_method_id,
        )
        return ClaimVerdict.CLAIMED

    def _start_again(self, row: _Row, request: ClaimRequest) -> ClaimVerdict:
        refusal, held_cents = self._hold(request)
        if refusal is not None:
            return refusal
        self._open_attempt(row, request, held_cents)
        # The parked PaymentIntent is canceled, and its key would bring it back.
        self._update(row, create_number=row.record.create_number + 1)
        return ClaimVerdict.CLAIMED

    def _open_attempt(self, row: _Row, request: ClaimRequest, held_cents: int) -> None:
        self._begin_attempt(row, request.token, request.lease_seconds)
        self._update(row, held_cents=held_cents)

    def _begin_attempt(self, row: _Row, holder: str | None, lease_seconds: float) -> None:
        now = self._clock.now()
        fence = self._next_fence(row)
        row.holder = holder
        row.due_at = row.claimed_at = now
        self._update(
            row,
            state=State.IN_PROGRESS,
            fence=fence,
            attempt_fence=fence,
            payment_id=None,
            verdict=None,
            code=None,
            doubts=0,
            attempt_started_at=now,
            previous_claim_at=None,
            lease_until=now + timedelta(seconds=lease_seconds),
        )

    def _take_over(self, row: _Row, lease_seconds: float, token: str) -> ClaimVerdict:
        now = self._clock.now()
        if row.record.lease_until > now:
            return ClaimVerdict.BUSY
        row.holder = token
        self._update(
            row,
            fence=self._next_fence(row),
            previous_claim_at=row.claimed_at,
            lease_until=now + timedelta(seconds=lease_seconds),
        )
        row.claimed_at = now
        return ClaimVerdict.CLAIMED

    def _next_fence(self, row: _Row) -> int:
        """A number above all that were given before, those that are lost included."""
        return max(row.record.fence, self._fence_base) + 1

    def _hold(self, request: ClaimRequest) -> tuple[ClaimVerdict | None, int]:
        event = request.event
        run = self._runs.get(event.billing_period)
        if run is None:
            return (ClaimVerdict.RUN_MISSING, 0) if request.require_run else (None, 0)
        if run.currency != event.currency:
            return ClaimVerdict.WRONG_CURRENCY, 0
        if not run.is_open:
            return ClaimVerdict.RUN_CLOSED, 0
        if run.held_cents + run.charged_cents + event.amount_cents > run.cap_cents:
            return ClaimVerdict.CAP_REACHED, 0
        held_cents = run.held_cents + event.amount_cents
        self._runs[event.billing_period] = replace(run, held_cents=held_cents)
        return None, event.amount_cents

    def _is_finished_before(self, row: _Row, lease: Lease, ending: Ending) -> bool:
        """Whether this very ending was written before and only the answer was lost."""
        record = row.record
        return (
            record.fence == lease.fence
            and row.holder is None
            and record.state is ending.state
            and (ending.state is not State.CHARGED or record.payment_id == ending.payment_id)
        )

    def _write_ending(self, row: _Row | None, record: Record, ending: Ending) -> FinishResult:
        if ending.state is State.CHARGED:
            return self._finish_charged(row, record, ending)
        if row is None or self._held(record.lease) is None:
            return FinishResult(row.record if row else None, written=False)
        self._end(row, ending)
        return FinishResult(row.record, written=True)

    def _finish_charged(self, row: _Row | None, record: Record, ending: Ending) -> FinishResult:
        if row is None:
            now = self._clock.now()
            lost = replace(record, held_cents=0, previous_claim_at=None)
            row = self._rows[record.record_id] = _Row(lost, None, None, now, now)
        elif row.record.state is State.CHARGED:
            second = row.record.payment_id != ending.payment_id
            return FinishResult(row.record, written=False, second_payment=second)
        if row.record.fence != record.fence:
            # A stale holder's proof outdates its successor, whose ending would pass for this one.
            self._update(row, fence=self._next_fence(row))
        run_closed = self._end(row, ending)
        return FinishResult(row.record, written=True, run_closed=run_closed)

    def _end(self, row: _Row, ending: Ending) -> bool:
        """Write an ending and move the money in the run; True when that closed the run."""
        record = row.record
        keeps_hold = ending.state is State.PROCESSING
        released_cents = 0 if keeps_hold else record.held_cents
        charged_cents = record.fingerprint.amount_cents if ending.state is State.CHARGED else 0
        now = self._clock.now()
        self._update(
            row,
            state=ending.state,
            payment_id=ending.payment_id or record.payment_id,
            code=storable_or_none(ending.code),
            verdict=None if ending.state is State.CHARGED else record.verdict,
            held_cents=record.held_cents - released_cents,
            lease_until=now,
        )
        row.holder = None
        row.due_at = _later(row.due_at, now + timedelta(hours=1)) if keeps_hold else None
        run = self._runs.get(record.billing_period)
        if run is None or run.currency != record.fingerprint.currency:
            return False
        run = replace(
            run,
            held_cents=run.held_cents - released_cents,
            charged_cents=run.charged_cents + charged_cents,
        )
        closes = (
            run.is_open and charged_cents > 0 and run.held_cents + run.charged_cents > run.cap_cents
        )
        if closes:
            run = replace(run, is_open=False, closed_reason=CLOSED_OVER_CAP)
        self._runs[record.billing_period] = run
        return closes

    def _held(self, lease: Lease) -> _Row | None:
        row = self._rows.get(lease.record_id)
        if row is None or row.holder is None or row.record.fence != lease.fence:
            return None
        return row

    def _update(self, row: _Row, **changes: object) -> None:
        changed = replace(row.record, **changes)  # type: ignore[arg-type]
        row.record = replace(changed, updated_at=self._clock.now())

    def _existing_run(self, billing_period: str) -> Run:
        run = self._runs.get(billing_period)
        if run is None:
            raise RunError(f"there is no run for period {billing_period}")
        return run

    def _note_claim(
        self,
        request: ClaimRequest,
        record_id: RecordId,
        verdict: ClaimVerdict,
        record: Record | None,
    ) -> None:
        outcome = _DEAD_LETTERED.get(verdict)
        decision = str(verdict)
        if verdict is ClaimVerdict.SETTLED and record is not None:
            decision = f"already_{record.state}"
            if record.state is State.REJECTED:
                outcome = Outcome.REJECTED
        self._note_decision(record_id, Note(request.envelope, decision), record)
        if outcome is not None:
            parked = ParkedEvent(outcome.reason, decision, request.body)
            self._park(record_id, parked, request.envelope)

    def _note_decision(self, record_id: RecordId, note: Note, record: Record | None) -> None:
        self._note(record_id, note, record.fence if record else None)

    def _note(self, record_id: RecordId | None, note: Note, fence: int | None) -> None:
        row = self._rows.get(record_id) if record_id else None
        self._add_line(record_id, note, row.record.attempt if row else None, fence)

    def _add_line(
        self, record_id: RecordId | None, note: Note, attempt: int | None, fence: int | None
    ) -> None:
        envelope = storable_envelope(note.envelope)
        line = AttemptLine(
            noted_at=self._clock.now(),
            attempt=attempt,
            fence=fence,
            transport=envelope.transport,
            message_id=envelope.message_id,
            delivery_count=envelope.delivery_count,
            decision=note.decision,
            code=storable_or_none(note.code),
            request_id=storable_or_none(note.request_id),
        )
        self._attempts.append((record_id, line))

    def _park(
        self, record_id: RecordId | None, parked: ParkedEvent | None, envelope: Envelope
    ) -> None:
        """Keep a message once: one whose dead-lettering failed comes again."""
        if parked is None:
            return
        kept = storable_envelope(envelope)
        key = (kept.transport, kept.message_id, parked.reason, parked.body)
        if key in self._parked_keys:
            return
        self._parked_keys.add(key)
        description = storable(parked.description)
        self.parked_events.append(
            ParkedLine(record_id, parked.reason, description, parked.body, kept)
        )


def _reconcile_pause(looks: int, lease_seconds: float) -> timedelta:
    """How long what reconcile takes up is to rest, by how often it was taken up."""
    lease = timedelta(seconds=lease_seconds)
    if looks <= 6:
        return max(lease, timedelta(minutes=5))
    return max(lease, timedelta(hours=1) if looks <= 30 else timedelta(hours=24))


def _later(before: datetime | None, moment: datetime) -> datetime:
    """What reconcile lets rest for longer stays at rest."""
    return moment if before is None else max(before, moment)


def _age(due: tuple[datetime, RecordId]) -> tuple[datetime, str, str]:
    due_at, record_id = due
    return due_at, record_id.customer_id, record_id.billing_period
