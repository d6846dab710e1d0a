"""Forgetting: old lines after a while, and a customer's personal data when somebody asks for it.

What proves a charge stays, and so does what prevents a second one: the record's row, found by its
customer id and period, with its key, fingerprint, state and payment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from shared import notices
from shared.errors import ChargeonceError
from shared.operations import OPERATOR
from shared.ports import Envelope
from shared.record import RecordId

BATCH_LINES = 1000
MAX_BATCHES = 10


@dataclass(frozen=True, slots=True)
class Deleted:
    """How many lines were deleted, of the attempts and of the parked events."""

    attempts: int
    parked_events: int


class OldLines(Protocol):
    """Lines that are kept for a while only. May raise `RecordsUnavailable`."""

    def delete_old(self, retention_days: int, limit: int) -> Deleted:
        """Delete some of the attempts and parked events that are older.

        Parked events whose record a delivery could still change are kept.

        Args:
            retention_days: how long they are kept.
            limit: the most to delete of each.
        """


class Obstacle(StrEnum):
    """Why a customer's data cannot be erased yet."""

    UNFINISHED_RECORD = "unfinished_record"
    KEPT_MESSAGE = "kept_message"
    PARKED_EVENT = "parked_event"

    @property
    def sentence(self) -> str:
        """What to do, for people."""
        return _SENTENCES[self]


_SENTENCES = {
    Obstacle.UNFINISHED_RECORD: "the record is not at its end: reconcile or cancel it first",
    Obstacle.KEPT_MESSAGE: "a message is kept for reconcile: let it be delivered, or cancel first",
    Obstacle.PARKED_EVENT: "a dead-lettered event may still be charged: resubmit it, cancel its "
    "record or drop it first",
}


class PersonalData(Protocol):
    """A customer's personal data. Each call is one transaction; may raise `RecordsUnavailable`."""

    def periods_of(self, customer_id: str) -> Sequence[str]:
        """The periods about which something of the customer is kept."""

    def erase(self, record_id: RecordId, envelope: Envelope, *, dry_run: bool) -> Obstacle | None:
        """Erase what is personal about a customer's period; or say what stands in the way.

        Args:
            record_id: the customer and period.
            envelope: who asks.
            dry_run: only say what stands in the way.
        """

    def erase_invalid(self, customer_id: str, *, dry_run: bool) -> int:
        """Erase parked messages that are no usage events and name the customer; how many."""


class CannotErase(ChargeonceError):
    """A customer's data is still needed to charge once.

    Args:
        obstacles: what stands in the way, by period.
    """

    def __init__(self, obstacles: Sequence[tuple[str, Obstacle]]) -> None:
        self.obstacles = obstacles
        lines = [f"  {period}: {obstacle.sentence}" for period, obstacle in obstacles]
        super().__init__("\n".join(["these periods cannot be erased yet:", *lines]))


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased, or would be.

    Args:
        periods: about which something of the customer was kept.
        invalid_messages: how many messages that are no usage events named the customer.
    """

    periods: Sequence[str]
    invalid_messages: int


def delete_old_lines(
    lines: OldLines, retention_days: int, is_time_up: Callable[[], bool] | None = None
) -> None:
    """Delete what is older than it is to be kept, in batches, a bounded number of them.

    Args:
        lines: where it is kept.
        retention_days: how long; 0 keeps everything.
        is_time_up: asked before each batch; the rest is left for the next time.

    Raises:
        RecordsUnavailable: the database is away; what was deleted before stays so.
    """
    attempts = parked_events = 0
    for _ in range(MAX_BATCHES):
        if (is_time_up is not None and is_time_up()) or retention_days == 0:
            break
        deleted = lines.delete_old(retention_days, BATCH_LINES)
        attempts += deleted.attempts
        parked_events += deleted.parked_events
        if max(deleted.attempts, deleted.parked_events) == 0:
            break
    if attempts or parked_events:
        notices.inform(
            f"deleted {attempts} attempts and {parked_events} parked events, which were older "
            f"than {retention_days} days"
        )


def erase_customer(data: PersonalData, customer_id: str, *, dry_run: bool) -> Erased:
    """Erase a customer's personal data, all of it or none.

    Args:
        data: where it is kept.
        customer_id: as the events name the customer.
        dry_run: only say what would be erased.

    Raises:
        CannotErase: something of it is needed to finish a charge.
        RecordsUnavailable: the database went away; doing it again goes on.
    """
    periods = data.periods_of(customer_id)
    record_ids = [RecordId(customer_id, period) for period in periods]
    _erase_each(data, record_ids, dry_run=True)
    if not dry_run:
        _erase_each(data, record_ids, dry_run=False)
    return Erased(periods, data.erase_invalid(customer_id, dry_run=dry_run))


def _erase_each(data: PersonalData, record_ids: Sequence[RecordId], *, dry_run: bool) -> None:
    obstacles = []
    for record_id in record_ids:
        obstacle = data.erase(record_id, Envelope(OPERATOR), dry_run=dry_run)
        if obstacle is not None:
            obstacles.append((record_id.billing_period, obstacle))
    if obstacles:
        raise CannotErase(obstacles)
