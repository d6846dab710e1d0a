"""The spend-cap proxy as an HTTP function, and the timer that resolves its holds.

Not through the SDK's WSGI support: that raises for every answer of 500 or more, with the answer's
body as the exception's text, which the host logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import azure.functions as func

from azure_function.blueprint import reconcile_schedule, timer_trigger
from shared.once import Once
from shared.settings import VaultProxySettings
from shared.vault.incoming import Incoming

if TYPE_CHECKING:
    from shared.vault.wiring import VaultParts

ROUTE = "{*path}"


class VaultFunction:
    """The functions `vault_proxy` and `reconcile` of one worker process.

    Args:
        settings: checked.
    """

    def __init__(self, settings: VaultProxySettings) -> None:
        self.settings = settings
        self._parts = Once(lambda: _make_parts(settings))

    def answer(self, request: func.HttpRequest) -> func.HttpResponse:
        """Answer one request. Never raises."""
        url = urlsplit(request.url)
        outgoing = self._parts.get().application.answer(
            Incoming(
                method=request.method,
                path=url.path,
                query=url.query,
                headers={name.lower(): value for name, value in request.headers.items()},
                body=request.get_body(),
            )
        )
        return func.HttpResponse(
            outgoing.body, status_code=outgoing.status, headers=dict(outgoing.headers)
        )

    def keep_up(self) -> None:
        """What its timer does. See `VaultParts.keep_up`."""
        self._parts.get().keep_up()


def _make_parts(settings: VaultProxySettings) -> VaultParts:
    # Here and not above: the database driver is not needed to index the function.
    from shared.vault.wiring import VaultParts

    return VaultParts(settings, settings.worker_threads)


def make_vault_blueprint(function: VaultFunction) -> func.Blueprint:
    """The functions, to be registered with a function app.

    Args:
        function: answers the requests, and resolves holds where calls are served.
    """
    blueprint = func.Blueprint()  # type: ignore[no-untyped-call]

    # Anonymous: the vault key and the admin token are the authentication, in the header that
    # callers' SDKs have for it.
    @blueprint.function_name("vault_proxy")
    @blueprint.route(ROUTE, trigger_arg_name="request", auth_level=func.AuthLevel.ANONYMOUS)
    def vault_proxy(request: func.HttpRequest) -> func.HttpResponse:
        return function.answer(request)

    if not function.settings.serves_calls:
        return blueprint

    @blueprint.function_name("reconcile")
    @timer_trigger(blueprint, reconcile_schedule(function.settings.reconcile_schedule))
    def reconcile(timer: func.TimerRequest) -> None:  # noqa: ARG001 (the runtime's)
        function.keep_up()

    return blueprint
