"""What the tests share: Google's client on an emulator, a push endpoint, bounded waiting."""

import itertools
import json
import os
import queue
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from unittest import mock

import pytest
from google.cloud.pubsub_v1 import PublisherClient, SubscriberClient
from google.cloud.pubsub_v1.types import FlowControl, PublisherOptions
from google.pubsub_v1.types import (
    ReceivedMessage,
    StreamingPullRequest,
    StreamingPullResponse,
)

from local.pubsub_emulator import Control

PROJECT: Final = "projects/acceptance"
# For what should happen soon, on a machine that is busy with something else.
PATIENCE_SECONDS: Final = 20.0
POLL_SECONDS: Final = 0.02

_numbers = itertools.count(1)

on_both: Final = pytest.mark.parametrize("cloud", ["own", "gcloud"], indirect=True)
on_our_own: Final = pytest.mark.parametrize("cloud", ["own"], indirect=True)


def except_on_gclouds(reason: str) -> pytest.MarkDecorator:
    """On both emulators, though gcloud's is known to fail, and why."""
    failures = (AssertionError, pytest.fail.Exception)
    deviates = pytest.mark.xfail(reason=reason, raises=failures, strict=True)
    return pytest.mark.parametrize(
        "cloud", ["own", pytest.param("gcloud", marks=deviates)], indirect=True
    )


