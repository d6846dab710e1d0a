"""The objects as Stripe's API shows them."""

from collections.abc import Callable, Iterable

from local.stripe_simulator.behaviours import MethodType, advice_code, decline_message, error_code
from local.stripe_simulator.records import (
    Charge,
    Customer,
    Dispute,
    Instrument,
    PaymentIntent,
    Refund,
    Scope,
)
from local.stripe_simulator.wire import JsonObject

_EMPTY_ADDRESS = {
    "city": None,
    "country": None,
    "line1": None,
    "line2": None,
    "postal_code": None,
    "state": None,
}

_EVIDENCE_SECONDS = 20 * 24 * 3600
_EVIDENCE = (
    "access_activity_log",
    "appeal",
    "billing_address",
    "cancellation_policy",
    "cancellation_policy_disclosure",
    "cancellation_rebuttal",
    "customer_communication",
    "customer_email_address",
    "customer_name",
    "customer_purchase_ip",
    "customer_signature",
    "duplicate_charge_documentation",
    "duplicate_charge_explanation",
    "duplicate_charge_id",
    "product_description",
    "receipt",
    "refund_policy",
    "refund_policy_disclosure",
    "refund_refusal_explanation",
    "service_date",
    "service_documentation",
    "shipping_address",
    "shipping_carrier",
    "shipping_date",
    "shipping_documentation",
    "shipping_tracking_number",
    "uncategorized_file",
    "uncategorized_text",
)


def render_intent(intent: PaymentIntent, scope: Scope) -> JsonObject:
    """Return a PaymentIntent. It carries the client secret, as Stripe's answers do."""
    echoed = intent.echoed
    return {
        "id": intent.id,
        "object": "payment_intent",
        "allowed_payment_method_types": intent.allowed_payment_method_types,
        "amount": intent.amount,
        "amount_capturable": intent.amount_capturable,
        "amount_details": {"tip": {}},
        "amount_received": intent.amount_received,
        "application": None,
        "application_fee_amount": echoed.get("application_fee_amount"),
        "automatic_payment_methods": intent.automatic_payment_methods,
        "canceled_at": intent.canceled_at,
        "cancellation_reason": intent.cancellation_reason,
        "capture_method": intent.capture_method,
        "client_secret": intent.client_secret,
        "confirmation_method": intent.confirmation_method,
        "created": intent.created,
        "currency": intent.currency,
        "customer": intent.customer,
        "description": intent.description,
        "excluded_payment_method_types": None,
        "last_payment_error": intent.last_payment_error,
        "latest_charge": intent.latest_charge,
        "livemode": scope.livemode,
        "metadata": intent.metadata,
        "next_action": intent.next_action,
        "on_behalf_of": echoed.get("on_behalf_of"),
        "payment_method": intent.payment_method,
        "payment_method_configuration_details": None,
        "payment_method_options": {
            "card": {
                "installments": None,
                "mandate_options": None,
                "network": None,
                "request_three_d_secure": "automatic",
            }
        },
        "payment_method_types": intent.payment_method_types,
        "processing": None,
        "receipt_email": echoed.get("receipt_email"),
        "review": None,
        "setup_future_usage": echoed.get("setup_future_usage"),
        "shipping": echoed.get("shipping"),
        "source": intent.source,
        "statement_descriptor": echoed.get("statement_descriptor"),
        "statement_descriptor_suffix": echoed.get("statement_descriptor_suffix"),
        "status": intent.status,
        "transfer_data": echoed.get("transfer_data"),
        "transfer_group": echoed.get("transfer_group"),
    }


def render_charge(charge: Charge, scope: Scope) -> JsonObject:
    """Return a charge."""
    instrument = charge.instrument
    echoed = charge.echoed
    failed = charge.status == "failed"
    code = charge.decline_code or "generic_decline"
    return {
        "id": charge.id,
        "object": "charge",
        "amount": charge.amount,
        "amount_captured": charge.amount_captured,
        "amount_refunded": charge.amount_refunded,
        "application": None,
        "application_fee": None,
        "application_fee_amount": echoed.get("application_fee_amount"),
        "balance_transaction": charge.balance_transaction,
        "billing_details": _billing_details(instrument),
        "calculated_statement_descriptor": "CHARGEONCE",
        "captured": charge.captured,
        "created": charge.created,
        "currency": charge.currency,
        "customer": charge.customer,
        "description": charge.description,
        "disputed": charge.disputed,
        "failure_balance_transaction": None,
        "failure_code": error_code(code) if failed else None,
        "failure_message": decline_message(code) if failed else None,
        "fraud_details": {},
        "livemode": scope.livemode,
        "metadata": charge.metadata,
        "on_behalf_of": echoed.get("on_behalf_of"),
        "outcome": _outcome(charge, code),
        "paid": charge.status == "succeeded",
        "payment_intent": charge.payment_intent,
        "payment_method": instrument.id,
        "payment_method_details": _payment_method_details(instrument),
        "presentment_details": None,
        "receipt_email": echoed.get("receipt_email"),
        "receipt_number": None,
        "receipt_url": None if failed else f"https://pay.stripe.com/receipts/{charge.id}",
        "refunded": 0 < charge.amount <= charge.amount_refunded,
        "review": None,
        "shipping": echoed.get("shipping"),
        "source": render_card(instrument) if instrument.is_source else None,
        "source_transfer": None,
        "statement_descriptor": echoed.get("statement_descriptor"),
        "statement_descriptor_suffix": echoed.get("statement_descriptor_suffix"),
        "status": charge.status,
        "transfer_data": echoed.get("transfer_data"),
        "transfer_group": echoed.get("transfer_group"),
    }


