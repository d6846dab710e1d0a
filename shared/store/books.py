"""The records as an audit reads them: in short transactions that the server lets write nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from shared.event import Fingerprint
from shared.ports import Identity, RecordBatch, RecordLine, RunSums
from shared.record import RecordId, State
from shared.store import queries
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
        rows = self._caller.run(queries.PERIOD_BEGINNING, {"period": billing_period})
        moment: datetime | None = rows[0][0]
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
        rows = self._caller.run(query, parameters)
        lines = [_read_line(row) for row in rows]
        asked_for = [line for line, row in zip(lines, rows, strict=True) if row[-1]]
        was_full = bool(rows) and rows[-1][-2] == limit
        return RecordBatch(asked_for, lines[-1].record_id if was_full else None)

    def line(self, record_id: RecordId) -> RecordLine | None:
        """See `Books.line`."""
        rows = self._caller.run(
            queries.RECORD_LINE, [record_id.customer_id, record_id.billing_period]
        )
        return _read_line(rows[0]) if rows else None

    def named(self, payment_ids: frozenset[str]) -> frozenset[str]:
        """See `Books.named`."""
        rows = self._caller.run(queries.NAMED_PAYMENTS, [list(payment_ids)])
        return frozenset(row[0] for row in rows)

    def run_sums(self, billing_period: str) -> RunSums | None:
        """See `Books.run_sums`."""
        rows = self._caller.run(queries.RUN_SUMS, [billing_period])
        return RunSums(*rows[0]) if rows else None


def _read_line(row: Sequence[Any]) -> RecordLine:
    customer_id, billing_period, stripe_customer_id, amount_cents, currency, state = row[:6]
    payment_id, held_cents, is_leased, started_at = row[6:10]
    return RecordLine(
        record_id=RecordId(customer_id, billing_period),
        fingerprint=Fingerprint(amount_cents, currency, stripe_customer_id),
        state=State(state),
        payment_id=payment_id,
        held_cents=held_cents,
        is_leased=is_leased,
        started_at=started_at,
    )
