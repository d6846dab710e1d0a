"""An emulator in a process of its own, which ends with this one."""

import json
import os
import selectors
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from local.servicebus_emulator.control import ControlError, EmulatorControl, call_over_http
from local.servicebus_emulator.control_api import ControlAnswer, ControlRequest
from local.servicebus_emulator.options import (
    EmulatorOptions,
    QueueSettings,
)

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 30.0

_ROOT: Final = Path(__file__).resolve().parents[2]


class EmulatorProcess(EmulatorControl):
    """An emulator that runs in a process between `start` and `stop`, or within `with`.

    Args:
        options: What it is started with. The control API is served in any case.
    """

    def __init__(self, options: EmulatorOptions) -> None:
        super().__init__(self._bring)
        self._options = replace(options, control_port=options.control_port or 0)
        self._process: subprocess.Popen[str] | None = None
        self._connection_string = ""
        self._control_url = ""

    @property
    def connection_string(self) -> str:
        """What clients connect with."""
        self._require_process()
        return self._connection_string

    @property
    def control_url(self) -> str:
        """Where the control API is served."""
        self._require_process()
        return self._control_url

    @property
    def process_id(self) -> int:
        """The id of the process."""
        return self._require_process().pid

    def start(self) -> None:
        """Start it, and wait until it is ready.

        Raises:
            ControlError: It cannot start; its own message is on standard error.
        """
        assert self._process is None, "the emulator was started already"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "local.servicebus_emulator", *_arguments(self._options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": _python_path()},
            text=True,
            # Ctrl-C is for the owner, which may still need the emulator to finish.
            start_new_session=True,
        )
        try:
            assert self._process.stdout is not None, "its standard output is a pipe"
            announced = json.loads(_read_line(self._process.stdout))
        except BaseException:
            self.stop()
            raise
        self._connection_string = announced["connection_string"]
        self._control_url = announced["control_url"]

    def stop(self) -> None:
        """Stop it; every connection is cut."""
        process, self._process = self._process, None
        if process is None:
            return
        # Leaving the block closes the pipes and waits for the end.
        with process:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _bring(self, request: ControlRequest) -> ControlAnswer:
        return call_over_http(self.control_url)(request)

    def _require_process(self) -> "subprocess.Popen[str]":
        if self._process is None:
            raise ControlError("the emulator is not running")
        return self._process


def _python_path() -> str:
    return os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))


def _arguments(options: EmulatorOptions) -> list[str]:
    arguments = ["--json", "--until-stdin-closes"]
    arguments += ["--host", options.host, "--port", str(options.port)]
    arguments += ["--control-port", str(options.control_port), "--seed", str(options.seed)]
    for queue in options.queues:
        arguments += ["--queue", queue.name + _settings(queue.settings)]
    for topic in options.topics:
        arguments += ["--topic", topic]
    for each in options.subscriptions:
        arguments += ["--subscription", f"{each.topic}/{each.name}{_settings(each.settings)}"]
    return arguments


def _settings(settings: QueueSettings) -> str:
    text = f":lock={settings.lock_seconds},max-delivery={settings.max_delivery_count}"
    if settings.advertised_lock_seconds is not None:
        text += f",advertised-lock={settings.advertised_lock_seconds}"
    return text


def _read_line(stream: IO[str]) -> str:
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        if not selector.select(START_SECONDS):
            raise ControlError("the emulator does not start")
    line = stream.readline()
    if not line:
        raise ControlError("the emulator cannot start; its standard error says why")
    return line
