"""Sending to a Pub/Sub topic. The SDK is imported when it is needed, and not before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from ops.outgoing import Outgoing, SendFailed

if TYPE_CHECKING:
    from google.pubsub_v1 import PublisherClient

# With bodies of at most 64 KiB that stays below the ten megabytes of a request.
MESSAGES_PER_REQUEST = 100
ATTEMPT_SECONDS = 20.0
RETRY_SECONDS = 60.0


class PubsubSender:
    """Implements the port `Sender` for a topic. Pub/Sub gives the message ids itself.

    Args:
        topic: its full name, `projects/.../topics/...`.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic

    @property
    def destination(self) -> str:
        """See `Sender.destination`."""
        return self._topic

    def send(self, messages: Iterable[Outgoing]) -> Iterator[str]:
        """See `Sender.send`."""
        try:
            client = _make_client()
        except Exception as error:
            raise SendFailed(f"no way to Pub/Sub ({type(error).__name__})") from error
        remaining = iter(messages)
        while batch := list(islice(remaining, MESSAGES_PER_REQUEST)):
            yield from self._publish(client, batch)

    def _publish(self, client: PublisherClient, batch: Sequence[Outgoing]) -> Sequence[str]:
        from google.api_core import exceptions, retry
        from google.pubsub_v1 import PublisherClient, PubsubMessage

        transient = retry.if_exception_type(
            exceptions.Aborted, exceptions.DeadlineExceeded, exceptions.ServiceUnavailable
        )
        try:
            # The plain request, and not the SDK's batching `publish`, which runs in threads.
            response = PublisherClient.publish(
                client,
                topic=self._topic,
                messages=[PubsubMessage(data=message.body) for message in batch],
                retry=retry.Retry(timeout=RETRY_SECONDS, predicate=transient),
                timeout=ATTEMPT_SECONDS,
            )
        except exceptions.NotFound as error:
            raise SendFailed(f"there is no topic {self._topic}") from error
        except Exception as error:
            raise SendFailed(f"{self._topic} takes no message ({type(error).__name__})") from error
        return list(response.message_ids)


def _make_client() -> PublisherClient:
    # This client and not its base class: it honours PUBSUB_EMULATOR_HOST.
    from google.cloud.pubsub_v1 import PublisherClient as EmulatorAwareClient

    client: PublisherClient = EmulatorAwareClient()
    return client
