"""A proxy between client and server: counts what passes, and loses or freezes it on demand.

It reads just enough of PostgreSQL's protocol to know a round trip and a transaction when it sees
one (https://www.postgresql.org/docs/current/protocol-message-formats.html).
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import struct
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

READ_BYTES: Final = 65536
JOIN_SECONDS: Final = 10
DEFAULT_PORT: Final = 5432

_SYNC: Final = b"S"
_SIMPLE_QUERY: Final = b"Q"
_READY_FOR_QUERY: Final = b"Z"
_OUTSIDE_OF_A_TRANSACTION: Final = b"I"


@dataclass
class _Messages:
    """Cuts a stream into messages: one byte of type, four of length, then the rest.

    Args:
        has_startup: the first message has no type.
    """

    has_startup: bool
    _bytes: bytes = field(default=b"", init=False)

    def read(self, data: bytes) -> list[tuple[bytes, bytes]]:
        self._bytes += data
        messages = []
        while (message := self._next()) is not None:
            messages.append(message)
        return messages

    def _next(self) -> tuple[bytes, bytes] | None:
        type_length = 0 if self.has_startup else 1
        if len(self._bytes) < type_length + 4:
            return None
        (length,) = struct.unpack_from("!I", self._bytes, type_length)
        end = type_length + length
        if len(self._bytes) < end:
            return None
        message = self._bytes[:type_length], self._bytes[type_length + 4 : end]
        self._bytes = self._bytes[end:]
        self.has_startup = False
        return message


class PostgresProxy:
    """A server of its own on a Unix socket, until the context ends.

    Args:
        database_url: where to pass everything on to.
    """

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url
        self._directory = Path(tempfile.mkdtemp(prefix="proxy-"))
        self._listener = socket.socket(socket.AF_UNIX)
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._flows = threading.Event()
        self._loses_next_answer = threading.Event()
        self._counted = threading.Lock()
        self.round_trips = 0
        self.transactions = 0
        self.connections = 0

    @property
    def url(self) -> str:
        """The address of the same database through the proxy."""
        return make_conninfo(
            self._database_url,
            host=str(self._directory),
            port=DEFAULT_PORT,
            # Encrypted it could not be read.
            sslmode="disable",
            gssencmode="disable",
        )

    def reset(self) -> None:
        """Count from zero."""
        with self._counted:
            self.round_trips = self.transactions = self.connections = 0

    def lose_next_answer(self) -> None:
        """Cut the connection when the next statement has been committed, before it is told."""
        self._loses_next_answer.set()

    def freeze(self) -> None:
        """Pass no answers on any more, and keep every connection open."""
        self._flows.clear()

    def thaw(self) -> None:
        """Pass on what was kept back."""
        self._flows.set()

    def cut(self) -> None:
        """Close every connection that passes through."""
        for each in self._sockets:
            _close(each)
        self._sockets.clear()

    def __enter__(self) -> Self:
        self._flows.set()
        self._listener.bind(str(self._directory / f".s.PGSQL.{DEFAULT_PORT}"))
        self._listener.listen()
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.thaw()
        _close(self._listener)
        self.cut()
        for thread in self._threads:
            thread.join(JOIN_SECONDS)
        shutil.rmtree(self._directory)

    def _start(self, run: object, *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = self._connect()
            self._sockets += [client, server]
            self.connections += 1
            self._start(self._pass_requests, client, server)
            self._start(self._pass_answers, server, client)

    def _connect(self) -> socket.socket:
        target = conninfo_to_dict(self._database_url)
        host, port = str(target.get("host") or ""), int(target.get("port") or DEFAULT_PORT)
        if host.startswith("/"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{host}/.s.PGSQL.{port}")
            return server
        return socket.create_connection((host or "localhost", port))

    def _pass_requests(self, client: socket.socket, server: socket.socket) -> None:
        messages = _Messages(has_startup=True)
        while data := _receive(client):
            kinds = [kind for kind, _ in messages.read(data)]
            with self._counted:
                self.round_trips += kinds.count(_SYNC) + kinds.count(_SIMPLE_QUERY)
            if not _send(server, data):
                break
        _close(server)

    def _pass_answers(self, server: socket.socket, client: socket.socket) -> None:
        messages = _Messages(has_startup=False)
        answered = 0
        while data := _receive(server):
            ready = [content for kind, content in messages.read(data) if kind == _READY_FOR_QUERY]
            # The first one ends the start-up.
            ended = ready if answered else ready[1:]
            answered += len(ready)
            with self._counted:
                self.transactions += ended.count(_OUTSIDE_OF_A_TRANSACTION)
            if ended and self._loses_next_answer.is_set():
                self._loses_next_answer.clear()
                break
            self._flows.wait()
            if not _send(client, data):
                break
        _close(client)


def _receive(from_socket: socket.socket) -> bytes:
    try:
        return from_socket.recv(READ_BYTES)
    except OSError:
        return b""


def _send(to_socket: socket.socket, data: bytes) -> bool:
    try:
        to_socket.sendall(data)
    except OSError:
        return False
    return True


def _close(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # Wakes up whoever waits on it in another thread.
        each.shutdown(socket.SHUT_RDWR)
    each.close()
