"""Looking at processes."""

import socket

import psutil


def free_port() -> int:
    """A port of the loopback interface on which nobody listens now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def is_running(process: psutil.Process) -> bool:
    """Whether a process lives; one that waits to be reaped does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
