"""Stripe, asked for one object of each kind that is read. Nothing is written, so whether the key
may create a PaymentIntent is not known before the first charge.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ops.doctor.examination import Unread
from ops.doctor.facts import Facts, StripeAccount
from shared.errors import ChargeonceError
from shared.ports import Identity, StripeRequest, StripeResponse

if TYPE_CHECKING:
    from shared.stripe_payments import StripePayments

# What a restricted key needs for each of them is in docs/security.md.
READS: Mapping[str, str] = {
    "read PaymentIntents": "/v1/payment_intents",
    "read Customers": "/v1/customers",
    "read Charges": "/v1/charges",
    "read Disputes": "/v1/disputes",
}
STRIPES_KEYS = ("rk_", "sk_")
OK, UNAUTHORIZED, FORBIDDEN = 200, 401, 403


def add_stripe(facts: Facts) -> tuple[Facts, tuple[Unread, ...]]:
    """The same facts, with what Stripe answers to the key of those settings.

    Behind a spend-cap proxy only a key that leads past it is looked at: a vault key can do what its
    run needs, and is a matter of its own.
    """
    from shared.wiring import build_payments

    settings = facts.settings
    assert settings is not None, "settings are read first"
    settings = replace(settings, stripe=settings.direct_stripe or settings.stripe)
    if not settings.stripe.api_key.startswith(STRIPES_KEYS):
        return facts, ()
    unread: list[Unread] = []
    with closing(build_payments(settings)) as payments:
        seconds = settings.rules.attempt_seconds
        status, account = _ask(payments, "/v1/account", {}, seconds)
        forbidden, livemode = [], None
        for permission, path in READS.items():
            if status == UNAUTHORIZED:
                break
            answered, found = _ask(payments, path, {"limit": "1"}, seconds)
            if answered == FORBIDDEN:
                forbidden.append(permission)
            elif answered != OK:
                unread.append(
                    Unread(f"Stripe, {permission}", f"it answered {answered or 'nothing'}")
                )
            livemode = _livemode(found, livemode)
    identity = _identity(facts)
    stripe = StripeAccount(
        key_refused=status == UNAUTHORIZED,
        account_id=account.get("id"),
        livemode=livemode,
        forbidden=tuple(forbidden),
        stored_account_id=identity.account_id,
        stored_livemode=identity.livemode,
    )
    return replace(facts, stripe=stripe), tuple(unread)


def _ask(
    payments: StripePayments, path: str, parameters: Mapping[str, str], seconds: float
) -> tuple[int, Mapping[str, Any]]:
    """Status and body; 0 without an answer, and nothing of a body that is no object."""
    answer = payments.send(StripeRequest("get", path, parameters), seconds)
    if not isinstance(answer, StripeResponse):
        return 0, {}
    try:
        content = json.loads(answer.body)
    except ValueError:
        return answer.status, {}
    return answer.status, content if isinstance(content, dict) else {}


def _livemode(found: Mapping[str, Any], known: bool | None) -> bool | None:
    """The mode of the first object in a list, if it has one."""
    items = found.get("data")
    if known is None and isinstance(items, list) and items and isinstance(items[0], dict):
        said = items[0].get("livemode")
        return said if isinstance(said, bool) else None
    return known


def _identity(facts: Facts) -> Identity:
    """Whose the records are; nobody's when they cannot be read, which is a finding of its own."""
    from shared.store.books import PostgresBooks

    assert facts.settings is not None, "settings are read first"
    try:
        with closing(PostgresBooks(facts.settings.database_url)) as books:
            return books.known_identity()
    except ChargeonceError:
        return Identity(None, None)
