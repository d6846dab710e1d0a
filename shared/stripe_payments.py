"""The payments port over stripe-python. Imported lazily: it costs a third of a second."""

from __future__ import annotations

import stripe

from shared.ports import NoResponse, StripeRequest, StripeResponse
from shared.stripe_http import WatchedClient, exchange_once

stripe.enable_telemetry = False  # it writes to the home directory, which a function may not have


class StripePayments:
    """Sends requests through the SDK and hands back what Stripe said, unread.

    The SDK builds the request (encoding, headers, API version). Its reading of the answer is not
    used: it raises a bare `AttributeError` for a spend-cap proxy's error, and a body that decides
    about money should be read in one place. See `shared.stripe_answers`.

    Args:
        api_key: the restricted or secret key; never logged.
        api_base: where Stripe is, without a trailing slash.
        connect_timeout_seconds: for a connection.
        read_timeout_seconds: the longest silence; the whole answer has its own deadline.
    """

    def __init__(
        self,
        api_key: str,
        api_base: str,
        connect_timeout_seconds: float,
        read_timeout_seconds: float,
    ) -> None:
        self._http = WatchedClient(connect_timeout_seconds, read_timeout_seconds)
        self._client = stripe.StripeClient(
            api_key,
            http_client=self._http,
            base_addresses={"api": api_base.rstrip("/")},
            max_network_retries=0,
        )

    def send(
        self, request: StripeRequest, timeout_seconds: float, vault_key: str | None = None
    ) -> StripeResponse | NoResponse:
        """See `Payments.send`."""
        options: dict[str, str] = {}
        if request.idempotency_key is not None:
            options["idempotency_key"] = request.idempotency_key
        if vault_key is not None:
            options["api_key"] = vault_key
        exchange = exchange_once(timeout_seconds)
        try:
            self._client.raw_request(
                request.method, request.path, **dict(request.parameters), **options
            )
        except Exception as error:  # noqa: BLE001 (the raw outcome decides, not the SDK's reading)
            if exchange.outcome is None:
                # The SDK failed before it called our client: nothing left the machine.
                return NoResponse(sent=False, problem=type(error).__name__)
        return exchange.outcome or NoResponse(sent=True, problem="no_outcome")

    def close(self) -> None:
        """Close the pooled connections."""
        self._http.close()
