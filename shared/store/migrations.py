"""Numbered, forward-only schema migrations.

Two that start at once take turns; consumers may go on running meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from shared.errors import RecordsUnavailable, SchemaMismatch
from shared.store.connection import Connection, connection_parameters, describe, open_connection

_FOLDER = Path(__file__).parent / "sql" / "migrations"
_FILE_NAME = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
# Any number that nothing else in the database locks; transaction-scoped, so a pooler may stand
# in between.
_LOCK_NUMBER = 4_823_019_771

TURN_WAIT = "60s"
# While a migration waits for a table, everybody else waits behind it: less than their own limit.
TABLE_WAIT = "5s"

_ROLE_SETTINGS = {
    "statement_timeout": "15s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "30s",
    "default_transaction_isolation": "read committed",
    # Every statement is small: compiling it first would only cost.
    "jit": "off",
    "synchronous_commit": "on",
}

_CREATE_LIST = """
CREATE SCHEMA IF NOT EXISTS chargeonce;
CREATE TABLE IF NOT EXISTS chargeonce.migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    number: int
    name: str
    path: Path


def migrations() -> Sequence[Migration]:
    """The migrations that this version of the code knows, in their order."""
    found = []
    for path in sorted(_FOLDER.iterdir()):
        match = _FILE_NAME.fullmatch(path.name)
        if match:
            found.append(Migration(int(match[1]), path.stem, path))
    return found


def schema_version() -> int:
    """The schema that this version of the code was written for."""
    return migrations()[-1].number


def migrate(database_url: str) -> Sequence[str]:
    """Bring the database's schema up to this version of the code.

    Also sets time limits on the connecting role, so that they hold behind a connection pooler.

    Args:
        database_url: libpq connection string or URL of the role that owns the schema.

    Returns:
        The names of the migrations applied now, oldest first; empty when there was nothing to do.

    Raises:
        SettingsError: the connection string cannot be read.
        SchemaMismatch: the database's schema is newer than this code. Nothing was changed.
        RecordsUnavailable: the database cannot be reached or refused a statement. Nothing was
            changed.
    """
    with _connected(database_url) as connection:
        _wait_for_turn(connection)
        applied = _apply_missing(connection)
        _limit_role(connection)
        return applied


def missing_migrations(database_url: str) -> Sequence[str]:
    """Return the names of what `migrate` would apply now, oldest first. Changes nothing.

    Raises:
        SettingsError: the connection string cannot be read.
        SchemaMismatch: the database's schema is newer than this code.
        RecordsUnavailable: the database cannot be reached.
    """
    with _connected(database_url) as connection:
        return [migration.name for migration in _missing(connection)]


def check_schema(database_url: str) -> int:
    """Return the database's schema version.

    Raises:
        SettingsError: the connection string cannot be read.
        SchemaMismatch: it is older than this code needs; a newer one is compatible by rule.
        RecordsUnavailable: the database cannot be reached.
    """
    with _connected(database_url) as connection:
        version = _present_version(connection)
    if version < schema_version():
        raise SchemaMismatch(
            f"the database's schema is version {version}, this code needs {schema_version()}: "
            "run `chargeonce migrate`"
        )
    return version


@contextmanager
def _connected(database_url: str) -> Iterator[Connection]:
    """One transaction on a connection of its own."""
    try:
        with open_connection(connection_parameters(database_url), autocommit=False) as connection:
            yield connection
    except psycopg.Error as error:
        said = error.diag.message_primary
        problem = f"the database did not do it ({describe(error)})"
        raise RecordsUnavailable(f"{problem}: {said}" if said else problem) from None


def _wait_for_turn(connection: Connection) -> None:
    connection.execute("SELECT set_config('statement_timeout', '0', true)")
    connection.execute("SELECT set_config('lock_timeout', %s, true)", [TURN_WAIT])
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK_NUMBER])
    connection.execute("SELECT set_config('lock_timeout', %s, true)", [TABLE_WAIT])


def _apply_missing(connection: Connection) -> Sequence[str]:
    connection.execute(_CREATE_LIST)
    missing = _missing(connection)
    for migration in missing:
        connection.execute(migration.path.read_bytes())
        connection.execute(
            "INSERT INTO chargeonce.migrations (number, name) VALUES (%s, %s)",
            [migration.number, migration.name],
        )
    return [migration.name for migration in missing]


def _missing(connection: Connection) -> Sequence[Migration]:
    present = _present_version(connection)
    if present > schema_version():
        raise SchemaMismatch(
            f"the database's schema is version {present}, newer than this code's "
            f"{schema_version()}: deploy the newer version of the code"
        )
    return [migration for migration in migrations() if migration.number > present]


def _present_version(connection: Connection) -> int:
    exists = connection.execute(
        "SELECT to_regclass('chargeonce.migrations') IS NOT NULL"
    ).fetchone()
    if exists is None or not exists[0]:
        return 0
    row = connection.execute(
        "SELECT coalesce(max(number), 0) FROM chargeonce.migrations"
    ).fetchone()
    return int(row[0]) if row else 0


def _limit_role(connection: Connection) -> None:
    row = connection.execute("SELECT current_user, current_database()").fetchone()
    if row is None:
        return
    role, database = row
    for name, value in _ROLE_SETTINGS.items():
        connection.execute(
            sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}").format(
                sql.Identifier(role),
                sql.Identifier(database),
                sql.Identifier(name),
                sql.Literal(value),
            )
        )
