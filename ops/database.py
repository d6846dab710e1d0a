"""The records, as commands open them: with a clear answer when they are away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.store.postgres import PostgresStore


@contextmanager
def open_records() -> Iterator[PostgresStore]:
    """Connect to the database that DATABASE_URL names.

    Raises:
        SettingsError: it names none.
        RecordsUnavailable: it cannot be reached.
        SchemaMismatch: it needs `chargeonce migrate`.
    """
    from shared.settings import read_database_url
    from shared.store.migrations import check_schema
    from shared.store.postgres import PostgresStore

    database_url = read_database_url()
    quieten_pool()
    # Before the pool, which would keep trying for seconds where this says at once what is wrong.
    check_schema(database_url)
    with closing(PostgresStore(database_url, pool_size=1)) as store:
        yield store


def quieten_pool() -> None:
    """Keep the driver's own warnings off the terminal: errors say what matters."""
    import logging

    logging.getLogger("psycopg").addHandler(logging.NullHandler())
