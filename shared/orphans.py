"""Sweeping orphans: PaymentIntents that no record names, left by a create whose answer was lost.

An orphan is never confirmed, so it moves no money; but canceling the wrong one would take a charge
away. So every rule must hold, and where one does not, all is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared import notices
from shared.adoption import adopt
from shared.errors import StripeUnavailable
from shared.found_payments import INTENTS_PATH, MOVES_NOTHING, read_payment
from shared.ports import DoubtedCreate, Finding, FoundPayment
from shared.record import FINAL, Record
from shared.stripe_answers import AnswerKind
from shared.stripe_requests import cancel_orphan
from shared.upkeep import Upkeep

TRANSPORT = "sweep"
DEFAULT_LIMIT = 20

CLOCK_MARGIN_SECONDS = 3600
"""How far Stripe's clock may lie behind the database's."""


@dataclass(slots=True)
class SweepReport:
    """What a sweep came to.

    Args:
        looked_at: how many records' PaymentIntents were listed.
        canceled: how many orphans were canceled.
        cleared: how many records left nothing behind, or nothing any more.
    """

    looked_at: int = 0
    canceled: int = 0
    cleared: int = 0


def sweep_orphans(
    upkeep: Upkeep, limit: int = DEFAULT_LIMIT, is_time_up: Callable[[], bool] | None = None
) -> SweepReport:
    """Cancel what creates in doubt have left behind.

    Args:
        upkeep: what it works with.
        limit: the most records to look at.
        is_time_up: asked before each record; the rest is left for the next time.

    Raises:
        RecordsUnavailable: the database is away; what was canceled stays so.
    """
    report = SweepReport()
    doubted_creates = upkeep.records.doubted_creates(limit, upkeep.quiet_seconds)
    try:
        for doubted in doubted_creates:
            if is_time_up is not None and is_time_up():
                break
            _sweep_record(upkeep, doubted, report)
    except StripeUnavailable as error:
        notices.warn(f"orphaned PaymentIntents are left for the next time: {error}")
    return report


def is_orphan(
    found: FoundPayment, record: Record, database_time: datetime, quiet_seconds: float
) -> bool:
    """Whether nobody can store or confirm an unconfirmed PaymentIntent any more.

    Args:
        found: the PaymentIntent.
        record: whose it is, read afterwards.
        database_time: the database's clock before the PaymentIntent was listed.
        quiet_seconds: how old it must be: nobody who created it is still about to store it.
    """
    is_old = database_time - found.created_at >= timedelta(seconds=quiet_seconds)
    is_another = found.payment_id != record.payment_id
    # A record behind the PaymentIntent's attempt knows nothing about it.
    is_past = found.attempt <= record.attempt
    is_decided = record.payment_id is not None or record.state in FINAL
    return is_old and is_another and is_past and is_decided


def _sweep_record(upkeep: Upkeep, doubted: DoubtedCreate, report: SweepReport) -> None:
    upkeep.check_identity()
    record = upkeep.records.get_record(doubted.record_id)
    if record is None:
        return
    report.looked_at += 1
    since = int(doubted.since.timestamp()) - CLOCK_MARGIN_SECONDS
    filters = {"customer": record.fingerprint.stripe_customer_id, "created[gte]": str(since)}
    something_remains = False
    for item in upkeep.lists.items(INTENTS_PATH, filters):
        found = read_payment(item, upkeep.rules.namespaces)
        if not isinstance(found, FoundPayment) or found.record_id != doubted.record_id:
            continue
        is_gone = _settle(upkeep, found, doubted.database_time, report)
        something_remains = something_remains or not is_gone
    if not something_remains and upkeep.records.clear_create_doubt(record):
        report.cleared += 1


def _settle(
    upkeep: Upkeep, found: FoundPayment, database_time: datetime, report: SweepReport
) -> bool:
    """Deal with one PaymentIntent of the record; False when it must be looked at again."""
    if found.finding is Finding.CHARGED:
        return _record_money(upkeep, found)
    # Read anew: a holder may have stored this very PaymentIntent since.
    record = upkeep.records.get_record(found.record_id)
    if record is None:
        return False
    if found.payment_id == record.payment_id:
        return True
    if found.finding is Finding.PROCESSING:
        return _record_money(upkeep, found)
    is_ready = is_orphan(found, record, database_time, upkeep.quiet_seconds)
    return is_ready and _cancel(upkeep, found, report)


def _cancel(upkeep: Upkeep, found: FoundPayment, report: SweepReport) -> bool:
    request = cancel_orphan(found.key, found.payment_id)
    answer = upkeep.calls.send(request, upkeep.new_budget()).answer
    is_told = answer.kind in (AnswerKind.OK, AnswerKind.DECIDED_BY_INTENT)
    if not is_told or answer.content.get("id") != found.payment_id:
        return False
    if answer.content.get("status") in MOVES_NOTHING:
        report.canceled += 1
        notices.inform(f"canceled the orphaned PaymentIntent {found.payment_id}")
        return True
    seen = read_payment(answer.content, upkeep.rules.namespaces)
    if not isinstance(seen, FoundPayment) or seen.finding is Finding.UNCONFIRMED:
        return False
    return _record_money(upkeep, seen)


def _record_money(upkeep: Upkeep, found: FoundPayment) -> bool:
    """Record money that moved, or is on its way, beside what the record knows."""
    adopt(upkeep.records, found, TRANSPORT)
    return found.finding is Finding.CHARGED
