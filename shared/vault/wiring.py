"""Puts the proxy together from the settings; its parts are made when they are first needed."""

from __future__ import annotations

from collections.abc import Mapping

from shared.clock import SystemClock
from shared.once import Once
from shared.settings import VaultProxySettings, read_vault_proxy_settings
from shared.store.caller import Caller
from shared.store.migrations import check_schema
from shared.store.vault import PostgresVault
from shared.vault.admin import VaultAdmin
from shared.vault.application import VaultApplication
from shared.vault.proxy import Proxy


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

    @property
    def application(self) -> VaultApplication:
        """The application, with the parts that the settings ask for."""
        return VaultApplication(
            self._proxy.get if self._settings.serves_calls else None,
            self._admin.get if self._settings.serves_admin else None,
        )

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


def make_application(
    threads: int | None = None, environment: Mapping[str, str] | None = None
) -> VaultApplication:
    """The proxy of this process.

    Args:
        threads: how many requests are handled at once; by default as functions-framework is told.
        environment: in place of the process's own.

    Raises:
        SettingsError: lists what is wrong.
    """
    settings = read_vault_proxy_settings(environment)
    return VaultParts(settings, threads or settings.function.threads).application
