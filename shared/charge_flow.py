"""The charge in one step, through the older Charges API.

Its guard against a second charge is Stripe's idempotency window, and after that Stripe's own list.
The docs state the risk that remains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.conclusion import Concluded, Conclusion, conclude, conclude_unclear
from shared.stripe_answers import MAX_MESSAGE_CHARACTERS, Answer, AnswerKind
from shared.stripe_calls import CallResult
from shared.stripe_requests import create_charge, list_charges, read_charge
from shared.work import Work

CLOCK_MARGIN_SECONDS = 3600
MAX_LIST_PAGES = 20
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class _Absent:
    """Stripe's list, read to its end, does not hold the charge."""


def charge_at_once(work: Work, replay_hours: float) -> Concluded:
    """Drive a claimed record to a conclusion through `POST /v1/charges`.

    Args:
        work: the claimed record; its lease must be ours.
        replay_hours: how long after the first claim Stripe is trusted to replay the key's answer.
            Later the list is read first, and the charge is sent again only if it is absent.
    """
    if work.record.payment_id is not None:
        return _read(work, work.record.payment_id)
    proven_absent = False
    if work.record.is_takeover and work.age_seconds >= replay_hours * SECONDS_PER_HOUR:
        found = _find(work)
        if isinstance(found, Concluded):
            return found
        if not work.is_quiet:
            return Concluded(Conclusion.IN_DOUBT, code="earlier_request_may_be_running")
        proven_absent = True
    result = work.send(create_charge(work.record))
    answer = result.answer
    if answer.kind is AnswerKind.OK:
        return work.identity.refuse_answer(answer.content.get("livemode")) or _conclude(
            answer.content, answer
        )
    if answer.kind is AnswerKind.DECLINED:
        return conclude(Conclusion.DECLINED, answer)
    if answer.kind is AnswerKind.CONFLICT:
        return conclude(Conclusion.CONFLICT, answer)
    sent_before = result.maybe_executed or (work.record.is_takeover and not proven_absent)
    refusal = _refusal(answer)
    if refusal is not None:
        return _conclude_after_doubt(work, refusal, result) if sent_before else refusal
    return _look_after_doubt(work, result)


def find_charge(work: Work) -> Concluded | None:
    """Look up what became of the attempt's charge, without sending anything.

    Args:
        work: the claimed record; its lease must be ours.

    Returns:
        None when Stripe's list does not hold it, which proves something only if `work.is_quiet`.
    """
    if work.record.payment_id is not None:
        return _read(work, work.record.payment_id)
    found = _find(work)
    return found if isinstance(found, Concluded) else None


def _read(work: Work, payment_id: str) -> Concluded:
    result = work.send(read_charge(payment_id))
    answer = result.answer
    if answer.kind is AnswerKind.OK and answer.content.get("id") == payment_id:
        return work.identity.refuse_answer(answer.content.get("livemode")) or _conclude(
            answer.content, answer
        )
    if answer.kind is AnswerKind.MISSING:
        return conclude_unclear(result)
    unauthorized = answer.kind is AnswerKind.UNAUTHORIZED
    return conclude(Conclusion.TRANSIENT, answer, misconfigured=unauthorized)


def _refusal(answer: Answer) -> Concluded | None:
    if answer.kind in (AnswerKind.REJECTED, AnswerKind.MISSING):
        return conclude(Conclusion.REJECTED, answer)
    if answer.kind is AnswerKind.BLOCKED_BY_CAP:
        return conclude(Conclusion.PARKED, answer, code="cap_reached")
    return None


def _conclude_after_doubt(work: Work, refusal: Concluded, result: CallResult) -> Concluded:
    """A refusal says nothing about an earlier request of this attempt; the list may."""
    found = _find(work)
    if isinstance(found, Concluded):
        return found
    # What is absent now may still come, as long as a request can be running: an earlier holder's
    # for two leases, one of this very delivery in any case.
    if not result.maybe_executed and work.is_quiet:
        return refusal
    return Concluded(
        Conclusion.IN_DOUBT,
        code=refusal.code,
        message=refusal.message,
        request_id=refusal.request_id,
    )


def _look_after_doubt(work: Work, result: CallResult) -> Concluded:
    """Look once for the charge after a lost answer: finding it is proof, its absence is not."""
    unclear = conclude_unclear(result)
    if unclear.conclusion is not Conclusion.IN_DOUBT:
        return unclear
    found = _find(work)
    proven = isinstance(found, Concluded) and found.conclusion in (
        Conclusion.CHARGED,
        Conclusion.PROCESSING,
    )
    return found if isinstance(found, Concluded) and proven else unclear


def _find(work: Work) -> Concluded | _Absent:
    """Look the charge up by list, which is immediately consistent, and match it ourselves."""
    since = int(work.record.attempt_started_at.timestamp()) - CLOCK_MARGIN_SECONDS
    customer_id = work.record.fingerprint.stripe_customer_id
    failed: Concluded | None = None
    starting_after: str | None = None
    for _ in range(MAX_LIST_PAGES):
        answer = work.send(list_charges(customer_id, since, starting_after)).answer
        page = answer.content.get("data")
        if answer.kind is not AnswerKind.OK or not isinstance(page, list):
            unauthorized = answer.kind is AnswerKind.UNAUTHORIZED
            return conclude(Conclusion.TRANSIENT, answer, misconfigured=unauthorized)
        for charge in page:
            if not _is_ours(charge, work):
                continue
            concluded = _conclude(charge, answer)
            if concluded.conclusion is not Conclusion.DECLINED:
                return concluded
            failed = concluded
        if not page or answer.content.get("has_more") is not True:
            return failed or _Absent()
        starting_after = str(page[-1].get("id"))
    return Concluded(Conclusion.IN_DOUBT, code="too_many_charges")


def _is_ours(charge: Mapping[str, Any], work: Work) -> bool:
    metadata = charge.get("metadata")
    record = work.record
    # As the request said, which is another key where the namespace changed between two attempts.
    sent_key = record.create_parameters.get("metadata[chargeonce_key]", record.key)
    return (
        isinstance(metadata, Mapping)
        and metadata.get("chargeonce_key") == sent_key
        and metadata.get("attempt") == str(record.attempt)
    )


def _conclude(charge: Mapping[str, Any], answer: Answer) -> Concluded:
    charge_id, status = charge.get("id"), charge.get("status")
    if not isinstance(charge_id, str):
        return conclude(Conclusion.IN_DOUBT, answer, code="unreadable_answer")
    if status == "succeeded":
        return Concluded(Conclusion.CHARGED, charge_id, request_id=answer.request_id)
    if status == "pending":
        return Concluded(Conclusion.PROCESSING, charge_id, request_id=answer.request_id)
    if status == "failed":
        code = str(charge.get("failure_code") or "declined")
        message = str(charge.get("failure_message") or "")[:MAX_MESSAGE_CHARACTERS]
        return Concluded(Conclusion.DECLINED, charge_id, code, message, answer.request_id)
    return conclude(Conclusion.IN_DOUBT, answer, payment_id=charge_id, code=f"unexpected_{status}")
