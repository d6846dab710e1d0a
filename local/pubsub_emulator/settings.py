"""How a subscription behaves, and the limits that its settings must keep."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from local.pubsub_emulator.errors import InvalidArgument, OutOfRange
from local.pubsub_emulator.names import check_subscription, check_topic

DAY_SECONDS: Final = 86_400.0
LONGEST_ACK_DEADLINE_SECONDS: Final = 600
DEFAULT_ACK_DEADLINE_SECONDS: Final = 10
LONGEST_BACKOFF_SECONDS: Final = 600.0
# Between tries of a push subscription that has no retry policy.
FIRST_PUSH_BACKOFF_SECONDS: Final = 0.1
LONGEST_PUSH_BACKOFF_SECONDS: Final = 60.0
FEWEST_DELIVERY_ATTEMPTS: Final = 5
MOST_DELIVERY_ATTEMPTS: Final = 100
SHORTEST_RETENTION_SECONDS: Final = 600.0
LONGEST_RETENTION_SECONDS: Final = 31 * DAY_SECONDS
DEFAULT_RETENTION_SECONDS: Final = 7 * DAY_SECONDS
SHORTEST_EXPIRATION_SECONDS: Final = DAY_SECONDS
DEFAULT_EXPIRATION_SECONDS: Final = 31 * DAY_SECONDS

# Beyond this, doubling a backoff once more changes nothing and might overflow.
_MOST_DOUBLINGS: Final = 32


@dataclass(frozen=True, slots=True)
class Limits:
    """What the emulator allows. The defaults are Pub/Sub's, except for the bounds on memory.

    Attributes:
        shortest_ack_deadline_seconds: The least that a subscription or a stream may ask for.
        backlog_messages: How many messages a subscription may hold.
        backlog_bytes: How many bytes they may have together.
        subscriptions: How many topics, and how many subscriptions, there may be.
    """

    shortest_ack_deadline_seconds: int = 10
    backlog_messages: int = 100_000
    backlog_bytes: int = 512 * 1024 * 1024
    subscriptions: int = 1000

    def check_ack_deadline(self, seconds: int) -> None:
        """Check the deadline of a subscription or a stream.

        Raises:
            InvalidArgument: It is too short or too long.
        """
        shortest = self.shortest_ack_deadline_seconds
        if not shortest <= seconds <= LONGEST_ACK_DEADLINE_SECONDS:
            raise InvalidArgument(
                f"Invalid ack deadline given (ack_deadline_secs={seconds}): it lies between "
                f"{shortest} and {LONGEST_ACK_DEADLINE_SECONDS} seconds"
            )


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a message that failed waits: twice as long each time, between two bounds."""

    minimum_backoff_seconds: float = 10.0
    maximum_backoff_seconds: float = LONGEST_BACKOFF_SECONDS

    def backoff_seconds(self, failures: int) -> float:
        """Return the wait after so many failures; Pub/Sub adds some jitter, this does not."""
        doublings = min(max(failures - 1, 0), _MOST_DOUBLINGS)
        return min(self.minimum_backoff_seconds * 2.0**doublings, self.maximum_backoff_seconds)


_PUSH_PACE: Final = RetryPolicy(FIRST_PUSH_BACKOFF_SECONDS, LONGEST_PUSH_BACKOFF_SECONDS)


@dataclass(frozen=True, slots=True)
class DeadLetterPolicy:
    """Where a message goes that was delivered too often in vain."""

    topic: str
    max_delivery_attempts: int = FEWEST_DELIVERY_ATTEMPTS


@dataclass(frozen=True, slots=True)
class PushSettings:
    """Where and how messages are pushed.

    Attributes:
        endpoint: The URL that gets them.
        wrapped: Whether the body is Pub/Sub's JSON around the message, or the bare data.
        writes_metadata: Whether the bare data comes with ids and attributes as headers.
        attributes: Kept and returned.
        service_account: Kept and returned; the emulator signs no tokens.
        audience: Kept and returned.
    """

    endpoint: str
    wrapped: bool = True
    writes_metadata: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)
    service_account: str = ""
    audience: str = ""


