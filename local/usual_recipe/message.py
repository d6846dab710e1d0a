"""What the usual consumers ask of a broker, on whatever cloud: three ways to end with a message."""

from typing import Protocol


class Message(Protocol):
    """One delivery of one message."""

    @property
    def body(self) -> bytes:
        """What it carries."""
        ...

    @property
    def message_id(self) -> str:
        """The broker's name for it; a message that is sent once more gets another."""
        ...

    def complete(self) -> None:
        """Settle it: `ack` on Pub/Sub, `complete` on Service Bus."""
        ...

    def give_back(self) -> None:
        """Have it delivered again now: `nack` on Pub/Sub, `abandon` on Service Bus."""
        ...

    def leave(self) -> None:
        """Do nothing, and trust that the broker delivers it again when the lease ends."""
        ...
