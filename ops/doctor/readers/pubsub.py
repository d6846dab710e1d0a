"""Pub/Sub, asked for its subscriptions, and for who may do what with them."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from ops.doctor.examination import Unread
from ops.doctor.facts import Facts, Subscription

if TYPE_CHECKING:
    from google.pubsub_v1.types import Subscription as Described

CALL_SECONDS = 20.0
SERVICE_AGENT = "gcp-sa-pubsub.iam.gserviceaccount.com"
USUAL_EXPIRATION_SECONDS = 31 * 86_400.0


def add_subscription(
    facts: Facts, *, subscription: str | None = None
) -> tuple[Facts, tuple[Unread, ...]]:
    """The same facts, with the subscription that those settings name.

    Args:
        facts: with settings.
        subscription: its full name, where the settings name none, as for push.
    """
    assert facts.settings is not None, "settings are read first"
    pubsub = facts.settings.pubsub
    if subscription is None and pubsub.subscription is not None:
        subscription = pubsub.subscription_path
    if subscription is None and pubsub.topic is None:
        return facts, ()
    try:
        with _Reader() as reader:
            return reader.add(facts, subscription, pubsub.topic_path)
    except Exception as error:  # noqa: BLE001 - the SDK has many
        what = f"Pub/Sub, {subscription or pubsub.topic_path}"
        return facts, (Unread(what, _problem(error)),)


class _Reader:
    """Asks with both of the SDK's clients."""

    def __init__(self) -> None:
        # These clients and not their base classes: they honour PUBSUB_EMULATOR_HOST.
        from google.cloud.pubsub_v1 import PublisherClient, SubscriberClient

        self._subscriber, self._publisher = SubscriberClient(), PublisherClient()
        self._unread: list[Unread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._subscriber.close()
        self._publisher.transport.close()

    def add(self, facts: Facts, name: str | None, topic: str) -> tuple[Facts, tuple[Unread, ...]]:
        """See `add_subscription`."""
        if name is not None:
            topic = self._describe(name).topic
        siblings = self._subscriptions_of(topic)
        if name is None and len(siblings) != 1:
            why = f"its topic has {len(siblings)} subscriptions: name the one with --subscription"
            return replace(facts, event_subscriptions=tuple(siblings)), (Unread(topic, why),)
        # For push the settings name the topic alone.
        described = self._describe(name or siblings[0])
        dead_letter_topic = described.dead_letter_policy.dead_letter_topic
        facts = replace(
            facts,
            subscription=_plain(described, self._may_forward(described)),
            event_subscriptions=tuple(siblings),
            dead_letter_subscriptions=self._dead_letters(dead_letter_topic),
        )
        return facts, tuple(self._unread)

    def _describe(self, name: str) -> Described:
        described: Described = self._subscriber.get_subscription(
            subscription=name, timeout=CALL_SECONDS
        )
        return described

    def _subscriptions_of(self, topic: str) -> Sequence[str]:
        return list(self._publisher.list_topic_subscriptions(topic=topic, timeout=CALL_SECONDS))

    def _dead_letters(self, topic: str) -> tuple[Subscription, ...] | None:
        if not topic:
            return None
        names = self._subscriptions_of(topic)
        return tuple(_plain(self._describe(name), None) for name in names)

    def _may_forward(self, described: Described) -> bool | None:
        """Whether Pub/Sub's own account has both grants; None where nobody can say."""
        topic = described.dead_letter_policy.dead_letter_topic
        if not topic:
            return None
        try:
            publishes = grants_to_service_agent(
                self._policy(self._publisher, topic), "roles/pubsub.publisher"
            )
            takes = grants_to_service_agent(
                self._policy(self._subscriber, described.name), "roles/pubsub.subscriber"
            )
        except Exception as error:  # noqa: BLE001 - the SDK has many
            what = "Pub/Sub, the grants of its own account"
            emulated = "PUBSUB_EMULATOR_HOST" in os.environ
            why = "the emulator has none" if emulated else _problem(error)
            self._unread.append(Unread(what, why, matters=not emulated))
            return None
        return publishes and takes

    def _policy(self, client: Any, resource: str) -> Any:
        return client.get_iam_policy(request={"resource": resource}, timeout=CALL_SECONDS)


def grants_to_service_agent(policy: Any, role: str) -> bool:
    """Whether Pub/Sub's own account has a role.

    Args:
        policy: of a topic or subscription, as the SDK reads it.
        role: such as `roles/pubsub.publisher`.
    """
    return any(
        binding.role == role and any(member.endswith(SERVICE_AGENT) for member in binding.members)
        for binding in policy.bindings
    )


def _plain(described: Described, may_forward: bool | None) -> Subscription:
    """What the rules need of it."""
    policy, retry = described.dead_letter_policy, described.retry_policy
    push = described.push_config
    return Subscription(
        name=described.name.rpartition("/")[2],
        ack_deadline_seconds=described.ack_deadline_seconds,
        pushes=bool(push.push_endpoint),
        push_has_token=bool(push.oidc_token.service_account_email),
        delivers_exactly_once=described.enable_exactly_once_delivery,
        expires_after_seconds=_expiration_seconds(described),
        backoff_seconds=(
            retry.minimum_backoff.total_seconds(),
            retry.maximum_backoff.total_seconds(),
        )
        if "retry_policy" in described
        else None,
        max_deliveries=policy.max_delivery_attempts if policy.dead_letter_topic else None,
        service_agent_may_forward=may_forward,
        retention_seconds=described.message_retention_duration.total_seconds() or None,
    )


def _expiration_seconds(described: Described) -> float:
    """A policy without a time to live stands for never; no policy for the usual 31 days."""
    if "expiration_policy" not in described:
        return USUAL_EXPIRATION_SECONDS
    ttl = described.expiration_policy.ttl
    return ttl.total_seconds() if ttl else math.inf


def _problem(error: Exception) -> str:
    """The error's kind; its text may quote what does not belong into a report."""
    return type(error).__name__
