"""Puts the proxy together from the settings; its parts are made when they are first needed."""

from __future__ import annotations

from shared.clock import SystemClock
from shared.errors import SettingsError
from shared.once import Once
from shared.settings import VaultProxySettings
from shared.store.caller import Caller
from shared.store.migrations import check_schema
from shared.store.timers import PostgresTimers
from shared.store.vault import PostgresVault
from shared.stripe_lists import StripeLists
from shared.throttle import Throttle
from shared.timers import RECONCILE_SECONDS
from shared.vault.admin import VaultAdmin
from shared.vault.application import VaultApplication
from shared.vault.proxy import Proxy
from shared.vault.upkeep import keep_up_once
from shared.wiring import build_payments


class VaultParts:
    """What the proxy of one process is made of.

    Args:
        settings: checked.
        threads: how many requests are handled at once; each gets a database connection unless
            `DATABASE_POOL_SIZE` says otherwise.
    """

    def __init__(self, settings: VaultProxySettings, threads: int) -> None:
        self._settings = settings
        self._threads = threads
        self._records = Once(self._open_records)
        self._proxy = Once(self._make_proxy)
        self._admin = Once(self._make_admin)
        self._lists = Once(self._make_lists)

    @property
    def application(self) -> VaultApplication:
        """The application, with the parts that the settings ask for."""
        return VaultApplication(
            self._proxy.get if self._settings.serves_calls else None,
            self._admin.get if self._settings.serves_admin else None,
        )

    def keep_up(self) -> None:
        """Ask Stripe about the proxy's holds and forget old calls; see `keep_up_once`.

        Raises:
            RecordsUnavailable: the database is away.
            SchemaMismatch: the database needs `chargeonce migrate`.
            SettingsError: no calls are served here, so there is no way to Stripe.
            StripeUnavailable: Stripe is away.
        """
        if not self._settings.serves_calls:
            raise SettingsError(
                ["VAULT_PROXY_SERVES must be calls or both where holds are resolved"]
            )
        timeout_seconds = self._settings.function.timeout_seconds
        seconds = min(RECONCILE_SECONDS, (timeout_seconds or RECONCILE_SECONDS) / 2)
        timers = PostgresTimers(self._settings.database_url)
        records, lists = self._records.get(), self._lists.get()
        retention_days = self._settings.retention_days
        keep_up_once(timers, records, lists, SystemClock(), seconds, retention_days)

    def _make_lists(self) -> StripeLists:
        stripe, clock = self._settings.stripe, SystemClock()
        payments, throttle = build_payments(self._settings), Throttle(clock, 0)
        attempt_seconds = stripe.connect_timeout_seconds + stripe.read_timeout_seconds
        return StripeLists(payments, clock, throttle, attempt_seconds)

    def _open_records(self) -> PostgresVault:
        check_schema(self._settings.database_url)
        size = self._settings.database_pool_size or self._threads
        return PostgresVault(Caller(self._settings.database_url, size))

    def _make_proxy(self) -> Proxy:
        # Here and not above: importing the SDK costs a cold start a third of a second.
        from shared.vault.upstream import StripeUpstream

        stripe = self._settings.stripe
        upstream = StripeUpstream(
            stripe.api_key,
            stripe.api_base,
            stripe.connect_timeout_seconds,
            stripe.read_timeout_seconds,
            stripe.connect_timeout_seconds + stripe.read_timeout_seconds,
        )
        return Proxy(self._records.get(), upstream, SystemClock())

    def _make_admin(self) -> VaultAdmin:
        return VaultAdmin(self._records.get(), self._settings.admin_token or "", SystemClock())
