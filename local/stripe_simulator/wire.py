"""What goes in and out of the simulated Stripe: requests, responses, how an answer travels."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias
from urllib.parse import urlencode

JsonObject: TypeAlias = dict[str, Any]

DEFAULT_API_VERSION = "2026-10-28.endive"

_ENCODE_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class DeliveryKind(StrEnum):
    """How an answer reaches the client, or fails to."""

    WHOLE = "whole"
    RESET = "reset"
    CLOSE = "close"
    HANG = "hang"
    TRUNCATED = "truncated"
    DRIP_BODY = "drip_body"
    DRIP_HEADERS = "drip_headers"


@dataclass(frozen=True, slots=True)
class Delivery:
    """The fate of one answer on its way to the client.

    `wait_seconds` passes before the first byte is sent. `interval_seconds` is the pause between
    two bytes of a dripping answer. A hang or a dripping answer is cut off after
    `limit_seconds`.
    """

    kind: DeliveryKind = DeliveryKind.WHOLE
    wait_seconds: float = 0.0
    interval_seconds: float = 0.0
    limit_seconds: float = 0.0


WHOLE = Delivery()


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request as Stripe sees it. Header names are lower case."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def build(
        cls,
        method: str,
        path: str,
        form: Mapping[str, object] | None = None,
        *,
        api_key: str = "sk_test_simulator",
        idempotency_key: str | None = None,
        api_version: str = DEFAULT_API_VERSION,
    ) -> "Request":
        """Make a request the way a Stripe client would.

        Args:
            method: GET, POST or DELETE.
            path: For example `/v1/payment_intents`.
            form: Flat form fields with Stripe's own bracket names; sent in the body of a POST
                and in the query of everything else. Booleans are written as true and false.
            api_key: Sent as a bearer token.
            idempotency_key: Sent as `Idempotency-Key` when given.
            api_version: Sent as `Stripe-Version`.
        """
        headers = {"authorization": f"Bearer {api_key}", "stripe-version": api_version}
        if idempotency_key is not None:
            headers["idempotency-key"] = idempotency_key
        encoded = urlencode({name: _form_text(value) for name, value in (form or {}).items()})
        if method != "POST":
            return cls(method, path, encoded, headers)
        headers["content-type"] = "application/x-www-form-urlencoded"
        return cls(method, path, "", headers, encoded.encode())


@dataclass(frozen=True, slots=True)
class Response:
    """One HTTP answer, and how it travels. Header names are as Stripe writes them."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    delivery: Delivery = WHOLE

    def json(self) -> JsonObject:
        """Return the body as a JSON object.

        Raises:
            ValueError: The body is not JSON.
            TypeError: It is not an object.
        """
        decoded = json.loads(self.body)
        if not isinstance(decoded, dict):
            raise TypeError("the body is not a JSON object")
        return decoded


def encode_json(value: object) -> bytes:
    """Return `value` as compact JSON bytes."""
    return _ENCODE_JSON(value).encode()


def _form_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
