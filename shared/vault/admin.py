"""The admin API: mint, list and revoke keys, and read the audit log. Behind a token of its own.

POST   /vault/keys               mint; the key is in this answer and nowhere else
GET    /vault/keys?label=        list
DELETE /vault/keys/{id}          revoke at once
GET    /vault/keys/{id}/calls    the audit log
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import parse_qs

from shared.ports import Clock
from shared.throttle import Throttle
from shared.vault.catalogue import is_pattern
from shared.vault.incoming import Incoming
from shared.vault.keys import KeyRequest, VaultKey, new_token
from shared.vault.ports import CallLine, VaultRecords
from shared.vault.proxy import Outgoing
from shared.vault.refusal import (
    BAD_REQUEST,
    TOO_MANY,
    UNAUTHORIZED,
    Refusal,
    RefusalCode,
)

CREATED = 201
OK = 200
NOT_FOUND = 404
MAX_LABEL_CHARACTERS = 200
MAX_ENDPOINTS = 50
MAX_CAP_CENTS = 10**12
MAX_LISTED = 1000
DEFAULT_LISTED = 100
REQUESTS_PER_SECOND = 20.0

_FIELDS = frozenset(
    {"vendor", "label", "daily_usd_cap", "total_usd_cap", "allowed_endpoints", "expires_at"}
)
_KEY_PATH = re.compile(r"/vault/keys/([0-9a-f]{16})(/calls)?")


class VaultAdmin:
    """Answers the admin API. Safe to share between threads.

    Args:
        records: the proxy's records.
        admin_token: what callers must present.
        clock: for the rate limit.
    """

    def __init__(self, records: VaultRecords, admin_token: str, clock: Clock) -> None:
        self._records = records
        self._token_hash = hashlib.sha256(admin_token.encode()).digest()
        self._throttle = Throttle(clock, REQUESTS_PER_SECOND)

    def answer(self, incoming: Incoming) -> Outgoing:
        """Answer one request.

        Raises:
            Refusal: it is not authorized, not understood, or comes too fast.
            RecordsUnavailable: the database is away.
        """
        # Before the token is looked at, so that it cannot be guessed fast.
        if not self._throttle.take():
            message = "Too many requests to the admin API."
            raise Refusal(TOO_MANY, RefusalCode.TOO_MANY_REQUESTS, message)
        self._authenticate(incoming.headers)
        return self._route(incoming)

    def _authenticate(self, headers: Mapping[str, str]) -> None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        presented = hashlib.sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        if scheme.lower() != "bearer" or not hmac.compare_digest(presented, self._token_hash):
            message = "The admin API needs its own token, as the bearer token."
            raise Refusal(UNAUTHORIZED, RefusalCode.KEY_INVALID, message)

    def _route(self, incoming: Incoming) -> Outgoing:
        if incoming.path == "/vault/keys":
            if incoming.method == "POST":
                return self._mint(incoming.body)
            if incoming.method == "GET":
                return self._list(incoming.query)
        found = _KEY_PATH.fullmatch(incoming.path)
        if found and found[2] and incoming.method == "GET":
            return self._list_calls(found[1], incoming.query)
        if found and not found[2] and incoming.method == "DELETE":
            return self._revoke(found[1])
        message = f"There is no {incoming.method} {incoming.path[:100]} here."
        raise Refusal(NOT_FOUND, RefusalCode.ENDPOINT_NOT_ALLOWED, message)

    def _mint(self, body: bytes) -> Outgoing:
        token = new_token()
        key = self._records.create_key(token, read_key_request(body))
        return _json(CREATED, {**_key_document(key), "vault_key": token.text})

    def _list(self, query: str) -> Outgoing:
        asked = _query(query)
        keys = self._records.list_keys(asked.get("label"), _limit(asked))
        return _json(OK, {"data": [_key_document(key) for key in keys]})

    def _revoke(self, key_id: str) -> Outgoing:
        if not self._records.revoke_key(key_id):
            raise Refusal(NOT_FOUND, RefusalCode.KEY_INVALID, f"There is no key {key_id}.")
        return _json(OK, {"id": key_id, "revoked": True})

    def _list_calls(self, key_id: str, query: str) -> Outgoing:
        asked = _query(query)
        before = _moment(asked["before"], "before") if "before" in asked else None
        lines = self._records.list_calls(key_id, before, _limit(asked))
        return _json(OK, {"data": [_call_document(line) for line in lines]})


def read_key_request(body: bytes) -> KeyRequest:
    """Read what a new key may do.

    Raises:
        Refusal: names the field that is wrong.
    """
    asked = _object(body)
    for name in asked:
        if name not in _FIELDS:
            raise _field(name, "is not known")
    if asked.get("vendor", "stripe") != "stripe":
        raise _field("vendor", "must be stripe")
    label = asked.get("label")
    if not isinstance(label, str) or not 0 < len(label) <= MAX_LABEL_CHARACTERS:
        raise _field("label", f"must be a text of 1 to {MAX_LABEL_CHARACTERS} characters")
    if not label.isprintable():
        raise _field("label", "must be printable")
    total = asked.get("total_usd_cap")
    return KeyRequest(
        label=label,
        allowed_endpoints=_endpoints(asked.get("allowed_endpoints")),
        daily_cap_cents=_cents(asked.get("daily_usd_cap"), "daily_usd_cap"),
        total_cap_cents=None if total is None else _cents(total, "total_usd_cap"),
        expires_at=_moment(asked.get("expires_at"), "expires_at"),
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body, parse_float=Decimal, parse_int=Decimal)
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        message = "The body must be a JSON object."
        raise Refusal(BAD_REQUEST, RefusalCode.BODY_NOT_ALLOWED, message)
    return asked


def _endpoints(value: object) -> tuple[str, ...]:
    paths = value if isinstance(value, list) and len(value) <= MAX_ENDPOINTS else []
    if not paths or not all(isinstance(path, str) and is_pattern(path) for path in paths):
        raise _field("allowed_endpoints", "must be a list of paths such as /v1/charges")
    return tuple(paths)


def _cents(value: object, name: str) -> int:
    try:
        cents = value * 100 if isinstance(value, Decimal) else Decimal("NaN")
        whole = int(cents) if cents == cents.to_integral_value() else 0
    except (InvalidOperation, ValueError, OverflowError):
        whole = 0
    if not 0 < whole <= MAX_CAP_CENTS:
        raise _field(name, "must be an amount in dollars above zero, with at most two decimals")
    return whole


def _moment(value: object, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise _field(name, "must be a moment such as 2026-11-30T18:00:00Z")
    return moment.astimezone(UTC)


def _query(query: str) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(query, max_num_fields=10).items()}


def _limit(asked: Mapping[str, str]) -> int:
    text = asked.get("limit", str(DEFAULT_LISTED))
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 0 < int(text) <= MAX_LISTED):
        raise _field("limit", f"must be 1 to {MAX_LISTED}")
    return int(text)


def _field(name: str, problem: str) -> Refusal:
    shown = name[:100]
    message = f"{shown} {problem}."
    return Refusal(BAD_REQUEST, RefusalCode.PARAMETER_INVALID, message, {"param": shown})


def _key_document(key: VaultKey) -> dict[str, object]:
    return {
        "id": key.key_id,
        "label": key.label,
        "allowed_endpoints": list(key.allowed_endpoints),
        "daily_usd_cap": _dollars(key.daily_cap_cents),
        "total_usd_cap": None if key.total_cap_cents is None else _dollars(key.total_cap_cents),
        "spent_today_usd": _dollars(key.day_cents),
        "held_usd": _dollars(key.held_cents),
        "spent_usd": _dollars(key.spent_cents),
        "expires_at": key.expires_at.isoformat(),
        "created_at": key.created_at.isoformat(),
        "revoked_at": key.revoked_at.isoformat() if key.revoked_at else None,
    }


def _call_document(line: CallLine) -> dict[str, object]:
    return {
        "id": line.call_id,
        "time": line.called_at.isoformat(),
        "key": line.key_id,
        "endpoint": line.endpoint,
        "amount_cents": line.amount_cents,
        "verdict": line.verdict,
        "effect": line.effect,
        "status": line.status,
        "request_id": line.request_id,
        "latency_milliseconds": line.milliseconds,
    }


def _dollars(cents: int) -> float:
    return cents / 100


def _json(status: int, document: Mapping[str, object]) -> Outgoing:
    headers = {"content-type": "application/json", "cache-control": "no-store"}
    return Outgoing(status, headers, json.dumps(document).encode())
