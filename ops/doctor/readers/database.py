"""The database, asked about itself."""

from __future__ import annotations

from dataclasses import replace

from ops.doctor.facts import Database, Facts
from shared.errors import RecordsUnavailable, SettingsError

# Without them a commit that was answered may not outlive the machine.
DURABLE = ("fsync", "full_page_writes")


def add_database(facts: Facts) -> Facts:
    """The same facts, with what the database of those settings says."""
    from shared.store.health import read_health
    from shared.store.migrations import schema_version

    assert facts.settings is not None, "settings are read first"
    try:
        health = read_health(facts.settings.database_url)
    except (RecordsUnavailable, SettingsError) as error:
        return replace(facts, database=Database(problem=str(error)))
    return replace(
        facts,
        database=Database(
            schema_version=health.schema_version,
            needed_version=schema_version(),
            clock_skew_seconds=health.clock_skew_seconds,
            synchronous_commit=health.synchronous_commit,
            durability_off=tuple(name for name in DURABLE if getattr(health, name) != "on"),
        ),
        capacities=tuple(
            replace(part, database_connections=health.connections) for part in facts.capacities
        ),
    )
