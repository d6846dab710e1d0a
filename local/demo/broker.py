"""What the demo asks of whatever delivers its events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from local.demo.plan import Message

PROJECT: Final = "chargeonce-demo"
TOPIC: Final = "usage"
SUBSCRIPTION: Final = "usage-push"
PULL_SUBSCRIPTION: Final = "usage-pull"
DEAD_LETTER_TOPIC: Final = "usage-dead"
DEAD_LETTER_SUBSCRIPTION: Final = "usage-dead"

# The shortest that Pub/Sub allows.
ACK_DEADLINE_SECONDS: Final = 10
BACKOFF_SECONDS: Final = (1, 5)
# How long a message stays away that a worker must leave.
LEAVE_SECONDS: Final = 1
# As many as Pub/Sub allows: what the function leaves is to come back, not to be given up.
MOST_DELIVERIES: Final = 100


@dataclass(frozen=True, slots=True)
class LeasesSeen:
    """What became of the leases on messages, which Service Bus calls locks.

    Attributes:
        not_extended: Extensions that were refused or lost.
        ran_out: Those that had run out when somebody was done with the message.
    """

    not_extended: int
    ran_out: int


class Broker(Protocol):
    """Delivers events, again and again until each is acknowledged.

    To the push endpoint, and where it can, to workers that pull as well: each event both ways.
    """

    @property
    def name(self) -> str:
        """What it is, for people."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that lead the function's own Pub/Sub client here."""
        ...

    @property
    def pull_subscription(self) -> str | None:
        """From which workers may pull; None where they cannot."""
        ...

    def push_to(self, endpoint: str) -> None:
        """Deliver to this URL from now on."""
        ...

    def publish(self, messages: Sequence[Message]) -> Sequence[str]:
        """Publish messages and return their ids in order."""
        ...

    def leases(self) -> LeasesSeen | None:
        """Return what became of leases; None if nobody counts."""
        ...

    def dead_letters(self, count: int, within_seconds: float) -> frozenset[str]:
        """Return the ids of dead-lettered messages, as they were before they became dead letters.

        Args:
            count: How many are awaited.
            within_seconds: How long.
        """
        ...
