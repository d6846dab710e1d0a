"""The charge in two steps: create a PaymentIntent, store its id, confirm the stored one.

A PaymentIntent succeeds at most once, so whoever confirms the stored one, however often and however
late, cannot charge twice. And nothing else is ever confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.conclusion import Concluded, Conclusion, conclude, conclude_unclear
from shared.record import State, Verdict
from shared.stripe_answers import Answer, AnswerKind
from shared.stripe_calls import CallResult
from shared.stripe_requests import (
    cancel_intent,
    confirm_intent,
    create_intent,
    read_customer,
    read_intent,
)
from shared.work import Work

MAX_CREATE_NUMBERS = 3
MAX_STEPS = 4

_CONCLUSION_OF_VERDICT = {
    State.DECLINED: Conclusion.DECLINED,
    State.REJECTED: Conclusion.REJECTED,
    State.PARKED: Conclusion.PARKED,
    State.CANCELED: Conclusion.CANCELED,
}


@dataclass(frozen=True, slots=True)
class Intent:
    """What matters of a PaymentIntent that Stripe has shown us."""

    id: str
    status: str
    failure: Verdict | None
    request_id: str | None

    @property
    def awaits_confirm(self) -> bool:
        """Nobody's confirm is known to have been answered yet."""
        return self.status == "requires_confirmation" or (
            self.status == "requires_payment_method" and self.failure is None
        )


def charge_by_intent(work: Work) -> Concluded:
    """Drive a claimed record to a conclusion through its PaymentIntent.

    Args:
        work: the claimed record; its lease must be ours.

    Raises:
        RecordsUnavailable: the database went away; nothing is lost, a later delivery goes on.
    """
    return _IntentCharge(work).run()


