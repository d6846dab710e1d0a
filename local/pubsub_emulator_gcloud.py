"""Google's own Pub/Sub emulator, which gcloud installs, and the few calls that one needs of it.

    with GcloudPubsubEmulator() as pubsub:
        pubsub.create_topic("usage")
        pubsub.create_subscription("usage", "bill", push_endpoint="http://127.0.0.1:8080/")
        pubsub.publish("usage", b"...")

It keeps everything in memory, listens on the loopback interface only, and ends with its owner,
even when that one is killed. Where gcloud or Java is missing, the project's own emulator does
instead: `local.pubsub_emulator`.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import psutil

from local.tools import Missing, find_tool

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0
CALL_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.05
# Somebody else may take a free port before Java gets to it.
START_ATTEMPTS: Final = 3

_PREFIX: Final = "chargeonce-pubsub-"
_LOG: Final = "emulator.log"
_LOG_LINES_SHOWN: Final = 20
# A small and short-lived Java: start fast rather than run fast, and leave nothing in /tmp.
_JAVA_OPTIONS: Final = "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
# Reads until the owner, who holds the other end, is gone; then ends the whole group and tidies up.
_GUARDIAN: Final = 'cat >/dev/null; kill -s KILL -- "-$1"; rm -rf -- "$2"'


class PubsubEmulatorError(Exception):
    """The emulator did not start, or refused a call."""


class GcloudEmulatorUnavailable(PubsubEmulatorError):
    """The emulator cannot run here; the message says what is missing and how to get it."""


@dataclass(frozen=True, slots=True)
class PulledMessage:
    """A message as a subscriber gets it."""

    message_id: str
    body: bytes
    attributes: Mapping[str, str]


class PubsubCalls:
    """The calls that one needs of an emulator, over its JSON API and so without any SDK."""

    def __init__(self, project: str) -> None:
        """Remember the project in which topics and subscriptions are made."""
        self.project = project
        self._port = 0

    @property
    def host_and_port(self) -> str:
        """What PUBSUB_EMULATOR_HOST is to be set to."""
        return f"{HOST}:{self._port}"

    def topic_path(self, topic: str) -> str:
        """The full name of a topic."""
        return f"projects/{self.project}/topics/{topic}"

    def subscription_path(self, subscription: str) -> str:
        """The full name of a subscription."""
        return f"projects/{self.project}/subscriptions/{subscription}"

    def create_topic(self, topic: str) -> None:
        """Make a topic."""
        self._call("PUT", self.topic_path(topic), {})

    def create_subscription(
        self,
        topic: str,
        subscription: str,
        *,
        push_endpoint: str | None = None,
        ack_deadline_seconds: int = 60,
        dead_letter_topic: str | None = None,
        max_delivery_attempts: int = 5,
        unwrapped: bool = False,
    ) -> None:
        """Make a subscription that retries at once.

        Args:
            topic: What it subscribes to.
            subscription: Its name.
            push_endpoint: Where to push; None makes a pull subscription.
            ack_deadline_seconds: How long a subscriber may take.
            dead_letter_topic: Where the emulator itself moves a message that stays unacknowledged.
            max_delivery_attempts: After how many deliveries it does.
            unwrapped: Push the bare message, with metadata in headers.
        """
        settings: dict[str, Any] = {
            "topic": self.topic_path(topic),
            "ackDeadlineSeconds": ack_deadline_seconds,
        }
        if push_endpoint is not None:
            settings["pushConfig"] = {"pushEndpoint": push_endpoint}
            if unwrapped:
                settings["pushConfig"]["noWrapper"] = {"writeMetadata": True}
        if dead_letter_topic is not None:
            settings["deadLetterPolicy"] = {
                "deadLetterTopic": self.topic_path(dead_letter_topic),
                "maxDeliveryAttempts": max_delivery_attempts,
            }
        self._call("PUT", self.subscription_path(subscription), settings)

    def publish(self, topic: str, body: bytes, attributes: Mapping[str, str] | None = None) -> str:
        """Publish a message and return its id."""
        message = {"data": base64.b64encode(body).decode(), "attributes": dict(attributes or {})}
        published = self._call("POST", f"{self.topic_path(topic)}:publish", {"messages": [message]})
        return str(published["messageIds"][0])

    def pull(
        self, subscription: str, count: int, within_seconds: float = 30.0
    ) -> Sequence[PulledMessage]:
        """Take so many messages off a pull subscription.

        Raises:
            PubsubEmulatorError: There were not that many in time.
        """
        give_up = time.monotonic() + within_seconds
        pulled: dict[str, PulledMessage] = {}
        while len(pulled) < count:
            if time.monotonic() > give_up:
                raise PubsubEmulatorError(f"{subscription}: {len(pulled)} of {count} messages came")
            pulled.update(self._pull_some(subscription, count - len(pulled)))
        return list(pulled.values())

    def _pull_some(self, subscription: str, count: int) -> Mapping[str, PulledMessage]:
        path = self.subscription_path(subscription)
        answer = self._call("POST", f"{path}:pull", {"maxMessages": count})
        received = answer.get("receivedMessages", [])
        if not received:
            # An empty answer may come although there are messages.
            time.sleep(POLL_SECONDS)
            return {}
        ack_ids = [each["ackId"] for each in received]
        self._call("POST", f"{path}:acknowledge", {"ackIds": ack_ids})
        messages = [_read_message(each["message"]) for each in received]
        return {message.message_id: message for message in messages}

    def _call(self, method: str, path: str, given: Mapping[str, Any] | None = None) -> Any:
        connection = HTTPConnection(HOST, self._port, timeout=CALL_SECONDS)
        try:
            body = None if given is None else json.dumps(given).encode()
            connection.request(method, f"/v1/{path}", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise PubsubEmulatorError(f"{method} {path}: {response.status} {content[:300]!r}")
        return json.loads(content or b"{}")


class GcloudPubsubEmulator(PubsubCalls):
    """The emulator as a context manager."""

    def __init__(
        self,
        program: Path | None = None,
        project: str = "chargeonce-desk",
        *,
        port: int = 0,
        start_seconds: float = START_SECONDS,
    ) -> None:
        """Prepare the emulator; entering the context starts it.

        Args:
            program: Its start script; None looks for it beside gcloud.
            project: Where topics and subscriptions are made.
            port: Where to listen on the loopback interface; 0 takes a free port.
            start_seconds: How long the start may take.
        """
        super().__init__(project)
        self._program = program
        self._wanted_port = port
        self._start_seconds = start_seconds
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._guardian: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead Google's clients here."""
        return {
            "PUBSUB_EMULATOR_HOST": self.host_and_port,
            "PUBSUB_PROJECT_ID": self.project,
            "GOOGLE_CLOUD_PROJECT": self.project,
        }

    @property
    def process_id(self) -> int:
        """The Java process, for tests that freeze or kill it.

        Raises:
            PubsubEmulatorError: It does not run.
        """
        if self._process is None:
            raise PubsubEmulatorError("The emulator is not running.")
        return self._process.pid

    @property
    def log_file(self) -> Path:
        """What the emulator wrote.

        Raises:
            PubsubEmulatorError: It does not run.
        """
        if self._directory is None:
            raise PubsubEmulatorError("The emulator is not running.")
        return self._directory / _LOG

    def __enter__(self) -> Self:
        """Start it and wait until it answers.

        Raises:
            GcloudEmulatorUnavailable: gcloud, its component or Java is missing.
            PubsubEmulatorError: It ended, or did not answer in time.
        """
        program = self._program or _find_program()
        self._directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            self._start(program, self._directory)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it; what it held is gone."""
        self._stop()

    def _start(self, program: Path, directory: Path) -> None:
        give_up = time.monotonic() + self._start_seconds
        for _attempt in range(START_ATTEMPTS):
            # Not port 0: then the port that takes both HTTP and gRPC does not find its own server.
            self._port = self._wanted_port or _free_port()
            with self.log_file.open("ab") as log:
                self._process = _launch(program, self._port, directory, log)
            self._guardian = _guard(self._process.pid, directory)
            if self._answers_before(give_up):
                return
            self._end()
            if self._wanted_port or time.monotonic() > give_up:
                break
        raise PubsubEmulatorError(
            f"Google's Pub/Sub emulator did not start on {self.host_and_port}.\n{self._log_end()}"
        )

    def _answers_before(self, give_up: float) -> bool:
        assert self._process is not None
        while self._process.poll() is None and time.monotonic() < give_up:
            # Whoever else might have taken the port would answer too.
            if _listens(self._process.pid, self._port) and self._answers():
                return True
            time.sleep(POLL_SECONDS)
        return False

    def _answers(self) -> bool:
        try:
            self._call("GET", f"projects/{self.project}/topics")
        except (OSError, HTTPException, PubsubEmulatorError):
            return False
        return True

    def _end(self) -> None:
        if self._process is not None:
            # The group, not the process: a start script may keep Java as its child.
            _signal_group(self._process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
            _signal_group(self._process.pid, signal.SIGKILL)
            self._process.wait(STOP_SECONDS)
            self._process = None
        if self._guardian is not None:
            self._guardian.kill()
            self._guardian.communicate()
            self._guardian = None

    def _stop(self) -> None:
        self._end()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _log_end(self) -> str:
        lines = self.log_file.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES_SHOWN:])


def _find_program() -> Path:
    program = find_tool("pubsub-emulator")
    if isinstance(program, Missing):
        raise GcloudEmulatorUnavailable(str(program))
    return program


def _launch(program: Path, port: int, directory: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
    options = f"{os.environ.get('JAVA_OPTS', '')} {_JAVA_OPTIONS} -Djava.io.tmpdir={directory}"
    try:
        return subprocess.Popen(
            [str(program), f"--host={HOST}", f"--port={port}"],
            cwd=directory,
            env={**os.environ, "JAVA_OPTS": options.strip()},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C is for the owner, which may still need the emulator to finish.
            start_new_session=True,
        )
    except OSError as error:
        raise GcloudEmulatorUnavailable(f"{program} cannot be run: {error}.") from error


def _guard(process_id: int, directory: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["sh", "-c", _GUARDIAN, "guardian", str(process_id), str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _listens(process_id: int, port: int) -> bool:
    try:
        process = psutil.Process(process_id)
        family = [process, *process.children(recursive=True)]
        connections = [found for one in family for found in one.net_connections("tcp")]
    except psutil.Error:
        return False
    return any(
        found.status == psutil.CONN_LISTEN and found.laddr.port == port for found in connections
    )


def _signal_group(process_id: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process_id, number)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _read_message(message: Mapping[str, Any]) -> PulledMessage:
    return PulledMessage(
        message["messageId"],
        base64.b64decode(message.get("data", "")),
        message.get("attributes", {}),
    )
