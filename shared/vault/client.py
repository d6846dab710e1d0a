"""The client of the mint contract that the hosted service and this project's proxy share.

It sends every request once: a mint that is sent again is another key. Imported lazily: the wire
under it costs a third of a second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from shared.errors import VaultRefused, VaultUnavailable
from shared.ports import NoResponse, StripeResponse
from shared.stripe_http import WatchedClient
from shared.vault.keys import TOKEN_PREFIX, KeyRequest
from shared.vault.service import ListedKey, MintedKey

DEADLINE_SECONDS = 20.0
MAX_LISTED = 1000
MAX_PROBLEM_CHARACTERS = 200
TOTAL_CAP = "total_usd_cap"

_NOT_FOUND = 404
_NO_SUCH_ENDPOINT = (404, 405, 501)
_INVALID = (400, 422)
_SECRET = re.compile(rf"{TOKEN_PREFIX}\S+")


class VaultClient:
    """Implements the port `VaultService`. Safe for threads.

    Args:
        base_url: where the service is; `/vault/keys` is below it.
        api_key: the service's API key, or our proxy's admin token; never logged, never in an error.
        deadline_seconds: for one whole call.
    """

    def __init__(
        self, base_url: str, api_key: str, deadline_seconds: float = DEADLINE_SECONDS
    ) -> None:
        self._keys_url = f"{base_url.rstrip('/')}/vault/keys"
        self._api_key = api_key
        self._deadline_seconds = deadline_seconds
        self._http = WatchedClient(deadline_seconds, deadline_seconds)

    def close(self) -> None:
        """Close the pooled connections."""
        self._http.close()

    def mint(self, request: KeyRequest) -> MintedKey:
        """See `VaultService.mint`.

        A service that does not know a total cap is asked again without: having refused the field,
        it has made no key.
        """
        try:
            made = self._call("POST", "", _mint_document(request))
        except VaultRefused as error:
            if request.total_cap_cents is None or not _refuses_total_cap(error):
                raise
            made = self._call("POST", "", _mint_document(replace(request, total_cap_cents=None)))
        key_id, text = _text_of(made.get("id", made.get("key_id"))), made.get("vault_key")
        if key_id is None or not isinstance(text, str) or not text.startswith(TOKEN_PREFIX):
            raise VaultUnavailable("the vault's answer to a mint holds no key; one may be live")
        return MintedKey(key_id, text)

    def list_keys(self, label: str | None) -> Sequence[ListedKey] | None:
        """See `VaultService.list_keys`."""
        query = {"limit": str(MAX_LISTED), **({"label": label} if label is not None else {})}
        listed = self._list(f"?{urlencode(query)}")
        if listed is None:
            return None
        keys = [key for key in map(_read_key, listed) if key is not None]
        # Not left to the service: a key of another run must never be taken for one of this.
        return [key for key in keys if label is None or key.label == label]

    def revoke(self, key_id: str) -> bool:
        """See `VaultService.revoke`."""
        try:
            self._call("DELETE", f"/{quote(key_id, safe='')}")
        except VaultRefused as error:
            if error.status != _NOT_FOUND:
                raise
            return False
        return True

    def list_calls(self, key_id: str, limit: int) -> Sequence[Mapping[str, Any]] | None:
        """See `VaultService.list_calls`."""
        return self._list(f"/{quote(key_id, safe='')}/calls?limit={limit:d}")

    def _list(self, target: str) -> Sequence[Mapping[str, Any]] | None:
        try:
            data = self._call("GET", target).get("data")
        except VaultRefused as error:
            if error.status not in _NO_SUCH_ENDPOINT:
                raise
            return None
        if not isinstance(data, list) or not all(isinstance(each, dict) for each in data):
            raise VaultUnavailable("the vault's list cannot be read")
        return data

    def _call(
        self, method: str, target: str, document: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """Send one request and never again.

        Returns:
            The answer's object; an empty one where the answer has no body.
        """
        headers = {"authorization": f"Bearer {self._api_key}", "accept": "application/json"}
        body = None
        if document is not None:
            headers["content-type"] = "application/json"
            body = json.dumps(document)
        url = f"{self._keys_url}{target}"
        response = self._http.exchange(method, url, headers, body, self._deadline_seconds)
        if isinstance(response, NoResponse):
            raise VaultUnavailable(f"the vault gave no answer to {method} ({response.problem})")
        return self._read(method, response)

    def _read(self, method: str, response: StripeResponse) -> Mapping[str, Any]:
        status, found = response.status, _object(response.body)
        if 400 <= status < 500:
            problem, parameter = _read_error(found or {})
            text = _SECRET.sub("...", problem.replace(self._api_key, "..."))
            said = f"{status}: {text}" if text else str(status)
            raise VaultRefused(f"the vault refused {method} ({said})", status, parameter)
        if not 200 <= status < 300:
            raise VaultUnavailable(f"the vault answered {method} with HTTP {status}")
        if found is None and response.body.strip():
            raise VaultUnavailable(f"the vault's answer to {method} is not a JSON object")
        return found or {}


def _mint_document(request: KeyRequest) -> Mapping[str, Any]:
    expires_at = request.expires_at.astimezone(UTC).isoformat(timespec="seconds")
    document: dict[str, Any] = {
        "vendor": "stripe",
        "label": request.label,
        "daily_usd_cap": request.daily_cap_cents / 100,
        "allowed_endpoints": list(request.allowed_endpoints),
        "expires_at": expires_at.replace("+00:00", "Z"),
    }
    if request.total_cap_cents is not None:
        document[TOTAL_CAP] = request.total_cap_cents / 100
    return document


def _refuses_total_cap(error: VaultRefused) -> bool:
    named = error.parameter == TOTAL_CAP or TOTAL_CAP in str(error)
    return named and error.status in _INVALID


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _read_error(document: Mapping[str, Any]) -> tuple[str, str | None]:
    """The problem and the field at fault, from either shape: ours is Stripe's, theirs a text."""
    error = document.get("error")
    if isinstance(error, dict):
        problem, parameter = error.get("message"), _text_of(error.get("param"))
    else:
        problem, parameter = error, None
    text = problem if isinstance(problem, str) else ""
    return "".join(filter(str.isprintable, text))[:MAX_PROBLEM_CHARACTERS], parameter


def _read_key(document: Mapping[str, Any]) -> ListedKey | None:
    key_id = _text_of(document.get("id", document.get("key_id")))
    if key_id is None:
        return None
    return ListedKey(
        key_id=key_id,
        label=_text_of(document.get("label")) or "",
        daily_cap_cents=_cents(document.get("daily_usd_cap")),
        total_cap_cents=_cents(document.get(TOTAL_CAP)),
        held_cents=_cents(document.get("held_usd")),
        spent_cents=_cents(document.get("spent_usd")),
        spent_today_cents=_cents(document.get("spent_today_usd")),
        expires_at=_moment(document.get("expires_at")),
        created_at=_moment(document.get("created_at")),
        revoked_at=_moment(document.get("revoked_at")),
    )


def _text_of(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def _cents(value: object) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return round(value * 100) if is_number else None  # type: ignore[operator]


def _moment(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC) if moment is not None else None