class _IntentCharge:
    def __init__(self, work: Work) -> None:
        self._work = work
        self._record = work.record
        self._payment_method_id = work.record.payment_method_id

    def run(self) -> Concluded:
        stored_id = self._record.payment_id
        found = self._make() if stored_id is None else self._read(stored_id)
        for _ in range(MAX_STEPS):
            if isinstance(found, Concluded):
                return found
            found = self._advance(found)
        if isinstance(found, Concluded):
            return found
        return Concluded(Conclusion.IN_DOUBT, found.id, f"still_{found.status}")

    def _advance(self, intent: Intent) -> Intent | Concluded:
        if intent.status == "succeeded":
            return Concluded(Conclusion.CHARGED, intent.id, request_id=intent.request_id)
        if intent.status == "processing":
            return Concluded(Conclusion.PROCESSING, intent.id, request_id=intent.request_id)
        if intent.status == "canceled":
            return self._conclude_canceled(intent, self._record.verdict)
        if self._record.verdict is not None:
            return self._cancel(intent, self._record.verdict)
        if intent.status == "requires_action":
            needs_customer = "the bank wants the customer to authenticate"
            return self._give_up(
                intent, Verdict(State.DECLINED, "authentication_required", needs_customer)
            )
        if intent.failure is not None:
            return self._give_up(intent, intent.failure)
        if intent.awaits_confirm:
            return self._confirm(intent)
        return Concluded(Conclusion.IN_DOUBT, intent.id, f"unexpected_{intent.status}")

    def _make(self) -> Intent | Concluded:
        # No PaymentIntent is stored, so none was ever confirmed: every "no" here is final.
        refusal = self._find_payment_method()
        if refusal is not None:
            return (
                Concluded(
                    _CONCLUSION_OF_VERDICT[refusal.state],
                    code=refusal.code,
                    message=refusal.message,
                )
                if isinstance(refusal, Verdict)
                else refusal
            )
        result = self._create()
        answer = result.answer
        if answer.kind is AnswerKind.OK:
            return self._store(answer)
        if answer.kind in (AnswerKind.REJECTED, AnswerKind.MISSING, AnswerKind.DECLINED):
            return conclude(Conclusion.REJECTED, answer)
        if answer.kind is AnswerKind.BLOCKED_BY_CAP:
            return conclude(Conclusion.PARKED, answer, code="cap_reached")
        if answer.kind is AnswerKind.CONFLICT:
            return conclude(Conclusion.CONFLICT, answer)
        return conclude_unclear(result, create=True)

    def _create(self) -> CallResult:
        """Create under the stable key; where Stripe replays a stored 5xx, under a numbered one."""
        # Each life of the attempt has numbers of its own: one of a parked life would bring its
        # canceled PaymentIntent back.
        first = self._record.create_number * MAX_CREATE_NUMBERS
        result = self._work.send(create_intent(self._record, first))
        for number in range(first + 1, first + MAX_CREATE_NUMBERS):
            stored_failure = result.answer.kind is AnswerKind.IN_DOUBT and result.answer.replayed
            if not stored_failure:
                break
            result = self._work.send(create_intent(self._record, number))
        return result

    def _store(self, answer: Answer) -> Intent | Concluded:
        created = _read_intent_object(answer)
        if created is None:
            return conclude(
                Conclusion.IN_DOUBT, answer, code="unreadable_answer", create_in_doubt=True
            )
        wrong = self._work.identity.refuse_answer(answer.content.get("livemode"))
        if wrong is not None:
            return wrong
        stored_id = self._work.records.store_payment(self._record.lease, created.id)
        if stored_id is None:
            return Concluded(Conclusion.LEASE_LOST, code="lease_lost")
        return created if stored_id == created.id else self._read(stored_id)

    def _read(self, payment_id: str) -> Intent | Concluded:
        result = self._work.send(read_intent(payment_id))
        answer = result.answer
        if answer.kind is AnswerKind.OK:
            wrong = self._work.identity.refuse_answer(answer.content.get("livemode"))
            return wrong or self._same_intent(answer, payment_id)
        if answer.kind is AnswerKind.MISSING:
            # Ours, yet not there: the key is of another account or mode. No proof of anything.
            return conclude_unclear(result)
        # Reading moves no money: whatever failed, the row stays what it was.
        unauthorized = answer.kind is AnswerKind.UNAUTHORIZED
        return conclude(Conclusion.TRANSIENT, answer, misconfigured=unauthorized)

    def _confirm(self, intent: Intent) -> Intent | Concluded:
        refusal = self._find_payment_method()
        if refusal is not None:
            return self._give_up(intent, refusal) if isinstance(refusal, Verdict) else refusal
        method_id = self._payment_method_id or ""
        result = self._work.send(confirm_intent(self._record, intent.id, method_id))
        answer = result.answer
        if answer.kind in (AnswerKind.OK, AnswerKind.DECIDED_BY_INTENT):
            return self._same_intent(answer, intent.id)
        verdict = _verdict_on_confirm(answer)
        if verdict is not None:
            return self._give_up(intent, verdict)
        if answer.kind is AnswerKind.CONFLICT:
            return conclude(Conclusion.CONFLICT, answer, payment_id=intent.id)
        return self._look_after_doubt(intent, conclude_unclear(result))

    def _look_after_doubt(self, intent: Intent, doubt: Concluded) -> Intent | Concluded:
        """Ask once what became of a confirm without an answer; its absence proves nothing."""
        if doubt.conclusion is not Conclusion.IN_DOUBT or doubt.misconfigured:
            return doubt
        seen = self._read(intent.id)
        if isinstance(seen, Concluded) or seen.awaits_confirm:
            return doubt
        return seen

    def _give_up(self, intent: Intent, verdict: Verdict) -> Concluded:
        """Write down the verdict, then cancel: only then is it proven that no money can move."""
        if not self._work.records.store_verdict(self._record.lease, verdict):
            return Concluded(Conclusion.LEASE_LOST, intent.id, "lease_lost")
        return self._cancel(intent, verdict)

    def _cancel(self, intent: Intent, verdict: Verdict) -> Concluded:
        result = self._work.send(cancel_intent(self._record, intent.id))
        answer = result.answer
        if answer.kind in (AnswerKind.OK, AnswerKind.DECIDED_BY_INTENT):
            seen = self._same_intent(answer, intent.id)
            if isinstance(seen, Concluded):
                return seen
            if seen.status in ("succeeded", "processing"):
                moved = seen.status == "succeeded"
                conclusion = Conclusion.CHARGED if moved else Conclusion.PROCESSING
                return Concluded(conclusion, intent.id, request_id=seen.request_id)
            if seen.status == "canceled":
                return self._conclude_canceled(seen, verdict)
        unclear = conclude_unclear(result)
        return conclude(
            Conclusion.IN_DOUBT, answer, payment_id=intent.id, misconfigured=unclear.misconfigured
        )

    def _conclude_canceled(self, intent: Intent, verdict: Verdict | None) -> Concluded:
        if verdict is None:
            verdict = Verdict(State.PARKED, "canceled_elsewhere", "somebody else canceled it")
        return Concluded(
            _CONCLUSION_OF_VERDICT[verdict.state],
            intent.id,
            verdict.code,
            verdict.message,
            intent.request_id,
        )

    def _same_intent(self, answer: Answer, payment_id: str) -> Intent | Concluded:
        """The PaymentIntent in an answer, provided that it is the one asked about."""
        intent = _read_intent_object(answer)
        if intent is None or intent.id != payment_id:
            return conclude(
                Conclusion.IN_DOUBT, answer, payment_id=payment_id, code="unreadable_answer"
            )
        return intent

    def _find_payment_method(self) -> Verdict | Concluded | None:
        """Settle on the payment method: the event's, else the customer's default.

        Returns:
            None when there is one, a verdict when the customer has none or is gone, and a
            conclusion when Stripe did not say.
        """
        if self._payment_method_id is not None:
            return None
        answer = self._work.send(read_customer(self._record.fingerprint.stripe_customer_id)).answer
        if answer.kind in (AnswerKind.MISSING, AnswerKind.REJECTED):
            return Verdict(State.REJECTED, answer.code or "resource_missing", answer.message)
        if answer.kind is not AnswerKind.OK:
            unauthorized = answer.kind is AnswerKind.UNAUTHORIZED
            return conclude(Conclusion.TRANSIENT, answer, misconfigured=unauthorized)
        if answer.content.get("deleted") is True:
            return Verdict(State.REJECTED, "customer_deleted", "the Stripe customer is deleted")
        self._payment_method_id = _default_payment_method(answer.content)
        if self._payment_method_id is None:
            return Verdict(State.DECLINED, "no_payment_method", "the customer has no default")
        return None


