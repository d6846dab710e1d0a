"""The vault keys of the runs, behind a spend-cap proxy."""

from __future__ import annotations

from collections.abc import Iterator

from ops.doctor.facts import Facts
from ops.doctor.rule import error, warning


@error(
    "The charges of that run wait, and use up deliveries.",
    "Let the reconcile timer run, with VAULT_PROXY_API_KEY: it mints a key within minutes. Its log "
    "says why it does not.",
)
def vault_key_missing(facts: Facts) -> Iterator[str]:
    """A run that is in use needs a live key."""
    for key in facts.run_keys:
        if key.hours_left is None:
            yield f"the run {key.billing_period} has no vault key"
        elif key.hours_left <= 0:
            since = f"{-key.hours_left:.1f} hours ago"
            yield f"the vault key of the run {key.billing_period} expired {since}"


@error(
    "No worker with this setting can use the key: the charges of that run wait.",
    "Add the encryption key that it was sealed with to VAULT_ENCRYPTION_KEY, behind a comma; the "
    "first one seals.",
)
def encryption_key_wrong(facts: Facts) -> Iterator[str]:
    """The settings here must open what is stored."""
    for key in facts.run_keys:
        if key.opens is False:
            yield f"VAULT_ENCRYPTION_KEY does not open that of the run {key.billing_period}"


@warning(
    "The reconcile timer replaces such a key within minutes. Where it does not, the key expires or "
    "blocks charges that the run's cap allows.",
    "Look again in ten minutes; then at the reconcile timer and its log.",
)
def vault_key_to_be_replaced(facts: Facts) -> Iterator[str]:
    """Age, cap and flows of a live key, by the rule of the timer itself."""
    for key in facts.run_keys:
        if key.reason_to_replace is not None and (key.hours_left or 0) > 0:
            yield f"the vault key of the run {key.billing_period}: {key.reason_to_replace}"


RULES = (vault_key_missing, encryption_key_wrong, vault_key_to_be_replaced)
