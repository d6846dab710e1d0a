"""What the functions do, apart from being Azure functions."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import TYPE_CHECKING

from azure_function.envelope import TRANSPORT, read_message
from azure_function.settlement import FunctionSettlement
from shared.clock import SystemClock
from shared.decision_log import DecisionEvent, describe_defect, log_decision
from shared.errors import RecordsUnavailable, SchemaMismatch
from shared.once import Once
from shared.settings import Settings
from shared.timers import keep_keys, open_run_once, reconcile_once

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusReceivedMessage
    from azurefunctions.extensions.bindings.servicebus import ServiceBusMessageActions

    from shared.wiring import Parts


class Billing:
    """The functions of one worker process. Their parts are made when first needed.

    Args:
        settings: checked.
        make_parts: in place of parts over PostgreSQL and Stripe.
    """

    def __init__(
        self, settings: Settings, make_parts: Callable[[Settings], Parts] | None = None
    ) -> None:
        self.settings = settings
        self._clock = SystemClock()
        make = make_parts or _make_parts
        self._parts = Once(lambda: make(settings))

    def bill(self, message: ServiceBusReceivedMessage, actions: ServiceBusMessageActions) -> None:
        """Handle one message. Never raises: the host would abandon it at once.

        Ten abandons take seconds, and the message would be among the dead letters. One that is
        left comes again when its lock has run out.
        """
        try:
            biller = self._parts.get().biller
            biller.handle(read_message(message), FunctionSettlement(message, actions))
        except RecordsUnavailable as error:
            _leave("database_unavailable", str(error))
        except SchemaMismatch as error:
            _leave("schema_mismatch", str(error))
        except Exception as error:  # noqa: BLE001 (a defect of ours must not become an abandon)
            _leave("unexpected_error", describe_defect(error))

    def mint_vault_key(self) -> None:
        """Open the run of the period that is due, and mint its vault key.

        See `shared.timers.open_run_once` and `keep_keys`.
        """
        parts = self._parts.get()
        open_run_once(parts.timers, parts.timers, parts.store, self.settings, self._clock.now())
        keep_keys(parts.keeper)

    def reconcile(self) -> None:
        """Finish records that no message drives on. See `shared.timers.reconcile_once`."""
        parts = self._parts.get()
        reconcile_once(parts.timers, parts.biller, parts.upkeep, keeper=parts.keeper)


def _make_parts(settings: Settings) -> Parts:
    # Here and not above: neither the database driver nor Stripe is needed to index the functions.
    from shared.wiring import build_parts

    parts = build_parts(settings, settings.servicebus.threads)
    # Left open, the pool would hold up the end of the process.
    atexit.register(parts.close)
    return parts


def _leave(code: str, message: str) -> None:
    log_decision(DecisionEvent.TRANSIENT, message, transport=TRANSPORT, code=code)
