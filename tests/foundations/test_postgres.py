"""The embedded server: what tests and demo rely on, and that it never outlives its owner."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from local import postgres, postgres_guardian
from local.postgres import (
    DatabaseServer,
    EmbeddedPostgres,
    NamedServer,
    PostgresUnavailable,
    database_server,
    remove_leftovers,
)

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 20

OWNER = """
import sys, time
from local.postgres import EmbeddedPostgres
with EmbeddedPostgres(fsync=False) as server:
    print(server.process_id, server.log_file.parent, flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(fsync=False) as server:
        yield server


def value(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(statement.encode())


def wait_until(holds: Callable[[], bool]) -> bool:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def is_alive(process_id: int) -> bool:
    try:
        return psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def only_look_at(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the search for leftovers see one directory, however young, and no other test's."""
    monkeypatch.setattr(postgres, "_PREFIX", directory.name)
    monkeypatch.setattr(postgres, "LEFTOVER_AFTER_SECONDS", 0)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("TimeZone", "UTC"),
        ("fsync", "off"),
        ("listen_addresses", ""),
        ("max_connections", "300"),
        ("server_encoding", "UTF8"),
        ("synchronous_commit", "on"),
    ],
)
def test_settings(embedded: EmbeddedPostgres, setting: str, expected: str) -> None:
    assert value(embedded.url, f"SHOW {setting}") == expected


def test_its_directory_admits_nobody_else(embedded: EmbeddedPostgres) -> None:
    assert embedded.log_file.parent.stat().st_mode & 0o077 == 0


def test_databases_are_separate_and_dropped_under_their_clients(
    embedded: EmbeddedPostgres,
) -> None:
    first, second = embedded.create_database(), embedded.create_database()
    execute(first, "CREATE TABLE only_here ()")
    with pytest.raises(psycopg.errors.UndefinedTable):
        execute(second, "SELECT FROM only_here")
    with psycopg.connect(first):
        embedded.drop_database(first)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(first)
    embedded.drop_database(second)


def test_a_template_is_copied_with_its_rows(embedded: EmbeddedPostgres) -> None:
    template = embedded.create_database()
    execute(template, "CREATE TABLE kept AS SELECT 42 AS answer")
    copy = embedded.create_database(template=template)
    execute(copy, "UPDATE kept SET answer = 43")
    assert value(template, "SELECT answer FROM kept") == 42
    assert value(copy, "SELECT answer FROM kept") == 43


@pytest.mark.parametrize("how", ["restart", "stop", "kill"])
def test_commits_and_address_survive(embedded: EmbeddedPostgres, how: str) -> None:
    url = embedded.create_database()
    execute(url, "CREATE TABLE survives AS SELECT 1 AS answer")
    first_process = embedded.process_id
    if how == "restart":
        embedded.restart()
    else:
        (embedded.stop if how == "stop" else embedded.kill)()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)
        with pytest.raises(PostgresUnavailable, match="not running"):
            _ = embedded.process_id
        embedded.start()
    assert embedded.process_id != first_process
    assert value(url, "SELECT answer FROM survives") == 1


def test_nothing_is_left_behind() -> None:
    with EmbeddedPostgres(fsync=False) as server:
        directory, process_id = server.log_file.parent, server.process_id
    assert not directory.exists()
    assert not is_alive(process_id)


def test_a_server_that_was_never_started_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a directory of its own it must not take the current one for it."""
    (tmp_path / "precious").touch()
    monkeypatch.chdir(tmp_path)
    server = EmbeddedPostgres(fsync=False)
    server.__exit__(None, None, None)
    assert (tmp_path / "precious").exists()
    with pytest.raises(PostgresUnavailable, match="not started"):
        _ = server.url


def test_a_start_leaves_living_servers_alone(
    embedded: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_look_at(embedded.log_file.parent, monkeypatch)
    remove_leftovers()
    assert value(embedded.url, "SELECT 1") == 1


def test_a_start_leaves_servers_alone_that_are_just_starting(tmp_path: Path) -> None:
    """Between making its directory and locking it a server looks as if it had been left."""
    assert not postgres._is_left_over(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to change its user")
def test_root_runs_it_as_nobody(embedded: EmbeddedPostgres) -> None:
    assert psutil.Process(embedded.process_id).username() == "nobody"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to change its user")
def test_root_runs_it_from_a_folder_closed_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the environment under /root, say, `nobody` cannot reach the programs in place."""
    installed = postgres._find_programs()
    monkeypatch.setattr(postgres, "_open_to_everyone", lambda path: path != installed)
    with EmbeddedPostgres(fsync=False) as server:
        executable = Path(psutil.Process(server.process_id).exe())
        assert executable.is_relative_to(server.log_file.parent)


