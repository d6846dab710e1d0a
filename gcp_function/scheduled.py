"""The endpoints that Cloud Scheduler calls: what Azure's timers do.

    204    done with, or another firing has just begun it
    401    not authenticated
    403    authenticated as somebody else
    405    not a POST
    500    it failed, or the settings are wrong; the log says why
    503    not now: the database, Stripe or Google's certificates are away

Cloud Scheduler counts anything but 2xx as a failure and tries again if it is told to. It must wait
for a minute first: within one, a second firing is taken for a double of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from flask import Request, Response

from gcp_function.authentication import (
    Authenticate,
    CertificatesUnavailable,
    RequestRefused,
    make_authentication,
)
from gcp_function.response import (
    DONE,
    FAILED,
    MISCONFIGURED,
    NOT_ALLOWED,
    UNAVAILABLE,
    respond,
)
from shared import notices
from shared.clock import SystemClock
from shared.decision_log import describe_defect
from shared.errors import (
    RecordsUnavailable,
    RunError,
    SchemaMismatch,
    SettingsError,
    StripeUnavailable,
)
from shared.once import Once
from shared.settings import Settings, read_scheduled_settings
from shared.timers import RECONCILE_SECONDS, keep_keys, open_run_once, reconcile_once

if TYPE_CHECKING:
    from shared.wiring import Parts


class ScheduledFunctions:
    """The scheduled endpoints of one process. Their parts are made when first needed.

    Args:
        environment: the settings, in place of the process's own.
        make_parts: in place of parts over PostgreSQL and Stripe.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        make_parts: Callable[[Settings], Parts] | None = None,
    ) -> None:
        self._clock = SystemClock()
        make = make_parts or _make_parts
        self._settings = Once(lambda: _read_settings(environment))
        self._authenticate = Once(lambda: make_authentication(self._settings.get().scheduler))
        self._parts = Once(lambda: make(self._settings.get()))

    def mint_vault_key(self, request: Request) -> Response:
        """Open the run of the period that is due, and mint its vault key.

        See `shared.timers.open_run_once` and `keep_keys`.
        """
        return answer_scheduled(request, self._authenticate.get, self._mint)

    def reconcile(self, request: Request) -> Response:
        """Finish what no message drives on. See `shared.timers.reconcile_once`."""
        return answer_scheduled(request, self._authenticate.get, self._reconcile)

    def _mint(self) -> None:
        parts = self._parts.get()
        settings = self._settings.get()
        open_run_once(parts.timers, parts.timers, parts.store, settings, self._clock.now())
        keep_keys(parts.keeper)

    def _reconcile(self) -> None:
        parts = self._parts.get()
        seconds = _reconcile_seconds(self._settings.get())
        reconcile_once(parts.timers, parts.biller, parts.upkeep, seconds, parts.keeper)


def answer_scheduled(
    request: Request, get_authenticate: Callable[[], Authenticate], run: Callable[[], None]
) -> Response:
    """Authenticate and run. Never raises: an uncaught exception would log what it quotes.

    Args:
        request: of Cloud Scheduler.
        get_authenticate: reads the settings when it is first called, which may fail.
        run: what the timer does.
    """
    try:
        if request.method != "POST":
            return respond(NOT_ALLOWED)
        get_authenticate()(request.headers.get)
        run()
    except Exception as error:  # noqa: BLE001 (see the docstring)
        return respond(_status_after(error))
    return respond(DONE)


def _read_settings(environment: Mapping[str, str] | None) -> Settings:
    settings = read_scheduled_settings(environment)
    notices.warn_each(settings.warnings)
    return settings


def _make_parts(settings: Settings) -> Parts:
    # Here and not above: the database driver is not needed to import the functions.
    from shared.wiring import build_parts

    return build_parts(settings, settings.function.threads)


def _reconcile_seconds(settings: Settings) -> float:
    """As long as lets the charge that was begun last end before the request is given up."""
    timeout_seconds, rules = settings.function.timeout_seconds, settings.rules
    if timeout_seconds is None:
        return RECONCILE_SECONDS
    spare_seconds = timeout_seconds - rules.budget_seconds - rules.attempt_seconds
    return min(RECONCILE_SECONDS, spare_seconds)


def _status_after(error: Exception) -> int:
    """Tell the operator what stood in the way, and how to answer."""
    match error:
        case SettingsError():
            notices.alarm(str(error))
            return MISCONFIGURED
        case RequestRefused():
            notices.warn(f"a scheduled call was refused with {error.status}: {error}")
            return error.status
        case (
            RecordsUnavailable()
            | SchemaMismatch()
            | StripeUnavailable()
            | CertificatesUnavailable()
        ):
            notices.alarm(str(error))
            return UNAVAILABLE
        case RunError():
            # The alarm is given where it was found.
            return FAILED
        case _:
            notices.alarm(f"a scheduled function failed: {describe_defect(error)}")
            return FAILED


_FUNCTIONS = ScheduledFunctions()


def mint_vault_key(request: Request) -> Response:
    """The HTTP function `mint_vault_key`; see the module."""
    return _FUNCTIONS.mint_vault_key(request)


def reconcile(request: Request) -> Response:
    """The HTTP function `reconcile`; see the module."""
    return _FUNCTIONS.reconcile(request)
