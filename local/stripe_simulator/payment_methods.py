"""The PaymentMethods API, and the legacy cards of the Sources API."""

import re

from local.stripe_simulator.behaviours import (
    Behaviour,
    Issued,
    MethodType,
    Outcome,
    issued,
    issued_by_bank_number,
    issued_by_number,
)
from local.stripe_simulator.errors import (
    StripeError,
    invalid_parameter,
    invalid_state,
    missing_parameter,
)
from local.stripe_simulator.listing import PAGE_PARAMETERS, list_page
from local.stripe_simulator.parameters import Parameters, merge_metadata
from local.stripe_simulator.payments import decline_error
from local.stripe_simulator.records import Customer, Instrument
from local.stripe_simulator.rendering import render_card, render_instrument
from local.stripe_simulator.wire import JsonObject
from local.stripe_simulator.world import Call

_CREATE = frozenset(
    {"type", "card", "us_bank_account", "sepa_debit", "billing_details", "metadata", "expand"}
)
_CARD = frozenset({"token", "number", "exp_month", "exp_year", "cvc"})
_US_BANK_ACCOUNT = frozenset(
    {"account_number", "routing_number", "account_holder_type", "account_type"}
)
_SEPA_DEBIT = frozenset({"iban"})
_BILLING_DETAILS = frozenset({"email", "name", "phone", "address"})
_LIST = PAGE_PARAMETERS | {"customer", "type"}
_METHOD_TYPES = frozenset(method_type.value for method_type in MethodType)
_CARD_NUMBER = re.compile(r"[0-9 ]{12,23}\Z")


def create(call: Call) -> JsonObject:
    """POST /v1/payment_methods"""
    parameters = call.parameters
    parameters.refuse_unknown(_CREATE)
    method_type = parameters.choice("type", _METHOD_TYPES)
    if method_type is None:
        raise missing_parameter("type")
    face = _read_face(parameters, MethodType(method_type))
    billing = parameters.hash("billing_details", _BILLING_DETAILS) or Parameters({})
    email, name = billing.text("email"), billing.text("name")
    metadata = merge_metadata({}, parameters.metadata())
    instrument = issue(call, face, "pm")
    instrument.billing_email = email
    instrument.billing_name = name
    instrument.metadata = metadata
    return render_instrument(instrument, call.scope)


def retrieve(call: Call) -> JsonObject:
    """GET /v1/payment_methods/{id}"""
    call.parameters.refuse_unknown({"expand"})
    return render_instrument(existing_or_issued(call, call.object_id, "id"), call.scope)


def attach(call: Call) -> JsonObject:
    """POST /v1/payment_methods/{id}/attach"""
    call.parameters.refuse_unknown({"customer", "expand"})
    customer_id = call.parameters.required_text("customer")
    customer = call.live_customer(customer_id)
    instrument = existing_or_issued(call, call.object_id, "id")
    attach_to_customer(call, instrument, customer)
    return render_instrument(instrument, call.scope)


def detach(call: Call) -> JsonObject:
    """POST /v1/payment_methods/{id}/detach"""
    call.parameters.refuse_unknown({"expand"})
    instrument = call.instrument(call.object_id, "id")
    if instrument.customer is None:
        raise invalid_state(
            "The payment method you provided is not attached to a customer so detachment is "
            "impossible."
        )
    customer = call.customer(instrument.customer)
    detach_from_customer(call, instrument, customer)
    return render_instrument(instrument, call.scope)


def list_all(call: Call) -> JsonObject:
    """GET /v1/payment_methods"""
    call.parameters.refuse_unknown(_LIST)
    customer_id = call.parameters.text("customer")
    if customer_id is None:
        return list_of_customer(call, None, "/v1/payment_methods")
    return list_of_customer(call, call.live_customer(customer_id), "/v1/payment_methods")


def list_for_customer(call: Call) -> JsonObject:
    """GET /v1/customers/{id}/payment_methods"""
    call.parameters.refuse_unknown(_LIST - {"customer"})
    customer = call.live_customer(call.object_id, "id")
    return list_of_customer(call, customer, f"/v1/customers/{customer.id}/payment_methods")


def list_of_customer(call: Call, customer: Customer | None, url: str) -> JsonObject:
    """Return a page of one customer's payment methods; without a customer, an empty one."""
    method_type = call.parameters.choice("type", _METHOD_TYPES)
    saved = call.scope.instruments.of_customer(customer.id) if customer else ()
    return list_page(
        call.parameters,
        sorted(saved, key=lambda instrument: instrument.sequence),
        call.instrument,
        lambda instrument: method_type in (None, instrument.issued.method_type.value),
        lambda instrument: render_instrument(instrument, call.scope),
        url,
    )


def create_source(call: Call) -> JsonObject:
    """POST /v1/customers/{id}/sources"""
    call.parameters.refuse_unknown({"source", "metadata", "expand"})
    token = call.parameters.required_text("source")
    customer = call.live_customer(call.object_id, "id")
    card = save_source(call, customer, token)
    return render_card(card)


