"""Making a database whole again that has lost commits, from what Stripe knows.

The record of a charge may be among what was lost, and then nothing would keep a resubmitted message
from charging again. So a database whose history changed grants no claims (`suspended`) until this
has read Stripe's lists to their end and recorded what they prove.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from shared import notices
from shared.adoption import adopt
from shared.errors import StripeUnavailable
from shared.found_payments import LIST_PATHS, UnreadablePayment, read_payment
from shared.ports import Adoption, Envelope, Rebuild
from shared.stripe_lists import Page
from shared.upkeep import Upkeep

TRANSPORT = "rebuild"

CLOCK_MARGIN_SECONDS = 3600.0
"""How far the clocks of Stripe and of both database servers may lie apart."""

REPLAY_SECONDS = 24 * 3600.0
"""How long a create that is sent again surely brings the same object back
(https://docs.stripe.com/api/idempotent_requests)."""

OnProgress = Callable[[float], None]


class RebuildState(StrEnum):
    """How far the database is from being whole."""

    WHOLE = "whole"
    WAITING = "waiting"
    UNFINISHED = "unfinished"
    BLOCKED = "blocked"


@dataclass(slots=True)
class RebuildReport:
    """What a rebuild came to.

    Args:
        state: whole: consumers go on. Waiting: requests from before the loss may still be running.
            Unfinished: the lists are not read to their end yet. Blocked: a payment does not say
            whose it is, and is to be looked at by a human.
        since: how far back they are read; None when there was nothing to do.
        wait_seconds: how long to wait before the lists may be read.
        adoptions: how many payments came to what.
        unreadable: the payments of Chargeonce that do not say whose they are.
    """

    state: RebuildState
    since: datetime | None = None
    wait_seconds: float = 0.0
    adoptions: Counter[Adoption] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)


def rebuild(
    upkeep: Upkeep,
    told_since: datetime | None = None,
    on_progress: OnProgress | None = None,
    is_time_up: Callable[[], bool] | None = None,
) -> RebuildReport:
    """Take the rebuild of a suspended database as far as it goes; does nothing to a whole one.

    May be stopped anywhere, and run by several at once: it goes on where a page was last done.

    Args:
        upkeep: what it works with.
        told_since: an operator's word that commits after this moment are lost; suspends the
            database first. None goes by the server's timeline.
        on_progress: told what part of the lists is read, from 0 to 1.
        is_time_up: asked after each page; the rest is left for the next time.

    Raises:
        RecordsUnavailable: the database is away; what was adopted stands.
        StripeUnavailable: the lists cannot be read; the database stays suspended.
    """
    begun = upkeep.records.begin_rebuild(told_since, _margin_seconds(upkeep))
    if begun is None:
        return RebuildReport(RebuildState.WHOLE)
    report = RebuildReport(RebuildState.WAITING, begun.since, _quiet_in_seconds(upkeep, begun))
    if report.wait_seconds > 0:
        notices.alarm(
            f"commits after {begun.since:%Y-%m-%d %H:%M:%S} UTC may be lost: nothing is charged "
            "until Stripe's lists have been read"
        )
        return report
    report.state = RebuildState.UNFINISHED
    upkeep.check_identity()
    for list_path, cursor in _adopt_pages(upkeep, begun, report, on_progress):
        if report.unreadable:
            break
        upkeep.records.note_rebuild_place(begun, list_path, cursor)
        if is_time_up is not None and is_time_up():
            return report
    if report.unreadable:
        report.state = RebuildState.BLOCKED
    elif upkeep.records.finish_rebuild(begun):
        report.state = RebuildState.WHOLE
        notices.inform(f"rebuilt from Stripe's lists ({_describe(report)}); charging goes on")
    return report


def preview(
    upkeep: Upkeep, since: datetime, on_progress: OnProgress | None = None
) -> RebuildReport:
    """Say what a rebuild since a moment would adopt, and change nothing.

    Raises:
        RecordsUnavailable: the database is away.
        StripeUnavailable: the lists cannot be read.
    """
    upkeep.check_identity()
    since -= timedelta(seconds=_margin_seconds(upkeep))
    report = RebuildReport(RebuildState.UNFINISHED, since)
    reading = _Reading(since, upkeep.clock.now(), on_progress)
    for list_path in LIST_PATHS:
        for page in upkeep.lists.pages(list_path, reading.filters):
            for item in page.items:
                _take_in(upkeep, item, report, dry_run=True)
            reading.note_page(list_path, page)
    return report


