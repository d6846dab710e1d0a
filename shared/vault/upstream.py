"""The way to Stripe with the real key. Imported lazily: it costs a third of a second."""

from __future__ import annotations

from collections.abc import Mapping

from shared.ports import NoResponse, StripeResponse
from shared.stripe_http import WatchedClient
from shared.vault.incoming import FORM


class StripeUpstream:
    """Implements the port `Upstream`.

    Args:
        api_key: the real one; never logged, never returned.
        api_base: where Stripe is.
        connect_timeout_seconds: for a connection.
        read_timeout_seconds: the longest silence.
        deadline_seconds: for the whole call; shorter than what callers wait, so that they hear of
            it.
    """

    def __init__(
        self,
        api_key: str,
        api_base: str,
        connect_timeout_seconds: float,
        read_timeout_seconds: float,
        deadline_seconds: float,
    ) -> None:
        self._authorization = f"Bearer {api_key}"
        self._api_base = api_base.rstrip("/")
        self._deadline_seconds = deadline_seconds
        self._http = WatchedClient(connect_timeout_seconds, read_timeout_seconds)

    def send(
        self, method: str, path: str, form: str, headers: Mapping[str, str]
    ) -> StripeResponse | NoResponse:
        """See `Upstream.send`."""
        sent = {**headers, "authorization": self._authorization, "accept-encoding": "identity"}
        url, body = f"{self._api_base}{path}", None
        if method == "GET":
            url += f"?{form}" if form else ""
        else:
            sent["content-type"] = FORM
            body = form
        return self._http.exchange(method, url, sent, body, self._deadline_seconds)

    def close(self) -> None:
        """Close the pooled connections."""
        self._http.close()