def list_sources(call: Call) -> JsonObject:
    """GET /v1/customers/{id}/sources"""
    call.parameters.refuse_unknown(PAGE_PARAMETERS | {"object"})
    customer = call.live_customer(call.object_id, "id")
    saved = call.scope.instruments.of_customer(customer.id)
    return list_page(
        call.parameters,
        sorted(saved, key=lambda instrument: instrument.sequence),
        call.instrument,
        lambda instrument: instrument.is_source,
        render_card,
        f"/v1/customers/{customer.id}/sources",
    )


def issue(call: Call, face: Issued, prefix: str) -> Instrument:
    """Make a new payment method (`pm`) or legacy card (`card`) and return it."""
    identifiers = call.world.identifiers
    instrument = Instrument(
        id=identifiers.object_id(prefix),
        created=int(call.now),
        updated_at=call.now,
        issued=face,
        fingerprint=f"{face.brand.replace(' ', '')}{face.last4}".ljust(16, "x")[:16],
    )
    return call.scope.instruments.add(instrument)


def existing_or_issued(call: Call, name: str, param: str) -> Instrument:
    """Return the payment method with this id; a test name such as `pm_card_visa` makes a new one.

    Raises:
        StripeError: It is neither.
    """
    face = issued(name) if name.startswith("pm_") else None
    return call.instrument(name, param) if face is None else issue(call, face, "pm")


def save_source(call: Call, customer: Customer, token: str) -> Instrument:
    """Save the card behind a token as a source of the customer and return it.

    Raises:
        StripeError: No such token, or a card whose saving Stripe refuses.
    """
    card = card_from_token(call, token)
    attach_to_customer(call, card, customer)
    customer.default_source = customer.default_source or card.id
    return card


def card_from_token(call: Call, token: str) -> Instrument:
    """Return a new legacy card for a token such as `tok_visa`."""
    face = issued(token) if token.startswith("tok_") else None
    if face is None:
        raise invalid_state(f"No such token: '{token}'", "resource_missing", "source")
    return issue(call, face, "card")


def attach_to_customer(call: Call, instrument: Instrument, customer: Customer) -> None:
    """Let a customer own a payment method.

    Raises:
        StripeError: It is owned by another, was used up, or its issuer refuses.
    """
    if instrument.customer == customer.id:
        return
    if instrument.customer is not None:
        raise invalid_state(
            "The payment method you provided has already been attached to a customer."
        )
    check_reusable(instrument)
    behaviour = instrument.issued.behaviour
    if not behaviour.attachable:
        raise _attachment_refused(behaviour)
    instrument.customer = customer.id
    instrument.updated_at = call.now
    call.scope.instruments.assign(instrument, customer.id)


def detach_from_customer(call: Call, instrument: Instrument, customer: Customer) -> None:
    """Take a payment method from its customer: it can never be used again."""
    call.scope.instruments.unassign(instrument, customer.id)
    instrument.customer = None
    instrument.used = True
    instrument.updated_at = call.now
    if customer.default_payment_method == instrument.id:
        customer.default_payment_method = None
    if customer.default_source == instrument.id:
        customer.default_source = None


def check_reusable(instrument: Instrument) -> None:
    """Raise when Stripe would refuse to use this payment method once more."""
    if instrument.used and instrument.customer is None:
        raise invalid_state(
            "The provided PaymentMethod was previously used with a PaymentIntent without Customer "
            "attachment, shared with a connected account without Customer attachment, or was "
            "detached from a Customer. It may not be used again. To use a PaymentMethod multiple "
            "times, you must attach it to a Customer first."
        )


def _attachment_refused(behaviour: Behaviour) -> StripeError:
    if behaviour.outcome is not Outcome.DECLINES or behaviour.decline_code is None:
        raise AssertionError("only a declining card can be refused when it is saved")
    return decline_error(behaviour.decline_code, {})


def _read_face(parameters: Parameters, method_type: MethodType) -> Issued:
    if method_type is MethodType.CARD:
        return _read_card(parameters)
    known = _US_BANK_ACCOUNT if method_type is MethodType.US_BANK_ACCOUNT else _SEPA_DEBIT
    number_name = "account_number" if method_type is MethodType.US_BANK_ACCOUNT else "iban"
    details = parameters.hash(method_type.value, known)
    number = details.text(number_name) if details else None
    if number is None:
        raise missing_parameter(f"{method_type.value}[{number_name}]")
    face = issued_by_bank_number(method_type, number)
    if face is None:
        raise invalid_parameter(
            "You must use a test bank account number in test mode.",
            f"{method_type.value}[{number_name}]",
            "account_number_invalid",
        )
    return face


def _read_card(parameters: Parameters) -> Issued:
    card = parameters.hash("card", _CARD)
    if card is None:
        raise missing_parameter("card")
    token = card.text("token")
    if token is not None:
        face = issued(token) if token.startswith("tok_") else None
        if face is None:
            raise invalid_state(f"No such token: '{token}'", "resource_missing", "card[token]")
        return face
    number = card.text("number")
    if number is None:
        raise missing_parameter("card[number]")
    face = issued_by_number(number) if _CARD_NUMBER.match(number) else None
    if face is None:
        raise StripeError(
            402,
            "card_error",
            "Your card number is incorrect.",
            code="incorrect_number",
            param="number",
            stored=False,
        )
    return face
