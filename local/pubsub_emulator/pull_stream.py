"""One StreamingPull: messages out, while acks, nacks and extensions come in."""

import threading
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import grpc
from google.pubsub_v1.types import StreamingPullRequest, StreamingPullResponse

from local.pubsub_emulator.backlog import Demand
from local.pubsub_emulator.errors import (
    BrokerError,
    InvalidAckIds,
    InvalidArgument,
    Refused,
    Unavailable,
)
from local.pubsub_emulator.exchange import LONGEST_WAIT_SECONDS, Exchange, StreamTicket
from local.pubsub_emulator.faults import Target
from local.pubsub_emulator.gate import Settlement
from local.pubsub_emulator.journal import Path
from local.pubsub_emulator.messages import Delivery
from local.pubsub_emulator.settings import LONGEST_ACK_DEADLINE_SECONDS, SubscriptionSettings
from local.pubsub_emulator.wire import delivery_to_wire

MAXIMUM_MESSAGES_PER_RESPONSE: Final = 100
# Below the four megabytes that a gRPC client takes at once by default.
MAXIMUM_BYTES_PER_RESPONSE: Final = 3 * 1024 * 1024
# Pub/Sub does not promise confirmations; a client that reads none cannot pile them up.
MAXIMUM_CONFIRMATIONS: Final = 100


@dataclass(slots=True)
class _Inbox:
    """What the reading thread leaves for the writing one."""

    confirmations: deque[StreamingPullResponse] = field(
        default_factory=lambda: deque(maxlen=MAXIMUM_CONFIRMATIONS)
    )
    # Written last, so that whoever sees it also sees the error.
    has_ended: bool = False
    error: BrokerError | None = None


