"""The idempotency key: business fields only, the same over both clouds and every delivery."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

KEY_LENGTH = 32


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The namespaces that keys in one Stripe account may have been made under.

    Args:
        present: the setting `BILLING_KEY_NAMESPACE`.
        former: `BILLING_FORMER_NAMESPACES`: what this deployment's setting was before.
        others: `BILLING_OTHER_NAMESPACES`: those of other deployments that bill in this account.
    """

    present: str
    former: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def is_ours(self, key: str, customer_id: str, billing_period: str) -> bool | None:
        """Whether this deployment made a customer's key; None when nobody knows who did."""
        for names, answer in (((self.present, *self.former), True), (self.others, False)):
            if any(key == idempotency_key(customer_id, billing_period, name) for name in names):
                return answer
        return None


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
