"""The Disputes API, to read; customers open disputes through the control API."""

from dataclasses import dataclass

from local.stripe_simulator.behaviours import MethodType
from local.stripe_simulator.errors import invalid_state
from local.stripe_simulator.listing import list_by_charge
from local.stripe_simulator.records import Charge, Dispute
from local.stripe_simulator.rendering import render_dispute
from local.stripe_simulator.wire import JsonObject
from local.stripe_simulator.world import Call

_STATUSES = frozenset(
    {
        "appeal_needs_response",
        "appeal_under_review",
        "lost",
        "needs_response",
        "prevented",
        "under_review",
        "warning_closed",
        "warning_needs_response",
        "warning_under_review",
        "won",
    }
)


@dataclass(frozen=True, slots=True)
class DisputeOpening:
    """What a customer disputes.

    Attributes:
        payment: A charge or a PaymentIntent whose money moved.
        amount: The part that is disputed; None for all of it.
        reason: As Stripe names it.
        status: How far it has come, as Stripe names it.
    """

    payment: str
    amount: int | None = None
    reason: str = "fraudulent"
    status: str = "needs_response"

    def __post_init__(self) -> None:
        if self.status not in _STATUSES:
            raise ValueError(f"status is one of {', '.join(sorted(_STATUSES))}")


def open_dispute(call: Call, opening: DisputeOpening) -> JsonObject:
    """Let a customer dispute a charge, and return the dispute.

    Raises:
        StripeError: There is no such payment, its money did not move, or it is disputed already.
        ValueError: More than the charge is disputed, or nothing.
    """
    charge = _paid_charge(call, opening.payment)
    amount = charge.amount_captured if opening.amount is None else opening.amount
    if not 0 < amount <= charge.amount_captured:
        raise ValueError(f"amount lies between 1 and {charge.amount_captured}")
    issued = charge.instrument.issued
    charge.disputed = True
    charge.updated_at = call.now
    dispute = Dispute(
        id=call.world.identifiers.object_id("du"),
        created=int(call.now),
        updated_at=call.now,
        amount=amount,
        currency=charge.currency,
        charge=charge.id,
        reason=opening.reason,
        status=opening.status,
        card_brand=issued.brand if issued.method_type is MethodType.CARD else None,
        payment_intent=charge.payment_intent,
    )
    call.scope.disputes.add(dispute)
    return render_dispute(dispute, call.scope)


def retrieve(call: Call) -> JsonObject:
    """GET /v1/disputes/{id}"""
    call.parameters.refuse_unknown({"expand"})
    return render_dispute(call.dispute(call.object_id), call.scope)


def list_all(call: Call) -> JsonObject:
    """GET /v1/disputes"""
    return list_by_charge(
        call.parameters,
        call.scope.disputes.all(),
        call.dispute,
        lambda dispute: render_dispute(dispute, call.scope),
        "/v1/disputes",
    )


def _paid_charge(call: Call, payment_id: str) -> Charge:
    charge_id: str | None = payment_id
    if payment_id.startswith("pi_"):
        charge_id = call.intent(payment_id).latest_charge
    charge = call.charge(charge_id or payment_id)
    if not charge.captured:
        raise invalid_state(f"The money of {payment_id} did not move.")
    if charge.disputed:
        raise invalid_state(f"{payment_id} is disputed already.")
    return charge
