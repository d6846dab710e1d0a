"""What an operator does to records, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from shared.housekeeping import Obstacle
from shared.operations import CloseResult, Examined, RecordedPayment, Recording
from shared.ports import Envelope, FoundPayment, Note
from shared.record import Record, RecordId, State
from shared.store import queries, rows
from shared.store.caller import Caller


class PostgresOperations:
    """Implements the ports `Operations` and `PersonalData`. Safe for threads.

    Args:
        database_url: libpq connection string or URL.

    Raises:
        SettingsError: the connection string cannot be read.
    """

    def __init__(self, database_url: str) -> None:
        self._caller = Caller(database_url, pool_size=1)
        # Sending a statement again is safe: each looks first at what the one before has left.
        self._run = self._caller.run

    def close(self) -> None:
        """Close the connection."""
        self._caller.close()

    def examine(self, record_id: RecordId) -> Examined | None:
        """See `Operations.examine`."""
        found = self._run(queries.EXAMINE, _key(record_id))
        if not found:
            return None
        ((stored_row, database_time),) = found
        record = rows.read_record(stored_row)
        return Examined(record, database_time) if record else None

    def close_record(self, record_id: RecordId, note: Note) -> CloseResult:
        """See `Operations.close_record`."""
        parameters = [*_key(record_id), note.code, rows.note_parameter(note)]
        ((closed, stored_row),) = self._run(queries.CLOSE_RECORD, parameters)
        return CloseResult(closed, rows.read_record(stored_row))

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
        parameters = [
            rows.found_parameter(found),
            found.finding,
            list(names),
            only_new,
            dry_run,
            rows.envelope_parameter(envelope),
        ]
        ((recording, run_closed, stored_row),) = self._run(queries.RECORD_PAYMENT, parameters)
        return RecordedPayment(Recording(recording), rows.read_record(stored_row), run_closed)

    def failed_records(
        self,
        billing_period: str,
        states: Sequence[State],
        codes: Sequence[str] | None,
        after_customer_id: str,
        limit: int,
    ) -> Sequence[Record]:
        """See `Operations.failed_records`."""
        asked_codes = None if codes is None else list(codes)
        parameters = [
            billing_period,
            [str(state) for state in states],
            asked_codes,
            after_customer_id,
            limit,
        ]
        found = (rows.read_record(row[0]) for row in self._run(queries.FAILED_RECORDS, parameters))
        return [record for record in found if record is not None]

    def periods_of(self, customer_id: str) -> Sequence[str]:
        """See `PersonalData.periods_of`."""
        return [row[0] for row in self._run(queries.PERIODS_OF, [customer_id])]

    def erase(self, record_id: RecordId, envelope: Envelope, *, dry_run: bool) -> Obstacle | None:
        """See `PersonalData.erase`."""
        parameters = [*_key(record_id), dry_run, rows.envelope_parameter(envelope)]
        ((obstacle,),) = self._run(queries.ERASE, parameters)
        return None if obstacle is None else Obstacle(obstacle)

    def erase_invalid(self, customer_id: str, *, dry_run: bool) -> int:
        """See `PersonalData.erase_invalid`."""
        ((count,),) = self._run(queries.ERASE_INVALID, [customer_id, dry_run])
        return int(count)


def _key(record_id: RecordId) -> list[str]:
    return [record_id.customer_id, record_id.billing_period]
