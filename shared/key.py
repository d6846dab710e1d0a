"""The idempotency key: business fields only, the same over both clouds and every delivery."""

from __future__ import annotations

import hashlib

KEY_LENGTH = 32


def idempotency_key(customer_id: str, billing_period: str, namespace: str) -> str:
    """Return the key of the one charge that a customer gets for a period.

    Nothing of the envelope or the transport is in it, so a redelivery, a resubmission under a new
    message id and the same event through the other cloud all give the same key. Neither the period
    nor the namespace may hold a colon, which keeps the joined string unambiguous.

    Args:
        customer_id: the customer, as the event names it.
        billing_period: the period, as the event names it.
        namespace: the setting `BILLING_KEY_NAMESPACE`.
    """
    identity = f"{customer_id}:{billing_period}:{namespace}"
    return hashlib.sha256(identity.encode()).hexdigest()[:KEY_LENGTH]
