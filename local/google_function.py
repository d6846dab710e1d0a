"""A function of `main.py` under the real functions-framework, as Google Cloud runs it.

with GoogleFunction("bill", environment) as function:
    http.client.HTTPConnection("127.0.0.1", function.port)
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

import psutil

from local.guardian import end_with_this_process

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.02
_SOURCE: Final = Path(__file__).resolve().parents[1] / "main.py"
# What a process needs of its surroundings; settings come from the caller alone.
_INHERITED: Final = ("PATH", "HOME", "TMPDIR", "LANG", "SSL_CERT_FILE", "PYTHONPYCACHEPREFIX")
_LOG_LINES_SHOWN: Final = 20


class FunctionDidNotStart(Exception):
    """functions-framework ended, or did not listen in time."""


class GoogleFunction:
    """A function server as a context manager, on a free port of the loopback interface.

    Args:
        target: The function's name in `main.py`.
        environment: Its settings; nothing else of the caller's environment is passed on.
        source: In place of our own `main.py`.
        python: Starts the interpreter.
    """

    def __init__(
        self,
        target: str,
        environment: Mapping[str, str],
        source: Path = _SOURCE,
        python: Sequence[str] = (sys.executable,),
    ) -> None:
        self._command = [
            *(*python, "-m", "functions_framework"),
            *("--target", target, "--source", str(source), "--host", HOST, "--port", "0"),
        ]
        self._folder = source.parent
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        self._environment = {**inherited, **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self.port}/"

    @property
    def pid(self) -> int:
        """The process id of the server, which is the parent of its workers."""
        assert self._process is not None
        return self._process.pid

    def worker_pids(self) -> Sequence[int]:
        """The process ids of the workers."""
        return sorted(child.pid for child in psutil.Process(self.pid).children())

    def log(self) -> str:
        """What it wrote so far, standard output and standard error together."""
        assert self._log is not None
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode()

    def __enter__(self) -> Self:
        """Start it and wait until it listens; requests wait until its worker is ready.

        Raises:
            FunctionDidNotStart: It ended, or did not listen in time.
        """
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        end_with_this_process(self._process.pid)
        try:
            self.port = self._wait_for_port()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it."""
        self.stop()
        if self._log is not None:
            self._log.close()
            self._log = None

    def stop(self) -> int | None:
        """End it as Google Cloud does, by SIGTERM and in the end SIGKILL.

        Returns:
            Its exit status; None when it was not running.
        """
        process, self._process = self._process, None
        if process is None:
            return None
        workers = _children(process.pid)
        process.terminate()
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            for worker in workers:
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.kill()
            return process.wait(STOP_SECONDS)

    def _wait_for_port(self) -> int:
        give_up = time.monotonic() + START_SECONDS
        while self._process is not None and time.monotonic() < give_up:
            if self._process.poll() is not None:
                break
            port = _listening_port(self._process.pid)
            if port is not None:
                return port
            time.sleep(POLL_SECONDS)
        last_lines = "\n".join(self.log().splitlines()[-_LOG_LINES_SHOWN:])
        raise FunctionDidNotStart(f"functions-framework does not listen.\n{last_lines}")


def _listening_port(pid: int) -> int | None:
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return None
    listening = [each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN]
    return listening[0] if listening else None


def _children(pid: int) -> Sequence[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
