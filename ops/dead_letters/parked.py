"""Our own table of dead-lettered messages. What is sent again from it goes to reconcile.

It needs no broker: in one transaction the message becomes one that reconcile delivers, and the row
says so. The row stays, as the proof of what was dead-lettered, until it is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ops.dead_letters.letters import DeadLetter
from shared.event import parse_event
from shared.ports import ParkedMessage, ParkedMessages

PAGE = 100


class ParkedDeadLetters:
    """Implements `DeadLetterPlace` over the table.

    Args:
        table: the database.
        currency: of events that name none.
    """

    def __init__(self, table: ParkedMessages, currency: str) -> None:
        self._table = table
        self._currency = currency
        self._after = 0

    @property
    def name(self) -> str:
        """See `DeadLetterPlace.name`."""
        return "chargeonce.parked_events"

    @property
    def peeks_freely(self) -> bool:
        """See `DeadLetterPlace.peeks_freely`."""
        return True

    @property
    def counts_deliveries(self) -> bool:
        """See `DeadLetterPlace.counts_deliveries`."""
        return False

    @property
    def sends_any_body(self) -> bool:
        """See `DeadLetterPlace.sends_any_body`."""
        return False

    def peek(self) -> Iterator[Sequence[DeadLetter]]:
        """See `DeadLetterPlace.peek`."""
        after = 0
        while rows := self._table.parked_messages(after, PAGE):
            after = rows[-1].number
            yield [_read_letter(row) for row in rows]

    def take(self, count: int) -> Sequence[DeadLetter]:
        """See `DeadLetterPlace.take`. Two people may take the same: it is delivered once."""
        rows = self._table.parked_messages(self._after, count)
        if rows:
            self._after = rows[-1].number
        return [_read_letter(row) for row in rows]

    def holds(self, letter: DeadLetter) -> bool:  # noqa: ARG002 (nobody else can take it away)
        """See `DeadLetterPlace.holds`."""
        return True

    def send(self, letter: DeadLetter, *, fresh_id: bool) -> str:  # noqa: ARG002 (no broker asks)
        """See `DeadLetterPlace.send`."""
        event = parse_event(letter.body, self._currency)
        self._table.resubmit_parked(int(letter.position), event)
        return letter.message_id

    def settle(self, letter: DeadLetter) -> bool:  # noqa: ARG002 (`send` has noted it)
        """See `DeadLetterPlace.settle`."""
        return True

    def remove(self, letter: DeadLetter) -> bool:
        """See `DeadLetterPlace.remove`. Gone already is as good."""
        self._table.drop_parked(int(letter.position))
        return True

    def pass_over(self, letter: DeadLetter) -> None:
        """See `DeadLetterPlace.pass_over`."""


def _read_letter(row: ParkedMessage) -> DeadLetter:
    return DeadLetter(
        position=str(row.number),
        message_id=row.envelope.message_id,
        body=row.parked.body,
        reason=row.parked.reason,
        description=row.parked.description,
        since=row.parked_at,
        delivery_count=row.envelope.delivery_count,
        properties=row.envelope.attributes,
        was_resubmitted=row.resubmitted_at is not None,
        handle=row,
    )