def render_customer(customer: Customer, scope: Scope) -> JsonObject:
    """Return a customer, or the stub of a deleted one."""
    if customer.deleted:
        return {"id": customer.id, "object": "customer", "deleted": True}
    return {
        "id": customer.id,
        "object": "customer",
        "address": None,
        "balance": 0,
        "created": customer.created,
        "currency": None,
        "default_source": customer.default_source,
        "delinquent": False,
        "description": customer.description,
        "discount": None,
        "email": customer.email,
        "invoice_prefix": customer.invoice_prefix,
        "invoice_settings": {
            "custom_fields": None,
            "default_payment_method": customer.default_payment_method,
            "footer": None,
            "rendering_options": None,
        },
        "livemode": scope.livemode,
        "metadata": customer.metadata,
        "name": customer.name,
        "next_invoice_sequence": 1,
        "phone": customer.phone,
        "preferred_locales": [],
        "shipping": None,
        "tax_exempt": "none",
        "test_clock": None,
    }


def render_instrument(instrument: Instrument, scope: Scope) -> JsonObject:
    """Return a payment method; a legacy card is shown as one of type card."""
    method_type = instrument.issued.method_type
    return {
        "id": instrument.id,
        "object": "payment_method",
        "allow_redisplay": "unspecified",
        "billing_details": _billing_details(instrument),
        method_type.value: _METHOD_DETAILS[method_type](instrument),
        "created": instrument.created,
        "customer": instrument.customer,
        "livemode": scope.livemode,
        "metadata": instrument.metadata,
        "type": method_type.value,
    }


def render_card(instrument: Instrument) -> JsonObject:
    """Return a legacy card."""
    issued = instrument.issued
    return {
        "id": instrument.id,
        "object": "card",
        "address_city": None,
        "address_country": None,
        "address_line1": None,
        "address_line1_check": None,
        "address_line2": None,
        "address_state": None,
        "address_zip": None,
        "address_zip_check": None,
        "brand": issued.brand.capitalize(),
        "country": "US",
        "customer": instrument.customer,
        "cvc_check": "pass",
        "dynamic_last4": None,
        "exp_month": instrument.exp_month,
        "exp_year": instrument.exp_year,
        "fingerprint": instrument.fingerprint,
        "funding": issued.funding,
        "last4": issued.last4,
        "metadata": instrument.metadata,
        "name": instrument.billing_name,
        "tokenization_method": None,
    }


def render_refund(refund: Refund) -> JsonObject:
    """Return a refund."""
    return {
        "id": refund.id,
        "object": "refund",
        "amount": refund.amount,
        "balance_transaction": refund.balance_transaction,
        "charge": refund.charge,
        "created": refund.created,
        "currency": refund.currency,
        "destination_details": {
            "card": {
                "reference_status": "pending",
                "reference_type": "acquirer_reference_number",
                "type": "refund",
            },
            "type": "card",
        },
        "metadata": refund.metadata,
        "payment_intent": refund.payment_intent,
        "reason": refund.reason,
        "receipt_number": None,
        "source_transfer_reversal": None,
        "status": "succeeded",
        "transfer_reversal": None,
    }


def render_dispute(dispute: Dispute, scope: Scope) -> JsonObject:
    """Return a dispute. Nobody has handed in evidence."""
    return {
        "id": dispute.id,
        "object": "dispute",
        "amount": dispute.amount,
        "balance_transactions": [],
        "charge": dispute.charge,
        "created": dispute.created,
        "currency": dispute.currency,
        "enhanced_eligibility_types": [],
        "evidence": {**dict.fromkeys(_EVIDENCE), "enhanced_evidence": {}},
        "evidence_details": {
            "due_by": dispute.created + _EVIDENCE_SECONDS,
            "enhanced_eligibility": {},
            "has_evidence": False,
            "past_due": False,
            "submission_count": 0,
            "submission_method": "manual",
        },
        "intended_submission_method": None,
        "is_charge_refundable": dispute.status.startswith("warning_"),
        "livemode": scope.livemode,
        "metadata": dispute.metadata,
        "network_reason_code": None,
        "payment_intent": dispute.payment_intent,
        "payment_method_details": _disputed_card(dispute),
        "reason": dispute.reason,
        "status": dispute.status,
    }


