"""Between Google's protocol messages and the broker's own types."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from google.pubsub_v1.types import DeadLetterPolicy as WireDeadLetterPolicy
from google.pubsub_v1.types import (
    ExpirationPolicy,
    PubsubMessage,
    PushConfig,
    ReceivedMessage,
    Subscription,
)
from google.pubsub_v1.types import RetryPolicy as WireRetryPolicy
from google.pubsub_v1.types import Topic as WireTopic

from local.pubsub_emulator.broker import Topic
from local.pubsub_emulator.errors import InvalidArgument, Unimplemented
from local.pubsub_emulator.messages import Delivery, Draft
from local.pubsub_emulator.settings import (
    DEFAULT_ACK_DEADLINE_SECONDS,
    DEFAULT_EXPIRATION_SECONDS,
    DEFAULT_RETENTION_SECONDS,
    FEWEST_DELIVERY_ATTEMPTS,
    DeadLetterPolicy,
    PushSettings,
    RetryPolicy,
    SubscriptionSettings,
)

_UNSUPPORTED_ON_TOPICS: Final = (
    "schema_settings",
    "ingestion_data_source_settings",
    "message_transforms",
)
_UNSUPPORTED_ON_SUBSCRIPTIONS: Final = (
    "filter",
    "bigquery_config",
    "bigtable_config",
    "cloud_storage_config",
    "message_transforms",
)
_IMMUTABLE: Final = frozenset({"name", "topic", "enable_message_ordering", "filter"})


def topic_from_wire(topic: WireTopic) -> Topic:
    """Return the topic that a client describes.

    Raises:
        Unimplemented: It asks for something that the emulator cannot do.
    """
    _refuse(topic, _UNSUPPORTED_ON_TOPICS)
    return Topic(topic.name, dict(topic.labels))


def topic_to_wire(topic: Topic) -> WireTopic:
    """Return the topic for a client."""
    return WireTopic(name=topic.name, labels=dict(topic.labels))


def drafts_from_wire(messages: Sequence[PubsubMessage]) -> list[Draft]:
    """Return the messages that a publisher hands over."""
    return [
        Draft(message.data, dict(message.attributes), message.ordering_key) for message in messages
    ]


def delivery_to_wire(delivery: Delivery, *, tells_attempt: bool) -> ReceivedMessage:
    """Return a delivery for a subscriber, who learns its number only with a dead-letter policy."""
    message = delivery.message
    return ReceivedMessage(
        ack_id=delivery.ack_id,
        message=PubsubMessage(
            data=message.content.data,
            attributes=dict(message.content.attributes),
            message_id=message.message_id,
            publish_time=message.published_at,
            ordering_key=message.ordering_key,
        ),
        delivery_attempt=delivery.attempt if tells_attempt else 0,
    )


def subscription_from_wire(subscription: Subscription) -> SubscriptionSettings:
    """Return the settings that a client describes.

    Raises:
        Unimplemented: It asks for something that the emulator cannot do.
    """
    _refuse(subscription, _UNSUPPORTED_ON_SUBSCRIPTIONS)
    return SubscriptionSettings(
        name=subscription.name,
        topic=subscription.topic,
        ordered=subscription.enable_message_ordering,
        **{
            setting: read(subscription)
            for setting, read in (_MUTABLE[field] for field in sorted(_MUTABLE))
        },
    )


def changes_from_wire(subscription: Subscription, paths: Sequence[str]) -> dict[str, Any]:
    """Return the settings that an update changes, by the names that the broker knows them by.

    Raises:
        InvalidArgument: The mask is empty, or names a field that is unknown or cannot change.
    """
    if not paths:
        raise InvalidArgument(
            "The update_mask in the UpdateSubscriptionRequest must be set, and must contain a "
            "non-empty paths list."
        )
    changes: dict[str, Any] = {}
    for path in paths:
        if path not in _MUTABLE:
            why = "is not mutable" if path in _IMMUTABLE else "is not a known Subscription field"
            raise InvalidArgument(
                f"Invalid update_mask provided in the UpdateSubscriptionRequest: {path} {why}."
            )
        setting, read = _MUTABLE[path]
        changes[setting] = read(subscription)
    return changes


def subscription_to_wire(settings: SubscriptionSettings) -> Subscription:
    """Return a subscription's settings for a client."""
    return Subscription(
        name=settings.name,
        topic=settings.topic,
        push_config=_push_to_wire(settings.push),
        ack_deadline_seconds=settings.ack_deadline_seconds,
        retain_acked_messages=settings.retains_acked,
        message_retention_duration=timedelta(seconds=settings.retention_seconds),
        labels=dict(settings.labels),
        enable_message_ordering=settings.ordered,
        expiration_policy=_expiration_to_wire(settings.expiration_seconds),
        dead_letter_policy=_dead_letter_policy_to_wire(settings.dead_letter_policy),
        retry_policy=_retry_policy_to_wire(settings.retry_policy),
        enable_exactly_once_delivery=settings.exactly_once,
        state=Subscription.State.ACTIVE,
    )