def eventually(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for something that happens by itself; fails if it does not."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(POLL_SECONDS)


@dataclass(frozen=True, slots=True)
class Seen:
    """A message that a callback got, and when."""

    message: Any
    at_seconds: float

    @property
    def data(self) -> bytes:
        """What it carries."""
        return bytes(self.message.data)


class Consumer:
    """A callback that remembers, and does with each message what the test says."""

    def __init__(self, handle: Callable[[Any, int], None]) -> None:
        """Remember messages.

        Args:
            handle: Gets each message, and how often it came before.
        """
        self._handle = handle
        self._lock = threading.Lock()
        self.seen: list[Seen] = []

    def __call__(self, message: Any) -> None:
        """Take a message from the client."""
        with self._lock:
            before = self.count(message.data)
            self.seen.append(Seen(message, time.monotonic()))
        self._handle(message, before)

    @property
    def data(self) -> list[bytes]:
        """What came, in order."""
        return [one.data for one in self.seen]

    def count(self, data: bytes) -> int:
        """Return how often that came."""
        return self.data.count(data)

    def seconds_between(self, data: bytes) -> list[float]:
        """Return how much time passed between its deliveries."""
        times = [one.at_seconds for one in self.seen if one.data == data]
        return [later - earlier for earlier, later in itertools.pairwise(times)]

    def wait_for(self, messages: int) -> None:
        """Wait until so many deliveries have come."""
        eventually(lambda: len(self.seen) >= messages)


class Cloud:
    """Google's client, connected to one of the emulators."""

    def __init__(self, kind: str, environment: Mapping[str, str], control: Control | None) -> None:
        """Connect.

        Args:
            kind: `own` or `gcloud`.
            environment: What leads the client to the emulator.
            control: Of our own emulator.
        """
        self.kind = kind
        self._control = control
        ordering = PublisherOptions(enable_message_ordering=True)
        with mock.patch.dict(os.environ, environment):
            self.publisher: Any = PublisherClient(publisher_options=ordering)
            self.subscriber: Any = SubscriberClient()

    @property
    def control(self) -> Control:
        """Of our own emulator."""
        assert self._control is not None
        return self._control

    def close(self) -> None:
        """Disconnect."""
        self.publisher.stop()
        self.publisher.transport.close()
        self.subscriber.close()

    def topic(self) -> str:
        """Make a topic and return its name."""
        name = f"{PROJECT}/topics/topic-{next(_numbers)}"
        self.publisher.create_topic(name=name)
        return name

    def subscription(self, topic: str, **settings: Any) -> str:
        """Make a subscription and return its name."""
        name = f"{PROJECT}/subscriptions/subscription-{next(_numbers)}"
        request = {"name": name, "topic": topic, **settings}
        self.subscriber.create_subscription(request=request)
        return name

    def topic_with_subscription(self, **settings: Any) -> tuple[str, str]:
        """Make a topic and a subscription, and return their names."""
        topic = self.topic()
        return topic, self.subscription(topic, **settings)

    def publish(self, topic: str, data: bytes, ordering_key: str = "", **attributes: str) -> str:
        """Publish a message and return its id."""
        future = self.publisher.publish(topic, data, ordering_key=ordering_key, **attributes)
        return str(future.result(timeout=PATIENCE_SECONDS))

    def pull(
        self, subscription: str, messages: int = 1, seconds: float = PATIENCE_SECONDS
    ) -> list[ReceivedMessage]:
        """Pull until so many messages have come; fails if they do not."""
        give_up = time.monotonic() + seconds
        pulled: list[ReceivedMessage] = []
        while len(pulled) < messages:
            remaining_seconds = give_up - time.monotonic()
            assert remaining_seconds > 0, f"{len(pulled)} of {messages} messages came"
            some = self.pull_now(subscription, messages - len(pulled))
            pulled += some
            if not some:
                time.sleep(POLL_SECONDS)
        return pulled

    def pull_now(self, subscription: str, at_most: int = 10) -> list[ReceivedMessage]:
        """Return what is there; gcloud's emulator may keep something back."""
        request = {
            "subscription": subscription,
            "max_messages": at_most,
            "return_immediately": True,
        }
        # The client advises against it, because it costs more calls; here it saves time.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            answer = self.subscriber.pull(request=request)
        return list(answer.received_messages)

    def acknowledge(self, subscription: str, *messages: ReceivedMessage) -> None:
        """Acknowledge messages that were pulled."""
        ack_ids = [message.ack_id for message in messages]
        self.subscriber.acknowledge(subscription=subscription, ack_ids=ack_ids)

    def set_deadline(self, subscription: str, message: ReceivedMessage, seconds: int) -> None:
        """Let the lease of a message that was pulled end then; 0 gives it back."""
        self.subscriber.modify_ack_deadline(
            subscription=subscription, ack_ids=[message.ack_id], ack_deadline_seconds=seconds
        )

    @contextmanager
    def consuming(
        self, subscription: str, handle: Callable[[Any, int], None], **options: Any
    ) -> Iterator[Consumer]:
        """Have messages handled by Google's streaming client while the block runs.

        Args:
            subscription: Its messages.
            handle: See `Consumer`.
            options: For `subscribe`; `max_messages` is for its flow control.
        """
        flow_control = FlowControl(max_messages=options.pop("max_messages", 100))
        consumer = Consumer(handle)
        future = self.subscriber.subscribe(
            subscription,
            consumer,
            flow_control=flow_control,
            await_callbacks_on_shutdown=True,
            **options,
        )
        try:
            yield consumer
        finally:
            future.cancel()
            future.result(timeout=PATIENCE_SECONDS)


class RawStream:
    """A stream whose requests are put in one by one."""

    def __init__(self, cloud: Cloud, **first: Any) -> None:
        """Open it."""
        self._requests: queue.SimpleQueue[StreamingPullRequest | None] = queue.SimpleQueue()
        self.send(**{"stream_ack_deadline_seconds": 10, **first})
        self._responses = cloud.subscriber.streaming_pull(
            iter(self._requests.get, None), timeout=PATIENCE_SECONDS, retry=None
        )

    def send(self, **request: Any) -> None:
        """Send a request."""
        self._requests.put(StreamingPullRequest(**request))

    def receive(self) -> StreamingPullResponse:
        """Return the next response."""
        response: StreamingPullResponse = next(self._responses)
        return response

    def half_close(self) -> None:
        """Say that no further request will come."""
        self._requests.put(None)

    def cancel(self) -> None:
        """End it."""
        self.half_close()
        self._responses.cancel()


@contextmanager
def streaming(cloud: Cloud, subscription: str, **first: Any) -> Iterator[RawStream]:
    """A stream while the block runs."""
    stream = RawStream(cloud, subscription=subscription, **first)
    try:
        yield stream
    finally:
        stream.cancel()


@dataclass(frozen=True, slots=True)
class Pushed:
    """A request that the endpoint got, and when."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    at_seconds: float

    @property
    def json(self) -> Any:
        """The body, read."""
        return json.loads(self.body)


class Endpoint:
    """An HTTP server that is pushed to, answers as the test says, and remembers."""

    def __init__(self) -> None:
        """Listen on a free port; use `serving`."""
        self._lock = threading.Lock()
        self._pushed: list[Pushed] = []
        self._statuses: dict[str, list[int]] = {}
        self._released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, path: str, *statuses: int) -> str:
        """Answer requests for a path like this, the last one for ever; return the whole URL.

        Status 0 holds the answer back until the endpoint closes.
        """
        self._statuses[path] = list(statuses)
        return self.url + path

    def pushed(self, path: str) -> list[Pushed]:
        """Return the requests for a path."""
        with self._lock:
            return [one for one in self._pushed if one.path == path]

    def wait_for(self, path: str, requests: int) -> Sequence[Pushed]:
        """Wait until so many requests for a path have come."""
        eventually(lambda: len(self.pushed(path)) >= requests)
        return self.pushed(path)

    @contextmanager
    def serving(self) -> Iterator["Endpoint"]:
        """Serve while the block runs."""
        thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        thread.start()
        try:
            yield self
        finally:
            self._released.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(size)
                status = endpoint._take(self.path, dict(self.headers), body)
                if status == 0:
                    endpoint._released.wait(PATIENCE_SECONDS)
                    self.close_connection = True
                    return
                self.send_response(status)
                if status not in {102, 204}:
                    self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Keep quiet."""

        return Handler

    def _take(self, path: str, headers: Mapping[str, str], body: bytes) -> int:
        with self._lock:
            self._pushed.append(Pushed(path, headers, body, time.monotonic()))
            statuses = self._statuses[path]
            return statuses.pop(0) if len(statuses) > 1 else statuses[0]
