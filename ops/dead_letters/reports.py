"""What the commands about dead letters say: to scripts and to people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ops.dead_letters.clearing import Tally
from ops.dead_letters.judging import Judged
from ops.dead_letters.looking import View

if TYPE_CHECKING:
    from rich.console import Console

    from ops.documents import Document

EXCERPT_BYTES = 60


def view_document(view: View, now: datetime) -> Document:
    """A place that was looked at."""
    return {
        "place": view.place,
        "looked_at": view.looked_at,
        "asked_for": view.asked_for,
        "is_all": view.is_all,
        "verdicts": dict(view.chosen),
        "left": dict(view.left),
        "letters": [letter_document(judged, now) for judged in view.shown],
    }


def letter_document(judged: Judged, now: datetime) -> Document:
    """One dead letter. Its body only as an excerpt, and only where it is no usage event."""
    letter, event, record = judged.letter, judged.event, judged.record
    return {
        "position": letter.position,
        "message_id": letter.message_id,
        "correlation_id": letter.correlation_id or None,
        "reason": letter.reason or None,
        "description": letter.description or None,
        "since": letter.since.isoformat(),
        "age_seconds": round((now - letter.since).total_seconds()),
        "delivery_count": letter.delivery_count,
        "was_resubmitted": letter.was_resubmitted,
        "customer_id": event.customer_id if event else None,
        "billing_period": event.billing_period if event else None,
        "amount_cents": event.amount_cents if event else None,
        "currency": event.currency if event else None,
        "body_bytes": len(letter.body),
        "body_excerpt": None if event else excerpt(letter.body),
        "record": None
        if record is None
        else {
            "state": record.state,
            "code": record.code,
            "attempt": record.attempt,
            "payment_id": record.payment_id,
        },
        "verdict": judged.forecast.verdict,
        "outcome": judged.forecast.outcome,
        "meaning": judged.forecast.sentence,
    }


def tally_document(place: str, tally: Tally) -> Document:
    """What was done at a place."""
    return {
        "place": place,
        "looked_at": tally.looked_at,
        "done": tally.done.total(),
        "verdicts": dict(tally.done),
        "left": dict(tally.left),
        "unsettled": tally.unsettled,
        "lost": tally.lost,
        "still_there": tally.still_there,
        "stopped": tally.stopped,
    }


def added_up(counts: Sequence[Counter[str]]) -> dict[str, int]:
    """Counts of several places, together."""
    return dict(sum(counts, Counter[str]()))


def print_view(console: Console, view: View, now: datetime, verb: str) -> None:
    """A place that was looked at.

    Args:
        console: where to print.
        view: the place.
        now: ages count up to it.
        verb: what would be done, as in `would be sent again`.
    """
    from ops.tables import print_rows

    console.print(f"{view.place}: {view.asked_for:,} of {view.looked_at:,} dead letters looked at")
    if view.shown:
        headings = (
            "age", "deliveries", "reason", "customer", "period", "record", "verdict", "meaning",
        )  # fmt: skip
        print_rows(console, headings, [_line(judged, now) for judged in view.shown])
    _print_counts(console, (verb, view.chosen), ("would be left", view.left))
    if len(view.shown) < view.asked_for:
        console.print(f"and {view.asked_for - len(view.shown):,} more that are not shown")
    if not view.is_all:
        console.print("There are more: see --limit.")


def print_tally(console: Console, place: str, tally: Tally, done: str, left: str) -> None:
    """What was done at a place.

    Args:
        console: where to print.
        place: its name.
        tally: the counts.
        done: what was done, as in `sent again`.
        left: why others were left.
    """
    console.print(f"{place}: {tally.done.total():,} {done}")
    _print_counts(console, (done, tally.done), (left, tally.left))
    for count, sentence in (
        (tally.unsettled, f"{done}, but may still be there; one that is there twice is harmless"),
        (tally.lost, "somebody else has them again, before anything was done to them"),
        (tally.still_there, "are still there: somebody else has them in hand, or had"),
    ):
        if count:
            console.print(f"{count:,}: {sentence}")
    if tally.stopped:
        console.print(f"It ended early: {tally.stopped}")
    if not tally.is_complete:
        console.print("Run it again for the rest.")


def excerpt(body: bytes) -> str:
    """The beginning of a body that may be anything, in ASCII and on one line."""
    text = ascii(body[:EXCERPT_BYTES])[2:-1]
    return f"{text}..." if len(body) > EXCERPT_BYTES else text


def _print_counts(console: Console, *groups: tuple[str, Counter[str]]) -> None:
    from ops.tables import print_rows

    lines = [
        (what, verdict, f"{count:,}")
        for what, counts in groups
        for verdict, count in counts.most_common()
    ]
    if lines:
        print_rows(console, ("", "verdict", "letters"), lines)


def _line(judged: Judged, now: datetime) -> tuple[str, ...]:
    from ops.tables import duration

    letter, event, record = judged.letter, judged.event, judged.record
    meaning = judged.forecast.sentence
    return (
        duration(now - letter.since),
        "" if letter.delivery_count is None else str(letter.delivery_count),
        letter.reason,
        event.customer_id if event else excerpt(letter.body),
        event.billing_period if event else "",
        "none" if record is None else str(record.state),
        judged.forecast.verdict,
        f"{meaning} ({letter.description})" if letter.description and not event else meaning,
    )
