"""Settings of a template whose value is a secret: named there, never written."""

from __future__ import annotations

from collections.abc import Mapping

SECRETS = (
    "DATABASE_URL",
    "STRIPE_API_KEY",
    "VAULT_ADMIN_TOKEN",
    "VAULT_PROXY_API_KEY",
    "VAULT_ENCRYPTION_KEY",
    "KEYBRAKE_API_KEY",
    "KEYBRAKE_VAULT_KEY",
)


def hide_secrets(
    settings: Mapping[str, object], reference: str, *, live: bool
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Settings that can be read as if they were deployed.

    Args:
        settings: of the template.
        reference: what a reference to a secret has in it.
        live: whether the key to Stripe would be one of live mode.

    Returns:
        The settings with stand-ins for secrets, and the names of those that are written.
    """
    environment = {name: str(value) for name, value in settings.items()}
    plain = tuple(
        name for name in SECRETS if name in environment and reference not in environment[name]
    )
    if "DATABASE_URL" in environment:
        environment["DATABASE_URL"] = "postgresql:///from-the-vault"
    if "STRIPE_API_KEY" in environment:
        environment["STRIPE_API_KEY"] = "rk_live_" if live else "rk_test_"
    return environment, plain
