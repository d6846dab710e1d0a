"""Moving a message to the dead-letter topic, by publishing it there with the reason.

The copy has the whole body, the message's own attributes and these:

    chargeonce_reason            why, in one word, as in `InvalidEvent`
    chargeonce_description       why, in a sentence
    chargeonce_message_id        the id that the message had; the copy gets a new one
    chargeonce_delivery_count    how often it was delivered, where Pub/Sub counts

What exceeds Pub/Sub's limits is cut off or left out, ours last: else it would be refused for ever.
The parked event in the database has everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from shared.dead_letter_attributes import (
    DELIVERY_COUNT,
    DESCRIPTION,
    MESSAGE_ID,
    REASON,
    RESERVED_PREFIX,
)
from shared.errors import SettlementFailed
from shared.once import Once
from shared.ports import Delivery

if TYPE_CHECKING:
    from google.pubsub_v1 import PublisherClient

MAX_ATTRIBUTES = 100
MAX_KEY_BYTES = 256
MAX_VALUE_BYTES = 1024
MAX_REQUEST_BYTES = 10_000_000
# What the request needs besides: the topic's name of at most 302 bytes, tags and lengths.
REQUEST_OVERHEAD_BYTES = 350
ATTRIBUTE_OVERHEAD_BYTES = 16

ATTEMPT_SECONDS = 5.0
RETRY_SECONDS = 8.0


class DeadLetters(Protocol):
    """Where messages go that can never be charged as they are."""

    def publish(self, body: bytes, attributes: Mapping[str, str]) -> None:
        """Return once the copy is safe.

        Raises:
            SettlementFailed: it is not known to be safe.
        """


def dead_letter_attributes(delivery: Delivery, reason: str, description: str) -> dict[str, str]:
    """What the copy says of itself, within Pub/Sub's limits.

    Args:
        delivery: the message.
        reason: why it is dead-lettered, in one word.
        description: the same in a sentence; may be empty.
    """
    envelope = delivery.envelope
    wanted = {
        REASON: reason,
        MESSAGE_ID: envelope.message_id,
        DELIVERY_COUNT: str(envelope.delivery_count or ""),
        DESCRIPTION: description,
    }
    wanted = {name: value for name, value in wanted.items() if value}
    for name, value in envelope.attributes.items():
        if name and not name.lower().startswith(RESERVED_PREFIX):
            wanted.setdefault(name, value)
    return _fitting(wanted, MAX_REQUEST_BYTES - REQUEST_OVERHEAD_BYTES - len(delivery.body))


def _fitting(wanted: Mapping[str, str], room_bytes: int) -> dict[str, str]:
    fitting: dict[str, str] = {}
    for name, value in wanted.items():
        key, text = _cut(name, MAX_KEY_BYTES), _cut(value, MAX_VALUE_BYTES)
        needed_bytes = len(key.encode()) + len(text.encode()) + ATTRIBUTE_OVERHEAD_BYTES
        if len(fitting) < MAX_ATTRIBUTES and needed_bytes <= room_bytes:
            fitting[key] = text
            room_bytes -= needed_bytes
    return fitting


def _cut(text: str, most_bytes: int) -> str:
    """The text as valid UTF-8 of at most so many bytes."""
    return text.encode("utf-8", "replace")[:most_bytes].decode("utf-8", "ignore")


class PubsubDeadLetters:
    """The dead-letter topic. The SDK is imported and the client made when first needed.

    Args:
        topic: the full name, `projects/.../topics/...`.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._client = Once(_make_client)

    def publish(self, body: bytes, attributes: Mapping[str, str]) -> None:
        """See `DeadLetters.publish`."""
        try:
            self._publish(body, attributes)
        except Exception as error:
            problem = f"the dead-letter topic did not take the message ({type(error).__name__})"
            raise SettlementFailed(problem) from error

    def _publish(self, body: bytes, attributes: Mapping[str, str]) -> None:
        from google.api_core import exceptions, retry
        from google.pubsub_v1 import PublisherClient, PubsubMessage

        transient = retry.if_exception_type(
            exceptions.Aborted, exceptions.DeadlineExceeded, exceptions.ServiceUnavailable
        )
        # The plain request, and not the SDK's batching `publish`: that takes attributes as
        # keywords, so one called `topic` or `data` would break it, and would run in a thread.
        PublisherClient.publish(
            self._client.get(),
            topic=self._topic,
            messages=[PubsubMessage(data=body, attributes=dict(attributes))],
            retry=retry.Retry(initial=0.2, maximum=2.0, timeout=RETRY_SECONDS, predicate=transient),
            timeout=ATTEMPT_SECONDS,
        )


def _make_client() -> PublisherClient:
    # This client and not its base class: it honours PUBSUB_EMULATOR_HOST.
    from google.cloud.pubsub_v1 import PublisherClient as EmulatorAwareClient

    client: PublisherClient = EmulatorAwareClient()
    return client
