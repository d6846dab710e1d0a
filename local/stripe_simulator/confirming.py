"""Confirming a PaymentIntent, and what its payment method makes of it."""

from dataclasses import dataclass

from local.stripe_simulator.behaviours import Behaviour, Outcome
from local.stripe_simulator.currencies import check_amount
from local.stripe_simulator.echoes import read_echoed
from local.stripe_simulator.errors import (
    INVALID_REQUEST,
    StripeError,
    invalid_parameter,
    invalid_state,
)
from local.stripe_simulator.payment_methods import (
    attach_to_customer,
    check_reusable,
    existing_or_issued,
)
from local.stripe_simulator.payments import (
    AUTHENTICATION_REQUIRED,
    Payment,
    behaviour_of,
    capture_charge,
    decline_error,
    fail_charge,
    make_charge,
)
from local.stripe_simulator.records import Charge, Instrument, PaymentIntent, Scope
from local.stripe_simulator.rendering import render_card, render_instrument, render_intent
from local.stripe_simulator.wire import JsonObject
from local.stripe_simulator.world import Call, World

UNEXPECTED_STATE = "payment_intent_unexpected_state"

CONFIRM_PARAMETERS = frozenset(
    {
        "amount_to_confirm",
        "capture_method",
        "error_on_requires_action",
        "expand",
        "mandate",
        "mandate_data",
        "off_session",
        "payment_method",
        "payment_method_options",
        "radar_options",
        "receipt_email",
        "return_url",
        "setup_future_usage",
        "shipping",
        "use_stripe_sdk",
    }
)

