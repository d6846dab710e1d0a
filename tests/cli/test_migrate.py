"""`chargeonce migrate`."""

import psycopg
import pytest

from ops.exit_codes import ExitCode
from shared.store.migrations import migrations, schema_version
from tests.cli.conftest import CommandLine

NAMES = [migration.name for migration in migrations()]


@pytest.fixture
def empty(
    database_url: str, monkeypatch: pytest.MonkeyPatch, without_database: CommandLine
) -> CommandLine:
    """The command line over an empty database."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    return without_database


def test_a_dry_run_changes_nothing(empty: CommandLine) -> None:
    for _ in range(2):
        ran = empty("migrate", "--dry-run", "--json")
        assert ran.code == ExitCode.OK
        assert ran.document == {
            "schema_version": schema_version(),
            "applied": [],
            "pending": NAMES,
            "dry_run": True,
        }
    assert f"would apply {NAMES[0]}" in empty("migrate", "--dry-run").stdout


def test_once_and_then_nothing(empty: CommandLine) -> None:
    assert empty("migrate", "--json").document["applied"] == NAMES
    assert empty("migrate", "--json").document["applied"] == []
    assert "up to date" in empty("migrate").stdout


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_a_newer_schema_is_left_alone(
    chargeonce: CommandLine, migrated_database_url: str, options: list[str]
) -> None:
    with psycopg.connect(migrated_database_url) as connection:
        connection.execute("INSERT INTO chargeonce.migrations (number, name) VALUES (9999, 'x')")
    ran = chargeonce("migrate", *options)
    assert ran.code == ExitCode.SCHEMA
    assert "newer" in ran.stderr
