"""What the commands about dead letters need of PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.event import UsageEvent
from shared.ports import ParkedMessage, Prospect
from shared.record import RecordId
from shared.store import queries, rows
from shared.store.caller import Caller


class PostgresDeadLetters:
    """Implements the ports `Prospects` and `ParkedMessages`. Safe for threads.

    Args:
        database_url: libpq connection string or URL.

    Raises:
        SettingsError: the connection string cannot be read.
    """

    def __init__(self, database_url: str) -> None:
        self._caller = Caller(database_url, pool_size=1)
        # Sending a statement again is safe: a message is kept once, and dropped once.
        self._run = self._caller.run

    def close(self) -> None:
        """Close the connection."""
        self._caller.close()

    def prospects(self, record_ids: Sequence[RecordId]) -> Mapping[RecordId, Prospect]:
        """See `Prospects.prospects`."""
        customers = [record_id.customer_id for record_id in record_ids]
        periods = [record_id.billing_period for record_id in record_ids]
        found = self._run(queries.PROSPECTS, [customers, periods])
        return {RecordId(*row[:2]): rows.read_prospect(row[2:]) for row in found}

    def parked_messages(self, after_number: int, limit: int) -> Sequence[ParkedMessage]:
        """See `ParkedMessages.parked_messages`."""
        found = self._run(queries.PARKED_MESSAGES, [after_number, limit])
        return [rows.read_parked_message(row) for row in found]

    def resubmit_parked(self, number: int, event: UsageEvent) -> bool:
        """See `ParkedMessages.resubmit_parked`."""
        parameters = [number, event.customer_id, event.billing_period, event.attempt]
        ((is_there,),) = self._run(queries.RESUBMIT_PARKED, parameters)
        return bool(is_there)

    def drop_parked(self, number: int) -> bool:
        """See `ParkedMessages.drop_parked`."""
        return bool(self._run(queries.DROP_PARKED, [number]))
