"""The connections of one process."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from shared.errors import PoolExhausted, RecordsUnavailable
from shared.store.connection import Connection, connection_parameters, open_connection


class Pool:
    """Lends connections, never more than so many at once. Safe for threads, and over a fork.

    A connection is opened by the thread that needs it, when none lies idle: so it learns at once
    why that fails. Nothing runs in the background, where a fork would lose it and where it would
    hold up the end of the process.

    Args:
        database_url: libpq connection string or URL.
        size: the most connections at once.
        wait_seconds: how long a thread waits for one of them to come free.

    Raises:
        SettingsError: the connection string cannot be read.
    """

    def __init__(self, database_url: str, size: int, wait_seconds: float) -> None:
        self._parameters = connection_parameters(database_url)
        self._size = size
        self._wait_seconds = wait_seconds
        self._is_closed = False
        # By process: a child must not touch what it inherits, for its parent goes on using it.
        self._shelves: dict[int, _Shelf] = {}
        weakref.finalize(self, _close_idle_of_this_process, self._shelves)

    def close(self) -> None:
        """Close the idle connections now, and the others when they come back."""
        self._is_closed = True
        self.close_idle()

    def close_idle(self) -> None:
        """Close what lies idle."""
        self._shelf().close_idle()

    @contextmanager
    def connection(self, deadline: float) -> Iterator[Connection]:
        """Lend a connection.

        Args:
            deadline: on `time.monotonic`; the wait for it, connecting and the statements end there.

        Raises:
            PoolExhausted: none came free in time.
            RecordsUnavailable: the pool is closed.
            psycopg.OperationalError: none could be opened.
        """
        if self._is_closed:
            raise RecordsUnavailable("the store is closed")
        shelf = self._shelf()
        wait_seconds = min(self._wait_seconds, deadline - time.monotonic())
        if not shelf.permits.acquire(timeout=max(0.0, wait_seconds)):
            raise PoolExhausted(
                "no database connection came free in time: DATABASE_POOL_SIZE is smaller than the "
                "number of threads, or the database is slow"
            )
        try:
            connection = self._take(shelf, deadline)
            try:
                yield connection
            finally:
                self._give_back(shelf, connection)
        finally:
            shelf.permits.release()

    def _take(self, shelf: _Shelf, deadline: float) -> Connection:
        while (connection := shelf.take()) is not None:
            if connection.is_reusable:
                connection.deadline = deadline
                return connection
            connection.close()
        return open_connection(self._parameters, autocommit=True, deadline=deadline)

    def _give_back(self, shelf: _Shelf, connection: Connection) -> None:
        if not connection.is_reusable:
            connection.close()
            return
        shelf.idle.append(connection)
        if self._is_closed:
            shelf.close_idle()

    def _shelf(self) -> _Shelf:
        process_id = os.getpid()
        shelf = self._shelves.get(process_id)
        # setdefault and no lock: a fork may copy a lock that nobody is left to release.
        return shelf or self._shelves.setdefault(process_id, _Shelf(self._size))


class _Shelf:
    """What one process has: permits to use a connection, and the connections that lie idle."""

    def __init__(self, size: int) -> None:
        self.permits = threading.BoundedSemaphore(size)
        self.idle: deque[Connection] = deque()

    def take(self) -> Connection | None:
        # The one used last: the others may rest until the server cuts them off.
        try:
            return self.idle.pop()
        except IndexError:
            return None

    def close_idle(self) -> None:
        while (connection := self.take()) is not None:
            connection.close()


def _close_idle_of_this_process(shelves: dict[int, _Shelf]) -> None:
    shelf = shelves.get(os.getpid())
    if shelf is not None:
        shelf.close_idle()