def render_account(scope: Scope) -> JsonObject:
    """Return the account itself."""
    return {
        "id": scope.account,
        "object": "account",
        "business_profile": {"name": "Simulated account", "url": None},
        "business_type": "company",
        "capabilities": {"card_payments": "active", "transfers": "active"},
        "charges_enabled": True,
        "country": "US",
        "created": 1577836800,
        "default_currency": "usd",
        "details_submitted": True,
        "email": "owner@example.com",
        "metadata": {},
        "payouts_enabled": True,
        "type": "standard",
    }


def render_list(url: str, data: Iterable[JsonObject], has_more: bool) -> JsonObject:
    """Return a page of a list."""
    return {"object": "list", "data": list(data), "has_more": has_more, "url": url}


def decline_details(decline_code: str) -> JsonObject:
    """Return the fields of an error object that describe a decline."""
    details: JsonObject = {"decline_code": decline_code}
    advice = advice_code(decline_code)
    if advice is not None:
        details["advice_code"] = advice
    return details


def _billing_details(instrument: Instrument) -> JsonObject:
    return {
        "address": _EMPTY_ADDRESS,
        "email": instrument.billing_email,
        "name": instrument.billing_name,
        "phone": None,
        "tax_id": None,
    }


def _outcome(charge: Charge, decline_code: str) -> JsonObject | None:
    if charge.status == "pending":
        return None
    failed = charge.status == "failed"
    return {
        "advice_code": advice_code(decline_code) if failed else None,
        "network_advice_code": None,
        "network_decline_code": None,
        "network_status": "declined_by_network" if failed else "approved_by_network",
        "reason": decline_code if failed else None,
        "risk_level": "normal",
        "risk_score": 12,
        "seller_message": (
            "The bank did not return any further details with this decline."
            if failed
            else "Payment complete."
        ),
        "type": "issuer_declined" if failed else "authorized",
    }


def _disputed_card(dispute: Dispute) -> JsonObject | None:
    if dispute.card_brand is None:
        return None
    is_inquiry = dispute.status.startswith("warning_")
    card = {
        "brand": dispute.card_brand,
        "case_type": "inquiry" if is_inquiry else "chargeback",
        "network": dispute.card_brand,
        "network_reason_code": None,
    }
    return {"card": card, "type": "card"}


def _payment_method_details(instrument: Instrument) -> JsonObject:
    method_type = instrument.issued.method_type
    return {
        "type": method_type.value,
        method_type.value: _CHARGED_DETAILS[method_type](instrument),
    }


def _card_details(instrument: Instrument) -> JsonObject:
    issued = instrument.issued
    return {
        "brand": issued.brand,
        "checks": {
            "address_line1_check": None,
            "address_postal_code_check": None,
            "cvc_check": "pass",
        },
        "country": "US",
        "exp_month": instrument.exp_month,
        "exp_year": instrument.exp_year,
        "fingerprint": instrument.fingerprint,
        "funding": issued.funding,
        "last4": issued.last4,
        "wallet": None,
    }


def _saved_card_details(instrument: Instrument) -> JsonObject:
    return {
        **_card_details(instrument),
        "display_brand": instrument.issued.brand,
        "generated_from": None,
        "networks": {"available": [instrument.issued.brand], "preferred": None},
        "three_d_secure_usage": {"supported": True},
    }


def _charged_card_details(instrument: Instrument) -> JsonObject:
    return {
        **_card_details(instrument),
        "installments": None,
        "mandate": None,
        "network": instrument.issued.brand,
        "three_d_secure": None,
    }


def _bank_account_details(instrument: Instrument) -> JsonObject:
    return {
        "account_holder_type": "company",
        "account_type": instrument.issued.funding,
        "bank_name": instrument.issued.brand,
        "fingerprint": instrument.fingerprint,
        "last4": instrument.issued.last4,
        "routing_number": "110000000",
    }


def _sepa_details(instrument: Instrument) -> JsonObject:
    return {
        "bank_code": "37040044",
        "branch_code": None,
        "country": "DE",
        "fingerprint": instrument.fingerprint,
        "last4": instrument.issued.last4,
    }


_METHOD_DETAILS: dict[MethodType, Callable[[Instrument], JsonObject]] = {
    MethodType.CARD: _saved_card_details,
    MethodType.US_BANK_ACCOUNT: _bank_account_details,
    MethodType.SEPA_DEBIT: _sepa_details,
}
_CHARGED_DETAILS: dict[MethodType, Callable[[Instrument], JsonObject]] = {
    MethodType.CARD: _charged_card_details,
    MethodType.US_BANK_ACCOUNT: _bank_account_details,
    MethodType.SEPA_DEBIT: _sepa_details,
}
