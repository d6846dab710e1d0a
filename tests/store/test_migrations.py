"""Migrations: safe in twos, safe under running consumers, all or nothing, and never backwards."""

import re
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from local.postgres import DatabaseServer
from shared.errors import RecordsUnavailable, SchemaMismatch
from shared.ports import ClaimVerdict, Ending, Note
from shared.record import State
from shared.store import migrations
from shared.store.migrations import check_schema, migrate, missing_migrations, schema_version
from shared.store.postgres import PostgresStore
from tests.support.pgbouncer import HOW_TO_GET, find_pgbouncer, pgbouncer
from tests.support.store import PERIOD, claim_request, envelope
from tests.support.waiting import wait_until

ANSWER_SECONDS = 60


def execute(database_url: str, statement: str) -> list[tuple[object, ...]]:
    """Do something to a database by hand, and return what it says."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def add_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Adds a migration to those that this version of the code knows, and returns its name."""
    folder = tmp_path / "migrations"
    shutil.copytree(migrations._FOLDER, folder)
    monkeypatch.setattr(migrations, "_FOLDER", folder)

    def add(statements: str) -> str:
        name = f"{schema_version() + 1:04}_next"
        (folder / f"{name}.sql").write_text(statements)
        return name

    return add


def test_an_empty_database_gets_everything_once(database_url: str) -> None:
    """Goal: whoever runs it again, as every deployment does, changes nothing."""
    names = [migration.name for migration in migrations.migrations()]
    assert missing_migrations(database_url) == names
    assert migrate(database_url) == names
    assert migrate(database_url) == []
    assert missing_migrations(database_url) == []
    assert check_schema(database_url) == schema_version()


def test_several_that_start_at_once_take_turns(database_url: str) -> None:
    """Goal: two deployments at one time apply each migration once."""
    start = threading.Barrier(4)

    def run(_: int) -> int:
        start.wait(ANSWER_SECONDS)
        return len(migrate(database_url))

    with ThreadPoolExecutor(4) as pool:
        applied = sorted(pool.map(run, range(4)))
    assert applied == [0, 0, 0, schema_version()]


def test_it_runs_under_consumers_that_go_on(
    migrated_database_url: str, add_migration: Callable[[str], str]
) -> None:
    """Goal: the old code goes on charging while a migration changes the table under it."""
    store = PostgresStore(migrated_database_url, 4)
    store.open_run(PERIOD, "usd", 10**9, 10**9)
    charged: list[str] = []
    is_over = threading.Event()

    def consume(number: int) -> None:
        turn = 0
        while not is_over.is_set():
            turn += 1
            record = store.claim(claim_request(f"customer-{number}-{turn}")).record
            assert record is not None
            note = Note(envelope(), "charged")
            assert store.finish(record, Ending(State.CHARGED, "pi_1"), note, None).written
            charged.append(record.customer_id)

    def wait_for_more() -> None:
        seen = len(charged)
        wait_until(lambda: len(charged) > seen + 20, "consumers have gone on")

    with ThreadPoolExecutor(4) as pool:
        consumers = [pool.submit(consume, number) for number in range(4)]
        try:
            wait_for_more()
            assert migrate(migrated_database_url) == []
            wait_for_more()
            add_migration(
                """
                ALTER TABLE chargeonce.records ADD COLUMN note text;
                ALTER TABLE chargeonce.runs ADD COLUMN note text NOT NULL DEFAULT '';
                ALTER TABLE chargeonce.attempts ADD COLUMN note text;
                """
            )
            assert len(migrate(migrated_database_url)) == 1
            wait_for_more()
        finally:
            is_over.set()
        for consumer in consumers:
            consumer.result(ANSWER_SECONDS)
    run = store.get_run(PERIOD)
    store.close()
    assert run is not None
    assert (run.held_cents, run.charged_cents) == (0, 5000 * len(charged))


def test_no_migration_takes_anything_away() -> None:
    """Goal: in a rolling update the older consumers go on, on the schema of the newer ones.

    Method: what an older version's statements name stays, and what they leave out has a default.
    """
    for path in sorted(migrations._FOLDER.glob("*.sql")):
        statements = re.sub(r"--.*", "", path.read_text())
        assert not re.search(r"\b(DROP|RENAME|TRUNCATE|ALTER COLUMN)\b", statements), path.name
        for column in re.findall(r"ADD COLUMN [^,;]*", statements):
            assert "NOT NULL" not in column or "DEFAULT" in column, f"{path.name}: {column}"