class PullStream:
    """One StreamingPull, from its first request to its end."""

    def __init__(self, exchange: Exchange, requests: Iterator[StreamingPullRequest]) -> None:
        """Serve a stream.

        Args:
            exchange: Where the messages are.
            requests: What the client sends; ends, or raises gRPC's error, when the client goes.
        """
        self._exchange = exchange
        self._requests = requests
        self._inbox = _Inbox()
        self._subscription = ""
        self._lease_seconds = 0.0

    def responses(self) -> Iterator[StreamingPullResponse]:
        """Yield what the client gets, until either side ends the stream.

        Raises:
            BrokerError: The client asked for something impossible, the subscription is gone, the
                stream was cut, or the emulator is stopping.
        """
        first = next(self._requests, None)
        if first is None:
            return
        self._subscription = first.subscription
        ticket = self._exchange.open_stream(first.subscription)
        try:
            self._set_lease(first.stream_ack_deadline_seconds)
            self._handle(first)
            reader = threading.Thread(
                target=self._read, name="pubsub-emulator-stream-reader", daemon=True
            )
            reader.start()
            yield from self._write(ticket, first)
        finally:
            self._exchange.close_stream(ticket)

    def _write(
        self, ticket: StreamTicket, first: StreamingPullRequest
    ) -> Iterator[StreamingPullResponse]:
        consumer = first.client_id or uuid.uuid4().hex
        while True:
            version = self._exchange.version
            if ticket.is_cut:
                raise Unavailable("The stream was cut.")
            if self._inbox.has_ended:
                break
            with self._exchange.look() as broker:
                settings = broker.check_pullable(self._subscription)
            while self._inbox.confirmations:
                yield self._inbox.confirmations.popleft()
            deliveries = self._take(consumer, first)
            if deliveries:
                yield _deliver(deliveries, settings)
            else:
                self._exchange.wait(version, LONGEST_WAIT_SECONDS)
        if self._inbox.error is not None:
            raise self._inbox.error

    def _take(self, consumer: str, first: StreamingPullRequest) -> list[Delivery]:
        demand = Demand(
            consumer=consumer,
            lease_seconds=self._lease_seconds,
            messages=MAXIMUM_MESSAGES_PER_RESPONSE,
            bytes=MAXIMUM_BYTES_PER_RESPONSE,
            outstanding_messages=max(first.max_outstanding_messages, 0),
            outstanding_bytes=max(first.max_outstanding_bytes, 0),
        )
        return self._exchange.take(self._subscription, demand, Path.STREAM)

    def _read(self) -> None:
        try:
            # Raised when the client is gone.
            with suppress(grpc.RpcError):
                for request in self._requests:
                    _check_later(request)
                    if request.stream_ack_deadline_seconds:
                        self._set_lease(request.stream_ack_deadline_seconds)
                    self._handle(request)
        except BrokerError as error:
            self._inbox.error = error
        finally:
            self._inbox.has_ended = True
            self._exchange.wake()

    def _set_lease(self, seconds: int) -> None:
        with self._exchange.look() as broker:
            broker.limits.check_ack_deadline(seconds)
        self._lease_seconds = seconds

    def _handle(self, request: StreamingPullRequest) -> None:
        ids, seconds = request.modify_deadline_ack_ids, request.modify_deadline_seconds
        if len(ids) != len(seconds):
            raise InvalidArgument("modify_deadline_ack_ids and _seconds differ in length")
        if ids:
            extensions = [deadline_settlement(*both) for both in zip(ids, seconds, strict=True)]
            self._settle(extensions, "modify_ack_deadline_confirmation")
        if request.ack_ids:
            acks = [Settlement(Target.ACK, ack_id) for ack_id in request.ack_ids]
            self._settle(acks, "acknowledge_confirmation")

    def _settle(self, settlements: Sequence[Settlement], confirmation: str) -> None:
        ack_ids = [settlement.ack_id for settlement in settlements]
        results = {"ack_ids": ack_ids}
        try:
            self._exchange.settle(self._subscription, settlements, Path.STREAM)
        except InvalidAckIds as error:
            valid = [ack_id for ack_id in ack_ids if ack_id not in error.ack_ids]
            results = {"ack_ids": valid, "invalid_ack_ids": list(error.ack_ids)}
        except Refused:
            results = {"temporary_failed_ack_ids": ack_ids}
        with self._exchange.look() as broker:
            settings = broker.subscription(self._subscription)
        if settings.exactly_once:
            response = StreamingPullResponse(subscription_properties=_properties(settings))
            setattr(response, confirmation, results)
            self._inbox.confirmations.append(response)
            self._exchange.wake()


def deadline_settlement(ack_id: str, seconds: int) -> Settlement:
    """Return what a changed deadline asks for: zero gives the message back.

    Raises:
        InvalidArgument: It is out of bounds.
    """
    if not 0 <= seconds <= LONGEST_ACK_DEADLINE_SECONDS:
        raise InvalidArgument(
            f"Invalid ack deadline given (ack_deadline_secs={seconds}): it lies between 0 and "
            f"{LONGEST_ACK_DEADLINE_SECONDS} seconds"
        )
    return Settlement(Target.EXTENSION if seconds else Target.NACK, ack_id, float(seconds))


def _check_later(request: StreamingPullRequest) -> None:
    set_once = (
        request.subscription,
        request.max_outstanding_messages,
        request.max_outstanding_bytes,
    )
    if any(set_once):
        raise InvalidArgument("Only the first request may name a subscription or set limits")


def _deliver(
    deliveries: Sequence[Delivery], settings: SubscriptionSettings
) -> StreamingPullResponse:
    tells_attempt = settings.dead_letter_policy is not None
    return StreamingPullResponse(
        received_messages=[
            delivery_to_wire(delivery, tells_attempt=tells_attempt) for delivery in deliveries
        ],
        subscription_properties=_properties(settings),
    )


def _properties(
    settings: SubscriptionSettings,
) -> StreamingPullResponse.SubscriptionProperties:
    # The client takes a response without them for the end of exactly-once delivery.
    return StreamingPullResponse.SubscriptionProperties(
        exactly_once_delivery_enabled=settings.exactly_once,
        message_ordering_enabled=settings.ordered,
    )
