"""The host's side of a worker process."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0
_ROOT: Final = Path(__file__).resolve().parents[2]
# What a process needs of its surroundings; settings come from the caller alone.
_INHERITED: Final = ("PATH", "HOME", "TMPDIR", "LANG", "PYTHONPYCACHEPREFIX")
_MAXIMUM_MESSAGE_BYTES: Final = 128 * 1024 * 1024


class WorkerFailed(Exception):
    """The worker could not load the function app, died, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function that the worker has loaded; its trigger is the first binding."""

    function_id: str
    name: str
    trigger: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Platform:
    """What Azure brings: an interpreter, and the worker that loads the function app.

    Args:
        python: Starts the interpreter.
        folder: Where this package is, for the worker.
    """

    python: Sequence[str] = (sys.executable,)
    folder: Path = _ROOT


class WorkerProcess:
    """One worker process.

    Args:
        directory: Where function_app.py is.
        settlement_port: Where it finds the settlement service.
        environment: The app settings; nothing else of the caller's environment is passed on.
        log: Where it logs.
        platform: What it runs on.

    Raises:
        WorkerFailed: It cannot load the function app.
    """

    def __init__(
        self,
        directory: Path,
        settlement_port: int,
        environment: Mapping[str, str],
        log: IO[bytes],
        platform: Platform,
    ) -> None:
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        self._process = subprocess.Popen(
            [*platform.python, *_arguments(directory, settlement_port)],
            env={**inherited, **environment},
            cwd=platform.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            # Ctrl-C is for the host, which ends it.
            start_new_session=True,
        )
        self._answers: dict[str, Future[Mapping[str, Any]]] = {}
        self._loaded: Future[Sequence[Function]] = Future()
        self._writing = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="worker-answers", daemon=True)
        self._reader.start()
        try:
            self.functions = {each.name: each for each in self._loaded.result(START_SECONDS)}
        except BaseException:
            self.kill()
            raise

    @property
    def process_id(self) -> int:
        """The id of the process."""
        return self._process.pid

    def invoke(
        self, function: Function, inputs: Mapping[str, Any], seconds: float
    ) -> Mapping[str, Any]:
        """Run a function and wait for its end.

        Args:
            function: Which one.
            inputs: Its argument, as `worker` understands it.
            seconds: How long it may take.

        Returns:
            `failure`, which is None when it returned and else what it raised; and `http`, where
            that was asked for.

        Raises:
            WorkerFailed: The worker died, or the function took too long.
        """
        invocation_id = str(uuid.uuid4())
        answer: Future[Mapping[str, Any]] = Future()
        request = {
            "id": invocation_id,
            "function_id": function.function_id,
            "argument": function.trigger["name"],
            **inputs,
        }
        with self._writing:
            if self._process.poll() is not None:
                raise WorkerFailed("the worker is dead")
            self._answers[invocation_id] = answer
        self._write(request)
        try:
            return answer.result(seconds)
        except TimeoutError:
            raise WorkerFailed("the function took too long") from None

    def stop(self) -> None:
        """Let it end by itself, or end it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._finish()

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()
        self._finish()

    def _finish(self) -> None:
        self._reader.join(STOP_SECONDS)
        self._process.wait(STOP_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                # What was written to a dead worker is lost with it.
                continue

    def _write(self, request: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            with self._writing:
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise WorkerFailed("the worker is dead") from None

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._take(json.loads(line))
        self._process.wait()
        died = WorkerFailed("the worker died")
        if not self._loaded.done():
            self._loaded.set_exception(died)
        with self._writing:
            waiting = [future for future in self._answers.values() if not future.done()]
        for future in waiting:
            future.set_exception(died)

    def _take(self, answer: Mapping[str, Any]) -> None:
        if "id" in answer:
            self._answers.pop(answer["id"]).set_result(answer)
        elif answer["failure"] is not None:
            self._loaded.set_exception(WorkerFailed(answer["failure"]))
        else:
            self._loaded.set_result([_function(each) for each in answer["functions"]])


def open_log() -> IO[bytes]:
    """Return a file that workers may log to."""
    return tempfile.TemporaryFile()


def read_log(log: IO[bytes]) -> str:
    """Return what was logged so far."""
    return os.pread(log.fileno(), os.fstat(log.fileno()).st_size, 0).decode()


def _arguments(directory: Path, settlement_port: int) -> list[str]:
    return [
        *("-m", "local.functions_host.worker"),
        *("--directory", str(directory)),
        *("--host", "127.0.0.1", "--port", str(settlement_port)),
        *("--functions-grpc-max-message-length", str(_MAXIMUM_MESSAGE_BYTES)),
    ]


def _function(described: Mapping[str, Any]) -> Function:
    bindings = [json.loads(binding) for binding in described["bindings"]]
    return Function(described["id"], described["name"], bindings[0])