@pytest.mark.parametrize(("is_roomy", "expected"), [(False, "temporary"), (True, "memory")])
def test_throw_away_files_are_kept_in_memory_where_there_is_plenty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_roomy: bool, expected: str
) -> None:
    """A database is 300 files; on a slow disk each test would wait for them."""
    for name in ("memory", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(postgres, "_MEMORY", tmp_path / "memory")
    monkeypatch.setattr(postgres, "_base_directories", lambda: [tmp_path / "temporary"])
    monkeypatch.setattr(postgres, "_is_suitable", Path.is_dir)
    monkeypatch.setattr(postgres, "_ROOMY_BYTES", 0 if is_roomy else sys.maxsize)

    assert postgres._make_directory(durable=True).parent.name == "temporary"
    assert postgres._make_directory(durable=False).parent.name == expected


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def started_by(owner: subprocess.Popen[str]) -> tuple[int, Path]:
    assert owner.stdout is not None
    process_id, directory = owner.stdout.readline().split(maxsplit=1)
    return int(process_id), Path(directory.strip())


def test_it_ends_with_an_owner_that_is_killed(owner: subprocess.Popen[str]) -> None:
    process_id, directory = started_by(owner)
    owner.send_signal(signal.SIGKILL)
    assert wait_until(lambda: not is_alive(process_id))
    assert wait_until(lambda: not directory.exists())


def test_the_next_start_cleans_up_where_the_guardian_was_killed_too(
    owner: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    process_id, directory = started_by(owner)
    (guardian,) = (
        child
        for child in psutil.Process(owner.pid).children()
        if postgres_guardian.__file__ in child.cmdline()
    )
    guardian.kill()
    assert wait_until(lambda: not is_alive(guardian.pid))
    owner.kill()
    owner.wait()
    assert is_alive(process_id)

    only_look_at(directory, monkeypatch)
    remove_leftovers()

    assert not is_alive(process_id)
    assert not directory.exists()


def test_a_server_that_cannot_start_says_why_and_leaves_nothing() -> None:
    server = EmbeddedPostgres(settings={"no_such_setting": "1"})
    with pytest.raises(PostgresUnavailable, match="no_such_setting"), server:
        pass
    assert not server.log_file.parent.exists()


def test_a_platform_without_the_package_is_told_about_the_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres, "_PACKAGE", "not_to_be_found")
    with pytest.raises(PostgresUnavailable, match="Set DATABASE_URL"), EmbeddedPostgres():
        pass


def test_a_named_server_is_used_and_left_as_it_was(
    embedded: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = "SELECT count(*) FROM pg_database"
    before = value(embedded.url, count)
    monkeypatch.setenv("DATABASE_URL", embedded.url)
    with database_server() as server:
        assert isinstance(server, NamedServer)
        url = server.create_database()
        assert value(url, "SELECT current_database()") != "postgres"
        server.create_database(template=url)
        assert value(embedded.url, count) != before
    assert value(embedded.url, count) == before


def test_a_named_server_that_does_not_answer_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"postgresql:///postgres?host={tmp_path}")
    with pytest.raises(psycopg.OperationalError), database_server():
        pass


def test_an_address_in_keyword_form_stays_in_that_form(embedded: EmbeddedPostgres) -> None:
    keywords = f"host={embedded.log_file.parent} user=postgres dbname=postgres"
    with NamedServer(keywords) as server:
        url = server.create_database()
        assert "://" not in url
        assert value(url, "SELECT 1") == 1


def test_each_test_gets_its_own_empty_database(
    postgres_server: DatabaseServer, database_url: str
) -> None:
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    assert value(database_url, tables) == 0
    assert database_url != postgres_server.url
