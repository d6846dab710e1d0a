"""The pool: opened lazily, bounded, at home on both sides of a fork, and gone without a sound."""

import math
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from shared.errors import RecordsUnavailable
from shared.store.postgres import PostgresStore
from tests.support.postgres_proxy import PostgresProxy
from tests.support.store import PERIOD, PostgresUnderTest
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
RUN_SECONDS = 60

LEFT_OPEN = """
import sys
from shared.store.postgres import PostgresStore
store = PostgresStore(sys.argv[1], 2)
assert store.get_run("2026-11") is not None
"""

FORKED = """
import os, sys
from shared.store.postgres import PostgresStore

store = PostgresStore(sys.argv[1], 2)
if sys.argv[2] == "used":
    assert store.get_run("2026-11") is not None
child = os.fork()
if child == 0:
    assert store.get_run("2026-11") is not None
    store.close()
    sys.exit()
_, status = os.waitpid(child, 0)
assert status == 0, status
assert store.get_run("2026-11") is not None
"""


def run_script(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in development mode, where everything that is left open is told."""
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", script, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )


def test_no_connection_is_opened_before_it_is_needed(postgres: PostgresUnderTest) -> None:
    """Goal: a cold start that finds no work does not touch the database."""
    with PostgresProxy(postgres.database_url) as proxy:
        store = PostgresStore(proxy.url, 8)
        assert proxy.connections == 0
        for _ in range(3):
            store.get_run(PERIOD)
        assert proxy.connections == 1
        store.close()


def test_there_are_never_more_connections_than_allowed(postgres: PostgresUnderTest) -> None:
    """Goal: as many threads as there are, they share."""
    with PostgresProxy(postgres.database_url) as proxy, ThreadPoolExecutor(20) as pool:
        store = PostgresStore(proxy.url, 3)
        list(pool.map(store.get_run, [PERIOD] * 200))
        assert proxy.connections <= 3
        store.close()


def test_what_lies_idle_is_closed_with_a_connection_that_was_lost(
    postgres: PostgresUnderTest,
) -> None:
    """Goal: what was silently cut off with it must not cost the next calls a wait each."""
    with PostgresProxy(postgres.database_url) as proxy:
        store = PostgresStore(proxy.url, 2)
        with store._caller.pool.connection(math.inf), store._caller.pool.connection(math.inf):
            pass
        assert proxy.connections == 2
        proxy.lose_next_answer()
        store.get_run(PERIOD)
        assert proxy.connections == 3
        with store._caller.pool.connection(math.inf), store._caller.pool.connection(math.inf):
            assert proxy.connections == 4
        store.close()


def test_a_closed_store_has_no_connection_and_makes_none(postgres: PostgresUnderTest) -> None:
    """Goal: what a shutdown closed stays closed, also what was lent out at that moment."""
    url = make_conninfo(postgres.database_url, application_name="closing")
    store = PostgresStore(url, 2)
    started, waiting = threading.Event(), threading.Event()

    def call_across_the_close() -> None:
        with store._caller.pool.connection(math.inf) as connection:
            connection.execute("SELECT 1")
            started.set()
            assert waiting.wait(RUN_SECONDS)

    with ThreadPoolExecutor(1) as pool:
        store.get_run(PERIOD)
        call = pool.submit(call_across_the_close)
        assert started.wait(RUN_SECONDS)
        store.close()
        waiting.set()
        call.result(RUN_SECONDS)
    with pytest.raises(RecordsUnavailable, match="closed"):
        store.get_run(PERIOD)
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'closing'"
    wait_until(lambda: postgres.execute(query) == [(0,)], "the connections are gone")


def test_a_process_that_forgets_to_close_ends_without_a_sound(
    postgres: PostgresUnderTest,
) -> None:
    """Goal: a function instance is never told that it ends; no thread and no warning is left."""
    postgres.open_run()
    ended = run_script(LEFT_OPEN, postgres.database_url)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.parametrize("before", ["used", "unused"])
def test_a_fork_shares_no_connection(postgres: PostgresUnderTest, before: str) -> None:
    """Goal: a server that loads the application once and then forks its workers works.

    Method: the child uses the store and ends, and the parent's connection is still good.
    """
    postgres.open_run()
    ended = run_script(FORKED, postgres.database_url, before)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
