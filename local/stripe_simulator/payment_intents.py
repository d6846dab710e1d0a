"""The PaymentIntents API: at most one success for each PaymentIntent."""

from local.stripe_simulator.confirming import (
    CONFIRM_PARAMETERS,
    check_confirm,
    confirm_intent,
    fail_intent,
    read_confirmation,
    unexpected_state,
)
from local.stripe_simulator.currencies import check_amount, check_currency
from local.stripe_simulator.echoes import ECHOED_PARAMETERS, read_echoed
from local.stripe_simulator.errors import StripeError, invalid_parameter
from local.stripe_simulator.listing import PAGE_PARAMETERS, list_page, read_created
from local.stripe_simulator.parameters import Parameters, merge_metadata
from local.stripe_simulator.payment_methods import existing_or_issued
from local.stripe_simulator.payments import capture_charge
from local.stripe_simulator.records import PaymentIntent
from local.stripe_simulator.rendering import render_intent
from local.stripe_simulator.searching import Fields, search_page
from local.stripe_simulator.wire import JsonObject
from local.stripe_simulator.world import Call

REQUIRES_PAYMENT_METHOD = "requires_payment_method"
REQUIRES_CONFIRMATION = "requires_confirmation"

# From this version on, Stripe answers the parameter with an error of its own.
_METHOD_TYPES_REMOVED_IN = "2026-09-30"

_CREATE = (
    frozenset(
        {
            "allowed_payment_method_types",
            "amount",
            "automatic_payment_methods",
            "confirm",
            "confirmation_method",
            "currency",
            "customer",
            "description",
            "metadata",
            "payment_method_types",
        }
    )
    | CONFIRM_PARAMETERS - {"amount_to_confirm"}
    | ECHOED_PARAMETERS
)
_UPDATE = (
    frozenset(
        {"amount", "currency", "customer", "description", "expand", "metadata", "payment_method"}
    )
    | ECHOED_PARAMETERS
)
_ONLY_WITH_CONFIRM = ("off_session", "return_url", "error_on_requires_action", "mandate_data")
_CAPTURE = frozenset({"amount_to_capture", "metadata", "expand"})
_CANCEL = frozenset({"cancellation_reason", "expand"})
_LIST = PAGE_PARAMETERS | {"created", "customer"}
_AUTOMATIC = frozenset({"enabled", "allow_redirects"})
_CAPTURE_METHODS = frozenset({"automatic", "automatic_async", "manual"})
_CONFIRMATION_METHODS = frozenset({"automatic", "manual"})
_REDIRECTS = frozenset({"always", "never"})
_REASONS = frozenset({"abandoned", "duplicate", "fraudulent", "requested_by_customer"})
_BANK_DEBITS = {"usd": "us_bank_account", "eur": "sepa_debit"}

_UPDATABLE = frozenset({REQUIRES_PAYMENT_METHOD, REQUIRES_CONFIRMATION, "requires_action"})
_CANCELABLE = _UPDATABLE | {"requires_capture"}

_SEARCH_FIELDS: Fields[PaymentIntent] = {
    "amount": lambda intent: intent.amount,
    "created": lambda intent: intent.created,
    "currency": lambda intent: intent.currency,
    "customer": lambda intent: intent.customer,
    "status": lambda intent: intent.status,
}


def create(call: Call) -> JsonObject:
    """POST /v1/payment_intents"""
    parameters = call.parameters
    parameters.refuse_unknown(_CREATE)
    confirm = parameters.boolean("confirm") or False
    if not confirm:
        return _create_unconfirmed(call)
    confirmation = read_confirmation(call)
    intent = _new_intent(call)
    instrument = check_confirm(call, intent, confirmation)
    call.scope.payment_intents.add(intent, intent.customer)
    return confirm_intent(call, intent, confirmation, instrument)


def retrieve(call: Call) -> JsonObject:
    """GET /v1/payment_intents/{id}"""
    call.parameters.refuse_unknown({"expand", "client_secret"})
    return render_intent(call.intent(call.object_id), call.scope)


def update(call: Call) -> JsonObject:
    """POST /v1/payment_intents/{id}"""
    parameters = call.parameters
    parameters.refuse_unknown(_UPDATE)
    intent = call.intent(call.object_id)
    currency = check_currency(parameters.text("currency") or intent.currency)
    amount = parameters.integer("amount")
    echoed = read_echoed(parameters)
    metadata = merge_metadata(intent.metadata, parameters.metadata())
    description = parameters.changed_text("description", intent.description)
    if parameters.holds_any(_UPDATE - {"metadata", "description", "expand"}):
        _check_updatable(call, intent)
    check_amount(intent.amount if amount is None else amount, currency)
    _change_customer(call, intent)
    name = parameters.text("payment_method")
    if name:
        _choose_payment_method(call, intent, name)
    intent.currency = currency
    intent.amount = intent.amount if amount is None else amount
    intent.echoed.update(echoed)
    intent.metadata = metadata
    intent.description = description
    intent.updated_at = call.now
    return render_intent(intent, call.scope)


