"""The Charges API, older and deprecated."""

from local.stripe_simulator.currencies import check_amount, check_currency
from local.stripe_simulator.echoes import ECHOED_PARAMETERS, read_echoed
from local.stripe_simulator.errors import CARD_ERROR, StripeError, invalid_parameter, invalid_state
from local.stripe_simulator.listing import PAGE_PARAMETERS, list_page, read_created
from local.stripe_simulator.parameters import merge_metadata
from local.stripe_simulator.payment_methods import card_from_token
from local.stripe_simulator.payments import (
    Payment,
    behaviour_of,
    capture_charge,
    decline_error,
    make_charge,
)
from local.stripe_simulator.records import Charge, Instrument
from local.stripe_simulator.rendering import render_charge
from local.stripe_simulator.searching import Fields, search_page
from local.stripe_simulator.wire import JsonObject
from local.stripe_simulator.world import Call

_CREATE = (
    frozenset(
        {"amount", "capture", "currency", "customer", "description", "expand", "metadata", "source"}
    )
    | ECHOED_PARAMETERS
)
_UPDATE = frozenset({"description", "expand", "metadata"})
_CAPTURE = frozenset({"amount", "expand"})
_LIST = PAGE_PARAMETERS | {"created", "customer", "payment_intent"}

_SEARCH_FIELDS: Fields[Charge] = {
    "amount": lambda charge: charge.amount,
    "created": lambda charge: charge.created,
    "currency": lambda charge: charge.currency,
    "customer": lambda charge: charge.customer,
    "status": lambda charge: charge.status,
}


def create(call: Call) -> JsonObject:
    """POST /v1/charges"""
    parameters = call.parameters
    parameters.refuse_unknown(_CREATE)
    amount = parameters.required_integer("amount")
    currency = check_currency(parameters.required_text("currency"))
    check_amount(amount, currency)
    capture = parameters.boolean("capture")
    metadata = merge_metadata({}, parameters.metadata())
    description = parameters.text("description") or None
    echoed = read_echoed(parameters)
    customer = parameters.text("customer") or None
    source = parameters.text("source") or None
    payment = Payment(
        amount=amount,
        currency=currency,
        instrument=_source(call, customer, source),
        customer=customer,
        description=description,
        metadata=metadata,
        capture=capture is not False,
        echoed=echoed,
    )
    charge = make_charge(call, payment, behaviour_of(call, payment.instrument))
    if charge.status == "failed":
        raise decline_error(str(charge.decline_code), {"charge": charge.id})
    return render_charge(charge, call.scope)


def retrieve(call: Call) -> JsonObject:
    """GET /v1/charges/{id}"""
    call.parameters.refuse_unknown({"expand"})
    return render_charge(call.charge(call.object_id), call.scope)


def update(call: Call) -> JsonObject:
    """POST /v1/charges/{id}"""
    call.parameters.refuse_unknown(_UPDATE)
    charge = call.charge(call.object_id)
    metadata = merge_metadata(charge.metadata, call.parameters.metadata())
    charge.description = call.parameters.changed_text("description", charge.description)
    charge.metadata = metadata
    charge.updated_at = call.now
    return render_charge(charge, call.scope)


def capture(call: Call) -> JsonObject:
    """POST /v1/charges/{id}/capture"""
    call.parameters.refuse_unknown(_CAPTURE)
    asked = call.parameters.integer("amount")
    charge = call.charge(call.object_id)
    if charge.captured:
        raise invalid_state(
            f"Charge {charge.id} has already been captured.", "charge_already_captured"
        )
    if charge.payment_intent is not None:
        raise invalid_state(
            "This Charge was created by a PaymentIntent. Capture the PaymentIntent instead."
        )
    if charge.status != "succeeded" or charge.canceled:
        raise invalid_state(f"Charge {charge.id} cannot be captured: it is {charge.status}.")
    amount = charge.amount if asked is None else asked
    if not 0 < amount <= charge.amount:
        raise invalid_parameter(
            f"Capture amount is greater than the authorized amount ({charge.amount}).",
            "amount",
            "amount_too_large",
        )
    charge.request_id, charge.idempotency_key = call.request_id, call.idempotency_key
    capture_charge(call.world, call.scope, charge, amount, call.now)
    return render_charge(charge, call.scope)


def list_all(call: Call) -> JsonObject:
    """GET /v1/charges; failed charges are in it too."""
    call.parameters.refuse_unknown(_LIST)
    created = read_created(call.parameters)
    customer = call.parameters.text("customer")
    intent = call.parameters.text("payment_intent")
    table = call.scope.charges
    return list_page(
        call.parameters,
        table.all() if customer is None else table.of_customer(customer),
        call.charge,
        lambda charge: created.holds(charge.created) and intent in (None, charge.payment_intent),
        lambda charge: render_charge(charge, call.scope),
        "/v1/charges",
    )


def search(call: Call) -> JsonObject:
    """GET /v1/charges/search"""
    return search_page(
        call,
        call.scope.charges,
        _SEARCH_FIELDS,
        lambda charge: charge.metadata,
        lambda charge: render_charge(charge, call.scope),
        "/v1/charges/search",
    )


def _source(call: Call, customer_id: str | None, source: str | None) -> Instrument:
    if customer_id is None:
        return _token_source(call, source)
    customer = call.live_customer(customer_id)
    chosen = source or customer.default_source
    if chosen is None:
        raise StripeError(
            402,
            CARD_ERROR,
            "Cannot charge a customer that has no active card",
            code="missing",
            param="card",
        )
    instrument = call.scope.instruments.get(chosen)
    if instrument is None or instrument.customer != customer.id or not instrument.is_source:
        raise invalid_state(
            f"Customer {customer.id} does not have a linked source with ID {chosen}.",
            "missing",
            "source",
        )
    return instrument


def _token_source(call: Call, source: str | None) -> Instrument:
    if source is None:
        raise invalid_parameter("Must provide source or customer.", "source", "parameter_missing")
    if source.startswith("tok_"):
        return card_from_token(call, source)
    call.instrument(source, "source")
    raise invalid_state(
        "Cannot charge a source that is saved with a customer without that customer.",
        "missing",
        "customer",
    )
