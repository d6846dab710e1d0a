"""Our own pusher: at least once, until it is acknowledged, and what dead letters it takes."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gcp_function.dead_letters import PubsubDeadLetters
from local.demo import pusher
from local.demo.plan import Cloud, Message
from local.demo.pusher import Pusher
from local.demo.waiting import wait_until
from shared.dead_letter_attributes import MESSAGE_ID

WAIT_SECONDS = 20.0


class Endpoint:
    """A push endpoint that answers as it is told and remembers what came.

    Args:
        statuses: the answers to the deliveries of each message, the last one for all further.
    """

    def __init__(self, statuses: list[int]) -> None:
        self.deliveries: dict[str, list[dict[str, Any]]] = {}
        self._statuses = statuses
        self._lock = threading.Lock()

    def receive(self, push: dict[str, Any]) -> int:
        """Remember a delivery and return its answer."""
        with self._lock:
            deliveries = self.deliveries.setdefault(push["message"]["messageId"], [])
            deliveries.append(push)
            return self._statuses[min(len(deliveries), len(self._statuses)) - 1]

    def counts(self) -> list[int]:
        """How often each message came."""
        return [len(deliveries) for deliveries in self.deliveries.values()]


@contextmanager
def serving(endpoint: Endpoint) -> Iterator[str]:
    """Serve an endpoint; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(endpoint.receive(json.loads(body)))
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name)
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def message(body: bytes, **attributes: str) -> Message:
    return Message(body, attributes, [Cloud.PUBSUB])


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses that a test can wait for, and nothing delivered again that was acknowledged."""
    monkeypatch.setattr(pusher, "BACKOFF_SECONDS", (0.01, 0.05))
    monkeypatch.setattr(pusher, "REDELIVERED_SHARE", 0.0)


@pytest.mark.usefixtures("quick")
def test_what_is_not_acknowledged_comes_again() -> None:
    endpoint = Endpoint([503, 500, 204])
    with serving(endpoint) as url, Pusher(seed=1) as broker:
        broker.push_to(url)
        message_ids = broker.publish([message(b"one", a="b"), message(b"two")])
        assert wait_until(lambda: endpoint.counts() == [3, 3], WAIT_SECONDS)
    assert set(endpoint.deliveries) == set(message_ids)
    pushes = endpoint.deliveries[message_ids[0]]
    assert [push["deliveryAttempt"] for push in pushes] == [1, 2, 3]
    assert {push["message"]["messageId"] for push in pushes} == {message_ids[0]}
    assert base64.b64decode(pushes[0]["message"]["data"]) == b"one"
    assert pushes[0]["message"]["attributes"] == {"a": "b"}


@pytest.mark.usefixtures("quick")
def test_an_acknowledged_message_may_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pusher, "REDELIVERED_SHARE", 1.0)
    monkeypatch.setattr(pusher, "MOST_DELIVERIES", 4)
    endpoint = Endpoint([204])
    with serving(endpoint) as url, Pusher(seed=1) as broker:
        broker.push_to(url)
        broker.publish([message(b"one")])
        assert wait_until(lambda: endpoint.counts() == [4], WAIT_SECONDS)


@pytest.mark.usefixtures("quick")
def test_nobody_is_there_yet() -> None:
    endpoint = Endpoint([204])
    with serving(endpoint) as gone:
        pass
    with Pusher(seed=1) as broker:
        broker.push_to(gone)
        broker.publish([message(b"one")])
    assert endpoint.counts() == []


def test_dead_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function's own client publishes to it, as it would to Pub/Sub."""
    with Pusher(seed=1) as broker:
        for name, value in broker.environment.items():
            monkeypatch.setenv(name, value)
        dead_letters = PubsubDeadLetters("projects/desk/topics/dead")
        dead_letters.publish(b"one", {MESSAGE_ID: "message-1"})
        assert broker.dead_letters(1, WAIT_SECONDS) == {"message-1"}
        assert broker.dead_letters(2, 0.0) == {"message-1"}