def confirm(call: Call) -> JsonObject:
    """POST /v1/payment_intents/{id}/confirm"""
    call.parameters.refuse_unknown(CONFIRM_PARAMETERS)
    confirmation = read_confirmation(call)
    intent = call.intent(call.object_id)
    instrument = check_confirm(call, intent, confirmation)
    return confirm_intent(call, intent, confirmation, instrument)


def capture(call: Call) -> JsonObject:
    """POST /v1/payment_intents/{id}/capture"""
    call.parameters.refuse_unknown(_CAPTURE)
    asked = call.parameters.integer("amount_to_capture")
    given_metadata = call.parameters.metadata()
    intent = call.intent(call.object_id)
    if intent.status != "requires_capture":
        raise unexpected_state(
            f"This PaymentIntent could not be captured because it has a status of {intent.status}. "
            "Only a PaymentIntent with one of the following statuses may be captured: "
            "requires_capture.",
            intent,
            call.scope,
        )
    amount = intent.amount_capturable if asked is None else asked
    if not 0 < amount <= intent.amount_capturable:
        raise invalid_parameter(
            f"The payment intent could not be captured because the requested capture amount is "
            f"greater than the authorized amount ({intent.amount_capturable}).",
            "amount_to_capture",
            "amount_too_large",
        )
    intent.metadata = merge_metadata(intent.metadata, given_metadata)
    charge = call.charge(str(intent.latest_charge))
    charge.request_id, charge.idempotency_key = call.request_id, call.idempotency_key
    capture_charge(call.world, call.scope, charge, amount, call.now)
    intent.status = "succeeded"
    intent.amount_received = amount
    intent.amount_capturable = 0
    intent.updated_at = call.now
    return render_intent(intent, call.scope)


def cancel(call: Call) -> JsonObject:
    """POST /v1/payment_intents/{id}/cancel"""
    call.parameters.refuse_unknown(_CANCEL)
    reason = call.parameters.choice("cancellation_reason", _REASONS)
    intent = call.intent(call.object_id)
    if intent.status not in _CANCELABLE:
        raise unexpected_state(
            f"You cannot cancel this PaymentIntent because it has a status of {intent.status}. "
            "Only a PaymentIntent with one of the following statuses may be canceled: "
            f"{', '.join(sorted(_CANCELABLE))}.",
            intent,
            call.scope,
        )
    if intent.status == "requires_capture":
        charge = call.charge(str(intent.latest_charge))
        charge.canceled = True
        charge.amount_refunded = charge.amount
        charge.updated_at = call.now
    intent.status = "canceled"
    intent.canceled_at = int(call.now)
    intent.cancellation_reason = reason
    intent.amount_capturable = 0
    intent.next_action = None
    intent.updated_at = call.now
    return render_intent(intent, call.scope)


def list_all(call: Call) -> JsonObject:
    """GET /v1/payment_intents"""
    call.parameters.refuse_unknown(_LIST)
    created = read_created(call.parameters)
    customer = call.parameters.text("customer")
    table = call.scope.payment_intents
    return list_page(
        call.parameters,
        table.all() if customer is None else table.of_customer(customer),
        call.intent,
        lambda intent: created.holds(intent.created) and customer in (None, intent.customer),
        lambda intent: render_intent(intent, call.scope),
        "/v1/payment_intents",
    )


def search(call: Call) -> JsonObject:
    """GET /v1/payment_intents/search"""
    return search_page(
        call,
        call.scope.payment_intents,
        _SEARCH_FIELDS,
        lambda intent: intent.metadata,
        lambda intent: render_intent(intent, call.scope),
        "/v1/payment_intents/search",
    )


def authenticate(call: Call, *, succeeds: bool) -> JsonObject:
    """Let the customer finish or fail the action that a PaymentIntent requires."""
    intent = call.intent(call.object_id)
    if intent.status != "requires_action":
        raise unexpected_state("This PaymentIntent requires no action.", intent, call.scope)
    instrument = call.instrument(str(intent.payment_method or intent.source), "payment_method")
    intent.next_action = None
    if succeeds:
        confirmation = read_confirmation(call)
        return confirm_intent(call, intent, confirmation, instrument, authenticated=True)
    fail_intent(
        call.scope,
        intent,
        StripeError(
            402,
            "card_error",
            "We are unable to authenticate your payment method. Please choose a different payment "
            "method and try again.",
            code="payment_intent_authentication_failure",
        ),
        call.now,
    )
    return render_intent(intent, call.scope)


