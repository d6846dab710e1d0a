"""The spend-cap proxy as an HTTP function.

Its callers' SDKs need the Authorization header for the vault key, so the platform cannot check them
in it: the key is the authentication.
"""

from __future__ import annotations

from flask import Request, Response

from shared import notices
from shared.errors import ChargeonceError
from shared.once import Once
from shared.vault.application import VaultApplication
from shared.vault.proxy import Outgoing, refused
from shared.vault.refusal import unavailable
from shared.vault.wsgi import answer_wsgi


def _make_application() -> VaultApplication:
    # Here and not above: the database driver is not needed to import the function.
    from shared.vault.wiring import make_application

    return make_application()


_APPLICATION = Once(_make_application)


def vault_proxy(request: Request) -> Response:
    """The HTTP function `vault_proxy`; see the module."""
    outgoing = _answer(request)
    return Response(outgoing.body, outgoing.status, dict(outgoing.headers))


def _answer(request: Request) -> Outgoing:
    try:
        application = _APPLICATION.get()
    except ChargeonceError as error:
        notices.alarm(str(error))
        return refused(unavailable())
    return answer_wsgi(application, request.environ)
