"""What the timers need of PostgreSQL. They run seldom, so each call has a connection of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal

import psycopg

from shared.errors import RunError
from shared.store.connection import (
    CONNECT_SECONDS,
    Connection,
    connection_parameters,
    open_connection,
    unavailable,
)

CALL_SECONDS = 25.0

_TAKE_LEASE = """
INSERT INTO chargeonce.timers AS t (name, lease_until)
VALUES ($1, clock_timestamp() + make_interval(secs => $2))
ON CONFLICT (name) DO UPDATE
SET lease_until = clock_timestamp() + make_interval(secs => $2)
WHERE t.lease_until <= clock_timestamp()
RETURNING t.name
"""


class PostgresTimers:
    """Implements the port `Timers` and `shared.minting.ExpectedTotals`.

    Args:
        database_url: libpq connection string or URL.

    Raises:
        SettingsError: the connection string cannot be read.
    """

    def __init__(self, database_url: str) -> None:
        self._parameters = connection_parameters(database_url)

    def take_timer_lease(self, name: str, lease_seconds: float) -> bool:
        """See `Timers.take_timer_lease`."""
        try:
            with self._connected(CALL_SECONDS) as connection:
                taken = connection.execute(_TAKE_LEASE, [name, lease_seconds]).fetchone()
        except psycopg.Error as error:
            raise unavailable(error) from None
        return taken is not None

    def expected_total_cents(
        self, statement: str, billing_period: str, limit_seconds: float
    ) -> int | None:
        """See `ExpectedTotals.expected_total_cents`."""
        try:
            with self._connected(CONNECT_SECONDS + limit_seconds) as connection:
                connection.read_only = True
                limit_milliseconds = round(limit_seconds * 1000)
                connection.execute(f"SET LOCAL statement_timeout = {limit_milliseconds:d}")
                # The operator's own, from the settings.
                cursor = connection.execute(statement.encode(), [billing_period])
                found = cursor.fetchmany(2) if cursor.description else []
        except psycopg.Error as error:
            if error.sqlstate is None:
                raise unavailable(error) from None
            raise RunError(f"BILLING_EXPECTED_TOTAL_SQL failed ({error.sqlstate})") from None
        if len(found) != 1 or len(found[0]) != 1:
            raise RunError("BILLING_EXPECTED_TOTAL_SQL must give one row of one column")
        return _whole(found[0][0])

    @contextmanager
    def _connected(self, seconds: float) -> Iterator[Connection]:
        """One transaction on a connection of its own, for so long at the most."""
        deadline = time.monotonic() + seconds
        with open_connection(self._parameters, autocommit=False, deadline=deadline) as connection:
            connection.cursor_factory = psycopg.RawCursor
            yield connection


def _whole(value: object) -> int | None:
    if value is None:
        return None
    # sum() of bigint is numeric.
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and value % 1 == 0:
        return int(value)
    raise RunError("BILLING_EXPECTED_TOTAL_SQL must give a whole number of the smallest unit")
