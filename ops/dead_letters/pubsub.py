"""Dead letters in Pub/Sub: the subscription of the dead-letter topic.

Pub/Sub cannot be looked into. What is looked at is pulled, held by its lease, and given back: that
counts as a delivery of each message, and a retry policy then keeps it away for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ops.dead_letters.letters import DeadLetter
from ops.errors import PlaceUnavailable
from shared.dead_letter_attributes import (
    DELIVERY_COUNT,
    DESCRIPTION,
    FORWARDED_DELIVERY_COUNT,
    FORWARDED_PREFIX,
    MESSAGE_ID,
    ORIGINAL_MESSAGE_ID,
    REASON,
    RESERVED_PREFIX,
)

if TYPE_CHECKING:
    from google.pubsub_v1.types import ReceivedMessage

Result = TypeVar("Result")

LEASE_SECONDS = 60
# Less than this, and the lease is extended before the letter is sent.
LEASE_MARGIN_SECONDS = 30.0
PULL_SECONDS = 2.0
# A pull may come back empty although messages are there.
EMPTY_PULLS = 2
PEEK_BATCH = 100
CALL_SECONDS = 10.0
RETRY_SECONDS = 20.0
# A request with more ids could be too large.
ACK_IDS_PER_REQUEST = 500
MAX_HELD = 20_000

# Pub/Sub's own dead-lettering gives no reason, as Service Bus does.
FORWARDED_REASON = "MaxDeliveryCountExceeded"

_ADDED_BY_DEAD_LETTERING = frozenset({REASON, DESCRIPTION, MESSAGE_ID, DELIVERY_COUNT})

_PROBLEMS = {
    "NotFound": "there is no such subscription or topic",
    "PermissionDenied": "access is denied: it takes the roles pubsub.subscriber and "
    "pubsub.publisher",
    "Unauthenticated": "access is denied: nobody is signed in",
    "DefaultCredentialsError": "nobody is signed in",
    "ServiceUnavailable": "Pub/Sub cannot be reached",
}


@dataclass(slots=True)
class _Lease:
    ack_id: str
    until: float


class PubsubDeadLetters:
    """Implements `DeadLetterPlace`. Entering connects.

    Args:
        subscription: the full name of the dead-letter topic's subscription.
        topic: the full name of the topic that is billed from; None where nothing is sent.

    Raises:
        PlaceUnavailable: Pub/Sub cannot be reached, or refuses.
    """

    def __init__(self, subscription: str, topic: str | None) -> None:
        self._subscription = subscription
        self._topic = topic
        self._subscriber: Any = None
        self._publisher: Any = None
        self._held: dict[str, _Lease] = {}

    @property
    def name(self) -> str:
        """See `DeadLetterPlace.name`."""
        return self._subscription

    @property
    def peeks_freely(self) -> bool:
        """See `DeadLetterPlace.peeks_freely`."""
        return False

    @property
    def counts_deliveries(self) -> bool:
        """See `DeadLetterPlace.counts_deliveries`."""
        return True

    def __enter__(self) -> Self:
        self._subscriber, self._publisher = self._call(_make_clients, self._topic is not None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._give_back()
        self._subscriber.close()
        if self._publisher is not None:
            self._publisher.transport.close()

    @property
    def sends_any_body(self) -> bool:
        """See `DeadLetterPlace.sends_any_body`."""
        return True

    def peek(self) -> Iterator[Sequence[DeadLetter]]:
        """See `DeadLetterPlace.peek`. Every letter is held until this ends."""
        try:
            while letters := self.take(PEEK_BATCH):
                for letter in letters:
                    self.pass_over(letter)
                yield letters
        finally:
            self._give_back()

    def take(self, count: int) -> Sequence[DeadLetter]:
        """See `DeadLetterPlace.take`."""
        self._extend_held()
        if len(self._held) >= MAX_HELD:
            return []
        for _ in range(EMPTY_PULLS):
            pulled = self._pull(count)
            if pulled:
                self._extend([message.ack_id for message in pulled])
                until = time.monotonic() + LEASE_SECONDS
                return [_read_letter(message, until) for message in pulled]
        return []

    def holds(self, letter: DeadLetter) -> bool:
        """See `DeadLetterPlace.holds`."""
        lease: _Lease = letter.handle[1]
        if lease.until - time.monotonic() > LEASE_MARGIN_SECONDS:
            return True
        if lease.until <= time.monotonic():
            return False
        self._extend([lease.ack_id])
        lease.until = time.monotonic() + LEASE_SECONDS
        return True

    def send(self, letter: DeadLetter, *, fresh_id: bool) -> str:  # noqa: ARG002 (always fresh)
        """See `DeadLetterPlace.send`. Pub/Sub gives a new id in any case."""
        from google.pubsub_v1 import PublisherClient, PubsubMessage

        message, _ = letter.handle
        copy = PubsubMessage(
            data=letter.body,
            attributes=attributes_of_copy(letter),
            ordering_key=message.message.ordering_key,
        )
        response = self._call(
            lambda: PublisherClient.publish(
                self._publisher,
                topic=self._topic,
                messages=[copy],
                retry=_patience(),
                timeout=CALL_SECONDS,
            )
        )
        return str(response.message_ids[0])

    def settle(self, letter: DeadLetter) -> bool:
        """See `DeadLetterPlace.settle`."""
        try:
            self._subscriber.acknowledge(
                subscription=self._subscription,
                ack_ids=[letter.handle[1].ack_id],
                retry=_patience(),
                timeout=CALL_SECONDS,
            )
        except Exception:  # noqa: BLE001 (whatever it was, the letter may come again)
            return False
        return True

    def remove(self, letter: DeadLetter) -> bool:
        """See `DeadLetterPlace.remove`."""
        return self.settle(letter)

    def pass_over(self, letter: DeadLetter) -> None:
        """See `DeadLetterPlace.pass_over`. Its lease goes on, else it would come again at once."""
        self._held[letter.position] = letter.handle[1]

    def _pull(self, count: int) -> Sequence[ReceivedMessage]:
        from google.api_core import exceptions

        try:
            response = self._subscriber.pull(
                subscription=self._subscription,
                max_messages=count,
                retry=None,
                timeout=PULL_SECONDS,
            )
        except exceptions.DeadlineExceeded:
            return []
        except Exception as error:
            raise PlaceUnavailable(f"{self.name}: {_problem(error)}") from error
        return list(response.received_messages)

    def _extend_held(self) -> None:
        soon = time.monotonic() + LEASE_MARGIN_SECONDS
        ending = [lease for lease in self._held.values() if lease.until < soon]
        self._extend([lease.ack_id for lease in ending])
        for lease in ending:
            lease.until = time.monotonic() + LEASE_SECONDS

    def _extend(self, ack_ids: Sequence[str], seconds: int = LEASE_SECONDS) -> None:
        for start in range(0, len(ack_ids), ACK_IDS_PER_REQUEST):
            self._call(
                self._subscriber.modify_ack_deadline,
                subscription=self._subscription,
                ack_ids=ack_ids[start : start + ACK_IDS_PER_REQUEST],
                ack_deadline_seconds=seconds,
                retry=_patience(),
                timeout=CALL_SECONDS,
            )

    def _give_back(self) -> None:
        held = [lease.ack_id for lease in self._held.values()]
        self._held.clear()
        try:
            self._extend(held, seconds=0)
        except PlaceUnavailable:
            # Their leases run out in a minute.
            return

    def _call(self, call: Callable[..., Result], *given: Any, **named: Any) -> Result:
        try:
            return call(*given, **named)
        except Exception as error:
            raise PlaceUnavailable(f"{self.name}: {_problem(error)}") from error


def attributes_of_copy(letter: DeadLetter) -> Mapping[str, str]:
    """What the message that is sent again says of itself: the same as before, and its first id."""
    return {ORIGINAL_MESSAGE_ID: letter.message_id, **letter.properties}


def _read_letter(received: ReceivedMessage, until: float) -> DeadLetter:
    message = received.message
    attributes = dict(message.attributes)
    was_forwarded = FORWARDED_DELIVERY_COUNT in attributes and REASON not in attributes
    count = attributes.get(DELIVERY_COUNT) or attributes.get(FORWARDED_DELIVERY_COUNT) or ""
    return DeadLetter(
        position=message.message_id,
        message_id=attributes.get(MESSAGE_ID) or message.message_id,
        body=bytes(message.data),
        reason=FORWARDED_REASON if was_forwarded else attributes.get(REASON, ""),
        description=attributes.get(DESCRIPTION, ""),
        since=message.publish_time,
        delivery_count=int(count) if count.isascii() and count.isdigit() else None,
        properties={
            name: value
            for name, value in attributes.items()
            if name not in _ADDED_BY_DEAD_LETTERING
            and not name.startswith(FORWARDED_PREFIX)
            and not name.lower().startswith(RESERVED_PREFIX)
        },
        handle=(received, _Lease(received.ack_id, until)),
    )


def _make_clients(sends: bool) -> tuple[Any, Any]:
    # These clients and not their base classes: they honour PUBSUB_EMULATOR_HOST.
    from google.cloud.pubsub_v1 import PublisherClient, SubscriberClient

    return SubscriberClient(), PublisherClient() if sends else None


def _patience() -> Any:
    from google.api_core import exceptions, retry

    transient = retry.if_exception_type(
        exceptions.Aborted, exceptions.DeadlineExceeded, exceptions.ServiceUnavailable
    )
    return retry.Retry(initial=0.2, maximum=2.0, timeout=RETRY_SECONDS, predicate=transient)


def _problem(error: Exception) -> str:
    name = type(error).__name__
    return _PROBLEMS.get(name, f"Pub/Sub did not do as asked ({name})")
