"""End an embedded PostgreSQL server whose owner died, however it died.

Run as a process of its own beside each server. It reads a pipe whose other end only the owner
holds: when the pipe ends, so has the owner, even by SIGKILL. Then it ends what is left of the
server and removes its directory. After an orderly shutdown nothing is left to do.
"""

import contextlib
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

DATA: Final = "data"
ORDERLY_SECONDS: Final = 5
KILLED_SECONDS: Final = 5


def running_postmaster(directory: Path) -> psutil.Process | None:
    """Return the server process that works on this directory, if there is one."""
    data = directory / DATA
    try:
        process_id = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
        process = psutil.Process(process_id)
        # The number in a file left behind may meanwhile be somebody else's.
        return process if str(data) in process.cmdline() else None
    except (OSError, ValueError, psutil.Error):
        return None


def kill(postmaster: psutil.Process) -> None:
    """Kill the server and its children as a power cut would, and wait until they are gone."""
    try:
        family = [postmaster, *postmaster.children(recursive=True)]
    except psutil.Error:
        return
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _wait_until_gone(family, KILLED_SECONDS)


def _wait_until_gone(processes: Sequence[psutil.Process], seconds: float) -> bool:
    give_up = time.monotonic() + seconds
    while any(_is_alive(process) for process in processes):
        if time.monotonic() > give_up:
            return False
        time.sleep(0.005)
    return True


def _is_alive(process: psutil.Process) -> bool:
    try:
        # Dead children whose new parent is in no hurry to collect them do no harm.
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def remove_leftover(directory: Path) -> None:
    """End the server that works on this directory, if any, and remove the directory."""
    postmaster = running_postmaster(directory)
    if postmaster is not None:
        # Unlike a kill it gives the shared memory back.
        with contextlib.suppress(psutil.NoSuchProcess):
            postmaster.send_signal(signal.SIGQUIT)
        if not _wait_until_gone([postmaster], ORDERLY_SECONDS):
            kill(postmaster)
    shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    """Wait for the owner's end, then clean up after it."""
    directory = Path(sys.argv[1])
    sys.stdin.buffer.read()
    if directory.exists():
        remove_leftover(directory)


if __name__ == "__main__":
    main()
