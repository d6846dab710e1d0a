"""What the database says while the demo runs and when it is over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import psycopg

from local.demo import queries
from local.demo.plan import PERIOD
from shared.record import State

# How a delivery's first line in the attempts table may read, beside `already_...`.
_FIRST_LINES: Final = [
    "claimed",
    "busy",
    "run_missing",
    "run_closed",
    "wrong_currency",
    "cap_reached",
    "invalid_event",
]
# After which of its lines a message has been acknowledged, or is about to be.
_SETTLING_LINES: Final = [
    "charged",
    "declined",
    "rejected",
    "parked",
    "blocked_by_cap",
    "cap_reached",
    "invalid_event",
    "handed_over",
    *(f"already_{state}" for state in State),
]


@dataclass(frozen=True, slots=True)
class RecordSeen:
    """What a record says in the end."""

    customer_id: str
    state: State
    amount_cents: int
    currency: str
    payment_id: str | None
    doubts: int


@dataclass(frozen=True, slots=True)
class ParkedSeen:
    """A message that was dead-lettered, as the database keeps it."""

    message_id: str
    reason: str
    customer_id: str | None


class Observer:
    """Reads, and never writes but to end reconcile's pauses. A context manager."""

    def __init__(self, database_url: str) -> None:
        self._connection = psycopg.connect(database_url, autocommit=True)

    def __enter__(self) -> Self:
        """Return the observer, which is connected already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Disconnect."""
        self._connection.close()

    def settled_messages(self) -> frozenset[tuple[str, str]]:
        """Return transport and id of the messages that are done with."""
        rows = self._rows(queries.SETTLED_MESSAGES, [_SETTLING_LINES])
        return frozenset((transport, message_id) for transport, message_id in rows)

    def delivery_count(self) -> int:
        """Return how many deliveries reached a decision."""
        return self._number(queries.COUNT_DELIVERIES, [_FIRST_LINES])

    def duplicate_count(self) -> int:
        """Return how many deliveries found their record finished."""
        return self._number(queries.COUNT_DUPLICATES)

    def held_count(self) -> int:
        """Return how many records are being charged right now."""
        return self._number(queries.COUNT_HELD)

    def cut_short_count(self) -> int:
        """Return how many charges were begun by a process that could not finish them."""
        return self._number(queries.COUNT_CUT_SHORT, [_FIRST_LINES])

    def unfinished_count(self) -> int:
        """Return how many records are not finished."""
        return self._number(queries.COUNT_UNFINISHED)

    def records(self) -> Mapping[str, RecordSeen]:
        """Return the records by their customers."""
        rows = self._rows(queries.RECORDS, [PERIOD])
        records = [RecordSeen(row[0], State(row[1]), *row[2:]) for row in rows]
        return {record.customer_id: record for record in records}

    def parked_events(self) -> Sequence[ParkedSeen]:
        """Return the messages that were dead-lettered."""
        return [ParkedSeen(*row) for row in self._rows(queries.PARKED_EVENTS)]

    def parked_bodies(self) -> Sequence[bytes]:
        """Return what was dead-lettered, each once."""
        return [bytes(row[0]) for row in self._rows(queries.PARKED_BODIES)]

    def end_pauses(self) -> None:
        """Let reconcile look at every unfinished record now."""
        self._connection.execute(queries.END_PAUSES)

    def _rows(self, query: str, parameters: Sequence[Any] | None = None) -> Sequence[Any]:
        return self._connection.execute(query.encode(), parameters).fetchall()

    def _number(self, query: str, parameters: Sequence[Any] | None = None) -> int:
        return int(self._rows(query, parameters)[0][0])