_CONFIRMABLE = frozenset({"requires_payment_method", "requires_confirmation", "requires_action"})
_OFF_SESSION = frozenset({"true", "false", "one_off", "recurring"})
_CAPTURE_METHODS = frozenset({"automatic", "automatic_async", "manual"})


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What a confirm asks for. `unattended` means that nobody is there to authenticate."""

    payment_method: str | None
    unattended: bool
    return_url: str | None
    amount: int | None
    capture_method: str | None
    echoed: JsonObject


def read_confirmation(call: Call) -> Confirmation:
    """Return what the parameters ask for; raises when one is invalid."""
    parameters = call.parameters
    off_session = parameters.choice("off_session", _OFF_SESSION) not in (None, "false")
    fails_on_action = parameters.boolean("error_on_requires_action") or False
    return Confirmation(
        payment_method=parameters.text("payment_method") or None,
        unattended=off_session or fails_on_action,
        return_url=parameters.text("return_url"),
        amount=parameters.integer("amount_to_confirm"),
        capture_method=parameters.choice("capture_method", _CAPTURE_METHODS),
        echoed=read_echoed(parameters),
    )


def check_confirm(call: Call, intent: PaymentIntent, confirmation: Confirmation) -> Instrument:
    """Return the payment method that a confirm would charge.

    Raises:
        StripeError: The PaymentIntent cannot be confirmed, or not with this payment method.
    """
    _check_status(call, intent)
    if confirmation.amount is not None:
        check_amount(confirmation.amount, intent.currency, "amount_to_confirm")
    instrument = _chosen_instrument(call, intent, confirmation)
    if intent.requires_return_url and not confirmation.return_url:
        raise invalid_state(
            "This PaymentIntent is configured to accept payment methods enabled in your Dashboard. "
            "Because some of these payment methods might redirect your customer off of your page, "
            "you must provide a `return_url`. If you don't want to accept redirect-based payment "
            "methods, set `automatic_payment_methods[enabled]` to `true` and "
            "`automatic_payment_methods[allow_redirects]` to `never` when creating Setup Intents "
            "and Payment Intents."
        )
    _check_owner(intent, instrument)
    method_type = instrument.issued.method_type.value
    if method_type not in intent.payment_method_types:
        raise invalid_parameter(
            f"The PaymentMethod provided ({method_type}) is not allowed for this PaymentIntent. "
            "Please attach a suitable PaymentMethod OR update the PaymentIntent to accept it.",
            "payment_method",
        )
    return instrument


def confirm_intent(
    call: Call,
    intent: PaymentIntent,
    confirmation: Confirmation,
    instrument: Instrument,
    *,
    authenticated: bool = False,
) -> JsonObject:
    """Charge the payment method and return the PaymentIntent.

    Args:
        call: The request.
        intent: A PaymentIntent that `check_confirm` let pass.
        confirmation: What the request asks for.
        instrument: What `check_confirm` returned.
        authenticated: The customer has just authenticated.

    Raises:
        StripeError: The payment was declined; the PaymentIntent may be confirmed again.
    """
    behaviour = behaviour_of(call, instrument)
    if authenticated:
        behaviour = _after_authentication(behaviour)
    intent.updated_at = call.now
    intent.last_payment_error = None
    intent.next_action = None
    intent.capture_method = confirmation.capture_method or intent.capture_method
    intent.echoed.update(confirmation.echoed)
    _note_instrument(intent, confirmation, instrument)
    if behaviour.outcome is Outcome.NEEDS_ACTION and not confirmation.unattended:
        intent.status = "requires_action"
        intent.next_action = _next_action(intent, confirmation.return_url)
        return render_intent(intent, call.scope)
    charge = make_charge(call, _payment(intent, confirmation, instrument), behaviour)
    intent.latest_charge = charge.id
    return _conclude(call, intent, charge)


def settle_charge(
    world: World, scope: Scope, charge: Charge, decline_code: str | None, now: float
) -> None:
    """Finish a pending charge, and its PaymentIntent when it has one.

    Args:
        world: Holds the ledger.
        scope: Where the charge belongs.
        charge: A pending charge.
        decline_code: Why the bank refused, or None when it paid.
        now: The time of the settlement.
    """
    intent = scope.payment_intents.get(charge.payment_intent) if charge.payment_intent else None
    if decline_code is None:
        capture_charge(world, scope, charge, charge.amount, now)
        if intent is not None:
            _succeed(intent, charge, now)
        return
    fail_charge(charge, decline_code, now)
    if intent is not None:
        fail_intent(scope, intent, _decline(charge), now)


def fail_intent(scope: Scope, intent: PaymentIntent, error: StripeError, now: float) -> None:
    """Put a PaymentIntent back to where another payment method can be tried."""
    instrument_id = intent.payment_method or intent.source
    instrument = scope.instruments.get(instrument_id) if instrument_id else None
    intent.last_payment_error = error.body()["error"]
    if instrument is not None:
        intent.last_payment_error.update(_instrument_details(scope, instrument))
    intent.status = "requires_payment_method"
    intent.payment_method = None
    intent.source = None
    intent.updated_at = now


def unexpected_state(message: str, intent: PaymentIntent, scope: Scope) -> StripeError:
    """Return the 400 for a PaymentIntent in the wrong status, which it shows."""
    return StripeError(
        400,
        INVALID_REQUEST,
        message,
        code=UNEXPECTED_STATE,
        details={"payment_intent": render_intent(intent, scope)},
    )


def _check_status(call: Call, intent: PaymentIntent) -> None:
    if intent.status in _CONFIRMABLE:
        return
    message = (
        f"You cannot confirm this PaymentIntent because it has a status of {intent.status}. Only a "
        "PaymentIntent with one of the following statuses may be confirmed: "
        f"{', '.join(sorted(_CONFIRMABLE))}."
    )
    if intent.status in {"succeeded", "requires_capture"}:
        message = (
            "You cannot confirm this PaymentIntent because it has already succeeded after being "
            "previously confirmed."
        )
    raise unexpected_state(message, intent, call.scope)


def _chosen_instrument(call: Call, intent: PaymentIntent, confirmation: Confirmation) -> Instrument:
    chosen = confirmation.payment_method or intent.payment_method or intent.source
    if chosen is not None:
        return existing_or_issued(call, chosen, "payment_method")
    customer = None if intent.customer is None else call.customer(intent.customer)
    # Only the default source: the default payment method for invoices does not count here.
    if customer is not None and customer.default_source is not None:
        return call.instrument(customer.default_source, "source")
    raise unexpected_state(
        "You cannot confirm this PaymentIntent because it's missing a payment method. You can "
        "either update the PaymentIntent with a payment method and then confirm it again, or "
        "confirm it again directly with a payment method or ConfirmationToken.",
        intent,
        call.scope,
    )


def _check_owner(intent: PaymentIntent, instrument: Instrument) -> None:
    if instrument.customer is None:
        check_reusable(instrument)
    elif intent.customer is None:
        raise invalid_state(
            "The payment method you provided is attached to a customer so for security purposes "
            "you must provide the customer in the request.",
            param="payment_method",
        )
    elif instrument.customer != intent.customer:
        raise invalid_state(
            f"The customer {intent.customer} does not match the expected customer "
            f"{instrument.customer}. You may only use a PaymentMethod with the customer that it "
            "belongs to.",
            param="payment_method",
        )


def _note_instrument(
    intent: PaymentIntent, confirmation: Confirmation, instrument: Instrument
) -> None:
    named = confirmation.payment_method or intent.payment_method
    intent.payment_method = instrument.id if named else None
    intent.source = None if named else instrument.id


def _keep_or_use_up(call: Call, intent: PaymentIntent, instrument: Instrument) -> None:
    if instrument.customer is not None:
        return
    if intent.echoed.get("setup_future_usage") and intent.customer is not None:
        attach_to_customer(call, instrument, call.live_customer(intent.customer))
    else:
        instrument.used = True


def _payment(intent: PaymentIntent, confirmation: Confirmation, instrument: Instrument) -> Payment:
    return Payment(
        amount=intent.amount if confirmation.amount is None else confirmation.amount,
        currency=intent.currency,
        instrument=instrument,
        customer=intent.customer,
        payment_intent=intent.id,
        description=intent.description,
        metadata=intent.metadata,
        capture=intent.capture_method != "manual",
        echoed=intent.echoed,
    )


def _conclude(call: Call, intent: PaymentIntent, charge: Charge) -> JsonObject:
    if charge.status == "failed":
        error = _decline(charge)
        fail_intent(call.scope, intent, error, call.now)
        error.details = {
            **error.details,
            **_instrument_details(call.scope, charge.instrument),
            "payment_intent": render_intent(intent, call.scope),
        }
        raise error
    _keep_or_use_up(call, intent, charge.instrument)
    if charge.status == "pending":
        intent.status = "processing"
    elif charge.captured:
        _succeed(intent, charge, call.now)
    else:
        intent.status = "requires_capture"
        intent.amount_capturable = charge.amount
    return render_intent(intent, call.scope)


def _succeed(intent: PaymentIntent, charge: Charge, now: float) -> None:
    if intent.status == "succeeded":
        raise AssertionError(f"{intent.id} would succeed twice")
    intent.status = "succeeded"
    intent.amount_received = charge.amount_captured
    intent.updated_at = now


def _decline(charge: Charge) -> StripeError:
    if charge.decline_code is None:
        raise AssertionError(f"{charge.id} failed without a decline code")
    return decline_error(charge.decline_code, {"charge": charge.id})


def _instrument_details(scope: Scope, instrument: Instrument) -> JsonObject:
    if instrument.is_source:
        return {"source": render_card(instrument)}
    return {"payment_method": render_instrument(instrument, scope)}


def _after_authentication(behaviour: Behaviour) -> Behaviour:
    code = behaviour.decline_code
    if code is None or code == AUTHENTICATION_REQUIRED:
        return Behaviour(Outcome.SUCCEEDS)
    return Behaviour(Outcome.DECLINES, code)


def _next_action(intent: PaymentIntent, return_url: str | None) -> JsonObject:
    challenge = f"https://hooks.stripe.com/redirect/authenticate/{intent.id}"
    if return_url is not None:
        return {
            "type": "redirect_to_url",
            "redirect_to_url": {"return_url": return_url, "url": challenge},
        }
    return {
        "type": "use_stripe_sdk",
        "use_stripe_sdk": {"type": "three_d_secure_redirect", "stripe_js": challenge},
    }
