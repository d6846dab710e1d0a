"""Puts the parts together for a worker process, from its settings."""

from __future__ import annotations

from shared.biller import Biller
from shared.clock import SystemClock
from shared.settings import Settings
from shared.store.migrations import check_schema
from shared.store.postgres import PostgresStore


def open_store(settings: Settings, threads: int) -> PostgresStore:
    """Connect to the records.

    Args:
        settings: where the database is.
        threads: how many threads will use it; each gets a connection unless
            `DATABASE_POOL_SIZE` says otherwise.
    """
    return PostgresStore(settings.database_url, settings.database_pool_size or threads)


def build_biller(settings: Settings, store: PostgresStore) -> Biller:
    """A biller over PostgreSQL and the real Stripe SDK.

    Raises:
        SchemaMismatch: the database needs `chargeonce migrate`.
        RecordsUnavailable: the database cannot be reached.
    """
    # Here and not above: importing the SDK costs a cold start a third of a second.
    from shared.stripe_payments import StripePayments

    check_schema(settings.database_url)
    stripe = settings.stripe
    payments = StripePayments(
        stripe.api_key,
        stripe.api_base,
        stripe.connect_timeout_seconds,
        stripe.read_timeout_seconds,
    )
    return Biller(store, payments, SystemClock(), settings.rules)
