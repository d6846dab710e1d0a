"""Usage events on their way to a queue: read, checked as a whole, and sent through a port."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Protocol

from ops.errors import Refused
from shared.errors import ChargeonceError, InvalidEvent
from shared.event import MAX_BODY_BYTES, UsageEvent, parse_event

MAX_EVENTS = 1_000_000
MAX_PROBLEMS_TOLD = 20
# An event of the largest size, and a line end.
MAX_LINE_BYTES = MAX_BODY_BYTES + 2
MESSAGE_ID_LENGTH = 32


class SendFailed(ChargeonceError):
    """The broker did not take a message, or nobody knows whether it did."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A checked event as it is sent.

    Args:
        body: the event as it was written, unknown fields and all.
        event: what is in it.
    """

    body: bytes
    event: UsageEvent

    @property
    def message_id(self) -> str:
        """The same whenever the same is sent, for brokers that let the sender choose."""
        event = self.event
        business = f"{event.customer_id}:{event.billing_period}:{event.attempt}"
        return hashlib.sha256(business.encode()).hexdigest()[:MESSAGE_ID_LENGTH]


class Sender(Protocol):
    """The way to one queue or topic."""

    @property
    def destination(self) -> str:
        """Its name, for people."""
        ...

    def send(self, messages: Iterable[Outgoing]) -> Iterator[str]:
        """Yield the message ids, in order, each once the broker has the message.

        Raises:
            SendFailed: what was not yielded may or may not have been taken.
        """
        ...


def read_lines(lines: IO[bytes], default_currency: str) -> Sequence[Outgoing]:
    """Read one event per line; empty lines are passed over.

    Raises:
        Refused: names each line that is wrong, up to a limit.
    """
    outgoing: list[Outgoing] = []
    problems: list[str] = []
    check = _Contradictions()
    for number, line in enumerate(_bounded_lines(lines), start=1):
        if not (body := line.strip()):
            continue
        if len(outgoing) == MAX_EVENTS:
            raise Refused(f"more than {MAX_EVENTS:,} events: send them in parts")
        try:
            if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                raise InvalidEvent("body", f"is longer than {MAX_BODY_BYTES} bytes")
            outgoing.append(Outgoing(body, parse_event(body, default_currency)))
            check(number, outgoing[-1].event)
        except (InvalidEvent, Refused) as problem:
            problems.append(f"line {number}: {problem}")
    if problems:
        raise Refused(_told(problems))
    if not outgoing:
        raise Refused("there is no event in it")
    return outgoing


def send_all(
    sender: Sender, messages: Sequence[Outgoing], note_sent: Callable[[], None]
) -> Sequence[str]:
    """Send everything and return the message ids.

    Args:
        sender: the way to the queue.
        messages: what is sent, in this order.
        note_sent: called after each.

    Raises:
        SendFailed: says how many are known to have arrived.
    """
    message_ids: list[str] = []
    try:
        for message_id in sender.send(messages):
            message_ids.append(message_id)
            note_sent()
    except SendFailed as error:
        raise SendFailed(
            f"{error}; {len(message_ids):,} of {len(messages):,} events were sent. "
            "Send all of them again: nobody is charged twice"
        ) from error
    return message_ids


class _Contradictions:
    """Finds lines that would charge a customer's period differently from an earlier one."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], tuple[int, UsageEvent]] = {}

    def __call__(self, number: int, event: UsageEvent) -> None:
        key = (event.customer_id, event.billing_period)
        first_number, first = self._first.setdefault(key, (number, event))
        if first.fingerprint != event.fingerprint:
            raise Refused(
                f"line {first_number} has another amount, currency or Stripe customer for the same "
                "customer and period, which is charged once"
            )


def _bounded_lines(lines: IO[bytes]) -> Iterator[bytes]:
    """Lines; of one that is too long for an event, as much as shows that it is."""
    while line := lines.readline(MAX_LINE_BYTES):
        yield line
        while line and not line.endswith(b"\n"):
            line = lines.readline(MAX_LINE_BYTES)


def _told(problems: Sequence[str]) -> str:
    shown = [f"  {problem}" for problem in problems[:MAX_PROBLEMS_TOLD]]
    if len(problems) > MAX_PROBLEMS_TOLD:
        shown.append(f"  and {len(problems) - MAX_PROBLEMS_TOLD:,} more")
    return "\n".join(["nothing was sent:", *shown])
