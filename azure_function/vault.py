"""The spend-cap proxy as an HTTP function.

Not through the SDK's WSGI support: that raises for every answer of 500 or more, with the answer's
body as the exception's text, which the host logs.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import azure.functions as func

from shared.once import Once
from shared.settings import VaultProxySettings
from shared.vault.application import VaultApplication
from shared.vault.incoming import Incoming

ROUTE = "{*path}"


class VaultFunction:
    """The HTTP function `vault_proxy` of one worker process.

    Args:
        settings: checked.
    """

    def __init__(self, settings: VaultProxySettings) -> None:
        self._application = Once(lambda: _make_application(settings))

    def answer(self, request: func.HttpRequest) -> func.HttpResponse:
        """Answer one request. Never raises."""
        url = urlsplit(request.url)
        outgoing = self._application.get().answer(
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


def _make_application(settings: VaultProxySettings) -> VaultApplication:
    # Here and not above: the database driver is not needed to index the function.
    from shared.vault.wiring import VaultParts

    return VaultParts(settings, settings.worker_threads).application


def make_vault_blueprint(function: VaultFunction) -> func.Blueprint:
    """The function, to be registered with a function app.

    Args:
        function: answers the requests.
    """
    blueprint = func.Blueprint()  # type: ignore[no-untyped-call]

    # Anonymous: the vault key and the admin token are the authentication, in the header that
    # callers' SDKs have for it.
    @blueprint.function_name("vault_proxy")
    @blueprint.route(ROUTE, auth_level=func.AuthLevel.ANONYMOUS)
    def vault_proxy(request: func.HttpRequest) -> func.HttpResponse:
        return function.answer(request)

    return blueprint
