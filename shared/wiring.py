"""Puts the parts together for a worker process, from its settings."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.biller import Biller
from shared.clock import SystemClock
from shared.settings import Settings, VaultProxySettings
from shared.store.migrations import check_schema
from shared.store.operations import PostgresOperations
from shared.store.postgres import PostgresStore
from shared.store.timers import PostgresTimers
from shared.stripe_lists import StripeLists
from shared.throttle import Throttle
from shared.upkeep import Upkeep, build_upkeep

if TYPE_CHECKING:
    from shared.stripe_payments import StripePayments

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
    payments: StripePayments
    upkeep: Upkeep

    def close(self) -> None:
        """Close every connection."""
        self.payments.close()
        self.store.close()


def build_parts(settings: Settings, threads: int) -> Parts:
    """Everything that functions need, timers too; see `open_store` and `build_biller`.

    Raises:
        SchemaMismatch: the database needs `chargeonce migrate`.
        RecordsUnavailable: the database cannot be reached.
    """
    check_schema(settings.database_url)
    store = open_store(settings, threads)
    payments = build_payments(settings)
    biller = Biller(store, payments, SystemClock(), settings.rules)
    upkeep = build_upkeep(store, payments, SystemClock(), settings.rules, settings.retention_days)
    return Parts(biller, store, PostgresTimers(settings.database_url), payments, upkeep)


def build_biller(settings: Settings, store: PostgresStore) -> Biller:
    """A biller over PostgreSQL and the real Stripe SDK.

    Raises:
        SchemaMismatch: the database needs `chargeonce migrate`.
        RecordsUnavailable: the database cannot be reached.
    """
    check_schema(settings.database_url)
    return Biller(store, build_payments(settings), SystemClock(), settings.rules)


def build_lists(settings: Settings) -> StripeLists:
    """Stripe's lists, through its SDK."""
    clock, rules = SystemClock(), settings.rules
    throttle = Throttle(clock, rules.max_requests_per_second)
    return StripeLists(build_payments(settings), clock, throttle, rules.attempt_seconds)


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
