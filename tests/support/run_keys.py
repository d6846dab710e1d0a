"""A billing system whose calls go through the proxy, under its run's vault key."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from cryptography.fernet import Fernet

from shared.biller import Biller
from shared.breaker import Breaker
from shared.keyring import KeyedPayments, Keyring
from shared.ports import RunKeys
from shared.record import Flow
from shared.run_keys import KeyKeeper, KeyRules
from shared.sealing import FernetSeal
from shared.store.run_keys import PostgresRunKeys
from shared.stripe_payments import StripePayments
from shared.vault.client import VaultClient
from shared.vault.service import ListedKey, VaultService
from tests.support.bench import (
    PATIENCE_SECONDS,
    PERIOD,
    RULES,
    Before,
    Bench,
    ImpatientClock,
    TappedPayments,
)
from tests.support.vault import ADMIN_TOKEN, VaultBench

KEY_HOURS = 6.0
LABEL = f"{RULES.key_namespace}-{PERIOD}"


class ProxiedBench:
    """Records and proxy over one database.

    Args:
        vault: the served proxy.
        bench: the records; its run has no key yet.
    """

    def __init__(self, vault: VaultBench, bench: Bench) -> None:
        self.vault = vault
        self.bench = bench
        self.proxy_url = f"http://127.0.0.1:{vault.port}"
        self.encryption_key = Fernet.generate_key().decode()
        self.seal = FernetSeal([self.encryption_key])
        self.keys = PostgresRunKeys(vault.database_url)
        self.service = VaultClient(self.proxy_url, ADMIN_TOKEN)
        self.keyring = Keyring(self.keys, self.seal)
        self._stripe = StripePayments(
            "", f"{self.proxy_url}/stripe", PATIENCE_SECONDS, PATIENCE_SECONDS
        )

    def close(self) -> None:
        """Close every connection."""
        self._stripe.close()
        self.service.close()
        self.keys.close()

    @property
    def environment(self) -> dict[str, str]:
        """The settings of a deployment that calls Stripe through the proxy; it has no key of
        Stripe's.
        """
        return {
            "DATABASE_URL": self.vault.database_url,
            "VAULT_PROVIDER": "proxy",
            "VAULT_PROXY_URL": self.proxy_url,
            "VAULT_PROXY_API_KEY": ADMIN_TOKEN,
            "VAULT_ENCRYPTION_KEY": self.encryption_key,
        }

    def keeper(
        self,
        service: VaultService | None = None,
        keys: RunKeys | None = None,
        seal: FernetSeal | None = None,
        flow: Flow = Flow.PAYMENT_INTENT,
    ) -> KeyKeeper:
        """A timer of one cloud."""
        rules = KeyRules(RULES.key_namespace, KEY_HOURS, flow)
        return KeyKeeper(keys or self.keys, service or self.service, seal or self.seal, rules)

    def biller(self, before: Before | None = None, **rules: object) -> Biller:
        """A deployment behind the proxy; see `TappedPayments` for what may come before it."""
        clock = ImpatientClock()
        return Biller(
            self.bench.store,
            KeyedPayments(TappedPayments(self._stripe, before), self.keyring),
            clock,
            replace(RULES, key_livemode=None, **rules),  # type: ignore[arg-type]
            Breaker(clock, threshold=1_000_000),
            self.keyring,
        )

    def stored_text(self) -> str:
        """The run's key, as a consumer is handed it; there must be one."""
        run = next(run for run in self.keys.watch_runs() if run.billing_period == PERIOD)
        assert run.key is not None
        text = self.seal.open(run.key.sealed_text)
        assert text is not None
        return text

    def live_keys(self, label: str = LABEL) -> Sequence[ListedKey]:
        """The keys that the proxy takes, of one run."""
        now = ImpatientClock().now()
        return [key for key in self.service.list_keys(label) or () if key.is_live(now)]

    def let_key_hours_pass(self, hours: float) -> None:
        """Move the database's time on for the run's key."""
        self.bench.execute(
            f"""
            UPDATE chargeonce.run_keys
            SET minted_at = minted_at - interval '{hours} hours',
                expires_at = expires_at - interval '{hours} hours'
            """
        )


@contextmanager
def proxied_bench(vault: VaultBench) -> Iterator[ProxiedBench]:
    """A billing system behind a served proxy, with an open run and no customer but `cus_1`."""
    bench = Bench(vault.database_url, vault.stripe, vault.stripe_url)
    proxied = ProxiedBench(vault, bench)
    try:
        yield proxied
    finally:
        proxied.close()
        bench.close()
