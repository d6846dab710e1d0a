"""What the database says about itself: for doctor. It reads, and changes nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg

from shared.errors import RecordsUnavailable
from shared.store.connection import connection_parameters, describe, open_connection

_HEALTH = """
SELECT clock_timestamp(),
       current_setting('synchronous_commit'),
       current_setting('fsync'),
       current_setting('full_page_writes'),
       current_setting('max_connections')::int
         - current_setting('superuser_reserved_connections')::int,
       to_regclass('chargeonce.migrations') IS NOT NULL
"""
_VERSION = "SELECT coalesce(max(number), 0) FROM chargeonce.migrations"


@dataclass(frozen=True, slots=True)
class DatabaseHealth:
    """One look at the database.

    Args:
        clock_skew_seconds: its clock less the one here.
        synchronous_commit: as it holds for this role.
        fsync: on or off.
        full_page_writes: the same.
        connections: that it allows to us and others.
        schema_version: 0 without our schema.
    """

    clock_skew_seconds: float
    synchronous_commit: str
    fsync: str
    full_page_writes: str
    connections: int
    schema_version: int


def read_health(database_url: str) -> DatabaseHealth:
    """Look once.

    Raises:
        SettingsError: the connection string cannot be read.
        RecordsUnavailable: the database cannot be reached.
    """
    try:
        with open_connection(connection_parameters(database_url), autocommit=True) as connection:
            began = time.monotonic()
            row = connection.execute(_HEALTH).fetchone()
            # Its clock was read between the two moments: half-way is the best guess.
            middle = datetime.now(UTC).timestamp() - (time.monotonic() - began) / 2
            assert row is not None, "a SELECT without FROM has one row"
            version = connection.execute(_VERSION).fetchone() if row[5] else None
    except psycopg.Error as error:
        raise RecordsUnavailable(f"the database did not answer ({describe(error)})") from None
    return DatabaseHealth(
        clock_skew_seconds=row[0].timestamp() - middle,
        synchronous_commit=row[1],
        fsync=row[2],
        full_page_writes=row[3],
        connections=row[4],
        schema_version=int(version[0]) if version is not None else 0,
    )
