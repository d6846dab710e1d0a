"""Records in memory on which an operator can act."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared.operations import CloseResult, Examined, RecordedPayment, Recording
from shared.ports import Adoption, Clock, Ending, Envelope, FoundPayment, Note
from shared.record import UNFINISHED, Flow, Record, RecordId, State
from shared.store.memory_rebuild import LossyMemoryStore, judge_adoption

_CLOSABLE = frozenset({State.DECLINED, State.REJECTED, State.PARKED})
_ABOUT_ANOTHER = frozenset({Adoption.BROUGHT_FORWARD, Adoption.BESIDE})
_WRITTEN = frozenset({Recording.RESTORED, Recording.BROUGHT_FORWARD})


class OperatedMemoryStore(LossyMemoryStore):
    """Adds the port `Operations` to the store in memory.

    Args:
        clock: stands in for the database's clock.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._paid_by: dict[str, RecordId] = {}

    def examine(self, record_id: RecordId) -> Examined | None:
        """See `Operations.examine`."""
        with self._lock:
            record = self.get_record(record_id)
            return Examined(record, self._clock.now()) if record else None

    def close_record(self, record_id: RecordId, note: Note) -> CloseResult:
        """See `Operations.close_record`."""
        with self._lock:
            row = self._rows.get(record_id)
            if row is None:
                return CloseResult(closed=False, record=None)
            if row.record.state in _CLOSABLE:
                self._update(row, fence=self._next_fence(row))
                self._end(row, Ending(State.CANCELED, code=note.code))
                self._note_decision(record_id, replace(note, decision="canceled"), row.record)
            return CloseResult(row.record.state is State.CANCELED, row.record)

    def record_payment(
        self,
        found: FoundPayment,
        names: Sequence[str],
        envelope: Envelope,
        *,
        only_new: bool,
        dry_run: bool,
    ) -> RecordedPayment:
        """See `Operations.record_payment`."""
        with self._lock:
            record = self.get_record(found.record_id)
            recording = self._judge_recording(record, found, names, only_new=only_new)
            if dry_run or recording not in _WRITTEN:
                return RecordedPayment(recording, record)
            for name in names:
                self._paid_by[name] = found.record_id
            adopted = self.adopt(found, envelope, dry_run=False)
            return RecordedPayment(recording, adopted.record, adopted.run_closed)

    def failed_records(
        self,
        billing_period: str,
        states: Sequence[State],
        codes: Sequence[str] | None,
        after_customer_id: str,
        limit: int,
    ) -> Sequence[Record]:
        """See `Operations.failed_records`."""
        found = [
            record
            for record in self.records()
            if record.billing_period == billing_period
            and record.customer_id > after_customer_id
            and record.state in states
            and (codes is None or record.code in codes)
        ]
        return sorted(found, key=lambda record: record.customer_id)[:limit]

    def _judge_recording(
        self,
        record: Record | None,
        found: FoundPayment,
        names: Sequence[str],
        *,
        only_new: bool,
    ) -> Recording:
        if any(self._paid_by.get(name, found.record_id) != found.record_id for name in names):
            return Recording.PAYS_ELSEWHERE
        if record is not None and record.fingerprint != found.fingerprint:
            return Recording.DIFFERS
        adoption = judge_adoption(record, found)
        is_about_another = adoption in _ABOUT_ANOTHER and not found.is_own
        if record is not None and is_about_another and _may_pay_itself(record, names):
            return Recording.RECORD_UNFINISHED
        if only_new and adoption is Adoption.BROUGHT_FORWARD:
            return Recording.RECORD_EXISTS
        return Recording(adoption)


def _may_pay_itself(record: Record, names: Sequence[str]) -> bool:
    """Whether another payment than the named one may yet succeed for the record."""
    if record.state not in UNFINISHED or record.payment_id in names:
        return False
    # A PaymentIntent that is not stored yet is never confirmed.
    return record.flow is Flow.CHARGE or record.payment_id is not None
