"""Links on which clients send: messages for a queue or topic, or requests."""

from typing import Final, Protocol

from local.servicebus_emulator.errors import (
    MESSAGE_SIZE_EXCEEDED,
    TRANSFER_LIMIT_EXCEEDED,
    LinkFailure,
)
from local.servicebus_emulator.links import COUNTER_MASK, Link, LinkPort
from local.servicebus_emulator.messages import MAXIMUM_MESSAGE_BYTES
from local.servicebus_emulator.performatives import Flow, Outcome, Transfer, rejected

INCOMING_CREDIT: Final = 1000


class Target(Protocol):
    """Where messages that a client sends go."""

    def accept(self, message_format: int, payload: bytes) -> Outcome:
        """Take a message in, and return what the client is told."""
        ...


class IncomingLink(Link):
    """Takes in what a client sends.

    Args:
        port: The session that it is attached to.
        handle: What the peer calls it there.
        target: Where it goes.
        delivery_count: Where the peer begins to count.
    """

    def __init__(self, port: LinkPort, handle: int, target: Target, delivery_count: int) -> None:
        super().__init__(port, handle)
        self._target = target
        self._delivery_count = delivery_count
        self._credit = 0
        self._first: Transfer | None = None
        self._payload = bytearray()

    def start(self) -> None:
        """Let the peer send."""
        self._give_credit()

    def on_flow(self, flow: Flow) -> None:
        """Repeat the credit when asked to."""
        if flow.echo:
            self._give_credit()

    def resume(self) -> None:
        """Nothing waits for its turn here."""

    def stop(self) -> None:
        """Forget the part of a message that came."""
        self._first = None
        self._payload.clear()

    def receive(self, transfer: Transfer, payload: bytes) -> None:
        """Take in a message, or a part of one.

        Raises:
            LinkFailure: There was no credit for it.
        """
        first = self._first or transfer
        self._first = first if transfer.more and not transfer.aborted else None
        # Of a message that is too large, no more is kept than what shows that it is.
        self._payload += payload[: MAXIMUM_MESSAGE_BYTES + 1 - len(self._payload)]
        if self._first is not None:
            return
        whole = bytes(self._payload)
        self._payload.clear()
        self._count_delivery()
        if transfer.aborted:
            return
        outcome = self._accept(first, whole)
        if not (first.settled or transfer.settled) and first.delivery_id is not None:
            self._port.send_outcome(first.delivery_id, outcome)

    def _accept(self, first: Transfer, whole: bytes) -> Outcome:
        if len(whole) > MAXIMUM_MESSAGE_BYTES:
            return rejected(
                MESSAGE_SIZE_EXCEEDED,
                f"The received message exceeds the limit of {MAXIMUM_MESSAGE_BYTES} bytes.",
            )
        return self._target.accept(first.message_format or 0, whole)

    def _count_delivery(self) -> None:
        if self._credit == 0:
            raise LinkFailure("a message without credit", TRANSFER_LIMIT_EXCEEDED)
        self._credit -= 1
        self._delivery_count = (self._delivery_count + 1) & COUNTER_MASK
        if self._credit <= INCOMING_CREDIT // 2:
            self._give_credit()

    def _give_credit(self) -> None:
        self._credit = INCOMING_CREDIT
        self._port.send_link_flow(self.handle, self._delivery_count, INCOMING_CREDIT)
