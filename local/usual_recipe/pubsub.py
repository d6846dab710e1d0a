"""The usual consumers on Pub/Sub, as callbacks for Google's client."""

from collections.abc import Callable

from google.cloud.pubsub_v1.subscriber.message import Message as ClientMessage

from local.usual_recipe.message import Message

Callback = Callable[[ClientMessage], None]


class PubsubMessage:
    """A message as Google's client hands it to a callback.

    Args:
        message: the client's.
    """

    def __init__(self, message: ClientMessage) -> None:
        self._message = message

    @property
    def body(self) -> bytes:
        """See `Message.body`."""
        return bytes(self._message.data)

    @property
    def message_id(self) -> str:
        """See `Message.message_id`."""
        return str(self._message.message_id)

    def complete(self) -> None:
        """See `Message.complete`."""
        self._message.ack()

    def give_back(self) -> None:
        """See `Message.give_back`."""
        self._message.nack()

    def leave(self) -> None:
        """See `Message.leave`.

        The client goes on extending the lease for an hour, so nothing is delivered again; that
        nobody expects it is part of the recipe.
        """


def callback_for(handle: Callable[[Message], None]) -> Callback:
    """A callback for `subscribe` that hands each message to a consumer."""
    return lambda message: handle(PubsubMessage(message))
