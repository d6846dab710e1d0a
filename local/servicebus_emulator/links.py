"""Links: one direction of messages between a client and something in the broker.

`incoming` has the links on which clients send, `outgoing` those on which they receive.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from local.servicebus_emulator.errors import TRANSFER_LIMIT_EXCEEDED, LinkFailure
from local.servicebus_emulator.performatives import Flow, Outcome, Transfer
from local.servicebus_emulator.queues import Queue

# Deliveries are counted with 32 bits, and begin again at 0.
COUNTER_MASK: Final = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a consumer can settle."""

    queue: Queue
    lock_token: UUID


class LinkPort(Protocol):
    """What a link needs of the session that it is attached to."""

    @property
    def can_send(self) -> bool:
        """Whether another message may be sent now."""
        ...

    def send_message(
        self, handle: int, delivery_tag: bytes, payload: bytes, delivery: Delivery | None
    ) -> None:
        """Send a message, unsettled when there is something to settle."""
        ...

    def send_link_flow(
        self, handle: int, delivery_count: int, link_credit: int, *, drain: bool = False
    ) -> None:
        """Tell the peer how a link stands."""
        ...

    def send_outcome(self, delivery_id: int, outcome: Outcome) -> None:
        """Settle a message of the peer."""
        ...

    def cut(self) -> None:
        """Cut the connection."""
        ...


class Link(ABC):
    """An attached link.

    Args:
        port: The session that it is attached to.
        handle: What the peer calls it there.
    """

    def __init__(self, port: LinkPort, handle: int) -> None:
        self.handle = handle
        self._port = port

    @abstractmethod
    def start(self) -> None:
        """Begin, now that the peer knows that it is attached."""

    @abstractmethod
    def on_flow(self, flow: Flow) -> None:
        """Hear how the peer stands."""

    @abstractmethod
    def resume(self) -> None:
        """Go on: messages may be sent again."""

    @abstractmethod
    def stop(self) -> None:
        """End: the link is detached or its connection gone."""

    def receive(self, transfer: Transfer, payload: bytes) -> None:
        """Take in a message, or a part of one.

        Raises:
            LinkFailure: The peer may not send this.
        """
        del transfer, payload
        raise LinkFailure("this link carries messages the other way", TRANSFER_LIMIT_EXCEEDED)
