"""The Customers API."""

from local.stripe_simulator.errors import invalid_parameter
from local.stripe_simulator.listing import PAGE_PARAMETERS, list_page, read_created
from local.stripe_simulator.parameters import merge_metadata
from local.stripe_simulator.payment_methods import (
    attach_to_customer,
    detach_from_customer,
    existing_or_issued,
    save_source,
)
from local.stripe_simulator.records import Customer
from local.stripe_simulator.rendering import render_customer
from local.stripe_simulator.searching import Fields, search_page
from local.stripe_simulator.wire import JsonObject
from local.stripe_simulator.world import Call

_WRITE = frozenset(
    {"email", "name", "description", "phone", "metadata", "invoice_settings", "source", "expand"}
)
_CREATE = _WRITE | {"payment_method"}
_UPDATE = _WRITE | {"default_source"}
_INVOICE_SETTINGS = frozenset({"default_payment_method"})
_LIST = PAGE_PARAMETERS | {"created", "email"}

_SEARCH_FIELDS: Fields[Customer] = {
    "created": lambda customer: customer.created,
    "email": lambda customer: customer.email,
    "name": lambda customer: customer.name,
    "phone": lambda customer: customer.phone,
}


def create(call: Call) -> JsonObject:
    """POST /v1/customers"""
    call.parameters.refuse_unknown(_CREATE)
    customer_id = call.world.identifiers.object_id("cus")
    customer = Customer(id=customer_id, created=int(call.now), updated_at=call.now)
    customer.invoice_prefix = customer_id[-8:].upper()
    _change(call, customer)
    call.scope.customers.add(customer)
    return render_customer(customer, call.scope)


def retrieve(call: Call) -> JsonObject:
    """GET /v1/customers/{id}; a deleted one is a 200 as well."""
    call.parameters.refuse_unknown({"expand"})
    return render_customer(call.customer(call.object_id, "id"), call.scope)


def update(call: Call) -> JsonObject:
    """POST /v1/customers/{id}"""
    call.parameters.refuse_unknown(_UPDATE)
    customer = call.live_customer(call.object_id, "id")
    _change(call, customer)
    return render_customer(customer, call.scope)


def delete(call: Call) -> JsonObject:
    """DELETE /v1/customers/{id}"""
    customer = call.live_customer(call.object_id, "id")
    for instrument in list(call.scope.instruments.of_customer(customer.id)):
        detach_from_customer(call, instrument, customer)
    customer.deleted = True
    customer.updated_at = call.now
    return render_customer(customer, call.scope)


def list_all(call: Call) -> JsonObject:
    """GET /v1/customers"""
    call.parameters.refuse_unknown(_LIST)
    created = read_created(call.parameters)
    email = call.parameters.text("email")
    return list_page(
        call.parameters,
        call.scope.customers.all(),
        call.customer,
        lambda customer: (
            not customer.deleted
            and created.holds(customer.created)
            and email in (None, customer.email)
        ),
        lambda customer: render_customer(customer, call.scope),
        "/v1/customers",
    )


def search(call: Call) -> JsonObject:
    """GET /v1/customers/search"""
    return search_page(
        call,
        call.scope.customers,
        _SEARCH_FIELDS,
        lambda customer: customer.metadata,
        lambda customer: render_customer(customer, call.scope),
        "/v1/customers/search",
    )


def _change(call: Call, customer: Customer) -> None:
    parameters = call.parameters
    email = parameters.changed_text("email", customer.email)
    if email is not None and "@" not in email:
        raise invalid_parameter(f"Invalid email address: {email}", "email", "email_invalid")
    name = parameters.changed_text("name", customer.name)
    description = parameters.changed_text("description", customer.description)
    phone = parameters.changed_text("phone", customer.phone)
    metadata = merge_metadata(customer.metadata, parameters.metadata())
    _change_instruments(call, customer)
    customer.email = email
    customer.name = name
    customer.description = description
    customer.phone = phone
    customer.metadata = metadata
    customer.updated_at = call.now


def _change_instruments(call: Call, customer: Customer) -> None:
    parameters = call.parameters
    settings = parameters.hash("invoice_settings", _INVOICE_SETTINGS)
    default_method = settings.text("default_payment_method") if settings else None
    default_source = parameters.text("default_source")
    attached = parameters.text("payment_method")
    token = parameters.text("source")
    if attached:
        instrument = existing_or_issued(call, attached, "payment_method")
        attach_to_customer(call, instrument, customer)
        # The id of a test card exists only from here on, so the test name may stand for it.
        default_method = instrument.id if default_method == attached else default_method
    if token:
        customer.default_source = save_source(call, customer, token).id
    if default_source is not None:
        customer.default_source = _owned(call, customer, default_source, "default_source")
    if default_method is not None:
        param = "invoice_settings[default_payment_method]"
        customer.default_payment_method = _owned(call, customer, default_method, param)


def _owned(call: Call, customer: Customer, instrument_id: str, param: str) -> str | None:
    if not instrument_id:
        return None
    instrument = call.instrument(instrument_id, param)
    if instrument.customer != customer.id:
        raise invalid_parameter(
            f"The customer does not have a payment method with the ID {instrument_id}. The payment "
            "method must be attached to the customer.",
            param,
            "resource_missing",
        )
    return instrument.id
