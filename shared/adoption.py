"""Recording a payment that Stripe has and the records may not have, loudly where it matters."""

from __future__ import annotations

from collections.abc import Sequence

from shared.decision_log import DecisionEvent, log_decision
from shared.ports import Adoption, Adoptions, AdoptResult, Envelope, Finding, FoundPayment
from shared.record import Record


def adopt(records: Adoptions, found: FoundPayment, transport: str) -> AdoptResult:
    """Record what a found payment proves, and raise the alarms that it calls for.

    Args:
        records: the records.
        found: the payment.
        transport: who found it, for the attempts table and the log.

    Raises:
        RecordsUnavailable: it may or may not be recorded; doing it again is safe.
    """
    result = records.adopt(found, Envelope(transport), dry_run=False)
    log_found(found, transport, _lines(found, result), result.record)
    return result


def log_found(
    found: FoundPayment,
    transport: str,
    lines: Sequence[tuple[DecisionEvent, str]],
    record: Record | None,
) -> None:
    """Write log lines about a found payment.

    Args:
        found: the payment.
        transport: who found it.
        lines: what is to be said.
        record: its record as it now is; None when there is none.
    """
    for event, message in lines:
        log_decision(
            event,
            message,
            transport=transport,
            key=found.key,
            period=found.record_id.billing_period,
            attempt=found.attempt,
            payment=found.payment_id,
            outcome=str(record.state) if record else None,
        )


def _lines(found: FoundPayment, result: AdoptResult) -> list[tuple[DecisionEvent, str]]:
    lines = []
    if result.adoption in (Adoption.RESTORED, Adoption.BROUGHT_FORWARD):
        lines.append((DecisionEvent.RESOLVED, "a payment that the records did not know is in them"))
    if result.adoption is Adoption.SECOND_PAYMENT:
        double = "a second payment succeeded beside the recorded one"
        lines.append((DecisionEvent.DOUBLE_CHARGE_DETECTED, double))
    if result.adoption is Adoption.BESIDE and found.finding is Finding.PROCESSING:
        lines.append((DecisionEvent.CONFLICT, "a payment beside the recorded one may yet succeed"))
    if _differs(found, result.record):
        lines.append((DecisionEvent.CONFLICT, "the payment differs from its record"))
    if result.run_closed:
        over = "late proof of money passed the cap; run closed"
        lines.append((DecisionEvent.BLOCKED_BY_CAP, over))
    return lines


def _differs(found: FoundPayment, record: Record | None) -> bool:
    return record is not None and record.fingerprint != found.fingerprint
