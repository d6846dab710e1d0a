"""The key to Stripe: which it is, what it may do, and whose."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from ops.doctor.facts import Facts
from ops.doctor.rule import error, warning

STRIPE = "https://api.stripe.com"
THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


@warning(
    "Whoever gets hold of a secret key can do everything with the account, payouts too.",
    "Make a restricted key (rk_...); docs/security.md says what it needs.",
)
def secret_key(facts: Facts) -> Iterator[str]:
    """A restricted key is enough."""
    if facts.settings is None:
        return
    for stripe in (facts.settings.stripe, facts.settings.direct_stripe):
        if stripe is not None and stripe.api_key.startswith("sk_"):
            yield "STRIPE_API_KEY is a secret key"


@error(
    "Nothing is charged until it is replaced.",
    "Look at the key in Stripe's dashboard: it may have been rolled or have expired.",
)
def key_refused(facts: Facts) -> Iterator[str]:
    """Stripe must know the key."""
    if facts.stripe is not None and facts.stripe.key_refused:
        yield "Stripe refuses STRIPE_API_KEY"


@error(
    "Records of the one mode say nothing of the other: nothing is charged until they agree.",
    "One database for each account and mode. Use the key of that mode, or another database.",
)
def modes_differ(facts: Facts) -> Iterator[str]:
    """Key, answers and records must be of one mode."""
    if facts.stripe is None or facts.settings is None:
        return
    key = facts.settings.rules.key_livemode
    seen = (
        ("Stripe answers", facts.stripe.livemode),
        ("the records are", facts.stripe.stored_livemode),
    )
    for what, livemode in seen:
        if None not in (key, livemode) and key != livemode:
            yield f"the key is of {_mode(key)} mode, and {what} in {_mode(livemode)} mode"


@error(
    "Records of the one account say nothing of the other: nothing is charged until they agree.",
    "Use a key of the account that the records belong to, or another database.",
)
def accounts_differ(facts: Facts) -> Iterator[str]:
    """Key and records must be of one account."""
    stripe = facts.stripe
    if stripe is None or None in (stripe.account_id, stripe.stored_account_id):
        return
    if stripe.account_id != stripe.stored_account_id:
        yield f"the key is of {stripe.account_id}, the records of {stripe.stored_account_id}"


@error(
    "What needs it fails: charging needs Customers, recovery Charges, the audit Disputes.",
    "Add the permission to the restricted key; docs/security.md lists them.",
)
def permission_missing(facts: Facts) -> Iterator[str]:
    """A restricted key may lack something that is needed only in trouble."""
    for permission in facts.stripe.forbidden if facts.stripe is not None else ():
        yield f"STRIPE_API_KEY may not do: {permission}"


@error(
    "The live key is sent there with every request.",
    "Remove STRIPE_API_BASE, or use a key of test mode.",
)
def live_key_elsewhere(facts: Facts) -> Iterator[str]:
    """A live key is for Stripe alone."""
    settings = facts.settings
    if settings is None or not settings.rules.key_livemode:
        return
    if settings.stripe.api_base != STRIPE:
        yield "STRIPE_API_KEY is a live key, and STRIPE_API_BASE is not Stripe"


@error(
    "Whoever is on the way reads the key, and can charge with it.",
    "Use https://. Plain http is for a Stripe on this machine.",
)
def key_sent_unencrypted(facts: Facts) -> Iterator[str]:
    """Keys travel encrypted."""
    if facts.settings is None:
        return
    address = urlsplit(facts.settings.stripe.api_base)
    if address.scheme == "http" and address.hostname not in THIS_MACHINE:
        yield "STRIPE_API_BASE or VAULT_PROXY_URL is plain http"


def _mode(livemode: bool | None) -> str:
    return "live" if livemode else "test"


RULES = (
    secret_key,
    key_refused,
    modes_differ,
    accounts_differ,
    permission_missing,
    live_key_elsewhere,
    key_sent_unencrypted,
)
