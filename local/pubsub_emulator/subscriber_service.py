"""The subscriber's half of the API, except for the streams themselves."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import grpc
from google.pubsub_v1.types import (
    AcknowledgeRequest,
    DeleteSubscriptionRequest,
    GetSubscriptionRequest,
    ListSubscriptionsRequest,
    ListSubscriptionsResponse,
    ModifyAckDeadlineRequest,
    ModifyPushConfigRequest,
    PullRequest,
    PullResponse,
    StreamingPullRequest,
    StreamingPullResponse,
    Subscription,
    UpdateSubscriptionRequest,
)

from local.pubsub_emulator.backlog import Demand
from local.pubsub_emulator.errors import InvalidArgument, ResourceExhausted
from local.pubsub_emulator.exchange import Exchange
from local.pubsub_emulator.faults import Target
from local.pubsub_emulator.gate import Settlement
from local.pubsub_emulator.handlers import Context, page_of, service, streaming, unary
from local.pubsub_emulator.journal import Path
from local.pubsub_emulator.messages import Delivery
from local.pubsub_emulator.pull_stream import PullStream, deadline_settlement
from local.pubsub_emulator.wire import (
    changes_from_wire,
    delivery_to_wire,
    push_from_wire,
    subscription_from_wire,
    subscription_to_wire,
)

# Each stream, and each pull while it waits, keeps a thread of the server's busy.
MAXIMUM_WAITING: Final = 96
MAXIMUM_PULL_MESSAGES: Final = 1000
MAXIMUM_ACK_IDS: Final = 10_000
# An empty answer is allowed at any time; one that comes in good time spares an error.
LONGEST_PULL_SECONDS: Final = 3.0
_SHARE_OF_TIMEOUT: Final = 0.8


class SubscriberService:
    """google.pubsub.v1.Subscriber."""

    def __init__(self, exchange: Exchange) -> None:
        """Serve what is in the exchange."""
        self._exchange = exchange
        self._waiting = threading.BoundedSemaphore(MAXIMUM_WAITING)
        self._pulls = itertools.count(1)

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the service for a gRPC server."""
        return service(
            "google.pubsub.v1.Subscriber",
            {
                "CreateSubscription": unary(self._create, Subscription, Subscription),
                "GetSubscription": unary(self._get, GetSubscriptionRequest, Subscription),
                "UpdateSubscription": unary(self._update, UpdateSubscriptionRequest, Subscription),
                "ListSubscriptions": unary(
                    self._list, ListSubscriptionsRequest, ListSubscriptionsResponse
                ),
                "DeleteSubscription": unary(self._delete, DeleteSubscriptionRequest),
                "ModifyPushConfig": unary(self._modify_push_config, ModifyPushConfigRequest),
                "Pull": unary(self._pull, PullRequest, PullResponse),
                "StreamingPull": streaming(
                    self._streaming_pull, StreamingPullRequest, StreamingPullResponse
                ),
                "Acknowledge": unary(self._acknowledge, AcknowledgeRequest),
                "ModifyAckDeadline": unary(self._modify_ack_deadline, ModifyAckDeadlineRequest),
            },
        )

    def _create(self, request: Subscription, _: Context) -> Subscription:
        with self._exchange.administer() as broker:
            settings = broker.create_subscription(subscription_from_wire(request))
        return subscription_to_wire(settings)

    def _get(self, request: GetSubscriptionRequest, _: Context) -> Subscription:
        with self._exchange.look() as broker:
            return subscription_to_wire(broker.subscription(request.subscription))

    def _update(self, request: UpdateSubscriptionRequest, _: Context) -> Subscription:
        changes = changes_from_wire(request.subscription, request.update_mask.paths)
        with self._exchange.administer() as broker:
            settings = broker.update_subscription(request.subscription.name, changes)
        return subscription_to_wire(settings)

    def _list(self, request: ListSubscriptionsRequest, _: Context) -> ListSubscriptionsResponse:
        with self._exchange.look() as broker:
            every = broker.subscriptions(request.project)
        page, next_token = page_of(
            every, lambda settings: settings.name, request.page_size, request.page_token
        )
        return ListSubscriptionsResponse(
            subscriptions=[subscription_to_wire(settings) for settings in page],
            next_page_token=next_token,
        )

    def _delete(self, request: DeleteSubscriptionRequest, _: Context) -> None:
        with self._exchange.administer() as broker:
            broker.delete_subscription(request.subscription)

    def _modify_push_config(self, request: ModifyPushConfigRequest, _: Context) -> None:
        push = push_from_wire(request.push_config)
        with self._exchange.administer() as broker:
            broker.update_subscription(request.subscription, {"push": push})

    def _acknowledge(self, request: AcknowledgeRequest, _: Context) -> None:
        _check_count(len(request.ack_ids))
        settlements = [Settlement(Target.ACK, ack_id) for ack_id in request.ack_ids]
        self._exchange.settle(request.subscription, settlements, Path.UNARY)

    def _modify_ack_deadline(self, request: ModifyAckDeadlineRequest, _: Context) -> None:
        _check_count(len(request.ack_ids))
        seconds = request.ack_deadline_seconds
        settlements = [deadline_settlement(ack_id, seconds) for ack_id in request.ack_ids]
        self._exchange.settle(request.subscription, settlements, Path.UNARY)

    def _pull(self, request: PullRequest, context: Context) -> PullResponse:
        if request.max_messages < 1:
            raise InvalidArgument("No max_messages specified")
        with self._exchange.look() as broker:
            settings = broker.check_pullable(request.subscription)
        demand = Demand(
            consumer=f"pull-{next(self._pulls)}",
            lease_seconds=settings.ack_deadline_seconds,
            messages=min(request.max_messages, MAXIMUM_PULL_MESSAGES),
        )
        waits = 0.0 if request.return_immediately else _patience_seconds(context)
        with self._one_more_waiting():
            deliveries = self._take_within(waits, request.subscription, demand, context)
        tells_attempt = settings.dead_letter_policy is not None
        return PullResponse(
            received_messages=[
                delivery_to_wire(delivery, tells_attempt=tells_attempt) for delivery in deliveries
            ]
        )

    def _take_within(
        self, seconds: float, subscription: str, demand: Demand, context: Context
    ) -> list[Delivery]:
        give_up = time.monotonic() + seconds
        while True:
            version = self._exchange.version
            # What nobody receives any more would be out until its lease lapses.
            if not context.is_active():
                return []
            deliveries = self._exchange.take(subscription, demand, Path.UNARY)
            remaining_seconds = give_up - time.monotonic()
            if deliveries or remaining_seconds <= 0:
                return deliveries
            self._exchange.wait(version, remaining_seconds)

    def _streaming_pull(
        self, requests: Iterator[StreamingPullRequest], _: Context
    ) -> Iterator[StreamingPullResponse]:
        with self._one_more_waiting():
            yield from PullStream(self._exchange, requests).responses()

    @contextmanager
    def _one_more_waiting(self) -> Iterator[None]:
        if not self._waiting.acquire(blocking=False):
            raise ResourceExhausted(f"At most {MAXIMUM_WAITING} streams and pulls may be open")
        try:
            yield
        finally:
            self._waiting.release()


def _patience_seconds(context: Context) -> float:
    remaining_seconds = context.time_remaining()
    if remaining_seconds is None:
        return LONGEST_PULL_SECONDS
    return min(LONGEST_PULL_SECONDS, float(remaining_seconds) * _SHARE_OF_TIMEOUT)


def _check_count(ack_ids: int) -> None:
    if not 1 <= ack_ids <= MAXIMUM_ACK_IDS:
        raise InvalidArgument(f"Give 1 to {MAXIMUM_ACK_IDS} ack ids.")
