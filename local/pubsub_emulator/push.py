"""Pushing: messages of push subscriptions go out as HTTP requests, and the answers settle them."""

import itertools
import logging
import socket
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import urlsplit

from local.pubsub_emulator.backlog import Demand
from local.pubsub_emulator.errors import BrokerError
from local.pubsub_emulator.exchange import LONGEST_WAIT_SECONDS, Exchange
from local.pubsub_emulator.faults import Target
from local.pubsub_emulator.gate import Settlement
from local.pubsub_emulator.journal import Path
from local.pubsub_emulator.messages import Delivery
from local.pubsub_emulator.push_request import (
    ACKNOWLEDGING_STATUSES,
    PushRequest,
    push_request,
)
from local.pubsub_emulator.settings import SubscriptionSettings

# Altogether, and for each subscription, so that one whose endpoint hangs stops no other.
MAXIMUM_REQUESTS: Final = 64
MAXIMUM_REQUESTS_PER_SUBSCRIPTION: Final = 16
STOP_SECONDS: Final = 10.0

_STOP_POLL_SECONDS: Final = 0.01

_log = logging.getLogger(__name__)


class Pusher:
    """Pushes the messages of every push subscription, until it is stopped."""

    def __init__(self, exchange: Exchange) -> None:
        """Prepare to push what is in the exchange."""
        self._exchange = exchange
        self._lock = threading.Lock()
        self._under_way: Counter[str] = Counter()
        self._connections: set[HTTPConnection] = set()
        self._consumers = itertools.count(1)
        self._requests = ThreadPoolExecutor(
            MAXIMUM_REQUESTS, thread_name_prefix="pubsub-emulator-push"
        )
        self._dispatcher = threading.Thread(
            target=self._dispatch, name="pubsub-emulator-push", daemon=True
        )

    def start(self) -> None:
        """Push."""
        self._dispatcher.start()

    def stop(self) -> None:
        """Break off what is under way. The exchange is closed before."""
        self._dispatcher.join(STOP_SECONDS)
        self._requests.shutdown(wait=False)
        give_up = time.monotonic() + STOP_SECONDS
        # More than once: one that is just connecting cannot be broken off yet.
        while self._break_off_all() and time.monotonic() < give_up:
            time.sleep(_STOP_POLL_SECONDS)

    def _break_off_all(self) -> bool:
        with self._lock:
            for connection in self._connections:
                _break_off(connection)
            return self._under_way.total() > 0

    def _dispatch(self) -> None:
        with suppress(BrokerError):
            while not self._exchange.is_closed:
                version = self._exchange.version
                with self._exchange.look() as broker:
                    every = broker.push_subscriptions()
                pushed = sum(self._push_one(settings) for settings in every)
                if not pushed:
                    self._exchange.wait(version, LONGEST_WAIT_SECONDS)

    def _push_one(self, settings: SubscriptionSettings) -> bool:
        """Push one message of the subscription, if there is one and a request may start."""
        with self._lock:
            has_room = (
                self._under_way[settings.name] < MAXIMUM_REQUESTS_PER_SUBSCRIPTION
                and self._under_way.total() < MAXIMUM_REQUESTS
            )
        if not has_room:
            return False
        # Each request is a consumer of its own: of a key, one message at a time is under way.
        demand = Demand(f"push-{next(self._consumers)}", settings.ack_deadline_seconds)
        try:
            deliveries = self._exchange.take(settings.name, demand, Path.PUSH)
        except BrokerError:
            # The subscription is gone, or a fault refused the delivery.
            return False
        for delivery in deliveries:
            self._start(settings, delivery)
        return bool(deliveries)

    def _start(self, settings: SubscriptionSettings, delivery: Delivery) -> None:
        with self._lock:
            self._under_way[settings.name] += 1
        self._requests.submit(self._push, settings, delivery).add_done_callback(_log_failure)

    def _push(self, settings: SubscriptionSettings, delivery: Delivery) -> None:
        try:
            status = self._post(settings, push_request(settings, delivery))
        finally:
            # Before it is settled: that wakes the dispatcher, which then finds the place free.
            with self._lock:
                # Adding nothing drops those that count zero.
                self._under_way[settings.name] -= 1
                self._under_way += Counter()
        target = Target.ACK if status in ACKNOWLEDGING_STATUSES else Target.NACK
        # Nobody is there to be told what became of it.
        with suppress(BrokerError):
            settlement = Settlement(target, delivery.ack_id)
            self._exchange.settle(settings.name, [settlement], Path.PUSH)

    def _post(self, settings: SubscriptionSettings, request: PushRequest) -> int | None:
        """Return the status of the answer, or None when there was none in time."""
        assert settings.push is not None
        address = urlsplit(settings.push.endpoint)
        seconds = self._exchange.clock.to_real(settings.ack_deadline_seconds)
        connection = _connection(address.scheme, address.netloc, seconds)
        with self._lock:
            self._connections.add(connection)
        try:
            if self._exchange.is_closed:
                return None
            target = (address.path or "/") + (f"?{address.query}" if address.query else "")
            return _answer(connection, target, request, time.monotonic() + seconds)
        except (OSError, HTTPException):
            return None
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()


def _log_failure(done: "Future[None]") -> None:
    error = done.exception()
    if error is not None:
        _log.error("a push failed", exc_info=error)


def _connection(scheme: str, host: str, timeout_seconds: float) -> HTTPConnection:
    kind = HTTPSConnection if scheme == "https" else HTTPConnection
    return kind(host, timeout=timeout_seconds)


def _answer(
    connection: HTTPConnection, target: str, request: PushRequest, give_up: float
) -> int | None:
    connection.connect()
    _limit(connection, give_up)
    connection.request("POST", target, request.body, request.headers)
    _limit(connection, give_up)
    return connection.getresponse().status


def _limit(connection: HTTPConnection, give_up: float) -> None:
    remaining_seconds = give_up - time.monotonic()
    if remaining_seconds <= 0:
        raise TimeoutError("the ack deadline has passed")
    connection.sock.settimeout(remaining_seconds)


def _break_off(connection: HTTPConnection) -> None:
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)
