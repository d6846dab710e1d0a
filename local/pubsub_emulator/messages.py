"""Messages on their way: from a publisher, in a topic, to a subscriber."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from local.pubsub_emulator.errors import InvalidArgument
from local.pubsub_emulator.names import identifier_of, project_of

MAXIMUM_MESSAGE_BYTES: Final = 10_000_000
MAXIMUM_ATTRIBUTES: Final = 100
MAXIMUM_ATTRIBUTE_NAME_BYTES: Final = 256
MAXIMUM_ATTRIBUTE_VALUE_BYTES: Final = 1024
MAXIMUM_ORDERING_KEY_BYTES: Final = 1024

_DEAD_LETTER: Final = "CloudPubSubDeadLetterSource"


@dataclass(frozen=True, slots=True)
class Draft:
    """A message as a publisher hands it over."""

    data: bytes = b""
    attributes: Mapping[str, str] = field(default_factory=dict)
    ordering_key: str = ""

    @property
    def size_bytes(self) -> int:
        """How many bytes it carries."""
        return len(self.data) + sum(
            len(name.encode()) + len(value.encode()) for name, value in self.attributes.items()
        )


@dataclass(frozen=True, slots=True)
class Message:
    """A message that a topic took, with what the topic added to it."""

    message_id: str
    content: Draft
    published_at: datetime

    @property
    def size_bytes(self) -> int:
        """How many bytes it carries."""
        return self.content.size_bytes

    @property
    def ordering_key(self) -> str:
        """The key within which order is kept; empty for none."""
        return self.content.ordering_key

    @property
    def published_text(self) -> str:
        """When it was published, as Pub/Sub writes it in JSON and in headers."""
        stamp = self.published_at.astimezone(UTC)
        return stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def dead_letter(self, subscription: str, delivery_attempts: int) -> Draft:
        """Return what goes to the dead-letter topic in its place."""
        told = {
            f"{_DEAD_LETTER}DeliveryCount": str(delivery_attempts),
            f"{_DEAD_LETTER}Subscription": identifier_of(subscription),
            f"{_DEAD_LETTER}SubscriptionProject": project_of(subscription),
            f"{_DEAD_LETTER}TopicPublishTime": self.published_text,
        }
        return replace(self.content, attributes={**self.content.attributes, **told})


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message on its way to a subscriber, with the id that settles it."""

    ack_id: str
    message: Message
    attempt: int


def check_draft(draft: Draft) -> None:
    """Check a message against Pub/Sub's limits.

    Raises:
        InvalidArgument: It is empty or too large.
    """
    if not draft.data and not draft.attributes:
        raise InvalidArgument("Some messages are empty")
    if draft.size_bytes > MAXIMUM_MESSAGE_BYTES:
        raise InvalidArgument(f"A message may carry at most {MAXIMUM_MESSAGE_BYTES} bytes")
    if len(draft.ordering_key.encode()) > MAXIMUM_ORDERING_KEY_BYTES:
        raise InvalidArgument(f"An ordering key has at most {MAXIMUM_ORDERING_KEY_BYTES} bytes")
    if len(draft.attributes) > MAXIMUM_ATTRIBUTES:
        raise InvalidArgument(f"A message has at most {MAXIMUM_ATTRIBUTES} attributes")
    for name, value in draft.attributes.items():
        _check_attribute(name, value)


def _check_attribute(name: str, value: str) -> None:
    if not 1 <= len(name.encode()) <= MAXIMUM_ATTRIBUTE_NAME_BYTES:
        raise InvalidArgument(
            f"An attribute's name has 1 to {MAXIMUM_ATTRIBUTE_NAME_BYTES} bytes (name={name})"
        )
    if len(value.encode()) > MAXIMUM_ATTRIBUTE_VALUE_BYTES:
        raise InvalidArgument(
            f"An attribute's value has at most {MAXIMUM_ATTRIBUTE_VALUE_BYTES} bytes (name={name})"
        )
