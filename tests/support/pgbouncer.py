"""PgBouncer in transaction mode, where it is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

HOW_TO_GET: Final = "PgBouncer is not installed; on Debian: apt-get install pgbouncer"
PORT: Final = 6432
START_SECONDS: Final = 20
STOP_SECONDS: Final = 10
# Fewer than its clients, so that clients really share.
SERVER_CONNECTIONS: Final = 10
_UNPRIVILEGED_USER: Final = "nobody"


def find_pgbouncer() -> str | None:
    """Where it is. Debian puts it into a folder that is only on root's PATH."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def pgbouncer(program: str, database_url: str) -> Iterator[str]:
    """Run it in front of a database and yield the address through it.

    Args:
        program: from `find_pgbouncer`.
        database_url: the database to stand in front of.
    """
    directory = Path(tempfile.mkdtemp(prefix="pgbouncer-"))
    try:
        settings = directory / "pgbouncer.ini"
        settings.write_text(_settings(database_url, directory))
        url = make_conninfo(
            host=str(directory), port=PORT, dbname="pooled", user="anybody", sslmode="disable"
        )
        with _running([program, str(settings)], directory) as process:
            _wait_until_it_answers(url, process, directory / "log")
            yield url
    finally:
        shutil.rmtree(directory)


def _settings(database_url: str, directory: Path) -> str:
    target = conninfo_to_dict(database_url)
    names = ("host", "port", "dbname", "user", "password")
    database = " ".join(f"{name}='{target[name]}'" for name in names if target.get(name))
    return f"""
[databases]
pooled = {database}
[pgbouncer]
unix_socket_dir = {directory}
listen_port = {PORT}
auth_type = any
pool_mode = transaction
default_pool_size = {SERVER_CONNECTIONS}
max_client_conn = 300
"""


@contextmanager
def _running(command: list[str], directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    user = None
    if os.geteuid() == 0:
        # It refuses to run as root; and root's embedded server admits this user only.
        user = _UNPRIVILEGED_USER
        account = pwd.getpwnam(user)
        os.chown(directory, account.pw_uid, account.pw_gid)
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=user
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError as error:
            if process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"PgBouncer does not answer:\n{log.read_text()}") from error
            time.sleep(0.01)
        else:
            return