def _verdict_on_confirm(answer: Answer) -> Verdict | None:
    """What a refused confirm means, if it means anything."""
    code = answer.code or "unknown"
    if answer.kind is AnswerKind.DECLINED:
        return Verdict(State.DECLINED, code, answer.message)
    if answer.kind is AnswerKind.BLOCKED_BY_CAP:
        return Verdict(State.PARKED, "cap_reached", answer.message)
    # Missing, but not the PaymentIntent itself: the customer or the payment method is gone.
    missing_other = answer.kind is AnswerKind.MISSING and answer.parameter not in (None, "intent")
    if answer.kind is AnswerKind.REJECTED or missing_other:
        return Verdict(State.REJECTED, code, answer.message)
    return None


def _read_intent_object(answer: Answer) -> Intent | None:
    content = answer.content
    payment_id, status = content.get("id"), content.get("status")
    if content.get("object") != "payment_intent" or not isinstance(payment_id, str):
        return None
    if not isinstance(status, str):
        return None
    failure = None
    last_error = content.get("last_payment_error")
    if isinstance(last_error, Mapping):
        failure = _read_failure(last_error)
    return Intent(payment_id, status, failure, answer.request_id)


def _read_failure(last_error: Mapping[str, Any]) -> Verdict:
    code = last_error.get("decline_code") or last_error.get("code") or "declined"
    return Verdict(State.DECLINED, str(code), str(last_error.get("message") or "")[:300])


def _default_payment_method(customer: Mapping[str, Any]) -> str | None:
    settings = customer.get("invoice_settings")
    default = settings.get("default_payment_method") if isinstance(settings, Mapping) else None
    chosen = default or customer.get("default_source")
    if isinstance(chosen, Mapping):
        chosen = chosen.get("id")
    return chosen if isinstance(chosen, str) else None
