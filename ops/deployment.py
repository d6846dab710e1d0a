"""A whole deployment on the command line: its settings, its records, and its way to Stripe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ops.database import quieten_pool

if TYPE_CHECKING:
    from shared.biller import Biller
    from shared.canceling import Canceler
    from shared.settings import Settings
    from shared.store.operations import PostgresOperations
    from shared.store.postgres import PostgresStore
    from shared.upkeep import Upkeep
    from shared.wiring import StripeWay


class Deployment(NamedTuple):
    """What commands that act on records work with.

    Args:
        settings: the same as the deployed functions have.
        store: the records.
        operations: the same records, as an operator sees them.
        way: to Stripe, for what charges and cancels.
        reading: to Stripe, for what reads it; past a spend-cap proxy where Stripe's key is known.
    """

    settings: Settings
    store: PostgresStore
    operations: PostgresOperations
    way: StripeWay
    reading: StripeWay

    def biller(self) -> Biller:
        """What charges."""
        from shared.biller import Biller
        from shared.clock import SystemClock

        way, clock = self.way, SystemClock()
        return Biller(self.store, way.payments, clock, self.settings.rules, keyring=way.keyring)

    def canceler(self) -> Canceler:
        """What cancels."""
        from shared.canceling import Canceler
        from shared.clock import SystemClock

        way, clock, rules = self.way, SystemClock(), self.settings.rules
        return Canceler(self.store, self.operations, way.payments, clock, rules, way.keyring)

    def upkeep(self) -> Upkeep:
        """What reads Stripe outside of charging."""
        from shared.clock import SystemClock
        from shared.upkeep import build_upkeep

        rules, retention_days = self.settings.rules, self.settings.retention_days
        return build_upkeep(self.store, self.reading.payments, SystemClock(), rules, retention_days)


def read_deployment_settings() -> Settings:
    """The settings, with their warnings on standard error.

    Raises:
        SettingsError: lists every setting that is missing or wrong.
    """
    from shared.settings import read_settings

    settings = read_settings()
    for warning in settings.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    quieten_pool()
    return settings


@contextmanager
def open_deployment() -> Iterator[Deployment]:
    """Open everything; see `read_deployment_settings`.

    Raises:
        SettingsError: lists every setting that is missing or wrong.
        RecordsUnavailable: the database cannot be reached.
        SchemaMismatch: it needs `chargeonce migrate`.
    """
    from shared.store.migrations import check_schema
    from shared.wiring import StripeWay, open_operations, open_reading, open_store

    settings = read_deployment_settings()
    check_schema(settings.database_url)
    with (
        closing(open_store(settings, threads=1)) as store,
        closing(open_operations(settings)) as operations,
        closing(StripeWay(settings)) as way,
        closing(open_reading(settings)) as reading,
    ):
        yield Deployment(settings, store, operations, way, reading)
