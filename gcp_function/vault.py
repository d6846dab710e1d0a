"""The spend-cap proxy as an HTTP function, and the timer that resolves its holds.

The proxy's callers' SDKs need the Authorization header for the vault key, so the platform cannot
check them in it: the key is the authentication. The timer authenticates as the other ones do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Request, Response

from gcp_function.authentication import make_authentication
from gcp_function.scheduled import answer_scheduled
from shared import notices
from shared.errors import ChargeonceError
from shared.once import Once
from shared.settings import read_vault_proxy_settings

if TYPE_CHECKING:
    from shared.vault.proxy import Outgoing
    from shared.vault.wiring import VaultParts


def _make_parts() -> VaultParts:
    # Here and not above: the database driver is not needed to import the functions.
    from shared.vault.wiring import VaultParts

    settings = _SETTINGS.get()
    return VaultParts(settings, settings.function.threads)


_SETTINGS = Once(read_vault_proxy_settings)
_AUTHENTICATE = Once(lambda: make_authentication(_SETTINGS.get().scheduler))
_PARTS = Once(_make_parts)


def vault_proxy(request: Request) -> Response:
    """The HTTP function `vault_proxy`; see the module."""
    outgoing = _answer(request)
    return Response(outgoing.body, outgoing.status, dict(outgoing.headers))


def _answer(request: Request) -> Outgoing:
    # Here and not above: a deployment that bills must not load the proxy to start.
    from shared.vault.proxy import refused
    from shared.vault.refusal import unavailable
    from shared.vault.wsgi import answer_wsgi

    try:
        application = _PARTS.get().application
    except ChargeonceError as error:
        notices.alarm(str(error))
        return refused(unavailable())
    return answer_wsgi(application, request.environ)


def reconcile(request: Request) -> Response:
    """The HTTP function `reconcile` of a deployment that is the proxy."""
    return answer_scheduled(request, _AUTHENTICATE.get, lambda: _PARTS.get().keep_up())
