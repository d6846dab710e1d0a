"""Reading another system's PostgreSQL: one query of an operator's that can write nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from shared.errors import RecordsUnavailable, SettingsError
from shared.store.connection import connection_parameters, describe, open_connection

BATCH_ROWS = 2000
_CURSOR = "chargeonce_import"


class ForeignRows:
    """The result of a query, streamed.

    Args:
        columns: their names.
        rows: can be gone through once.
    """

    def __init__(self, columns: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> None:
        self.columns = columns
        self.rows = rows


@contextmanager
def foreign_rows(database_url: str, statement: str) -> Iterator[ForeignRows]:
    """Run a query.

    Args:
        database_url: libpq connection string or URL.
        statement: the operator's own; the server lets it write nothing.

    Raises:
        SettingsError: the connection string cannot be read.
        RecordsUnavailable: that database is away, or refused the query.
    """
    try:
        parameters = connection_parameters(database_url)
    except SettingsError:
        problem = "IMPORT_DATABASE_URL is neither a URL nor a connection string libpq can read"
        raise SettingsError([problem]) from None
    try:
        with open_connection(parameters, autocommit=False) as connection:
            connection.read_only = True
            with connection.cursor(_CURSOR) as cursor:
                cursor.itersize = BATCH_ROWS
                cursor.execute(statement.encode())
                columns = [column.name for column in cursor.description or ()]
                yield ForeignRows(columns, iter(cursor))
    except psycopg.Error as error:
        raise RecordsUnavailable(
            f"the database to import from did not give its rows ({describe(error)})"
        ) from None
