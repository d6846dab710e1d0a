"""The requests that the core sends to Stripe."""

from __future__ import annotations

from collections.abc import Mapping

from shared.event import UsageEvent
from shared.ports import StripeRequest
from shared.record import Flow, Record

LIST_PAGE_SIZE = 100


def create_parameters(event: UsageEvent, key: str, flow: Flow) -> dict[str, str]:
    """The exact form of the create request, to be stored with the first claim of an attempt.

    Args:
        event: the event that asks for the attempt.
        key: the record's idempotency key; written to the payment's metadata.
        flow: which API is charged through.
    """
    parameters = {
        "amount": str(event.amount_cents),
        "currency": event.currency,
        "customer": event.stripe_customer_id,
        "metadata[chargeonce_key]": key,
        "metadata[attempt]": str(event.attempt),
        "metadata[customer_id]": event.customer_id,
        "metadata[billing_period]": event.billing_period,
    }
    if event.description is not None:
        parameters["description"] = event.description
    if flow is Flow.PAYMENT_INTENT:
        # Else confirm demands a return_url for accounts with redirecting payment methods.
        parameters["automatic_payment_methods[enabled]"] = "true"
        parameters["automatic_payment_methods[allow_redirects]"] = "never"
    elif event.payment_method_id is not None:
        parameters["source"] = event.payment_method_id
    return parameters


def create_intent(record: Record, number: int) -> StripeRequest:
    """Create an unconfirmed PaymentIntent, which moves no money.

    Args:
        record: the claimed record.
        number: 0 at first; a higher one asks for another PaymentIntent under another key.
    """
    suffix = f":{number}" if number else ""
    key = f"{record.key}:create:{record.attempt}{suffix}"
    return StripeRequest("post", "/v1/payment_intents", record.create_parameters, key)


def read_intent(payment_id: str) -> StripeRequest:
    """Read a PaymentIntent."""
    return StripeRequest("get", f"/v1/payment_intents/{payment_id}")


def confirm_intent(record: Record, payment_id: str, payment_method_id: str) -> StripeRequest:
    """Confirm the stored PaymentIntent: the one request that moves money in the two-step flow."""
    parameters = {"off_session": "true", "payment_method": payment_method_id}
    key = f"{record.key}:confirm:{record.fence}"
    return StripeRequest("post", f"/v1/payment_intents/{payment_id}/confirm", parameters, key)


def cancel_intent(record: Record, payment_id: str) -> StripeRequest:
    """Cancel the stored PaymentIntent, so that no confirm on its way can succeed any more."""
    key = f"{record.key}:cancel:{record.fence}"
    return StripeRequest("post", f"/v1/payment_intents/{payment_id}/cancel", {}, key)


def cancel_orphan(key: str, payment_id: str) -> StripeRequest:
    """Cancel a PaymentIntent that no record names.

    Args:
        key: the key of the record that it was made for.
        payment_id: the PaymentIntent.
    """
    path = f"/v1/payment_intents/{payment_id}/cancel"
    return StripeRequest("post", path, {}, f"{key}:sweep:{payment_id}")


def create_charge(record: Record) -> StripeRequest:
    """Charge through the older API: the one request that moves money in the one-step flow."""
    key = record.key if record.attempt == 1 else f"{record.key}:{record.attempt}"
    return StripeRequest("post", "/v1/charges", record.create_parameters, key)


def read_charge(payment_id: str) -> StripeRequest:
    """Read a charge."""
    return StripeRequest("get", f"/v1/charges/{payment_id}")


def list_charges(
    stripe_customer_id: str, created_since: int, starting_after: str | None
) -> StripeRequest:
    """List a customer's charges, newest first.

    Args:
        stripe_customer_id: whose.
        created_since: Unix time in seconds.
        starting_after: the last id of the page before; None for the first page.
    """
    parameters: Mapping[str, str] = {
        "customer": stripe_customer_id,
        "created[gte]": str(created_since),
        "limit": str(LIST_PAGE_SIZE),
        **({"starting_after": starting_after} if starting_after else {}),
    }
    return StripeRequest("get", "/v1/charges", parameters)


def read_customer(stripe_customer_id: str) -> StripeRequest:
    """Read a customer, for the default payment method."""
    return StripeRequest("get", f"/v1/customers/{stripe_customer_id}")


def read_account() -> StripeRequest:
    """Read the account that the API key belongs to."""
    return StripeRequest("get", "/v1/account")
