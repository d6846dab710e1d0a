"""Puts the parts together for a worker process, from its settings."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shared.biller import Biller
from shared.clock import SystemClock
from shared.keyring import KeyedPayments, Keyring
from shared.ports import Payments
from shared.run_keys import KeyKeeper, KeyRules
from shared.settings import RunKeySettings, Settings, VaultProxySettings
from shared.store.migrations import check_schema
from shared.store.operations import PostgresOperations
from shared.store.postgres import PostgresStore
from shared.store.timers import PostgresTimers
from shared.stripe_lists import StripeLists
from shared.throttle import Throttle
from shared.upkeep import Upkeep, build_upkeep

if TYPE_CHECKING:
    from shared.store.run_keys import PostgresRunKeys
    from shared.stripe_payments import StripePayments
    from shared.vault.client import VaultClient

# Below a warning they log requests with their bodies, messages and frames.
SDK_LOGGERS = ("stripe", "azure", "google", "uamqp")


def open_store(settings: Settings, threads: int) -> PostgresStore:
    """Connect to the records.

    Args:
        settings: where the database is.
        threads: how many threads will use it; each gets a connection unless
            `DATABASE_POOL_SIZE` says otherwise.
    """
    return PostgresStore(settings.database_url, settings.database_pool_size or threads)


def open_operations(settings: Settings) -> PostgresOperations:
    """Connect to the records as an operator's commands see them."""
    return PostgresOperations(settings.database_url)


@dataclass(frozen=True, slots=True)
class Parts:
    """What the functions of one worker process share."""

    biller: Biller
    store: PostgresStore
    timers: PostgresTimers
    way: StripeWay
    upkeep: Upkeep
    keeper: KeyKeeper | None

    def close(self) -> None:
        """Close every connection."""
        self.way.close()
        self.store.close()


class StripeWay:
    """The way to Stripe: straight, or through a spend-cap proxy with the runs' vault keys.

    Args:
        settings: say which.
    """

    def __init__(self, settings: Settings) -> None:
        self._stripe = build_payments(settings)
        self._run_keys: PostgresRunKeys | None = None
        self._service: VaultClient | None = None
        self.payments: Payments = self._stripe
        self.keyring: Keyring | None = None
        self.keeper: KeyKeeper | None = None
        if settings.run_keys is not None:
            self._use_run_keys(settings, settings.run_keys)

    def close(self) -> None:
        """Close every connection."""
        for part in (self._stripe, self._run_keys, self._service):
            if part is not None:
                part.close()

    def _use_run_keys(self, settings: Settings, run_keys: RunKeySettings) -> None:
        # Here and not above: only who stands behind a proxy needs them.
        from shared.sealing import FernetSeal
        from shared.store.run_keys import PostgresRunKeys
        from shared.vault.client import VaultClient

        seal = FernetSeal(run_keys.encryption_keys)
        self._run_keys = PostgresRunKeys(settings.database_url)
        self.keyring = Keyring(self._run_keys, seal)
        self.payments = KeyedPayments(self._stripe, self.keyring)
        if run_keys.service_key is not None:
            self._service = VaultClient(run_keys.service_url, run_keys.service_key)
            rules = KeyRules(settings.rules.key_namespace, run_keys.hours, settings.rules.flow)
            self.keeper = KeyKeeper(self._run_keys, self._service, seal, rules)


def build_parts(settings: Settings, threads: int) -> Parts:
    """Everything that functions need, timers too; see `open_store` and `build_biller`.

    Raises:
        SchemaMismatch: the database needs `chargeonce migrate`.
        RecordsUnavailable: the database cannot be reached.
    """
    check_schema(settings.database_url)
    store = open_store(settings, threads)
    way, clock, rules = StripeWay(settings), SystemClock(), settings.rules
    biller = Biller(store, way.payments, clock, rules, keyring=way.keyring)
    upkeep = build_upkeep(store, way.payments, clock, rules, settings.retention_days)
    timers = PostgresTimers(settings.database_url)
    return Parts(biller, store, timers, way, upkeep, way.keeper)


def build_biller(settings: Settings, store: PostgresStore) -> Biller:
    """A biller over PostgreSQL and the real Stripe SDK.

    Raises:
        SchemaMismatch: the database needs `chargeonce migrate`.
        RecordsUnavailable: the database cannot be reached.
    """
    check_schema(settings.database_url)
    way = StripeWay(settings)
    return Biller(store, way.payments, SystemClock(), settings.rules, keyring=way.keyring)


def build_lists(settings: Settings) -> StripeLists:
    """Stripe's lists, through its SDK: past a spend-cap proxy where Stripe's key is known."""
    clock, rules = SystemClock(), settings.rules
    throttle = Throttle(clock, rules.max_requests_per_second)
    payments = open_reading(settings).payments
    return StripeLists(payments, clock, throttle, rules.attempt_seconds)


def open_reading(settings: Settings) -> StripeWay:
    """The way of an operator's commands that read Stripe: the direct one where there is one."""
    direct = settings.direct_stripe
    if direct is None:
        return StripeWay(settings)
    return StripeWay(replace(settings, stripe=direct, run_keys=None))


def build_payments(settings: Settings | VaultProxySettings) -> StripePayments:
    """Stripe, through its SDK. From here on no SDK logs what it sends or receives.

    Some hosts pass on whatever any library logs, at any level: Azure's worker does.
    """
    for name in SDK_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    # Here and not above: importing the SDK costs a cold start a third of a second.
    from shared.stripe_payments import StripePayments

    stripe = settings.stripe
    return StripePayments(
        stripe.api_key,
        stripe.api_base,
        stripe.connect_timeout_seconds,
        stripe.read_timeout_seconds,
    )
