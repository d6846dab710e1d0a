"""The Refunds API."""

from local.stripe_simulator.currencies import display_amount
from local.stripe_simulator.errors import invalid_parameter, invalid_state
from local.stripe_simulator.ledger import LedgerEntry
from local.stripe_simulator.listing import list_by_charge
from local.stripe_simulator.parameters import merge_metadata
from local.stripe_simulator.records import Charge, Refund
from local.stripe_simulator.rendering import render_refund
from local.stripe_simulator.wire import JsonObject
from local.stripe_simulator.world import Call

_CREATE = frozenset({"amount", "charge", "expand", "metadata", "payment_intent", "reason"})
_REASONS = frozenset({"duplicate", "fraudulent", "requested_by_customer"})


def create(call: Call) -> JsonObject:
    """POST /v1/refunds"""
    parameters = call.parameters
    parameters.refuse_unknown(_CREATE)
    asked = parameters.integer("amount")
    reason = parameters.choice("reason", _REASONS)
    metadata = merge_metadata({}, parameters.metadata())
    charge = _refunded_charge(call)
    refund = Refund(
        id=call.world.identifiers.object_id("re"),
        created=int(call.now),
        updated_at=call.now,
        amount=_refund_amount(charge, asked),
        currency=charge.currency,
        charge=charge.id,
        balance_transaction=call.world.identifiers.object_id("txn"),
        payment_intent=charge.payment_intent,
        reason=reason,
        metadata=metadata,
    )
    call.scope.refunds.add(refund)
    charge.amount_refunded += refund.amount
    charge.updated_at = call.now
    _record(call, charge, refund)
    return render_refund(refund)


def retrieve(call: Call) -> JsonObject:
    """GET /v1/refunds/{id}"""
    call.parameters.refuse_unknown({"expand"})
    return render_refund(call.refund(call.object_id))


def list_all(call: Call) -> JsonObject:
    """GET /v1/refunds"""
    return list_by_charge(
        call.parameters,
        call.scope.refunds.all(),
        call.refund,
        render_refund,
        "/v1/refunds",
    )


def _refunded_charge(call: Call) -> Charge:
    charge_id = call.parameters.text("charge")
    intent_id = call.parameters.text("payment_intent")
    if charge_id:
        charge = call.charge(charge_id, "charge")
    elif intent_id:
        intent = call.intent(intent_id, "payment_intent")
        if intent.latest_charge is None:
            raise invalid_state(
                f"This PaymentIntent ({intent.id}) does not have a successful charge to refund."
            )
        charge = call.charge(intent.latest_charge)
    else:
        raise invalid_parameter(
            "One of the following params should be provided for this request: payment_intent or "
            "charge.",
            "charge",
            "parameter_missing",
        )
    if not charge.captured:
        raise invalid_state(
            f"This charge ({charge.id}) has not been captured, so there is nothing to refund."
        )
    if charge.amount_refunded >= charge.amount:
        raise invalid_state(
            f"Charge {charge.id} has already been refunded.", "charge_already_refunded"
        )
    return charge


def _refund_amount(charge: Charge, asked: int | None) -> int:
    left = charge.amount - charge.amount_refunded
    if asked is None:
        return left
    if asked < 1:
        raise invalid_parameter(
            "This value must be greater than or equal to 1.", "amount", "parameter_invalid_integer"
        )
    if asked > left:
        raise invalid_state(
            f"Refund amount ({display_amount(asked, charge.currency)}) is greater than unrefunded "
            f"amount on charge ({display_amount(left, charge.currency)})",
            param="amount",
        )
    return asked


def _record(call: Call, charge: Charge, refund: Refund) -> None:
    call.world.ledger.append(
        LedgerEntry(
            moved_at=call.now,
            kind="refund",
            amount=refund.amount,
            currency=refund.currency,
            customer=charge.customer,
            payment_intent=charge.payment_intent,
            charge=charge.id,
            description=charge.description,
            metadata=dict(charge.metadata),
            account=call.scope.account,
            livemode=call.scope.livemode,
            idempotency_key=call.idempotency_key,
            request_id=call.request_id,
        )
    )