def push_from_wire(config: PushConfig) -> PushSettings | None:
    """Return where messages are pushed, or None when they are pulled."""
    if not config.push_endpoint:
        return None
    wrapped = "no_wrapper" not in config
    return PushSettings(
        endpoint=config.push_endpoint,
        wrapped=wrapped,
        writes_metadata=not wrapped and config.no_wrapper.write_metadata,
        attributes=dict(config.attributes),
        service_account=config.oidc_token.service_account_email,
        audience=config.oidc_token.audience,
    )


def _push_to_wire(push: PushSettings | None) -> PushConfig:
    if push is None:
        return PushConfig()
    config = PushConfig(push_endpoint=push.endpoint, attributes=dict(push.attributes))
    if not push.wrapped:
        config.no_wrapper = PushConfig.NoWrapper(write_metadata=push.writes_metadata)
    if push.service_account:
        config.oidc_token = PushConfig.OidcToken(
            service_account_email=push.service_account, audience=push.audience
        )
    return config


def _retry_policy_from_wire(subscription: Subscription) -> RetryPolicy | None:
    if "retry_policy" not in subscription:
        return None
    policy, default = subscription.retry_policy, RetryPolicy()
    minimum, maximum = default.minimum_backoff_seconds, default.maximum_backoff_seconds
    if "minimum_backoff" in policy:
        minimum = _seconds(policy.minimum_backoff)
    if "maximum_backoff" in policy:
        maximum = _seconds(policy.maximum_backoff)
    return RetryPolicy(minimum, maximum)


def _retry_policy_to_wire(policy: RetryPolicy | None) -> WireRetryPolicy | None:
    if policy is None:
        return None
    return WireRetryPolicy(
        minimum_backoff=timedelta(seconds=policy.minimum_backoff_seconds),
        maximum_backoff=timedelta(seconds=policy.maximum_backoff_seconds),
    )


def _dead_letter_policy_from_wire(subscription: Subscription) -> DeadLetterPolicy | None:
    if "dead_letter_policy" not in subscription:
        return None
    policy = subscription.dead_letter_policy
    attempts = policy.max_delivery_attempts or FEWEST_DELIVERY_ATTEMPTS
    return DeadLetterPolicy(policy.dead_letter_topic, attempts)


def _dead_letter_policy_to_wire(policy: DeadLetterPolicy | None) -> WireDeadLetterPolicy | None:
    if policy is None:
        return None
    return WireDeadLetterPolicy(
        dead_letter_topic=policy.topic, max_delivery_attempts=policy.max_delivery_attempts
    )


def _expiration_from_wire(subscription: Subscription) -> float | None:
    if "expiration_policy" not in subscription:
        return DEFAULT_EXPIRATION_SECONDS
    policy = subscription.expiration_policy
    return _seconds(policy.ttl) if "ttl" in policy else None


def _expiration_to_wire(seconds: float | None) -> ExpirationPolicy:
    return (
        ExpirationPolicy() if seconds is None else ExpirationPolicy(ttl=timedelta(seconds=seconds))
    )


def _retention_from_wire(subscription: Subscription) -> float:
    if "message_retention_duration" not in subscription:
        return DEFAULT_RETENTION_SECONDS
    return _seconds(subscription.message_retention_duration)


def _seconds(duration: timedelta) -> float:
    return duration.total_seconds()


def _refuse(resource: WireTopic | Subscription, fields: Sequence[str]) -> None:
    for field in fields:
        if getattr(resource, field):
            raise Unimplemented(f"The emulator does not support {field}.")


# What an update may change: a client's field, the broker's setting, and how to read it.
_MUTABLE: Final[dict[str, tuple[str, Callable[[Subscription], Any]]]] = {
    "ack_deadline_seconds": (
        "ack_deadline_seconds",
        lambda given: given.ack_deadline_seconds or DEFAULT_ACK_DEADLINE_SECONDS,
    ),
    "dead_letter_policy": ("dead_letter_policy", _dead_letter_policy_from_wire),
    "enable_exactly_once_delivery": (
        "exactly_once",
        lambda given: given.enable_exactly_once_delivery,
    ),
    "expiration_policy": ("expiration_seconds", _expiration_from_wire),
    "labels": ("labels", lambda given: dict(given.labels)),
    "message_retention_duration": ("retention_seconds", _retention_from_wire),
    "push_config": ("push", lambda given: push_from_wire(given.push_config)),
    "retain_acked_messages": ("retains_acked", lambda given: given.retain_acked_messages),
    "retry_policy": ("retry_policy", _retry_policy_from_wire),
}
