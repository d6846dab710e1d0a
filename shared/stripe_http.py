"""The wire under the SDK: one request, one answer, one total deadline.

The SDK's own client has a time limit for each read, so a server that drips its answer could hold a
delivery for ever. Here a watchdog cuts the connection at the deadline, whatever it is doing. And
because it sees the connection being made, it knows whether a failed request was ever sent.
"""

from __future__ import annotations

import heapq
import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import certifi
import stripe
import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from shared.ports import NoResponse, StripeResponse

MAX_ANSWER_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_POOLED_CONNECTIONS = 32


@dataclass(slots=True)
class Exchange:
    """One request on its way; the watchdog and the worker's thread both look at it."""

    timeout_seconds: float
    outcome: StripeResponse | NoResponse | None = None
    may_be_sent: bool = False
    is_cut_off: bool = False
    connection: HTTPConnection | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def watch(self, connection: HTTPConnection) -> None:
        """Note the connection that the exchange runs over."""
        with self.lock:
            self.connection = connection

    def begin_sending(self) -> None:
        """Called between connecting and the first byte of the request.

        Raises:
            urllib3.exceptions.HTTPError: the deadline passed while connecting; nothing may leave.
        """
        with self.lock:
            if self.is_cut_off:
                raise urllib3.exceptions.HTTPError("the deadline passed while connecting")
            self.may_be_sent = True

    def cut_off(self) -> None:
        """End the exchange: the thread that waits on the socket gets an error at once."""
        with self.lock:
            self.is_cut_off = True
            sock = self.connection.sock if self.connection is not None else None
            if sock is None:
                return
            try:
                # Not SSLSocket's own shutdown: that is not meant for another thread.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
            except OSError:
                return  # it ended by itself in this very moment


@dataclass(order=True, slots=True)
class _Watched:
    """An exchange under watch; None when it has ended."""

    deadline: float
    number: int
    exchange: Exchange | None = field(compare=False)


class _Watchdog:
    """Cuts exchanges off at their deadlines: one thread, since one for each would cost as much as
    the request itself."""

    def __init__(self) -> None:
        self._watched: list[_Watched] = []
        self._numbers = itertools.count()
        self._is_sooner = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    @contextmanager
    def watching(self, exchange: Exchange) -> Iterator[None]:
        """Watch an exchange from now on, for as long as it may take."""
        deadline = time.monotonic() + exchange.timeout_seconds
        watched = _Watched(deadline, next(self._numbers), exchange)
        with self._is_sooner:
            heapq.heappush(self._watched, watched)
            if self._watched[0] is watched:
                self._is_sooner.notify()
        try:
            yield
        finally:
            # Its place is left until its time, without what it held.
            watched.exchange = None

    def _run(self) -> None:
        while True:
            exchange = self._wait_for_deadline()
            if exchange is not None:
                exchange.cut_off()

    def _wait_for_deadline(self) -> Exchange | None:
        with self._is_sooner:
            while not self._watched or self._watched[0].deadline > time.monotonic():
                next_deadline = self._watched[0].deadline if self._watched else None
                self._is_sooner.wait(next_deadline and next_deadline - time.monotonic())
            return heapq.heappop(self._watched).exchange


_watchdogs: dict[int, _Watchdog] = {}


def _watchdog() -> _Watchdog:
    """That of this process: a thread does not survive a fork."""
    process_id = os.getpid()
    return _watchdogs.get(process_id) or _watchdogs.setdefault(process_id, _Watchdog())


_current = threading.local()


def _exchange() -> Exchange:
    exchange: Exchange = _current.exchange
    return exchange


class _WatchedConnection(HTTPConnection):
    def connect(self) -> None:
        _exchange().watch(self)
        super().connect()

    def request(self, *arguments: Any, **options: Any) -> None:
        _exchange().watch(self)
        if self.sock is None:
            self.connect()
        _exchange().begin_sending()
        super().request(*arguments, **options)


class _WatchedTlsConnection(HTTPSConnection):
    def connect(self) -> None:
        _exchange().watch(self)
        super().connect()

    def request(self, *arguments: Any, **options: Any) -> None:
        _exchange().watch(self)
        if self.sock is None:
            self.connect()
        _exchange().begin_sending()
        super().request(*arguments, **options)


class _WatchedPool(HTTPConnectionPool):
    ConnectionCls = _WatchedConnection


