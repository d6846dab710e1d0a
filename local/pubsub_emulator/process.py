"""The emulator in a process of its own, for what must not share one with it."""

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from local.pubsub_emulator.client import ControlClient
from local.pubsub_emulator.control import Control
from local.pubsub_emulator.emulator import DEFAULT_PROJECT, environment_for
from local.pubsub_emulator.names import subscription_name, topic_name

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 15.0

# What the command prints when it is ready, each on a line of its own; the first one last.
READY_PREFIX: Final = "PUBSUB_EMULATOR_HOST="
CONTROL_PREFIX: Final = "PUBSUB_EMULATOR_CONTROL="

_REPOSITORY: Final = Path(__file__).resolve().parents[2]


class EmulatorUnavailable(RuntimeError):
    """The emulator's process did not start, or does not run."""


class EmulatorProcess:
    """`python -m local.pubsub_emulator` as a context manager.

    It ends with this process, even when this one is killed.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        project: str = DEFAULT_PROJECT,
        topics: Sequence[str] = (),
        subscriptions: Sequence[tuple[str, str]] = (),
        speed: float = 1.0,
        seed: int = 0,
        shortest_ack_deadline_seconds: int = 10,
    ) -> None:
        """Prepare the process; entering the context starts it.

        Args:
            port: The port of the Pub/Sub API; 0 takes a free one.
            project: The project of short names, and of `environment`.
            topics: Topics that are there from the start.
            subscriptions: Topic and name of subscriptions that are there from the start.
            speed: How many of Pub/Sub's seconds pass in a real one; see `Clock`.
            seed: Decides which improbable faults strike.
            shortest_ack_deadline_seconds: The least that a subscription or stream may ask for.
        """
        self._project = project
        self._command = [
            *(sys.executable, "-m", "local.pubsub_emulator", "--until-stdin-ends"),
            *("--host-port", f"127.0.0.1:{port}", "--control-port", "0"),
            *("--project", project, "--speed", str(speed), "--seed", str(seed)),
            *("--shortest-ack-deadline-seconds", str(shortest_ack_deadline_seconds)),
        ]
        for topic in topics:
            self._command += ["--topic", topic]
        for topic, subscription in subscriptions:
            self._command += ["--subscription", f"{topic}/{subscription}"]
        self._process: subprocess.Popen[str] | None = None
        self._host_and_port = ""
        self._control_url = ""

    @property
    def host_and_port(self) -> str:
        """Where it listens, as PUBSUB_EMULATOR_HOST wants it."""
        return self._host_and_port

    @property
    def control_url(self) -> str:
        """Where the control API is."""
        return self._control_url

    @property
    def control(self) -> Control:
        """Faults, the record of what happened, and cutting streams."""
        return ControlClient(self._control_url)

    @property
    def project(self) -> str:
        """The project of short names."""
        return self._project

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead Google's clients here."""
        return environment_for(self._host_and_port, self._project)

    def topic_path(self, topic: str) -> str:
        """The full name of a topic."""
        return topic_name(self._project, topic)

    def subscription_path(self, subscription: str) -> str:
        """The full name of a subscription."""
        return subscription_name(self._project, subscription)

    @property
    def process_id(self) -> int:
        """The process, for tests that freeze or kill it.

        Raises:
            EmulatorUnavailable: It does not run.
        """
        if self._process is None:
            raise EmulatorUnavailable("The emulator is not running.")
        return self._process.pid

    def __enter__(self) -> Self:
        """Start the process and wait until it serves.

        Raises:
            EmulatorUnavailable: It did not start.
        """
        self._process = subprocess.Popen(
            self._command,
            cwd=_REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C is for the owner, which may still need the emulator to finish.
            start_new_session=True,
        )
        try:
            self._read_addresses()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the process and wait for it."""
        self._end()

    def _read_addresses(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        # A process that never says that it is ready is killed, which ends the reading.
        watchdog = threading.Timer(START_SECONDS, self._process.kill)
        watchdog.start()
        try:
            self._control_url = _read_line(self._process.stdout, CONTROL_PREFIX)
            self._host_and_port = _read_line(self._process.stdout, READY_PREFIX)
        finally:
            watchdog.cancel()

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._process = None


def _read_line(output: IO[str], prefix: str) -> str:
    line = output.readline()
    if not line.startswith(prefix):
        raise EmulatorUnavailable(
            f"The Pub/Sub emulator did not start; its error output says why. It printed {line!r}."
        )
    return line.removeprefix(prefix).strip()