def _create_unconfirmed(call: Call) -> JsonObject:
    for name in _ONLY_WITH_CONFIRM:
        if name in call.parameters:
            raise invalid_parameter(
                f"You cannot set `{name}` when `confirm` is not true.", name, "parameter_unknown"
            )
    payment_method = call.parameters.text("payment_method")
    intent = _new_intent(call)
    if payment_method:
        _choose_payment_method(call, intent, payment_method)
    call.scope.payment_intents.add(intent, intent.customer)
    return render_intent(intent, call.scope)


def _new_intent(call: Call) -> PaymentIntent:
    parameters = call.parameters
    amount = parameters.required_integer("amount")
    currency = check_currency(parameters.required_text("currency"))
    check_amount(amount, currency)
    metadata = merge_metadata({}, parameters.metadata())
    confirmation_method = parameters.choice("confirmation_method", _CONFIRMATION_METHODS)
    capture_method = parameters.choice("capture_method", _CAPTURE_METHODS)
    echoed = read_echoed(parameters)
    automatic = _read_automatic(parameters)
    method_types = _read_method_types(call)
    allowed_types = parameters.texts("allowed_payment_method_types")
    _refuse_together(parameters)
    customer = parameters.text("customer") or None
    if customer is not None:
        call.live_customer(customer)
    intent_id = call.world.identifiers.object_id("pi")
    return PaymentIntent(
        id=intent_id,
        created=int(call.now),
        updated_at=call.now,
        amount=amount,
        currency=currency,
        client_secret=call.world.identifiers.client_secret(intent_id),
        customer=customer,
        description=parameters.text("description") or None,
        metadata=metadata,
        capture_method=capture_method or "automatic_async",
        confirmation_method=confirmation_method or "automatic",
        automatic_payment_methods=automatic,
        allowed_payment_method_types=allowed_types,
        requires_return_url=(
            method_types is None
            and allowed_types is None
            and (automatic is None or automatic["allow_redirects"] != "never")
        ),
        payment_method_types=method_types or _automatic_types(currency, allowed_types),
        echoed=echoed,
    )


def _read_automatic(parameters: Parameters) -> JsonObject | None:
    given = parameters.hash("automatic_payment_methods", _AUTOMATIC)
    if given is None or not given.boolean("enabled"):
        return None
    redirects = given.choice("allow_redirects", _REDIRECTS)
    return {"allow_redirects": redirects or "always", "enabled": True}


def _read_method_types(call: Call) -> list[str] | None:
    types = call.parameters.texts("payment_method_types")
    if types is not None and call.api_version >= _METHOD_TYPES_REMOVED_IN:
        raise invalid_parameter(
            "The `payment_method_types` parameter is no longer supported. Use dynamic payment "
            "methods, `allowed_payment_method_types` or `excluded_payment_method_types` instead.",
            "payment_method_types",
            "payment_method_types_no_longer_supported",
        )
    return types


def _refuse_together(parameters: Parameters) -> None:
    exclusive = [
        name
        for name in (
            "allowed_payment_method_types",
            "automatic_payment_methods",
            "payment_method_types",
        )
        if name in parameters
    ]
    if len(exclusive) > 1:
        raise invalid_parameter(
            f"You may only specify one of these parameters: {', '.join(exclusive)}.", exclusive[0]
        )


def _automatic_types(currency: str, allowed: list[str] | None) -> list[str]:
    types = ["card"]
    if currency in _BANK_DEBITS:
        types.append(_BANK_DEBITS[currency])
    return types if allowed is None else [name for name in types if name in allowed]


def _choose_payment_method(call: Call, intent: PaymentIntent, name: str) -> None:
    intent.payment_method = existing_or_issued(call, name, "payment_method").id
    intent.status = REQUIRES_CONFIRMATION


def _check_updatable(call: Call, intent: PaymentIntent) -> None:
    if intent.status not in _UPDATABLE:
        raise unexpected_state(
            "This PaymentIntent's amount, currency, customer or payment method could not be "
            f"updated because it has a status of {intent.status}. You may only update these of a "
            f"PaymentIntent with one of the following statuses: {', '.join(sorted(_UPDATABLE))}.",
            intent,
            call.scope,
        )


def _change_customer(call: Call, intent: PaymentIntent) -> None:
    customer = call.parameters.text("customer")
    if not customer or customer == intent.customer:
        return
    call.live_customer(customer)
    if intent.customer is not None:
        call.scope.payment_intents.unassign(intent, intent.customer)
    intent.customer = customer
    call.scope.payment_intents.assign(intent, customer)
