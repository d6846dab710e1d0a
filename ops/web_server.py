"""Runs a WSGI application under gunicorn. The only module that imports it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from gunicorn.app.base import BaseApplication

KEEP_ALIVE_SECONDS = 75
# Longer than the longest forwarded call: gunicorn kills a worker that is silent for so long.
SILENCE_SECONDS = 120
SHUTDOWN_SECONDS = 40
MAX_HEADER_LINE_BYTES = 8190
MAX_HEADERS = 60


class _Server(BaseApplication):  # type: ignore[misc]
    def __init__(self, application: Callable[..., Any], options: dict[str, object]) -> None:
        self._application = application
        self._options = options
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._options.items():
            self.cfg.set(name, value)

    def load(self) -> Callable[..., Any]:
        return self._application


def run_web_server(
    application: Callable[..., Any],
    address: str,
    threads: int,
    processes: int,
    beside: Callable[[], None] | None = None,
) -> None:
    """Serve in worker processes until a signal ends them.

    Args:
        application: WSGI.
        address: host and port.
        threads: how many requests each process handles at once.
        processes: how many there are.
        beside: runs in a thread of each process, and ends with it wherever it is.
    """

    def start_beside(_worker: object) -> None:
        if beside is not None:
            threading.Thread(target=beside, daemon=True).start()

    _Server(
        application,
        {
            "bind": address,
            "workers": processes,
            "worker_class": "gthread",
            "threads": threads,
            "keepalive": KEEP_ALIVE_SECONDS,
            "timeout": SILENCE_SECONDS,
            "graceful_timeout": SHUTDOWN_SECONDS,
            "limit_request_fields": MAX_HEADERS,
            "limit_request_field_size": MAX_HEADER_LINE_BYTES,
            "control_socket_disable": True,
            # Not before: a thread does not survive the fork.
            "post_worker_init": start_beside,
        },
    ).run()
