"""End child processes whose owner died, however it died.

    process = subprocess.Popen(command)
    end_with_this_process(process.pid)

For programs that cannot watch for their owner's end themselves. The first call starts a guardian, a
process beside this one. It reads a pipe whose other end only this process holds: when the pipe
ends, so has this process, even by SIGKILL. Then it kills the children that are left, with all
theirs.
"""

import atexit
import contextlib
import functools
import subprocess
import sys

import psutil


def end_with_this_process(process_id: int) -> None:
    """Have a child killed when this process is gone; a child that ended before is forgotten.

    Args:
        process_id: The child, which was not waited for yet.
    """
    guardian = _guardian()
    assert guardian.stdin is not None
    # A guardian that somebody killed guards nothing more; that must not stop its owner's work.
    with contextlib.suppress(BrokenPipeError):
        guardian.stdin.write(b"%d\n" % process_id)


@functools.cache
def _guardian() -> "subprocess.Popen[bytes]":
    guardian = subprocess.Popen(
        [sys.executable, "-I", __file__],
        # One write per line, so that lines of several threads do not mix.
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Out of reach of the signals that end the owner's whole group.
        start_new_session=True,
    )
    atexit.register(guardian.communicate)
    return guardian


def main() -> None:
    """Remember the processes that the owner names; kill them when it is gone."""
    wards = []
    for line in sys.stdin.buffer:
        with contextlib.suppress(psutil.NoSuchProcess):
            # Knows its process again, so that nobody else's is killed who got the same number.
            wards.append(psutil.Process(int(line)))
    for ward in wards:
        with contextlib.suppress(psutil.NoSuchProcess):
            _kill_family(ward)


def _kill_family(process: psutil.Process) -> None:
    # The children first: those of a dead process are nobody's any more.
    for each in [*process.children(recursive=True), process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()


if __name__ == "__main__":
    main()
