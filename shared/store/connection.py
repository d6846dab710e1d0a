"""Connections to PostgreSQL: how they are opened, how long they wait, what their failures mean."""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Mapping
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from shared.errors import RecordsUnavailable, SchemaMismatch, SettingsError

Result = TypeVar("Result")

CONNECT_SECONDS = 10
# psycopg raises anything shorter to this.
LEAST_CONNECT_SECONDS = 2
WAKE_UP_SECONDS = 0.1

# libpq's own limits: a server that vanished is noticed in half a minute, not in two hours. What the
# connection string itself says goes first.
_DEFAULTS: Mapping[str, str] = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "chargeonce",
}

# The server is going away, or has become a standby: another connection may reach its successor.
_LOST_CODES = frozenset({"57P01", "57P02", "57P03", "57P05", "25006", "55000"})
_CONNECTION_CLASS = "08"
_CONTENTION_CODES = frozenset({"40001", "40P01"})
_NO_SUCH_OBJECT_CODES = frozenset({"3F000", "42P01", "42703", "42883"})

# A failed connection has no SQLSTATE, and libpq's text quotes the connection string.
_KNOWN_CAUSES = (
    "password authentication failed",
    "no pg_hba.conf entry",
    "Connection refused",
    "No such file or directory",
    "failed to resolve host",
    "Name or service not known",
    "timeout expired",
    "too many clients",
    "too many connections",
    "remaining connection slots",
    "does not exist",
    "certificate verify failed",
    "server does not support SSL",
    "starting up",
    "shutting down",
    "server closed the connection unexpectedly",
)


class Connection(psycopg.Connection[TupleRow]):
    """A connection whose waits end at a deadline, whatever becomes of the server and the network.

    The server's own time limits do not help when the network swallows its answer, and TCP's do not
    when something in between goes on acknowledging.
    """

    deadline = math.inf
    process_id = 0

    def __del__(self, *arguments: Any) -> None:
        # psycopg warns of a forgotten connection; one that a fork inherited is its parent's.
        if self.process_id == os.getpid():
            super().__del__(*arguments)

    def wait(
        self,
        gen: PQGen[Result],
        interval: float = WAKE_UP_SECONDS,
        timeout: float | None = None,
    ) -> Result:
        """See `psycopg.Connection.wait`."""
        remaining_seconds = max(0.0, self.deadline - time.monotonic())
        if timeout is not None:
            remaining_seconds = min(remaining_seconds, timeout)
        return super().wait(gen, interval, remaining_seconds)

    @property
    def is_reusable(self) -> bool:
        """Whether it is whole and nothing waits to be read: a server that cuts it off says so."""
        if self.closed or self.info.transaction_status is not TransactionStatus.IDLE:
            return False
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return not poll.poll(0)


def connection_parameters(database_url: str) -> Mapping[str, Any]:
    """Read a connection string and add our own limits to it.

    Raises:
        SettingsError: it cannot be read.
    """
    try:
        given = conninfo_to_dict(database_url)
        seconds = float(given.get("connect_timeout") or CONNECT_SECONDS)
        return {**_DEFAULTS, **given, "connect_timeout": seconds}
    except (psycopg.Error, ValueError):
        problem = "DATABASE_URL is neither a URL nor a connection string that libpq can read"
        raise SettingsError([problem]) from None


def open_connection(
    parameters: Mapping[str, Any], *, autocommit: bool, deadline: float = math.inf
) -> Connection:
    """Connect, in the time that is left.

    Args:
        parameters: from `connection_parameters`.
        autocommit: whether each statement is a transaction of its own.
        deadline: on `time.monotonic`; also that of the first statement.

    Raises:
        psycopg.OperationalError: no connection was made.
    """
    seconds = min(parameters["connect_timeout"], deadline - time.monotonic())
    connection = Connection.connect(
        autocommit=autocommit,
        # A kept prepared statement would not be there on a pooler's next server connection.
        prepare_threshold=None,
        **{**parameters, "connect_timeout": max(LEAST_CONNECT_SECONDS, math.ceil(seconds))},
    )
    connection.deadline = deadline
    connection.process_id = os.getpid()
    return connection


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection is of no use any more, and another one may do better."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate.startswith(_CONNECTION_CLASS) or error.sqlstate in _LOST_CODES


def is_contention(error: psycopg.Error) -> bool:
    """Whether the transaction was undone because another one was in its way."""
    return error.sqlstate in _CONTENTION_CODES


def unavailable(error: psycopg.Error) -> RecordsUnavailable | SchemaMismatch:
    """The error of ours that stands for one of the driver's, free of data and of addresses."""
    if error.sqlstate in _NO_SUCH_OBJECT_CODES:
        return SchemaMismatch(
            f"the database lacks what this code needs ({describe(error)}): run `chargeonce migrate`"
        )
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return RecordsUnavailable(f"the database is away or too slow ({describe(error)})")
    return RecordsUnavailable(
        f"the database refused a statement ({describe(error)}): nothing was written, and trying "
        "again will not help until the defect is mended"
    )


def describe(error: psycopg.Error) -> str:
    """What went wrong, in words that can hold neither data nor a connection string."""
    name = type(error).__name__
    if error.sqlstate is None:
        text = str(error)
        return next((cause for cause in _KNOWN_CAUSES if cause in text), name)
    constraint = error.diag.constraint_name
    return f"{error.sqlstate} {name}" + (f" {constraint}" if constraint else "")
