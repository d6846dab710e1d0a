"""The proxy as a whole: which part answers which path.

/stripe/v1/...   Stripe's API behind a vault key
/v1/...          the same, for SDKs that take a host and no path
/vault/...       the admin API
/healthz         whether the process is up
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shared import notices
from shared.decision_log import describe_defect
from shared.errors import RecordsUnavailable
from shared.vault.admin import VaultAdmin
from shared.vault.incoming import Incoming
from shared.vault.proxy import Outgoing, Proxy, refused
from shared.vault.refusal import FORBIDDEN, Refusal, RefusalCode, unavailable

STRIPE_PREFIX = "/stripe"
OK = 200


class VaultApplication:
    """Answers HTTP requests. Safe to share between threads.

    Args:
        get_proxy: returns the part that forwards; None where calls are served elsewhere.
        get_admin: the same for the admin API.
    """

    def __init__(
        self,
        get_proxy: Callable[[], Proxy] | None,
        get_admin: Callable[[], VaultAdmin] | None,
    ) -> None:
        self._get_proxy = get_proxy
        self._get_admin = get_admin

    def answer(self, incoming: Incoming) -> Outgoing:
        """Answer one request. Never raises: a defect neither opens the vault nor shows a trace.

        Args:
            incoming: its path is the whole one, as it was sent.
        """
        try:
            return self._route(incoming)
        except Refusal as refusal:
            return refused(refusal)
        except RecordsUnavailable as error:
            notices.alarm(f"the vault is closed: {error}")
        except Exception as error:  # noqa: BLE001 (see the docstring)
            notices.alarm(f"a vault request could not be handled: {describe_defect(error)}")
        return refused(unavailable())

    def _route(self, incoming: Incoming) -> Outgoing:
        path = incoming.path
        if path == "/healthz":
            return Outgoing(OK, {"content-type": "text/plain"}, b"ok\n")
        if path.startswith("/vault/") and self._get_admin is not None:
            return self._get_admin().answer(incoming)
        api_path = path.removeprefix(STRIPE_PREFIX)
        if api_path.startswith("/v1/") and self._get_proxy is not None:
            return self._get_proxy().forward(replace(incoming, path=api_path))
        message = "There is nothing here."
        raise Refusal(FORBIDDEN, RefusalCode.ENDPOINT_NOT_ALLOWED, message)
