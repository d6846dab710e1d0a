"""The consumers that one usually finds in front of Stripe, faults and all.

Each is what its advocates describe, over the real SDK and a real database. Where they name an
exception of Stripe's SDK that does not exist (`Timeout`), the one that is raised stands here.
"""

import hashlib
import json
import logging
from collections.abc import Callable
from typing import Any, Final

import stripe

from local.usual_recipe.message import Message
from local.usual_recipe.records import BillingRecords

READ_TIMEOUT_SECONDS: Final = 30.0
KEY_LENGTH: Final = 32

_logger = logging.getLogger(__name__)

Key = Callable[[Message], str | None]
"""Makes the idempotency key of a delivery; None sends none."""


def no_key(_: Message) -> None:
    """Every delivery is a new request to Stripe."""


def key_from_message_id(message: Message) -> str:
    """The same for each redelivery of a message; another one for a copy under a new id."""
    return f"charge-{message.message_id}"


def connect_stripe(
    api_key: str, api_base: str, read_timeout_seconds: float = READ_TIMEOUT_SECONDS
) -> stripe.StripeClient:
    """Stripe's client as its documentation sets it up.

    Args:
        api_key: a secret or restricted key.
        api_base: where Stripe is.
        read_timeout_seconds: how long a request may take.
    """
    return stripe.StripeClient(
        api_key,
        base_addresses={"api": api_base},
        http_client=stripe.RequestsClient(timeout=read_timeout_seconds),
    )


class UnsafeConsumer:
    """Charges, then acknowledges; after any error it has the message delivered again at once.

    Args:
        client: Stripe's.
        key: makes the idempotency key.
    """

    def __init__(self, client: stripe.StripeClient, key: Key = no_key) -> None:
        self._client = client
        self._key = key

    def handle(self, message: Message) -> None:
        """Handle one delivery.

        Raises:
            Exception: the event cannot be read; what becomes of the message is up to the broker.
        """
        event = json.loads(message.body)
        try:
            _charge(self._client, event, self._key(message))
        except stripe.StripeError as error:
            _logger.info("%s: delivering it again", type(error).__name__)
            message.give_back()
        else:
            message.complete()


class SafeConsumer:
    """Looks for a record, charges under a key of business fields, writes the record, acknowledges.

    Args:
        client: Stripe's.
        records: what it looks into first, and writes before it acknowledges.
        namespace: the part of the key that names the pipeline; usually another one for each cloud.
    """

    def __init__(
        self, client: stripe.StripeClient, records: BillingRecords, namespace: str
    ) -> None:
        self._client = client
        self._records = records
        self._namespace = namespace

    def handle(self, message: Message) -> None:
        """Handle one delivery. An error of any kind but a decline leaves the message."""
        try:
            self._bill(message)
        except Exception as error:  # noqa: BLE001 (as the recipe has it)
            _logger.info("%s: leaving it", type(error).__name__)
            message.leave()

    def _bill(self, message: Message) -> None:
        event = json.loads(message.body)
        customer_id, billing_period = event["customer_id"], event["billing_period"]
        amount_cents = event["amount_cents"]
        if self._records.status(customer_id, billing_period) is None:
            key = business_key(customer_id, billing_period, self._namespace)
            try:
                charge = _charge(self._client, event, key)
            except stripe.CardError:
                self._records.write(customer_id, billing_period, amount_cents, "declined")
            else:
                self._records.write(customer_id, billing_period, amount_cents, "charged", charge.id)
        message.complete()


def business_key(customer_id: str, billing_period: str, namespace: str) -> str:
    """The same for every delivery of a customer's period, whatever the message is called."""
    joined = f"{customer_id}:{billing_period}:{namespace}"
    return hashlib.sha256(joined.encode()).hexdigest()[:KEY_LENGTH]


def _charge(client: stripe.StripeClient, event: Any, key: str | None) -> stripe.Charge:
    return client.v1.charges.create(
        {
            "amount": event["amount_cents"],
            "currency": event.get("currency", "usd"),
            "customer": event["stripe_customer_id"],
            "description": f"Usage in {event['billing_period']}",
        },
        {"idempotency_key": key} if key else {},
    )
