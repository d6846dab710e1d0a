"""Settling a message of the Functions trigger, through the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shared.errors import SettlementFailed

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusReceivedMessage
    from azurefunctions.extensions.bindings.servicebus import ServiceBusMessageActions

# Service Bus refuses longer ones.
MAX_REASON_CHARACTERS = 4096
MAX_DESCRIPTION_CHARACTERS = 4096

# The host hands the broker's refusal on as text; this is the name of the reason in it.
_LOCK_LOST = "MessageLockLost"


class FunctionSettlement:
    """Implements the port `Settlement` for one invocation.

    Args:
        message: as the trigger got it.
        actions: the host's side of it.
    """

    def __init__(
        self, message: ServiceBusReceivedMessage, actions: ServiceBusMessageActions
    ) -> None:
        self._message = message
        self._actions = actions

    def complete(self) -> None:
        """See `Settlement.complete`."""
        _settle("complete", lambda: self._actions.complete(self._message))

    def dead_letter(self, reason: str, description: str) -> None:
        """See `Settlement.dead_letter`."""
        _settle(
            "dead-letter",
            lambda: self._actions.deadletter(
                self._message,
                deadletter_reason=reason[:MAX_REASON_CHARACTERS],
                deadletter_error_description=description[:MAX_DESCRIPTION_CHARACTERS],
            ),
        )

    def leave(self) -> None:
        """See `Settlement.leave`. The host stops renewing when the function returns."""


def _settle(verb: str, action: Callable[[], object]) -> None:
    try:
        action()
    except Exception as error:
        # The host's error has the gRPC one inside; neither is a type to rely on.
        original = getattr(error, "original", error)
        raise SettlementFailed(
            f"the host did not {verb} the message ({type(original).__name__})",
            lock_lost=_LOCK_LOST in str(original),
        ) from error
