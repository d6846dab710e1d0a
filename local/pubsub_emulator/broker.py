"""Topics and subscriptions, and the messages between them.

All of Pub/Sub's rules, and nothing else: no threads, no sockets, and the time is handed in. What
is wrong with a request is raised; see `errors`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from local.pubsub_emulator.backlog import Backlog, BacklogSummary, Demand
from local.pubsub_emulator.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
)
from local.pubsub_emulator.journal import EventKind, Journal
from local.pubsub_emulator.messages import Delivery, Draft, Message, check_draft
from local.pubsub_emulator.names import DELETED_TOPIC, check_project, check_topic
from local.pubsub_emulator.settings import Limits, SubscriptionSettings

MAXIMUM_MESSAGES_PER_PUBLISH: Final = 1000
MAXIMUM_BYTES_PER_PUBLISH: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, with what its owner noted on it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


class Broker:
    """Everything that is published and subscribed to."""

    def __init__(
        self,
        now: Callable[[], float],
        utc_now: Callable[[], datetime],
        journal: Journal,
        limits: Limits | None = None,
    ) -> None:
        """Start without topics.

        Args:
            now: The time by which leases and backoffs run, in seconds; it never goes back.
            utc_now: The time that messages are stamped with.
            journal: Where everything that happens is written down.
            limits: What is allowed.
        """
        self._now = now
        self._utc_now = utc_now
        self._journal = journal
        self._limits = limits or Limits()
        self._topics: dict[str, Topic] = {}
        self._backlogs: dict[str, Backlog] = {}
        self._published = 0

    @property
    def limits(self) -> Limits:
        """What is allowed."""
        return self._limits

    def create_topic(self, topic: Topic) -> Topic:
        """Make a topic."""
        check_topic(topic.name)
        if topic.name in self._topics:
            raise AlreadyExists("Topic already exists")
        self._check_room_for_one_more(len(self._topics))
        self._topics[topic.name] = topic
        return topic

    def topic(self, name: str) -> Topic:
        """Return a topic."""
        try:
            return self._topics[name]
        except KeyError:
            raise NotFound("Topic not found") from None

    def topics(self, project: str) -> list[Topic]:
        """Return the topics of `projects/PROJECT`, by name."""
        names = _within(check_project(project), self._topics)
        return [self._topics[name] for name in names]

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Its subscriptions stay, with the messages that they have."""
        self.topic(name)
        del self._topics[name]
        for backlog in self._subscribed_to(name):
            backlog.settings = replace(backlog.settings, topic=DELETED_TOPIC)

    def create_subscription(self, settings: SubscriptionSettings) -> SubscriptionSettings:
        """Make a subscription. It gets what is published from now on."""
        settings.check(self._limits)
        check_topic(settings.topic)
        if settings.name in self._backlogs:
            raise AlreadyExists("Subscription already exists")
        if settings.topic not in self._topics:
            raise NotFound("Subscription topic does not exist")
        self._check_dead_letter_topic(settings)
        self._check_room_for_one_more(len(self._backlogs))
        self._backlogs[settings.name] = Backlog(
            settings,
            self._journal,
            lambda message, attempts: self._dead_letter(settings.name, message, attempts),
        )
        return settings

    def update_subscription(self, name: str, changes: Mapping[str, Any]) -> SubscriptionSettings:
        """Change some of a subscription's settings, by the names of their fields."""
        backlog = self._backlog(name)
        changed = replace(backlog.settings, **changes)
        changed.check(self._limits)
        self._check_dead_letter_topic(changed)
        backlog.settings = changed
        return changed

    def subscription(self, name: str) -> SubscriptionSettings:
        """Return a subscription's settings."""
        return self._backlog(name).settings

    def subscriptions(self, project: str) -> list[SubscriptionSettings]:
        """Return the subscriptions of `projects/PROJECT`, by name."""
        names = _within(check_project(project), self._backlogs)
        return [self._backlogs[name].settings for name in names]

    def subscriptions_of(self, topic: str) -> list[SubscriptionSettings]:
        """Return a topic's subscriptions, by name."""
        self.topic(topic)
        return sorted(
            (backlog.settings for backlog in self._subscribed_to(topic)),
            key=lambda settings: settings.name,
        )

    def push_subscriptions(self) -> list[SubscriptionSettings]:
        """Return the subscriptions whose messages are pushed."""
        every = (backlog.settings for backlog in self._backlogs.values())
        return [settings for settings in every if settings.push is not None]

    def delete_subscription(self, name: str) -> None:
        """Delete a subscription with all its messages."""
        self._backlog(name)
        del self._backlogs[name]

    def publish(self, topic: str, drafts: Sequence[Draft]) -> list[str]:
        """Take messages in, all or none, and return their ids."""
        self.topic(topic)
        _check_publish(drafts)
        backlogs = self._subscribed_to(topic)
        for backlog in backlogs:
            self._check_backlog(backlog, drafts)
        return [self._distribute(topic, draft, backlogs) for draft in drafts]

    def take(self, subscription: str, demand: Demand) -> list[Delivery]:
        """Hand out messages that are waiting."""
        return self._backlog(subscription).take(demand, self._now())

    def check_pullable(self, subscription: str) -> SubscriptionSettings:
        """Return the settings of a subscription from which messages are pulled.

        Raises:
            NotFound: There is no such subscription.
            FailedPrecondition: Its messages are pushed.
        """
        settings = self.subscription(subscription)
        if settings.push is not None:
            raise FailedPrecondition("This method is not supported for this subscription type.")
        return settings

    def acknowledge(self, subscription: str, ack_id: str) -> bool:
        """Settle a delivery; return whether it could still be settled."""
        return self._backlog(subscription).acknowledge(ack_id, self._now())

    def extend(self, subscription: str, ack_id: str, seconds: float) -> bool:
        """Set a lease's end; return whether it was still running."""
        return self._backlog(subscription).extend(ack_id, seconds, self._now())

    def give_back(self, subscription: str, ack_id: str) -> bool:
        """Take a nack; return whether the lease was still running."""
        return self._backlog(subscription).give_back(ack_id, self._now())

    def duplicate(self, subscription: str, ack_id: str) -> None:
        """Deliver a message that is out once more, to whoever asks next."""
        self._backlog(subscription).duplicate(ack_id)

    def summary(self, subscription: str) -> BacklogSummary:
        """Return how many messages a subscription holds."""
        return self._backlog(subscription).summary()

    def advance(self) -> bool:
        """Let everything happen that is due; return whether anything was."""
        now = self._now()
        due = [backlog for backlog in self._backlogs.values() if _is_due(backlog, now)]
        for backlog in due:
            backlog.advance(now)
        return bool(due)

    def next_at(self) -> float | None:
        """Return when `advance` will have something to do, or None when nothing is planned."""
        planned = (backlog.next_at() for backlog in self._backlogs.values())
        return min((at for at in planned if at is not None), default=None)

    def _backlog(self, subscription: str) -> Backlog:
        try:
            return self._backlogs[subscription]
        except KeyError:
            raise NotFound("Subscription does not exist") from None

    def _subscribed_to(self, topic: str) -> list[Backlog]:
        return [backlog for backlog in self._backlogs.values() if backlog.settings.topic == topic]

    def _distribute(self, topic: str, draft: Draft, backlogs: Sequence[Backlog]) -> str:
        self._published += 1
        message = Message(str(self._published), draft, self._utc_now())
        self._journal.record(EventKind.PUBLISHED, topic, message_id=message.message_id)
        now = self._now()
        for backlog in backlogs:
            backlog.add(message, now)
        return message.message_id

    def _dead_letter(self, subscription: str, message: Message, attempts: int) -> bool:
        policy = self._backlog(subscription).settings.dead_letter_policy
        if policy is None or policy.topic not in self._topics:
            return False
        draft = message.dead_letter(subscription, attempts)
        backlogs = self._subscribed_to(policy.topic)
        try:
            for backlog in backlogs:
                self._check_backlog(backlog, [draft])
        except ResourceExhausted:
            return False
        self._distribute(policy.topic, draft, backlogs)
        return True

    def _check_dead_letter_topic(self, settings: SubscriptionSettings) -> None:
        policy = settings.dead_letter_policy
        if policy is not None and policy.topic not in self._topics:
            raise NotFound("Dead letter topic not found")

    def _check_room_for_one_more(self, there_are: int) -> None:
        if there_are >= self._limits.subscriptions:
            raise ResourceExhausted(f"The emulator holds at most {self._limits.subscriptions}")

    def _check_backlog(self, backlog: Backlog, drafts: Sequence[Draft]) -> None:
        messages = len(backlog) + len(drafts)
        size = backlog.size_bytes + sum(draft.size_bytes for draft in drafts)
        if messages > self._limits.backlog_messages or size > self._limits.backlog_bytes:
            raise ResourceExhausted(f"The backlog of {backlog.settings.name} is full")


def _check_publish(drafts: Sequence[Draft]) -> None:
    if not 1 <= len(drafts) <= MAXIMUM_MESSAGES_PER_PUBLISH:
        raise InvalidArgument(f"Publish 1 to {MAXIMUM_MESSAGES_PER_PUBLISH} messages at once")
    for draft in drafts:
        check_draft(draft)
    if sum(draft.size_bytes for draft in drafts) > MAXIMUM_BYTES_PER_PUBLISH:
        raise InvalidArgument(f"Publish at most {MAXIMUM_BYTES_PER_PUBLISH} bytes at once")


def _within(project: str, names: Mapping[str, object]) -> list[str]:
    return sorted(name for name in names if name.startswith(f"{project}/"))


def _is_due(backlog: Backlog, now: float) -> bool:
    next_at = backlog.next_at()
    return next_at is not None and next_at <= now