@dataclass(frozen=True, slots=True)
class SubscriptionSettings:
    """How a subscription behaves. `expiration_seconds` is None for never; nothing expires here."""

    name: str
    topic: str
    ack_deadline_seconds: int = DEFAULT_ACK_DEADLINE_SECONDS
    retry_policy: RetryPolicy | None = None
    dead_letter_policy: DeadLetterPolicy | None = None
    push: PushSettings | None = None
    ordered: bool = False
    exactly_once: bool = False
    retention_seconds: float = DEFAULT_RETENTION_SECONDS
    expiration_seconds: float | None = DEFAULT_EXPIRATION_SECONDS
    retains_acked: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)

    def backoff_seconds(self, failures: int) -> float:
        """Return how long a message waits after so many failed deliveries."""
        if self.retry_policy is not None:
            return self.retry_policy.backoff_seconds(failures)
        return _PUSH_PACE.backoff_seconds(failures) if self.push is not None else 0.0

    def check(self, limits: Limits) -> None:
        """Check every setting.

        Raises:
            InvalidArgument: One makes no sense, or two do not go together.
            OutOfRange: There may not be so few or so many delivery attempts.
        """
        check_subscription(self.name)
        limits.check_ack_deadline(self.ack_deadline_seconds)
        _check_retry_policy(self.retry_policy)
        _check_dead_letter_policy(self.dead_letter_policy)
        _check_push(self.push, exactly_once=self.exactly_once)
        _check_times(self.retention_seconds, self.expiration_seconds)


def _check_retry_policy(policy: RetryPolicy | None) -> None:
    if policy is None:
        return
    bounds = (policy.minimum_backoff_seconds, policy.maximum_backoff_seconds)
    if not all(0.0 <= seconds <= LONGEST_BACKOFF_SECONDS for seconds in bounds):
        raise InvalidArgument(
            f"Retry policy backoffs lie between 0 and {LONGEST_BACKOFF_SECONDS:.0f} seconds"
        )
    if policy.minimum_backoff_seconds > policy.maximum_backoff_seconds:
        raise InvalidArgument("The minimum backoff may not be greater than the maximum backoff")


def _check_dead_letter_policy(policy: DeadLetterPolicy | None) -> None:
    if policy is None:
        return
    check_topic(policy.topic)
    if not FEWEST_DELIVERY_ATTEMPTS <= policy.max_delivery_attempts <= MOST_DELIVERY_ATTEMPTS:
        raise OutOfRange(
            f"max_delivery_attempts must be between {FEWEST_DELIVERY_ATTEMPTS} and "
            f"{MOST_DELIVERY_ATTEMPTS}"
        )


def _check_push(push: PushSettings | None, *, exactly_once: bool) -> None:
    if push is None:
        return
    if not _is_web_address(push.endpoint):
        raise InvalidArgument(f"Invalid push endpoint given (endpoint={push.endpoint})")
    if exactly_once:
        raise InvalidArgument("Exactly-once delivery is not supported by push subscriptions")


def _is_web_address(endpoint: str) -> bool:
    try:
        address = urlsplit(endpoint)
        has_port = address.port is None or address.port > 0
    except ValueError:
        return False
    return has_port and address.scheme in {"http", "https"} and bool(address.hostname)


def _check_times(retention_seconds: float, expiration_seconds: float | None) -> None:
    if not SHORTEST_RETENTION_SECONDS <= retention_seconds <= LONGEST_RETENTION_SECONDS:
        raise InvalidArgument("message_retention_duration lies between 10 minutes and 31 days")
    if expiration_seconds is not None and expiration_seconds < SHORTEST_EXPIRATION_SECONDS:
        raise InvalidArgument("The ttl of an expiration policy is at least one day, or unset")
