"""Puts the function app together. What is wrong with the settings, it says before any message."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import azure.functions as func

from azure_function.billing import Billing
from azure_function.blueprint import make_blueprint
from azure_function.host_json import HOST_JSON, check_host_json
from azure_function.vault import VaultFunction, make_vault_blueprint
from shared import notices
from shared.settings import (
    is_vault_proxy,
    read_servicebus_settings,
    read_vault_proxy_settings,
)


def make_app(
    environment: Mapping[str, str] | None = None, host_json: Path = HOST_JSON
) -> func.FunctionApp:
    """The function app: that which bills, or the spend-cap proxy where the settings ask for it.

    Args:
        environment: the settings, in place of the process's own.
        host_json: the host's own settings.

    Raises:
        SettingsError: the app must not start. The host shows it and takes no message, where a
            function that failed later would burn each message's deliveries.
    """
    if is_vault_proxy(environment):
        return _make_vault_app(environment)
    settings = read_servicebus_settings(environment)
    check_host_json(host_json, settings)
    notices.warn_each(settings.warnings)
    app = func.FunctionApp()
    app.register_functions(make_blueprint(Billing(settings)))
    return app


def _make_vault_app(environment: Mapping[str, str] | None) -> func.FunctionApp:
    settings = read_vault_proxy_settings(environment)
    notices.warn_each(settings.warnings)
    app = func.FunctionApp()
    app.register_functions(make_vault_blueprint(VaultFunction(settings)))
    return app