def test_a_newer_schema_is_refused_and_left_alone(migrated_database_url: str) -> None:
    """Goal: a roll-back of the code must not undo or redo what it does not know."""
    newer = "INSERT INTO chargeonce.migrations (number, name) VALUES (9999, '9999_later')"
    execute(migrated_database_url, newer)
    count = "SELECT count(*) FROM chargeonce.migrations"
    before = execute(migrated_database_url, count)
    for refused in (migrate, missing_migrations):
        with pytest.raises(SchemaMismatch, match="9999, newer than this code"):
            refused(migrated_database_url)
    assert execute(migrated_database_url, count) == before
    assert check_schema(migrated_database_url) == 9999, "running on it is compatible by rule"


def test_a_database_that_was_never_migrated_says_what_to_run(database_url: str) -> None:
    """Goal: a worker does not start on it, and its operator reads why."""
    with pytest.raises(SchemaMismatch, match=r"version 0, .* run `chargeonce migrate`"):
        check_schema(database_url)


def test_an_older_schema_says_what_to_run(
    migrated_database_url: str, add_migration: Callable[[str], str]
) -> None:
    """Goal: new code does not start on an old schema."""
    name = add_migration("SELECT 1")
    with pytest.raises(SchemaMismatch, match="run `chargeonce migrate`"):
        check_schema(migrated_database_url)
    assert missing_migrations(migrated_database_url) == [name]


def test_a_migration_that_fails_leaves_nothing(
    migrated_database_url: str, add_migration: Callable[[str], str]
) -> None:
    """Goal: all or nothing, and the operator reads what the server said."""
    name = add_migration("CREATE TABLE chargeonce.half (); SELECT 1 / 0")
    with pytest.raises(RecordsUnavailable, match=r"22012.*division by zero"):
        migrate(migrated_database_url)
    assert execute(migrated_database_url, "SELECT to_regclass('chargeonce.half')") == [(None,)]
    assert missing_migrations(migrated_database_url) == [name]


def test_a_migration_gives_up_its_wait_before_consumers_do(
    migrated_database_url: str,
    add_migration: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Goal: whoever waits behind a waiting migration still gets its turn in time."""
    monkeypatch.setattr(migrations, "TABLE_WAIT", "100ms")
    add_migration("ALTER TABLE chargeonce.records ADD COLUMN note text")
    with psycopg.connect(migrated_database_url) as reader:
        reader.execute("SELECT FROM chargeonce.records")
        with pytest.raises(RecordsUnavailable, match="55P03"):
            migrate(migrated_database_url)
    assert len(migrate(migrated_database_url)) == 1


def test_limits_are_set_on_the_role_for_this_database(
    postgres_server: DatabaseServer, database_url: str
) -> None:
    """Goal: they hold behind a pooler too, which passes no settings on."""
    migrate(database_url)
    limits = {
        "statement_timeout": "15s",
        "lock_timeout": "10s",
        "idle_in_transaction_session_timeout": "30s",
        "default_transaction_isolation": "read committed",
        "jit": "off",
        "synchronous_commit": "on",
    }
    shown = {name: execute(database_url, f"SHOW {name}")[0][0] for name in limits}
    assert shown == limits
    elsewhere = execute(postgres_server.url, "SHOW statement_timeout")
    assert elsewhere != [("15s",)], "the role's other databases are none of our business"


def test_it_works_through_pgbouncer(database_url: str) -> None:
    """Goal: the pooled address is often the only one that an operator has."""
    program = find_pgbouncer()
    if program is None:
        pytest.skip(HOW_TO_GET)
    with pgbouncer(program, database_url) as url, ThreadPoolExecutor(2) as pool:
        applied = sorted(len(names) for names in pool.map(migrate, [url, url]))
        assert applied == [0, schema_version()]
        assert check_schema(url) == schema_version()
        store = PostgresStore(url, 1)
        store.open_run(PERIOD, "usd", 10_000, 10_000)
        assert store.claim(claim_request()).verdict is ClaimVerdict.CLAIMED
        store.close()


@pytest.mark.parametrize("ask", [migrate, missing_migrations, check_schema])
def test_a_database_that_is_away_is_told_without_its_address(ask: Callable[[str], object]) -> None:
    """Goal: a deployment that fails says why, and no secret."""
    with pytest.raises(RecordsUnavailable, match="Connection refused") as raised:
        ask("postgresql://billing:hush@127.0.0.1:1/billing")
    assert "hush" not in str(raised.value)
    assert "127.0.0.1" not in str(raised.value)
