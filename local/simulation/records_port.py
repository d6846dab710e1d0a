"""The records port of one process: the in-memory store behind a database connection that fails."""

from collections.abc import Callable
from typing import TypeVar

from local.simulation.hazards import DATABASE_HAZARDS, Hazard
from local.simulation.judge import Judge
from local.simulation.plan import PERIOD
from local.simulation.stage import ANOTHER_ATTEMPT, Process
from shared.errors import RecordsUnavailable
from shared.event import UsageEvent
from shared.ports import (
    ClaimRequest,
    ClaimResult,
    ClaimVerdict,
    DueRecord,
    Ending,
    Envelope,
    FinishResult,
    Identity,
    KeptMessage,
    Note,
    ParkedEvent,
    Release,
)
from shared.record import UNFINISHED, Lease, Record, RecordId, Verdict
from shared.store.memory import MemoryStore

Result = TypeVar("Result")

RETRY_PAUSE_SECONDS = 0.2


class SimulatedRecords:
    """Implements `Records`; every call is a crossing before its effect and one after it.

    Args:
        process: whose connection it is.
        store: the database.
        judge: looks at the database after every effect.
    """

    def __init__(self, process: Process, store: MemoryStore, judge: Judge) -> None:
        self._process = process
        self._store = store
        self._judge = judge

    def identify(self, account_id: str | None, livemode: bool | None) -> Identity:
        """See `Records.identify`."""
        return self._call("identify", "", lambda: self._store.identify(account_id, livemode))

    def claim(self, request: ClaimRequest) -> ClaimResult:
        """See `Records.claim`."""
        event = request.event
        shown = f"{event.customer_id} attempt {event.attempt}"
        return self._count_claim(self._call("claim", shown, lambda: self._store.claim(request)))

    def resume(
        self, record_id: RecordId, envelope: Envelope, lease_seconds: float, token: str
    ) -> ClaimResult:
        """See `Records.resume`."""
        return self._count_claim(
            self._call(
                "resume",
                record_id.customer_id,
                lambda: self._store.resume(record_id, envelope, lease_seconds, token),
            )
        )

    def store_payment(self, lease: Lease, payment_id: str) -> str | None:
        """See `Records.store_payment`."""
        return self._call(
            "store_payment",
            f"{_show_lease(lease)} {payment_id[-6:]}",
            lambda: self._store.store_payment(lease, payment_id),
        )

    def store_verdict(self, lease: Lease, verdict: Verdict) -> bool:
        """See `Records.store_verdict`."""
        return self._call(
            "store_verdict",
            f"{_show_lease(lease)} {verdict.state} {verdict.code}",
            lambda: self._store.store_verdict(lease, verdict),
        )

    def finish(
        self, record: Record, ending: Ending, note: Note, parked: ParkedEvent | None
    ) -> FinishResult:
        """See `Records.finish`."""
        result = self._call(
            "finish",
            f"{_show_lease(record.lease)} {ending.state} {ending.code or ''}",
            lambda: self._store.finish(record, ending, note, parked),
        )
        self._process.stage.cover(f"ending {ending.state}")
        if not result.written:
            self._cover_stale(record, result.record)
        return result

    def release(
        self, lease: Lease, release: Release, note: Note, parked: ParkedEvent | None
    ) -> None:
        """See `Records.release`."""
        self._call(
            "release",
            f"{_show_lease(lease)} {'doubt' if release.doubt else 'transient'} {release.code}",
            lambda: self._store.release(lease, release, note, parked),
        )

    def park(self, parked: ParkedEvent, note: Note) -> None:
        """See `Records.park`."""
        self._call("park", parked.reason, lambda: self._store.park(parked, note))

    def keep(self, event: UsageEvent, body: bytes, note: Note) -> None:
        """See `Records.keep`."""
        shown = f"{event.customer_id} attempt {event.attempt} {note.envelope.message_id}"
        self._call("keep", shown, lambda: self._store.keep(event, body, note))
        self._process.stage.cover("kept")

    def take_due(self, lease_seconds: float) -> DueRecord | None:
        """See `Records.take_due`."""
        return self._call("take_due", "", lambda: self._store.take_due(lease_seconds))

    def take_kept(self, lease_seconds: float) -> KeptMessage | None:
        """See `Records.take_kept`."""
        return self._call("take_kept", "", lambda: self._store.take_kept(lease_seconds))

    def drop_kept(self, number: int) -> None:
        """See `Records.drop_kept`."""
        self._call("drop_kept", str(number), lambda: self._store.drop_kept(number))

    def _call(self, name: str, shown: str, effect: Callable[[], Result]) -> Result:
        process, stage = self._process, self._process.stage
        what = f"records.{name}"
        process.cross(f"{what}.before")
        hazard = stage.chance.strike(DATABASE_HAZARDS)
        if stage.is_database_away:
            hazard = Hazard.DATABASE_LOST_BEFORE_COMMIT
        if hazard is not None:
            stage.cover(f"hazard {hazard}")
        if hazard is Hazard.DATABASE_LOST_BEFORE_COMMIT:
            process.tell(what, f"{shown} -> unavailable")
            raise RecordsUnavailable("simulated")
        result = self._commit(what, shown, effect)
        process.cross(f"{what}.after")
        if hazard is Hazard.DATABASE_LOST_AFTER_COMMIT:
            process.tell(what, f"{shown} -> committed, answer lost")
            raise RecordsUnavailable("simulated")
        if hazard is Hazard.STATEMENT_SENT_TWICE:
            stage.scheduler.pause(RETRY_PAUSE_SECONDS)
            result = self._commit(what, f"{shown} (again)", effect)
        return result

    def _commit(self, what: str, shown: str, effect: Callable[[], Result]) -> Result:
        result = effect()
        self._process.tell(what, f"{shown} -> {_show_result(result)}")
        self._judge.look()
        return result

    def _cover_stale(self, record: Record, found: Record | None) -> None:
        stage = self._process.stage
        stage.cover("stale finish")
        if found is None or found.state not in UNFINISHED:
            return
        stage.cover("stale finish of an unfinished record")
        if found.attempt_fence != record.attempt_fence:
            stage.cover("stale finish of an earlier attempt")

    def _count_claim(self, claim: ClaimResult) -> ClaimResult:
        stage = self._process.stage
        stage.cover(f"claim {claim.verdict}")
        run = self._store.get_run(PERIOD)
        if claim.verdict is ClaimVerdict.CAP_REACHED and run is not None and run.held_cents > 0:
            stage.cover("cap refusal beside unfinished holds")
        if claim.verdict is not ClaimVerdict.CLAIMED or claim.record is None:
            return claim
        if claim.record.is_takeover:
            stage.cover("takeover")
        elif claim.record.fence > 1:
            stage.cover(ANOTHER_ATTEMPT)
            stage.pass_place(self._process, ANOTHER_ATTEMPT)
        return claim


def _show_lease(lease: Lease) -> str:
    return f"{lease.record_id.customer_id} fence {lease.fence}"


def _show_result(result: object) -> str:
    if isinstance(result, ClaimResult):
        return f"{result.verdict} {_show_record(result.record)}"
    if isinstance(result, FinishResult):
        return f"{'written' if result.written else 'refused'} {_show_record(result.record)}"
    if isinstance(result, Identity):
        return "identity"
    if isinstance(result, str):
        return result[-6:]
    if isinstance(result, DueRecord):
        return f"{result.record.customer_id} {_show_record(result.record)}"
    if isinstance(result, KeptMessage):
        return f"{result.number} {result.event_id.customer_id} attempt {result.attempt}"
    return str(result)


def _show_record(record: Record | None) -> str:
    if record is None:
        return "no record"
    payment = f" {record.payment_id[-6:]}" if record.payment_id else ""
    return f"({record.state} attempt {record.attempt} fence {record.fence}{payment})"
