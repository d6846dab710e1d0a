"""A PostgreSQL database that loses its last commits, as in a failover or a restore."""

from __future__ import annotations

from contextlib import closing

import psycopg

# What a failover or a restore takes back, all at one moment.
TABLES = (
    "cluster",
    "runs",
    "records",
    "attempts",
    "parked_events",
    "kept_messages",
    "timers",
    "rebuilds",
)


class LosableDatabase:
    """Takes a copy of all rows, and later goes back to it.

    Args:
        database_url: a migrated database, as a superuser.
    """

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url

    def back_up(self) -> None:
        """Remember all rows."""
        self._run(
            "DROP SCHEMA IF EXISTS backup CASCADE",
            "CREATE SCHEMA backup",
            *[f"CREATE TABLE backup.{name} AS TABLE chargeonce.{name}" for name in TABLES],
        )

    def lose_commits(self, *, keep_timeline: bool = False) -> None:
        """Forget everything since, in one transaction.

        Args:
            keep_timeline: so that the server cannot tell; else its timeline differs afterwards.
        """
        self._run(
            # Neither triggers nor defaults: rows as they were.
            "SET LOCAL session_replication_role = replica",
            *[f"DELETE FROM chargeonce.{name}" for name in TABLES],
            *[
                f"INSERT INTO chargeonce.{name} OVERRIDING SYSTEM VALUE TABLE backup.{name}"
                for name in TABLES
            ],
            *([] if keep_timeline else ["UPDATE chargeonce.cluster SET timeline = 'FFFFFFFF'"]),
        )

    def let_requests_end(self) -> None:
        """Let the loss be noticed long enough ago that no request is running any more."""
        self._run("UPDATE chargeonce.rebuilds SET noticed_at = noticed_at - interval '1 hour'")

    def execute(self, statement: str) -> None:
        """Do something to the database by hand."""
        self._run(statement)

    def _run(self, *statements: str) -> None:
        with closing(psycopg.connect(self._database_url)) as connection, connection.transaction():
            for statement in statements:
                connection.execute(statement.encode())