def keep_whole(upkeep: Upkeep, is_time_up: Callable[[], bool] | None = None) -> bool:
    """Go on with a rebuild if there is one to do; whether the database is whole.

    Raises:
        RecordsUnavailable: the database is away.
    """
    try:
        return rebuild(upkeep, is_time_up=is_time_up).state is RebuildState.WHOLE
    except StripeUnavailable as error:
        notices.alarm(f"the database stays suspended: {error}")
        return False


def _margin_seconds(upkeep: Upkeep) -> float:
    """How much older than the last known commit a payment may be whose record is lost."""
    return REPLAY_SECONDS + CLOCK_MARGIN_SECONDS + upkeep.quiet_seconds


def _quiet_in_seconds(upkeep: Upkeep, begun: Rebuild) -> float:
    """How long requests may still be running that were sent before the loss was noticed.

    No new lease is given meanwhile. Read earlier, a list may lack a charge that is about to
    succeed.
    """
    noticed_seconds_ago = (begun.database_time - begun.noticed_at).total_seconds()
    return max(0.0, upkeep.quiet_seconds - noticed_seconds_ago)


def _adopt_pages(
    upkeep: Upkeep, begun: Rebuild, report: RebuildReport, on_progress: OnProgress | None
) -> Iterator[tuple[str, str | None]]:
    """Adopt page after page from where the rebuild got to; yields where the next page begins."""
    reading = _Reading(begun.since, begun.database_time, on_progress)
    first = LIST_PATHS.index(begun.list_path) if begun.list_path else 0
    cursor = begun.cursor
    for number, list_path in enumerate(LIST_PATHS[first:], first + 1):
        for page in upkeep.lists.pages(list_path, reading.filters, cursor):
            for item in page.items:
                _take_in(upkeep, item, report, dry_run=False)
            reading.note_page(list_path, page)
            if page.cursor is not None:
                yield list_path, page.cursor
        cursor = None
        yield from [(next_path, None) for next_path in LIST_PATHS[number : number + 1]]


def _take_in(
    upkeep: Upkeep, item: Mapping[str, Any], report: RebuildReport, *, dry_run: bool
) -> None:
    upkeep.check_mode(item.get("livemode"))
    found = read_payment(item, upkeep.rules.namespaces)
    if isinstance(found, UnreadablePayment):
        report.unreadable.append(found.payment_id)
        notices.alarm(
            f"payment {found.payment_id} was made by Chargeonce, but does not say for which "
            "record: nothing is charged until it does. Name the namespace that its key was made "
            "under in BILLING_FORMER_NAMESPACES, or in BILLING_OTHER_NAMESPACES if another "
            "deployment made it; or mend its metadata at Stripe"
        )
    elif found is not None and dry_run:
        result = upkeep.records.adopt(found, Envelope(TRANSPORT), dry_run=True)
        report.adoptions[result.adoption] += 1
    elif found is not None:
        report.adoptions[adopt(upkeep.records, found, TRANSPORT).adoption] += 1


def _describe(report: RebuildReport) -> str:
    counts = [f"{count} {adoption}" for adoption, count in sorted(report.adoptions.items())]
    return ", ".join(counts) or "nothing to adopt"


@dataclass(frozen=True, slots=True)
class _Reading:
    """The part of Stripe's lists that is read, and how much of it is done."""

    since: datetime
    until: datetime
    on_progress: OnProgress | None

    @property
    def filters(self) -> Mapping[str, str]:
        return {"created[gte]": str(int(self.since.timestamp()))}

    def note_page(self, list_path: str, page: Page) -> None:
        if self.on_progress is not None:
            before = LIST_PATHS.index(list_path)
            self.on_progress((before + self._part_read(page)) / len(LIST_PATHS))

    def _part_read(self, page: Page) -> float:
        """Of one list, by the age of its last object: how long it is, nobody knows."""
        if page.cursor is None:
            return 1.0
        oldest = datetime.fromtimestamp(int(page.items[-1]["created"]), UTC)
        return min(max((self.until - oldest) / (self.until - self.since), 0.0), 1.0)