class _WatchedTlsPool(HTTPSConnectionPool):
    ConnectionCls = _WatchedTlsConnection


class WatchedClient(stripe.HTTPClient):
    """An HTTP client for the SDK that keeps the raw answer and a total deadline.

    Args:
        connect_timeout_seconds: for each address that the host name has.
        read_timeout_seconds: the longest silence.
    """

    name = "urllib3"

    def __init__(self, connect_timeout_seconds: float, read_timeout_seconds: float) -> None:
        super().__init__()
        self._timeout = urllib3.Timeout(connect=connect_timeout_seconds, read=read_timeout_seconds)
        self._pools = urllib3.PoolManager(
            maxsize=_POOLED_CONNECTIONS, cert_reqs="CERT_REQUIRED", ca_certs=certifi.where()
        )
        self._pools.pool_classes_by_scheme = {"http": _WatchedPool, "https": _WatchedTlsPool}

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        post_data: Any = None,
        *,
        _usage: list[str] | None = None,
    ) -> tuple[str, int, Mapping[str, str]]:
        """Send once. Called by the SDK; the raw outcome is left in the thread's exchange.

        Raises:
            stripe.APIConnectionError: nothing complete came back.
        """
        exchange = _exchange()
        try:
            with _watchdog().watching(exchange):
                response = self._send(method, url, headers, post_data)
        except Exception as error:  # noqa: BLE001 (whatever it was, the SDK must get its own kind)
            problem = "deadline" if exchange.is_cut_off else _name_problem(error)
            exchange.outcome = NoResponse(exchange.may_be_sent, problem)
            raise stripe.APIConnectionError(problem) from None  # type: ignore[no-untyped-call]
        exchange.outcome = response
        return response.body.decode("utf-8", "replace"), response.status, response.headers

    def exchange(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: str | None,
        timeout_seconds: float,
    ) -> StripeResponse | NoResponse:
        """Send once, without the SDK around it.

        Args:
            method: HTTP method.
            url: the whole of it.
            headers: all that are sent.
            body: encoded.
            timeout_seconds: for connecting and the whole answer; cut off after it.
        """
        exchange = exchange_once(timeout_seconds)
        try:
            self.request(method, url, headers, body)
        except stripe.APIConnectionError as error:
            return exchange.outcome or NoResponse(sent=True, problem=type(error).__name__)
        return exchange.outcome or NoResponse(sent=True, problem="no_outcome")

    def close(self) -> None:
        """Close the pooled connections."""
        self._pools.clear()

    def _send(
        self, method: str, url: str, headers: Mapping[str, str] | None, post_data: Any
    ) -> StripeResponse:
        answer = self._pools.request(
            method.upper(),
            url,
            headers=dict(headers or {}),
            body=post_data,
            timeout=self._timeout,
            retries=False,
            redirect=False,
            preload_content=False,
        )
        try:
            body = _read_body(answer)
        except BaseException:
            answer.close()
            raise
        answer.release_conn()
        if _exchange().is_cut_off:
            raise urllib3.exceptions.HTTPError("cut off")
        lower = {name.lower(): value for name, value in answer.headers.items()}
        return StripeResponse(answer.status, lower, body)


def _read_body(answer: urllib3.BaseHTTPResponse) -> bytes:
    body = bytearray()
    for chunk in answer.stream(_CHUNK_BYTES):
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise urllib3.exceptions.HTTPError("the answer is too large")
    return bytes(body)


def exchange_once(timeout_seconds: float) -> Exchange:
    """Begin an exchange on this thread; `WatchedClient.request` leaves its outcome in it."""
    exchange = Exchange(timeout_seconds)
    _current.exchange = exchange
    return exchange


def _name_problem(error: BaseException) -> str:
    names = {
        urllib3.exceptions.NameResolutionError: "name_not_resolved",
        urllib3.exceptions.NewConnectionError: "connection_refused",
        urllib3.exceptions.ConnectTimeoutError: "connect_timeout",
        urllib3.exceptions.ReadTimeoutError: "read_timeout",
        urllib3.exceptions.SSLError: "tls_failed",
        urllib3.exceptions.ProtocolError: "connection_lost",
    }
    for kind, name in names.items():
        if isinstance(error, kind):
            return name
    return type(error).__name__
