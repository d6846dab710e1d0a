"""Looking at processes."""

import psutil


def is_running(process: psutil.Process) -> bool:
    """Whether a process lives; one that waits to be reaped does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
