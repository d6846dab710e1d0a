"""Runs a store's statements: each its own transaction, and once more where that helps."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import psycopg

from shared.store.connection import is_contention, is_lost, unavailable
from shared.store.pool import Pool

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]
Rows: TypeAlias = list[tuple[Any, ...]]

POOL_WAIT_SECONDS = 10.0
# More than the server's own statement_timeout, whose answer says more.
CALL_SECONDS = 25.0
RETRY_PAUSE_SECONDS = 0.2


class Caller:
    """Runs statements over a pool of connections. Safe for threads.

    A call takes `CALL_SECONDS` at the most, and a little more if it has to connect.

    Args:
        database_url: libpq connection string or URL.
        pool_size: the most connections to hold; one for each worker thread is right. They are
            opened when first needed.
        pool_wait_seconds: how long a thread waits for a free connection.
        read_only: let the server refuse whatever would write.

    Raises:
        SettingsError: the connection string cannot be read.
    """

    def __init__(
        self,
        database_url: str,
        pool_size: int,
        pool_wait_seconds: float = POOL_WAIT_SECONDS,
        *,
        read_only: bool = False,
    ) -> None:
        self._read_only = read_only
        self.pool = Pool(database_url, pool_size, pool_wait_seconds)

    def close(self) -> None:
        """Close the connections."""
        self.pool.close()

    def run(self, query: str, parameters: Parameters) -> Rows:
        """Run a statement, once more if its connection was lost or another one stood in its way.

        The first may have been committed all the same: statements must be safe to be run again.

        Raises:
            RecordsUnavailable: the database is away, or too slow.
        """
        deadline = time.monotonic() + CALL_SECONDS
        try:
            return self._run_once(query, parameters, deadline)
        except psycopg.Error as error:
            is_late = time.monotonic() >= deadline
            if is_late or not (is_lost(error) or is_contention(error)):
                raise unavailable(error) from None
            if is_lost(error):
                # The connection lies idle now if it is still open, as on a server that became a
                # standby; and the others were most likely lost with it.
                self.pool.close_idle()
        time.sleep(RETRY_PAUSE_SECONDS)
        try:
            return self._run_once(query, parameters, deadline)
        except psycopg.Error as error:
            raise unavailable(error) from None

    def _run_once(self, query: str, parameters: Parameters, deadline: float) -> Rows:
        with self.pool.connection(deadline) as connection:
            if not self._read_only:
                return connection.execute(query, parameters).fetchall()
            # With the transaction and not with the session, which a pooler would share out.
            connection.read_only = True
            with connection.transaction():
                return connection.execute(query, parameters).fetchall()
