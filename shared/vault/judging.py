"""What Stripe's answer to a forwarded call proves about money."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.ports import NoResponse, StripeResponse
from shared.stripe_answers import Answer, AnswerKind, classify
from shared.vault.catalogue import Money
from shared.vault.incoming import Call
from shared.vault.ports import Effect, Proof

_MAKING = (Money.CHARGE, Money.CREATE_INTENT)


def judge(call: Call, response: StripeResponse | NoResponse) -> Proof:
    """What an answer proves.

    Args:
        call: what was forwarded.
        response: what came back.
    """
    answer = classify(response)
    about = answer.content
    if about.get("object") == "payment_intent":
        return _judge_intent_answer(call, answer)
    if answer.kind is AnswerKind.OK:
        if call.endpoint.money is Money.CHARGE:
            return judge_charge(about)
        return Proof(Effect.UNKNOWN if call.confirms else Effect.NONE)
    if not call.confirms:
        return Proof(Effect.NONE)
    if answer.kind is AnswerKind.IN_DOUBT:
        return Proof(Effect.UNKNOWN)
    if answer.kind is AnswerKind.DECLINED and call.endpoint.money in _MAKING:
        # Stored under the idempotency key: every other request with it gets the same.
        return Proof(Effect.IMPOSSIBLE)
    return Proof(Effect.FAILED)


def _judge_intent_answer(call: Call, answer: Answer) -> Proof:
    """An answer that holds the PaymentIntent itself, be it a success or an error."""
    found = judge_intent(answer.content)
    if call.payment_id is not None and found.payment_id != call.payment_id:
        return Proof(Effect.UNKNOWN if call.confirms else Effect.NONE)
    if found.effect is not Effect.FAILED:
        return found
    if call.endpoint.money is Money.CREATE_INTENT and not call.confirms:
        known = Proof(Effect.KNOWN, found.payment_id, _whole(answer.content.get("amount")))
        return known if known.amount_cents else Proof(Effect.NONE)
    return found if call.confirms else Proof(Effect.NONE)


def judge_intent(intent: Mapping[str, Any]) -> Proof:
    """What a PaymentIntent's status proves (https://docs.stripe.com/payments/paymentintents)."""
    payment_id, status = _text(intent.get("id")), intent.get("status")
    amount_cents = _whole(intent.get("amount_received")) or _whole(intent.get("amount"))
    if status == "succeeded" and amount_cents:
        return Proof(Effect.SPENT, payment_id, amount_cents)
    if status == "canceled":
        return Proof(Effect.IMPOSSIBLE, payment_id)
    if status in ("requires_payment_method", "requires_confirmation"):
        return Proof(Effect.FAILED, payment_id)
    return Proof(Effect.PENDING, payment_id)


def judge_charge(charge: Mapping[str, Any]) -> Proof:
    """What a charge's status proves."""
    payment_id, status = _text(charge.get("id")), charge.get("status")
    amount_cents = _whole(charge.get("amount"))
    if status == "succeeded" and amount_cents:
        return Proof(Effect.SPENT, payment_id, amount_cents)
    if status == "failed":
        return Proof(Effect.IMPOSSIBLE, payment_id)
    return Proof(Effect.PENDING, payment_id)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
