"""Delivery by a small pusher of our own, where Google's emulator cannot run.

At least once, as Pub/Sub does it: whatever is not acknowledged comes again after a growing
pause, and now and then something that was acknowledged comes again too.
"""

import base64
import contextlib
import heapq
import json
import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import grpc
from google.pubsub_v1.types import PublishRequest, PublishResponse

from local.demo.broker import (
    ACK_DEADLINE_SECONDS,
    BACKOFF_SECONDS,
    MOST_DELIVERIES,
    PROJECT,
    SUBSCRIPTION,
    LeasesSeen,
)
from local.demo.plan import Message
from local.demo.waiting import wait_until
from shared.dead_letter_attributes import MESSAGE_ID

PUSH_THREADS: Final = 16
ACKNOWLEDGED: Final = frozenset({102, 200, 201, 202, 204})
REDELIVERED_SHARE: Final = 0.05
LOOPBACK: Final = "127.0.0.1"


@dataclass(order=True, slots=True)
class _Outstanding:
    """A message on its way; the earliest due comes first."""

    due_at: float
    message_id: str
    message: Message = field(compare=False)
    deliveries: int = field(default=0, compare=False)


class Pusher:
    """Pushes over loopback HTTP, and takes dead letters over gRPC, as a context manager."""

    name = "a small pusher of our own"
    pull_subscription = None

    def __init__(self, seed: int) -> None:
        """Prepare a pusher.

        Args:
            seed: Decides the pauses, and what is delivered again.
        """
        self._chance = random.Random(f"pusher:{seed}")
        self._queue: list[_Outstanding] = []
        self._changed = threading.Condition()
        self._stopped = False
        self._published = 0
        self._endpoint = ""
        self._threads: list[threading.Thread] = []
        self._dead_letters = DeadLetterTopic()

    @property
    def environment(self) -> Mapping[str, str]:
        """See `Broker.environment`."""
        return {"PUBSUB_EMULATOR_HOST": self._dead_letters.host_port}

    def __enter__(self) -> Self:
        """Begin to take dead letters."""
        self._dead_letters.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop, without waiting for what was not acknowledged."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(ACK_DEADLINE_SECONDS + 1)
        self._dead_letters.stop()

    def push_to(self, endpoint: str) -> None:
        """See `Broker.push_to`."""
        self._endpoint = endpoint
        for _ in range(PUSH_THREADS):
            thread = threading.Thread(target=self._push_until_stopped, name="pusher", daemon=True)
            thread.start()
            self._threads.append(thread)

    def publish(self, messages: Sequence[Message]) -> Sequence[str]:
        """See `Broker.publish`."""
        message_ids = []
        with self._changed:
            for message in messages:
                self._published += 1
                message_ids.append(f"{self._published:016d}")
                outstanding = _Outstanding(time.monotonic(), message_ids[-1], message)
                heapq.heappush(self._queue, outstanding)
            self._changed.notify_all()
        return message_ids

    def leases(self) -> LeasesSeen | None:
        """See `Broker.leases`."""
        return None

    def dead_letters(self, count: int, within_seconds: float) -> frozenset[str]:
        """See `Broker.dead_letters`."""
        wait_until(lambda: len(self._dead_letters.message_ids()) >= count, within_seconds)
        return self._dead_letters.message_ids()

    def _push_until_stopped(self) -> None:
        while True:
            outstanding = self._take()
            if outstanding is None:
                return
            outstanding.deliveries += 1
            acknowledged = _push(self._endpoint, outstanding)
            self._put_back(outstanding, acknowledged=acknowledged)

    def _take(self) -> _Outstanding | None:
        """Wait for the next message that is due; None when the pusher was stopped."""
        with self._changed:
            while not self._stopped:
                now = time.monotonic()
                if self._queue and self._queue[0].due_at <= now:
                    return heapq.heappop(self._queue)
                wait_seconds = self._queue[0].due_at - now if self._queue else None
                self._changed.wait(wait_seconds)
        return None

    def _put_back(self, outstanding: _Outstanding, *, acknowledged: bool) -> None:
        with self._changed:
            if acknowledged and self._chance.random() >= REDELIVERED_SHARE:
                return
            if outstanding.deliveries >= MOST_DELIVERIES:
                return
            least_seconds, most_seconds = BACKOFF_SECONDS
            pause_seconds = least_seconds * 2.0 ** min(outstanding.deliveries - 1, 10)
            jitter = 0.8 + 0.4 * self._chance.random()
            outstanding.due_at = time.monotonic() + min(pause_seconds, most_seconds) * jitter
            heapq.heappush(self._queue, outstanding)
            self._changed.notify()


class DeadLetterTopic:
    """The one method of Pub/Sub's gRPC interface that the function calls: Publish."""

    def __init__(self) -> None:
        self._message_ids: list[str] = []
        self._server = grpc.server(ThreadPoolExecutor(2, thread_name_prefix="dead-letters"))
        self._port = 0

    @property
    def host_port(self) -> str:
        """Where it listens, as PUBSUB_EMULATOR_HOST wants it."""
        return f"{LOOPBACK}:{self._port}"

    def start(self) -> None:
        """Listen on a free port."""
        method = grpc.unary_unary_rpc_method_handler(
            self._publish,
            request_deserializer=PublishRequest.deserialize,
            response_serializer=PublishResponse.serialize,
        )
        handler = grpc.method_handlers_generic_handler(
            "google.pubsub.v1.Publisher", {"Publish": method}
        )
        self._server.add_generic_rpc_handlers((handler,))
        self._port = self._server.add_insecure_port(f"{LOOPBACK}:0")
        self._server.start()

    def stop(self) -> None:
        """Stop listening."""
        self._server.stop(grace=None).wait()

    def message_ids(self) -> frozenset[str]:
        """Return the ids that the messages had before they were dead-lettered."""
        return frozenset(self._message_ids)

    def _publish(self, request: Any, _: grpc.ServicerContext) -> PublishResponse:
        self._message_ids += [message.attributes[MESSAGE_ID] for message in request.messages]
        return PublishResponse(
            message_ids=[f"dead-{number}" for number in range(len(request.messages))]
        )


def _push(endpoint: str, outstanding: _Outstanding) -> bool:
    """Deliver a message once; return whether it was acknowledged in time."""
    parts = urlsplit(endpoint)
    connection = HTTPConnection(
        parts.hostname or LOOPBACK, parts.port, timeout=ACK_DEADLINE_SECONDS
    )
    with contextlib.closing(connection):
        try:
            connection.request(
                "POST",
                parts.path or "/",
                _wrapped(outstanding),
                {"Content-Type": "application/json"},
            )
            return connection.getresponse().status in ACKNOWLEDGED
        except (OSError, HTTPException):
            return False


def _wrapped(outstanding: _Outstanding) -> bytes:
    push = {
        "subscription": f"projects/{PROJECT}/subscriptions/{SUBSCRIPTION}",
        "deliveryAttempt": outstanding.deliveries,
        "message": {
            "data": base64.b64encode(outstanding.message.body).decode(),
            "attributes": dict(outstanding.message.attributes),
            "messageId": outstanding.message_id,
            "publishTime": datetime.now(UTC).isoformat(),
        },
    }
    return json.dumps(push).encode()
