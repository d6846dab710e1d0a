"""The records as an audit reads them: in short transactions that the server lets write nothing."""

from __future__ import annotations

from datetime import datetime

from shared.ports import Identity, RecordBatch, RecordLine, RunSums
from shared.record import RecordId
from shared.store import queries, rows
from shared.store.caller import Caller

_BEFORE_ALL = RecordId(customer_id="", billing_period="")


class PostgresBooks:
    """Implements the port `Books` over PostgreSQL.

    Args:
        database_url: libpq connection string or URL.

    Raises:
        SettingsError: the connection string cannot be read.
    """

    def __init__(self, database_url: str) -> None:
        self._caller = Caller(database_url, pool_size=1, read_only=True)

    def close(self) -> None:
        """Close the connection."""
        self._caller.close()

    def known_identity(self) -> Identity:
        """See `Books.known_identity`."""
        (row,) = self._caller.run(queries.KNOWN_IDENTITY, [])
        return Identity(*row)

    def database_time(self) -> datetime:
        """See `Books.database_time`."""
        now: datetime = self._caller.run(queries.DATABASE_TIME, [])[0][0]
        return now

    def beginning(self, billing_period: str) -> datetime | None:
        """See `Books.beginning`."""
        found = self._caller.run(queries.PERIOD_BEGINNING, {"period": billing_period})
        moment: datetime | None = found[0][0]
        return moment

    def batch(
        self, billing_period: str | None, since: datetime, after: RecordId | None, limit: int
    ) -> RecordBatch:
        """See `Books.batch`."""
        start = after or _BEFORE_ALL
        query = queries.BATCH_OF_ALL if billing_period is None else queries.BATCH_OF_PERIOD
        parameters = {
            "period": billing_period,
            "since": since,
            "after_period": start.billing_period,
            "after_customer": start.customer_id,
            "limit": limit,
        }
        found = self._caller.run(query, parameters)
        lines = [rows.read_record_line(row) for row in found]
        asked_for = [line for line, row in zip(lines, found, strict=True) if row[-1]]
        was_full = bool(found) and found[-1][-2] == limit
        return RecordBatch(asked_for, lines[-1].record_id if was_full else None)

    def line(self, record_id: RecordId) -> RecordLine | None:
        """See `Books.line`."""
        key = [record_id.customer_id, record_id.billing_period]
        found = self._caller.run(queries.RECORD_LINE, key)
        return rows.read_record_line(found[0]) if found else None

    def named(self, payment_ids: frozenset[str]) -> frozenset[str]:
        """See `Books.named`."""
        found = self._caller.run(queries.NAMED_PAYMENTS, [list(payment_ids)])
        return frozenset(row[0] for row in found)

    def run_sums(self, billing_period: str) -> RunSums | None:
        """See `Books.run_sums`."""
        found = self._caller.run(queries.RUN_SUMS, [billing_period])
        return RunSums(*found[0]) if found else None
