"""What driving a record came to, before it is written down."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from shared.stripe_answers import Answer, AnswerKind
from shared.stripe_calls import CallResult


class Conclusion(StrEnum):
    """What is known about the charge now."""

    CHARGED = "charged"
    PROCESSING = "processing"
    DECLINED = "declined"
    REJECTED = "rejected"
    PARKED = "parked"
    CANCELED = "canceled"
    IN_DOUBT = "in_doubt"
    TRANSIENT = "transient"
    CONFLICT = "conflict"
    LEASE_LOST = "lease_lost"


@dataclass(frozen=True, slots=True)
class Concluded:
    """A conclusion and what it rests on.

    Args:
        conclusion: what is known.
        payment_id: the payment that it is about.
        code: Stripe's code, or ours.
        message: for people; shortened, free of secrets.
        request_id: the Stripe request that decided it.
        misconfigured: somebody must mend keys, account or mode: loud.
        create_in_doubt: a PaymentIntent may exist that the row does not name.
        key_refused: the key that was used is refused, and another one would help.
    """

    conclusion: Conclusion
    payment_id: str | None = None
    code: str | None = None
    message: str = ""
    request_id: str | None = None
    misconfigured: bool = False
    create_in_doubt: bool = False
    key_refused: bool = False


def conclude_unclear(result: CallResult, *, create: bool = False) -> Concluded:
    """Conclude from an answer that decides nothing: in doubt if anything may have been executed.

    Args:
        result: the call.
        create: it was the call that creates an unconfirmed PaymentIntent.
    """
    answer = result.answer
    in_doubt = result.maybe_executed or answer.kind is AnswerKind.MISSING
    return conclude(
        Conclusion.IN_DOUBT if in_doubt else Conclusion.TRANSIENT,
        answer,
        misconfigured=answer.kind in (AnswerKind.UNAUTHORIZED, AnswerKind.MISSING),
        create_in_doubt=create and result.maybe_executed,
    )


def conclude(
    conclusion: Conclusion,
    answer: Answer,
    *,
    payment_id: str | None = None,
    code: str | None = None,
    misconfigured: bool = False,
    create_in_doubt: bool = False,
) -> Concluded:
    """A conclusion that rests on one of Stripe's answers."""
    return Concluded(
        conclusion=conclusion,
        payment_id=payment_id,
        code=code or answer.code,
        message=answer.message,
        request_id=answer.request_id,
        misconfigured=misconfigured,
        create_in_doubt=create_in_doubt,
        key_refused=answer.refuses_key,
    )
