"""What `--json` says about runs, records and attempts.

Amounts stand twice: as the number of cents that Stripe and the database count, and written out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ops.amounts import format_amount

if TYPE_CHECKING:
    from shared.ports import AttemptLine, PeriodStatus, Run
    from shared.record import Record, Verdict
    from shared.seen_payments import SeenPayment

Document = dict[str, object]


def run_document(run: Run) -> Document:
    """A run with its spend."""
    return {
        "billing_period": run.billing_period,
        "state": "open" if run.is_open else "closed",
        "closed_reason": run.closed_reason,
        "opened_at": run.opened_at.isoformat(),
        "currency": run.currency,
        **_amount("expected", run.expected_cents, run.currency),
        **_amount("cap", run.cap_cents, run.currency),
        **_amount("held", run.held_cents, run.currency),
        **_amount("charged", run.charged_cents, run.currency),
        **_amount("left", left_cents(run), run.currency),
    }


def left_cents(run: Run) -> int:
    """What the cap still leaves; negative when late proof of money passed it."""
    return run.cap_cents - run.charged_cents - run.held_cents


def status_document(status: PeriodStatus) -> Document:
    """A period at a glance."""
    currency = status.run.currency if status.run else None
    oldest = status.oldest_unfinished
    return {
        "billing_period": status.billing_period,
        "database_time": status.database_time.isoformat(),
        "run": run_document(status.run) if status.run else None,
        "records": _records_by_state(status, currency),
        "parked_events": status.parked_event_count,
        "kept_messages": status.kept_message_count,
        "oldest_unfinished": record_document(oldest) if oldest else None,
    }


def record_document(record: Record) -> Document:
    """A record as the database knows it."""
    fingerprint = record.fingerprint
    return {
        "customer_id": record.customer_id,
        "billing_period": record.billing_period,
        "state": record.state,
        "code": record.code,
        "attempt": record.attempt,
        "currency": fingerprint.currency,
        **_amount("amount", fingerprint.amount_cents, fingerprint.currency),
        **_amount("held", record.held_cents, fingerprint.currency),
        "stripe_customer_id": fingerprint.stripe_customer_id,
        "payment_method_id": record.payment_method_id,
        "payment_id": record.payment_id,
        "verdict": _verdict_document(record.verdict) if record.verdict else None,
        "flow": record.flow,
        "key": record.key,
        "fence": record.fence,
        "doubts": record.doubts,
        "create_in_doubt": record.create_in_doubt,
        "attempt_started_at": record.attempt_started_at.isoformat(),
        "lease_until": record.lease_until.isoformat(),
        "updated_at": record.updated_at.isoformat(),
    }


def payment_document(seen: SeenPayment) -> Document:
    """A payment as Stripe shows it, without what only its customer should read."""
    refunded_cents = seen.refunded_cents
    refunded: Document = {"refunded_cents": None, "refunded": None}
    if refunded_cents is not None:
        refunded = _amount("refunded", refunded_cents, seen.currency)
    return {
        "payment_id": seen.payment_id,
        "names": list(seen.names),
        "status": seen.status,
        "currency": seen.currency,
        **_amount("amount", seen.amount_cents, seen.currency),
        **refunded,
        "disputed": seen.is_disputed,
        "stripe_customer_id": seen.stripe_customer_id,
        "created_at": seen.created_at.isoformat(),
    }


def attempt_document(line: AttemptLine) -> Document:
    """One line of what happened to a record."""
    return {
        "noted_at": line.noted_at.isoformat(),
        "attempt": line.attempt,
        "fence": line.fence,
        "transport": line.transport,
        "message_id": line.message_id,
        "delivery_count": line.delivery_count,
        "decision": line.decision,
        "code": line.code,
        "request_id": line.request_id,
    }


def _verdict_document(verdict: Verdict) -> Document:
    return {"state": verdict.state, "code": verdict.code, "message": verdict.message}


def _records_by_state(status: PeriodStatus, currency: str | None) -> Mapping[str, Document]:
    from shared.record import State

    return {
        str(state): {
            "count": status.count_by_state.get(state, 0),
            **_amount("amount", status.cents_by_state.get(state, 0), currency),
        }
        for state in State
    }


def _amount(name: str, amount_cents: int, currency: str | None) -> Document:
    return {f"{name}_cents": amount_cents, name: format_amount(amount_cents, currency)}
