"""What reached the broker, kept for those who want to know it afterwards."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias
from uuid import UUID

JsonObject: TypeAlias = dict[str, Any]

MAXIMUM_RECORDS: Final = 100_000


class SettlementKind(StrEnum):
    """What a consumer says about a message."""

    COMPLETE = "complete"
    ABANDON = "abandon"
    DEAD_LETTER = "dead-letter"
    DEFER = "defer"
    RELEASE = "release"


class SettlementOutcome(StrEnum):
    """What became of it."""

    APPLIED = "applied"
    LOCK_LOST = "lock-lost"
    REFUSED = "refused"
    LOST = "lost"
    NOT_SUPPORTED = "not-supported"


class Route(StrEnum):
    """How it came: on the receiver's link, or as a management request."""

    LINK = "link"
    MANAGEMENT = "management"


class RenewalOutcome(StrEnum):
    """What became of a renewal."""

    RENEWED = "renewed"
    LOCK_LOST = "lock-lost"
    SERVER_BUSY = "server-busy"
    TIMED_OUT = "timed-out"


@dataclass(frozen=True, slots=True)
class SettlementRecord:
    """A settlement that reached the broker.

    Attributes:
        queue: The path of the queue, subscription or dead-letter queue.
        message_id: The message's id, or None when the lock token is unknown.
        lock_token: Says which delivery was settled.
        kind: What the consumer said.
        outcome: What became of it. `lost` means that a fault swallowed it.
        answered: Whether the consumer was told, in so far as it asked.
        route: How it came.
        at: When, in seconds since the epoch, by the emulator's clock.
    """

    queue: str
    message_id: str | None
    lock_token: UUID
    kind: SettlementKind
    outcome: SettlementOutcome
    answered: bool
    route: Route
    at: float

    def to_json(self) -> JsonObject:
        """Return the record as a JSON object."""
        return asdict(self) | {"lock_token": str(self.lock_token)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "SettlementRecord":
        """Return the record that a JSON object describes."""
        return cls(
            queue=given["queue"],
            message_id=given["message_id"],
            lock_token=UUID(given["lock_token"]),
            kind=SettlementKind(given["kind"]),
            outcome=SettlementOutcome(given["outcome"]),
            answered=given["answered"],
            route=Route(given["route"]),
            at=given["at"],
        )


@dataclass(frozen=True, slots=True)
class RenewalRecord:
    """A renewal of a lock that reached the broker; `message_id` is None for an unknown token."""

    queue: str
    message_id: str | None
    lock_token: UUID
    outcome: RenewalOutcome
    at: float

    def to_json(self) -> JsonObject:
        """Return the record as a JSON object."""
        return asdict(self) | {"lock_token": str(self.lock_token)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "RenewalRecord":
        """Return the record that a JSON object describes."""
        return cls(
            queue=given["queue"],
            message_id=given["message_id"],
            lock_token=UUID(given["lock_token"]),
            outcome=RenewalOutcome(given["outcome"]),
            at=given["at"],
        )


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """A delivery that the broker made, whether or not it arrived.

    `delivery_count` counts the failed deliveries before this one. `lock_token` is None when the
    message was received and deleted.
    """

    queue: str
    message_id: str
    lock_token: UUID | None
    delivery_count: int
    at: float

    def to_json(self) -> JsonObject:
        """Return the record as a JSON object."""
        token = None if self.lock_token is None else str(self.lock_token)
        return asdict(self) | {"lock_token": token}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "DeliveryRecord":
        """Return the record that a JSON object describes."""
        token = given["lock_token"]
        return cls(
            queue=given["queue"],
            message_id=given["message_id"],
            lock_token=None if token is None else UUID(token),
            delivery_count=given["delivery_count"],
            at=given["at"],
        )


class Journal:
    """The newest records of each sort.

    Args:
        maximum_records: How many of each sort are kept; older ones are forgotten.
    """

    def __init__(self, maximum_records: int = MAXIMUM_RECORDS) -> None:
        self._maximum_records = maximum_records
        self._settlements: deque[SettlementRecord] = deque(maxlen=maximum_records)
        self._renewals: deque[RenewalRecord] = deque(maxlen=maximum_records)
        self._deliveries: deque[DeliveryRecord] = deque(maxlen=maximum_records)
        self._message_ids: OrderedDict[UUID, str] = OrderedDict()

    def delivered(self, record: DeliveryRecord) -> None:
        """Keep a delivery."""
        self._deliveries.append(record)
        if record.lock_token is not None:
            self._message_ids[record.lock_token] = record.message_id
            if len(self._message_ids) > self._maximum_records:
                self._message_ids.popitem(last=False)

    def settled(self, record: SettlementRecord) -> None:
        """Keep a settlement."""
        self._settlements.append(record)

    def renewed(self, record: RenewalRecord) -> None:
        """Keep a renewal."""
        self._renewals.append(record)

    def message_id(self, lock_token: UUID) -> str | None:
        """Return the id of the message that was delivered with this lock token, if any."""
        return self._message_ids.get(lock_token)

    def settlements(self) -> Iterable[SettlementRecord]:
        """Return the settlements, oldest first."""
        return self._settlements

    def renewals(self) -> Iterable[RenewalRecord]:
        """Return the renewals, oldest first."""
        return self._renewals

    def deliveries(self) -> Iterable[DeliveryRecord]:
        """Return the deliveries, oldest first."""
        return self._deliveries

    def forget(self) -> None:
        """Forget every record; what can still be settled keeps its message id."""
        self._settlements.clear()
        self._renewals.clear()
        self._deliveries.clear()
