"""The runs' vault keys in the hands of those who call Stripe."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.conclusion import Concluded, Conclusion
from shared.ports import (
    ClaimResult,
    NoResponse,
    Payments,
    RunKeys,
    StripeRequest,
    StripeResponse,
)
from shared.run_keys import Seal

MISSING = "vault_key_missing"
UNREADABLE = "vault_key_unreadable"


@dataclass(frozen=True, slots=True)
class OpenKey:
    """A vault key that can be used, or none where Stripe is called without.

    Args:
        text: what to present; None for the configured API key.
        is_whole: see `ClaimedKey`.
    """

    text: str | None = field(repr=False)
    is_whole: bool = True


class Keyring:
    """Opens vault keys. Safe for threads.

    Args:
        keys: the keys in the database.
        seal: decrypts them.
    """

    def __init__(self, keys: RunKeys, seal: Seal) -> None:
        self._keys = keys
        self._seal = seal

    def open_claimed(self, claim: ClaimResult) -> OpenKey | Concluded:
        """The key of a claimed record's run, or why there is none: the message is left then."""
        key = claim.vault_key
        if key is None:
            return Concluded(
                Conclusion.TRANSIENT,
                code=MISSING,
                message="the run has no live vault key; the timer mints one",
            )
        text = self._seal.open(key.sealed_text)
        if text is None:
            return Concluded(
                Conclusion.TRANSIENT,
                code=UNREADABLE,
                message="the run's vault key cannot be decrypted: is VAULT_ENCRYPTION_KEY the same "
                "everywhere?",
                misconfigured=True,
            )
        return OpenKey(text, key.is_whole)

    def note_refusal(self, claim: ClaimResult) -> None:
        """Have the timer replace the key that a claim came with.

        Raises:
            RecordsUnavailable: the database is away; the next refusal notes it.
        """
        if claim.vault_key is not None and claim.record is not None:
            self._keys.refuse_key(claim.record.billing_period, claim.vault_key.key_id)

    def any_text(self) -> str | None:
        """A key to read Stripe with, for what is done beside the deliveries; None: there is none.

        Raises:
            RecordsUnavailable: the database is away.
        """
        key = self._keys.any_key()
        return None if key is None else self._seal.open(key.sealed_text)


def open_key(keyring: Keyring | None, claim: ClaimResult) -> OpenKey | Concluded:
    """The key to drive a claimed record with.

    Args:
        keyring: None where Stripe is called without vault keys.
        claim: the claimed record, and its run's key.
    """
    return OpenKey(None) if keyring is None else keyring.open_claimed(claim)


class KeyedPayments:
    """The way to Stripe through a spend-cap proxy: no request leaves without a vault key.

    Args:
        payments: the port to the proxy.
        keyring: has a key for whoever names none: the sweep, the rebuild, an operator's commands.
    """

    def __init__(self, payments: Payments, keyring: Keyring) -> None:
        self._payments = payments
        self._keyring = keyring

    def send(
        self, request: StripeRequest, timeout_seconds: float, vault_key: str | None = None
    ) -> StripeResponse | NoResponse:
        """See `Payments.send`."""
        key = vault_key or self._keyring.any_text()
        if key is None:
            return NoResponse(sent=False, problem=MISSING)
        return self._payments.send(request, timeout_seconds, key)
