"""The publisher's half of the API."""

import grpc
from google.pubsub_v1.types import (
    DeleteTopicRequest,
    GetTopicRequest,
    ListTopicsRequest,
    ListTopicsResponse,
    ListTopicSubscriptionsRequest,
    ListTopicSubscriptionsResponse,
    PublishRequest,
    PublishResponse,
    Topic,
)

from local.pubsub_emulator.exchange import Exchange
from local.pubsub_emulator.handlers import Context, page_of, service, unary
from local.pubsub_emulator.wire import drafts_from_wire, topic_from_wire, topic_to_wire


class PublisherService:
    """google.pubsub.v1.Publisher."""

    def __init__(self, exchange: Exchange) -> None:
        """Serve what is in the exchange."""
        self._exchange = exchange

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the service for a gRPC server."""
        return service(
            "google.pubsub.v1.Publisher",
            {
                "CreateTopic": unary(self._create_topic, Topic, Topic),
                "GetTopic": unary(self._get_topic, GetTopicRequest, Topic),
                "ListTopics": unary(self._list_topics, ListTopicsRequest, ListTopicsResponse),
                "ListTopicSubscriptions": unary(
                    self._list_topic_subscriptions,
                    ListTopicSubscriptionsRequest,
                    ListTopicSubscriptionsResponse,
                ),
                "DeleteTopic": unary(self._delete_topic, DeleteTopicRequest),
                "Publish": unary(self._publish, PublishRequest, PublishResponse),
            },
        )

    def _create_topic(self, request: Topic, _: Context) -> Topic:
        with self._exchange.administer() as broker:
            return topic_to_wire(broker.create_topic(topic_from_wire(request)))

    def _get_topic(self, request: GetTopicRequest, _: Context) -> Topic:
        with self._exchange.look() as broker:
            return topic_to_wire(broker.topic(request.topic))

    def _list_topics(self, request: ListTopicsRequest, _: Context) -> ListTopicsResponse:
        with self._exchange.look() as broker:
            topics = broker.topics(request.project)
        page, next_token = page_of(
            topics, lambda topic: topic.name, request.page_size, request.page_token
        )
        return ListTopicsResponse(
            topics=[topic_to_wire(topic) for topic in page], next_page_token=next_token
        )

    def _list_topic_subscriptions(
        self, request: ListTopicSubscriptionsRequest, _: Context
    ) -> ListTopicSubscriptionsResponse:
        with self._exchange.look() as broker:
            names = [settings.name for settings in broker.subscriptions_of(request.topic)]
        page, next_token = page_of(names, str, request.page_size, request.page_token)
        return ListTopicSubscriptionsResponse(subscriptions=page, next_page_token=next_token)

    def _delete_topic(self, request: DeleteTopicRequest, _: Context) -> None:
        with self._exchange.administer() as broker:
            broker.delete_topic(request.topic)

    def _publish(self, request: PublishRequest, _: Context) -> PublishResponse:
        drafts = drafts_from_wire(request.messages)
        return PublishResponse(message_ids=self._exchange.publish(request.topic, drafts))
