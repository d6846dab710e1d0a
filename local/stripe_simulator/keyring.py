"""API keys: which account and mode a key opens, and what a restricted key may do."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from local.stripe_simulator.errors import StripeError, forbidden, unauthorized

DEFAULT_ACCOUNT = "acct_1SimulatedDefault"

_KEY = re.compile(r"(?:sk|rk)_(?P<mode>test|live)_[A-Za-z0-9_]{1,240}\Z")
_SHOWN_CHARACTERS = 4


class Permission(StrEnum):
    """What a restricted key may do with one resource."""

    NONE = "none"
    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Grant:
    """What an API key opens. `permissions` is None for a key that may do everything."""

    account: str
    livemode: bool
    permissions: Mapping[str, Permission] | None = None

    def check(self, resource: str, needed: Permission) -> None:
        """Raise a 403 when the key lacks a permission.

        Args:
            resource: For example `payment_intents`.
            needed: READ or WRITE.
        """
        if self.permissions is None:
            return
        held = self.permissions.get(resource, Permission.NONE)
        if held is Permission.WRITE or held is needed:
            return
        raise forbidden(
            "The provided key does not have the required permissions for this endpoint on account "
            f"'{self.account}'. Having the 'rak_{resource}_{needed}' permission would allow this "
            "request to continue."
        )


_DEFAULT_TEST = Grant(DEFAULT_ACCOUNT, livemode=False)
_DEFAULT_LIVE = Grant(DEFAULT_ACCOUNT, livemode=True)


@dataclass(slots=True)
class KeyRing:
    """Every key that the simulated Stripe knows.

    A well-formed key that nobody registered opens the default account in the mode of its prefix.
    """

    grants: dict[str, Grant] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)

    def register(
        self, key: str, account: str, permissions: Mapping[str, Permission] | None
    ) -> None:
        """Let a key open an account, with limited permissions when some are given.

        Raises:
            ValueError: The key is not well formed.
        """
        match = _KEY.match(key)
        if match is None:
            raise ValueError("an API key looks like sk_test_..., rk_test_..., sk_live_...")
        self.revoked.discard(key)
        self.grants[key] = Grant(account, match["mode"] == "live", permissions)

    def revoke(self, key: str) -> None:
        """Make every further request with this key fail with 401."""
        self.revoked.add(key)

    def authenticate(self, headers: Mapping[str, str]) -> Grant:
        """Return what the request's key opens.

        Raises:
            StripeError: No key, a malformed one, a revoked one, or another account asked for.
        """
        key = _presented_key(headers)
        match = _KEY.match(key)
        if match is None:
            raise unauthorized(f"Invalid API Key provided: {_masked(key)}")
        if key in self.revoked:
            raise unauthorized(f"Expired API Key provided: {_masked(key)}", "api_key_expired")
        grant = self.grants.get(key)
        if grant is None:
            grant = _DEFAULT_LIVE if match["mode"] == "live" else _DEFAULT_TEST
        _check_account(headers, grant, key)
        return grant


def _presented_key(headers: Mapping[str, str]) -> str:
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return credentials.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(credentials, validate=True).decode().partition(":")[0]
        except ValueError:
            return ""
    raise unauthorized(
        "You did not provide an API key. You need to provide your API key in the Authorization "
        "header, using Bearer auth (e.g. 'Authorization: Bearer YOUR_SECRET_KEY')."
    )


def _check_account(headers: Mapping[str, str], grant: Grant, key: str) -> None:
    account = headers.get("stripe-account")
    if account and account != grant.account:
        raise StripeError(
            403,
            "invalid_request_error",
            f"The provided key '{_masked(key)}' does not have access to account '{account}' (or "
            "that account does not exist). Application access may have been revoked.",
            code="account_invalid",
            stored=False,
        )


def _masked(key: str) -> str:
    prefix = key[:8] if key[:8] in {"sk_test_", "rk_test_", "sk_live_", "rk_live_"} else ""
    tail = key[-_SHOWN_CHARACTERS:] if len(key) > len(prefix) + 2 * _SHOWN_CHARACTERS else ""
    return f"{prefix}{'*' * 8}{tail}"
