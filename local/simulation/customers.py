"""The customers of a simulation at Stripe, and the events about them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from local.simulation.judge import Judge
from local.simulation.plan import (
    CURRENCY,
    PERIOD,
    EventKind,
    Flows,
    Funding,
    Plan,
    PlannedCustomer,
    Publication,
)
from local.simulation.stripe_side import StripeSide

SMALLEST_CHARGE_CENTS = 50
INVALID_BODY = b'{"customer_id": "customer-0", "billing_period": "2026:11"}'

_PAYMENT_METHODS = {
    Funding.CARD: "pm_card_visa",
    Funding.FICKLE_CARD: "pm_card_visa",
    Funding.DECLINING_CARD: "pm_card_chargeCustomerFail",
    Funding.CARD_WITH_AUTHENTICATION: "pm_card_authenticationRequired",
    Funding.BANK_DEBIT: "pm_usBankAccount_success",
    Funding.FAILING_BANK_DEBIT: "pm_usBankAccount_insufficientFunds",
}
_SOURCES = {
    Funding.CARD: "tok_visa",
    Funding.FICKLE_CARD: "tok_visa",
    Funding.DECLINING_CARD: "tok_chargeCustomerFail",
    Funding.CARD_WITH_AUTHENTICATION: "tok_authenticationRequired",
    Funding.BANK_DEBIT: "tok_visa",
    Funding.FAILING_BANK_DEBIT: "tok_chargeCustomerFail",
}


@dataclass(frozen=True, slots=True)
class StripeCustomer:
    """A planned customer as Stripe knows it; the events name `method_id` when there is one."""

    planned: PlannedCustomer
    stripe_id: str
    method_id: str | None


def make_customers(plan: Plan, stripe: StripeSide, judge: Judge) -> Sequence[StripeCustomer]:
    """Make the plan's customers at Stripe; the judge hears which of them cannot pay."""
    customers = [_make(plan, planned, stripe) for planned in plan.customers]
    for customer in customers:
        stripe.note_funding(customer.stripe_id, customer.planned.funding)
        can_pay = customer.planned.funding in (Funding.CARD, Funding.BANK_DEBIT)
        if not can_pay or customer.planned.amount_cents < SMALLEST_CHARGE_CENTS:
            judge.excuse(customer.stripe_id)
    return customers


def body_of(publication: Publication, customer: StripeCustomer) -> bytes:
    """The message body of a publication."""
    if publication.kind is EventKind.INVALID:
        return INVALID_BODY
    more_cents = 1 if publication.kind is EventKind.OTHER_AMOUNT else 0
    event: dict[str, str | int] = {
        "customer_id": customer.planned.customer_id,
        "billing_period": PERIOD,
        "stripe_customer_id": customer.stripe_id,
        "amount_cents": customer.planned.amount_cents + more_cents,
        "currency": CURRENCY,
        "attempt": publication.attempt,
    }
    if customer.method_id is not None:
        event["payment_method_id"] = customer.method_id
    if publication.kind is EventKind.OTHER_DESCRIPTION:
        event["description"] = "the same usage in other words"
    return json.dumps(event).encode()


def _make(plan: Plan, planned: PlannedCustomer, stripe: StripeSide) -> StripeCustomer:
    funding = planned.funding
    if funding is Funding.UNKNOWN:
        return StripeCustomer(planned, "cus_unknown", None)
    form = {}
    if funding in _PAYMENT_METHODS:
        method = _PAYMENT_METHODS[funding]
        form = {
            "source": _SOURCES[funding],
            "payment_method": method,
            "invoice_settings[default_payment_method]": method,
        }
    customer = stripe.handle("POST", "/v1/customers", form).json()
    stripe_id = str(customer["id"])
    if funding is Funding.DELETED:
        stripe.handle("DELETE", f"/v1/customers/{stripe_id}")
    method_id = None
    if planned.names_method and form:
        # Only a card can be charged through both flows.
        method_id = customer["default_source"]
        if plan.flows is Flows.PAYMENT_INTENT:
            method_id = customer["invoice_settings"]["default_payment_method"]
    return StripeCustomer(planned, stripe_id, method_id)
