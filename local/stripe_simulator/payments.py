"""Attempts to move money: the one place where a charge is made and the ledger written."""

from dataclasses import dataclass, field

from local.stripe_simulator.behaviours import Behaviour, Outcome, decline_message, error_code
from local.stripe_simulator.errors import CARD_ERROR, StripeError
from local.stripe_simulator.ledger import LedgerEntry
from local.stripe_simulator.records import Charge, Instrument, Scope
from local.stripe_simulator.rendering import decline_details
from local.stripe_simulator.wire import JsonObject
from local.stripe_simulator.world import Call, World

AUTHENTICATION_REQUIRED = "authentication_required"


@dataclass(frozen=True, slots=True)
class Payment:
    """What is to be paid by whom. `capture` False only authorizes it."""

    amount: int
    currency: str
    instrument: Instrument
    customer: str | None = None
    payment_intent: str | None = None
    description: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    capture: bool = True
    echoed: JsonObject = field(default_factory=dict)


def behaviour_of(call: Call, instrument: Instrument) -> Behaviour:
    """Return how the payment method will answer in this call."""
    return call.forced or instrument.issued.behaviour


def make_charge(call: Call, payment: Payment, behaviour: Behaviour) -> Charge:
    """Try to move money and return the charge: succeeded, pending or failed.

    A behaviour that needs the customer's action fails here: nobody can authenticate any more.
    """
    charge = Charge(
        id=call.world.identifiers.object_id("ch"),
        created=int(call.now),
        updated_at=call.now,
        amount=payment.amount,
        currency=payment.currency,
        status="pending",
        instrument=payment.instrument,
        customer=payment.customer,
        payment_intent=payment.payment_intent,
        description=payment.description,
        metadata=dict(payment.metadata),
        echoed=payment.echoed,
        request_id=call.request_id,
        idempotency_key=call.idempotency_key,
    )
    call.scope.charges.add(charge, payment.customer)
    if behaviour.outcome is Outcome.PROCESSES:
        call.world.settle_later(
            call.now + call.world.options.settlement_seconds, call.scope, charge
        )
    elif behaviour.outcome is Outcome.SUCCEEDS:
        charge.status = "succeeded"
        if payment.capture:
            capture_charge(call.world, call.scope, charge, charge.amount, call.now)
    else:
        fail_charge(charge, _decline_code(behaviour), call.now)
    return charge


def capture_charge(world: World, scope: Scope, charge: Charge, amount: int, now: float) -> None:
    """Move the money of an authorized or pending charge; what is not captured is given back."""
    if charge.captured or charge.canceled or charge.status == "failed":
        raise AssertionError(f"the money of {charge.id} moved, failed or was released before")
    charge.status = "succeeded"
    charge.captured = True
    charge.amount_captured = amount
    charge.amount_refunded = charge.amount - amount
    charge.balance_transaction = world.identifiers.object_id("txn")
    charge.updated_at = now
    world.ledger.append(
        LedgerEntry(
            moved_at=now,
            kind="charge",
            amount=amount,
            currency=charge.currency,
            customer=charge.customer,
            payment_intent=charge.payment_intent,
            charge=charge.id,
            description=charge.description,
            metadata=dict(charge.metadata),
            account=scope.account,
            livemode=scope.livemode,
            idempotency_key=charge.idempotency_key,
            request_id=charge.request_id,
        )
    )


def fail_charge(charge: Charge, decline_code: str, now: float) -> None:
    """Mark a charge as failed: its money will never move."""
    charge.status = "failed"
    charge.decline_code = decline_code
    charge.updated_at = now


def decline_error(
    decline_code: str, details: JsonObject, *, param: str | None = None
) -> StripeError:
    """Return the 402 of a declined payment.

    Args:
        decline_code: Why it was declined.
        details: Further fields of the error, such as `charge` and `payment_intent`.
        param: The parameter that the error names.
    """
    return StripeError(
        402,
        CARD_ERROR,
        decline_message(decline_code),
        code=error_code(decline_code),
        param=param,
        details={**decline_details(decline_code), **details},
    )


def _decline_code(behaviour: Behaviour) -> str:
    if behaviour.outcome is Outcome.NEEDS_ACTION:
        return AUTHENTICATION_REQUIRED
    return behaviour.decline_code or "generic_decline"
