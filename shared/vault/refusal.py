"""What the proxy refuses, in the shape of Stripe's own errors, so that any Stripe SDK shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from shared.errors import ChargeonceError
from shared.stripe_answers import CAP_CODE

UNAUTHORIZED = 401
FORBIDDEN = 403
BAD_REQUEST = 400
TOO_MANY = 429
UNAVAILABLE = 503


class RefusalCode(StrEnum):
    """Why a call was not forwarded."""

    KEY_INVALID = "vault_key_invalid"
    KEY_EXPIRED = "vault_key_expired"
    KEY_REVOKED = "vault_key_revoked"
    ENDPOINT_NOT_ALLOWED = "endpoint_not_allowed"
    HEADER_NOT_ALLOWED = "header_not_allowed"
    PARAMETER_NOT_ALLOWED = "parameter_not_allowed"
    PARAMETER_INVALID = "parameter_invalid"
    BODY_NOT_ALLOWED = "body_not_allowed"
    CURRENCY_NOT_ALLOWED = "currency_not_allowed"
    AMOUNT_CHANGED = "amount_changed"
    PAYMENT_UNKNOWN = "payment_unknown"
    CAP_REACHED = CAP_CODE
    TOO_MANY_REQUESTS = "too_many_requests"
    UNAVAILABLE = "vault_unavailable"
    UPSTREAM_FAILED = "upstream_failed"


class Refusal(ChargeonceError):
    """A call that is answered here and never reaches Stripe.

    Args:
        status: HTTP status.
        code: why, for programs.
        message: why, for people; never a secret.
        details: further fields of the error.
    """

    def __init__(
        self, status: int, code: RefusalCode, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        self.status = status
        self.code = code
        self.details = dict(details or {})
        super().__init__(message)

    @property
    def body(self) -> bytes:
        """The error as Stripe would send it."""
        error_type = "api_error" if self.status >= 500 else "invalid_request_error"
        error = {"type": error_type, "code": str(self.code), "message": str(self), **self.details}
        return json.dumps({"error": error}).encode()


def cap_reached(which: str, cap_cents: int, used_cents: int, amount_cents: int) -> Refusal:
    """The refusal of an amount that the cap leaves no room for.

    Args:
        which: `daily` or `total`.
        cap_cents: the cap.
        used_cents: what is spent or held against it.
        amount_cents: what was asked for.
    """
    message = (
        f"The {which} spend cap of this key is {_dollars(cap_cents)} and {_dollars(used_cents)} of "
        f"it is spent or held: {_dollars(amount_cents)} more would pass it."
    )
    details = {
        "cap_cents": cap_cents,
        "used_cents": used_cents,
        "amount_cents": amount_cents,
    }
    return Refusal(TOO_MANY, RefusalCode.CAP_REACHED, message, details)


def unavailable() -> Refusal:
    """The refusal of everything while the vault's records are away: closed, not open."""
    message = "The vault cannot be reached, so nothing is forwarded. Try again."
    return Refusal(UNAVAILABLE, RefusalCode.UNAVAILABLE, message)


def _dollars(cents: int) -> str:
    return f"${cents // 100:,}.{cents % 100:02d}"
