"""Settings of a template whose value is a secret: named there, never written."""

from __future__ import annotations

from collections.abc import Mapping

# What stands in for each: it has the form that shared/settings.py asks for.
SECRETS: Mapping[str, str] = {
    "DATABASE_URL": "postgresql:///from-the-vault",
    "STRIPE_API_KEY": "rk_test_",
    "VAULT_ADMIN_TOKEN": "from-the-vault" * 2,
    "VAULT_PROXY_API_KEY": "from-the-vault",
    "VAULT_ENCRYPTION_KEY": "A" * 43 + "=",
    "KEYBRAKE_API_KEY": "from-the-vault",
    "KEYBRAKE_VAULT_KEY": "from-the-vault",
}


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
    environment |= {name: text for name, text in SECRETS.items() if name in environment}
    if live and "STRIPE_API_KEY" in environment:
        environment["STRIPE_API_KEY"] = "rk_live_"
    return environment, plain
