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

    transport: str
    message_id: str
    reason: str
    customer_id: str | None


@dataclass(frozen=True, slots=True)
class DeliveriesSeen:
    """What came of deliveries that reached a decision.

    Attributes:
        decided: All of them.
        again: Those that the broker had made before.
        met_another: Those that found their record held by somebody else.
        duplicates: Those that found their record finished.
    """

    decided: int = 0
    again: int = 0
    met_another: int = 0
    duplicates: int = 0

    def __add__(self, other: "DeliveriesSeen") -> "DeliveriesSeen":
        return DeliveriesSeen(
            self.decided + other.decided,
            self.again + other.again,
            self.met_another + other.met_another,
            self.duplicates + other.duplicates,
        )


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

    def deliveries(self) -> Mapping[str, DeliveriesSeen]:
        """Return what came of the deliveries, by transport."""
        rows = self._rows(queries.COUNT_DELIVERIES, [_FIRST_LINES])
        return {transport: DeliveriesSeen(*counts) for transport, *counts in rows}

    def held_count(self, transports: Sequence[str]) -> int:
        """Return how many records are being charged right now for messages of these transports."""
        return self._number(queries.COUNT_HELD, [list(transports)])

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

    def parked_bodies(self, transports: Sequence[str]) -> Sequence[bytes]:
        """Return what was dead-lettered from these transports, each once."""
        rows = self._rows(queries.PARKED_BODIES, [list(transports)])
        return [bytes(row[0]) for row in rows]

    def end_pauses(self) -> None:
        """Let reconcile look at every unfinished record now."""
        self._connection.execute(queries.END_PAUSES)

    def _rows(self, query: str, parameters: Sequence[Any] | None = None) -> Sequence[Any]:
        return self._connection.execute(query.encode(), parameters).fetchall()

    def _number(self, query: str, parameters: Sequence[Any] | None = None) -> int:
        return int(self._rows(query, parameters)[0][0])
