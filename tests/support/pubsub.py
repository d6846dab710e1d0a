"""Pub/Sub as the push endpoint sees it: requests in, dead letters out."""

import base64
import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.pubsub_v1 import PublishRequest, PublishResponse

TOPIC = "projects/chargeonce-desk/topics/dead-letters"
SUBSCRIPTION = "projects/chargeonce-desk/subscriptions/bill"
PUSH_ACCOUNT = "push@chargeonce-desk.iam.gserviceaccount.com"


def wrap(body: bytes | None, message_id: str = "1", **wrapper: Any) -> bytes:
    """The HTTP body of a wrapped push.

    Args:
        body: the message's; None leaves its data out.
        message_id: the message's.
        wrapper: further fields of the wrapper; `attributes` go into the message.
    """
    message: dict[str, Any] = {
        "attributes": wrapper.pop("attributes", {}),
        "messageId": message_id,
        "message_id": message_id,
        "publishTime": "2026-11-30T12:00:00.000Z",
        "publish_time": "2026-11-30T12:00:00.000Z",
    }
    if body is not None:
        message["data"] = base64.b64encode(body).decode()
    return json.dumps({"message": message, "subscription": SUBSCRIPTION, **wrapper}).encode()


def token(claims: Mapping[str, object], signature: str = "SIGNATURE_REMOVED_BY_GOOGLE") -> str:
    """A token as Cloud Run passes it on once it has verified it."""
    header = _encode({"alg": "RS256", "kid": "1", "typ": "JWT"})
    return f"{header}.{_encode(claims)}.{signature}"


def bearer(email: str = PUSH_ACCOUNT) -> dict[str, str]:
    """The headers of a push that Cloud Run has let through."""
    return {"Authorization": f"Bearer {token({'email': email, 'email_verified': True})}"}


def _encode(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What was published to the dead-letter topic."""

    body: bytes
    attributes: Mapping[str, str]


@dataclass(slots=True)
class RecordedDeadLetters:
    """Implements `DeadLetters` over a list.

    Args:
        failure: raised instead of taking a message.
    """

    failure: Exception | None = None
    letters: list[DeadLetter] = field(default_factory=list)

    def publish(self, body: bytes, attributes: Mapping[str, str]) -> None:
        """See `DeadLetters.publish`."""
        if self.failure is not None:
            raise self.failure
        self.letters.append(DeadLetter(body, attributes))


class PublisherService:
    """Pub/Sub's publisher over gRPC, for the real SDK: remembers, refuses or hangs.

    Attributes:
        letters: what was published, by topic.
        failure: the status with which requests are refused; None to accept.
        failures_left: how many more it is refused; None for all.
        hanging: whether requests get no answer.
    """

    def __init__(self) -> None:
        self.letters: dict[str, list[DeadLetter]] = {}
        self.failure: grpc.StatusCode | None = None
        self.failures_left: int | None = None
        self.hanging = False
        self.request_count = 0
        self.host_and_port = ""
        self._released = threading.Event()

    def publish(self, request: PublishRequest, context: Any) -> PublishResponse:
        """Answer one request."""
        self.request_count += 1
        if self.hanging:
            self._released.wait(30)
        if self.failure is not None and self.failures_left != 0:
            self.failures_left = None if self.failures_left is None else self.failures_left - 1
            context.abort(self.failure, "refused by the test")
        for message in request.messages:
            letter = DeadLetter(bytes(message.data), dict(message.attributes))
            self.letters.setdefault(request.topic, []).append(letter)
        return PublishResponse(message_ids=["1"] * len(request.messages))

    def release(self) -> None:
        """Let go of what hangs."""
        self._released.set()


@contextmanager
def serve_publisher() -> Iterator[PublisherService]:
    """Serve while the block runs; PUBSUB_EMULATOR_HOST takes its `host_and_port`."""
    service = PublisherService()
    handler = grpc.unary_unary_rpc_method_handler(
        service.publish,
        request_deserializer=PublishRequest.deserialize,
        response_serializer=PublishResponse.serialize,
    )
    largest = [("grpc.max_receive_message_length", 20_000_000)]
    with ThreadPoolExecutor(4) as threads:
        server = grpc.server(threads, options=largest)
        name = "google.pubsub.v1.Publisher"
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(name, {"Publish": handler}),)
        )
        service.host_and_port = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        try:
            yield service
        finally:
            service.release()
            server.stop(None).wait()
