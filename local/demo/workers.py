"""Worker processes that pull: started, killed and ended together."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Final

from local.guardian import end_with_this_process

STOP_SECONDS: Final = 10.0
# What a process needs of its surroundings; settings come from the caller alone.
_INHERITED: Final = ("PATH", "HOME", "TMPDIR", "LANG", "SSL_CERT_FILE", "PYTHONPYCACHEPREFIX")


class Workers:
    """Some processes of the same kind.

    Args:
        command: A Python module and its arguments.
        settings: Their environment.
        count: How many there are.
        log: Where they write.
    """

    def __init__(
        self, command: Sequence[str], settings: Mapping[str, str], count: int, log: IO[bytes]
    ) -> None:
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        self._command = [sys.executable, "-m", *command]
        self._environment = {**inherited, **settings}
        self._log = log
        self._processes: list[subprocess.Popen[bytes]] = []
        self.count = count

    def start(self) -> None:
        """Start those that are missing."""
        while len(self._processes) < self.count:
            process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
            )
            self._processes.append(process)
            end_with_this_process(process.pid)

    def kill_one(self) -> None:
        """Kill one with SIGKILL; another takes its place."""
        process = self._processes.pop(0)
        process.kill()
        process.wait()
        self.start()

    def dismiss(self) -> None:
        """Ask all of them to end, by SIGTERM, and do not wait."""
        for process in self._processes:
            process.terminate()

    def stop(self) -> None:
        """End all of them, as a deployment does: SIGTERM, and SIGKILL for those who do not hear."""
        self.dismiss()
        for process in self._processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
