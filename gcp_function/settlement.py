"""Settling a push: the HTTP status is the settlement."""

from __future__ import annotations

from gcp_function.dead_letters import DeadLetters, dead_letter_attributes
from shared.ports import Delivery

ACKNOWLEDGED = 204
LEFT = 503


class PushSettlement:
    """Implements the port `Settlement` for one delivery.

    Args:
        delivery: the message.
        dead_letters: where it goes if it can never be charged.
    """

    def __init__(self, delivery: Delivery, dead_letters: DeadLetters) -> None:
        self._delivery = delivery
        self._dead_letters = dead_letters
        self._is_settled = False
        # Whatever goes wrong on the way, Pub/Sub delivers the message again.
        self._status = LEFT

    @property
    def status(self) -> int:
        """How the request is to be answered."""
        return self._status

    def complete(self) -> None:
        """See `Settlement.complete`."""
        self._settle()
        self._status = ACKNOWLEDGED

    def dead_letter(self, reason: str, description: str) -> None:
        """See `Settlement.dead_letter`. Nothing is acknowledged before the copy is safe."""
        self._settle()
        attributes = dead_letter_attributes(self._delivery, reason, description)
        self._dead_letters.publish(self._delivery.body, attributes)
        self._status = ACKNOWLEDGED

    def leave(self) -> None:
        """See `Settlement.leave`. The subscription's retry policy paces the next delivery."""
        self._settle()

    def _settle(self) -> None:
        assert not self._is_settled, "a message is settled once"
        self._is_settled = True
