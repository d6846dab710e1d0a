"""A dead letter, and the port to a place where some lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message that nobody bills any more.

    Args:
        position: names it in its place, and no other.
        message_id: the id that it had where it was billed from.
        body: as it was sent.
        reason: why it is there, in one word; empty when nobody said.
        description: the same in a sentence.
        since: the earliest moment that the place knows of it.
        delivery_count: how often it was delivered before it came here; None when nobody counted.
        properties: its own, without those that dead-lettering added.
        correlation_id: empty when it has none.
        was_resubmitted: whether it was delivered again from there already.
        handle: the place's own, to get at it.
    """

    position: str
    message_id: str
    body: bytes = field(repr=False)
    reason: str
    description: str
    since: datetime
    delivery_count: int | None
    properties: Mapping[str, str]
    correlation_id: str = ""
    was_resubmitted: bool = False
    handle: Any = field(default=None, repr=False)


class DeadLetterPlace(Protocol):
    """One place where dead letters lie, opened. Not safe for threads."""

    @property
    def name(self) -> str:
        """What it is, for people."""
        ...

    @property
    def peeks_freely(self) -> bool:
        """Whether looking leaves no trace at the broker."""
        ...

    @property
    def counts_deliveries(self) -> bool:
        """Whether a letter that is passed over too often would be moved out of the place."""
        ...

    @property
    def sends_any_body(self) -> bool:
        """Whether what is no usage event can be sent again from there."""
        ...

    def peek(self) -> Iterator[Sequence[DeadLetter]]:
        """Look at all letters, a batch at a time, and take none."""
        ...

    def take(self, count: int) -> Sequence[DeadLetter]:
        """Take up to so many letters that nobody else gets meanwhile; none when no more come.

        A letter that is neither sent nor removed comes back by itself, here or to somebody else.
        """
        ...

    def holds(self, letter: DeadLetter) -> bool:
        """Make sure that a letter stays ours for long enough; False when it is lost."""
        ...

    def send(self, letter: DeadLetter, *, fresh_id: bool) -> str:
        """Send a letter to where it is billed from; return when that is safe.

        Returns:
            The id of the message that was sent.

        Raises:
            PlaceUnavailable: it may or may not have arrived. Sending it again is safe.
        """
        ...

    def settle(self, letter: DeadLetter) -> bool:
        """Take a letter that was sent out of the way; False when it may still be there."""
        ...

    def remove(self, letter: DeadLetter) -> bool:
        """Take a letter out for good; False when it may still be there."""
        ...

    def pass_over(self, letter: DeadLetter) -> None:
        """Leave a letter that was taken. It is free again at the latest when the place closes."""
        ...
