"""Reading a Service Bus message, as the Functions extension or the SDK hands it over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from shared.ports import Delivery, Envelope

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusReceivedMessage

TRANSPORT = "servicebus"


def read_message(message: ServiceBusReceivedMessage) -> Delivery:
    """Read a message's body and what the broker says about it.

    Args:
        message: the SDK's own; the Functions extension makes the same.
    """
    failed_deliveries = message.delivery_count
    envelope = Envelope(
        TRANSPORT,
        _text(message.message_id),
        # Service Bus counts those that failed, so it says 0 at first.
        None if failed_deliveries is None else failed_deliveries + 1,
        _read_attributes(message.application_properties),
    )
    return Delivery(_read_body(message.body), envelope)


def _read_body(body: Any) -> bytes:
    """The body as it was sent.

    What other clients send as an AMQP value may be text; a sequence or a map cannot be an event,
    so its text will be refused as one.
    """
    if isinstance(body, bytes):
        return body
    if isinstance(body, str | Mapping):
        return _text(body).encode("utf-8", "replace")
    if isinstance(body, Iterable):
        return b"".join(part if isinstance(part, bytes) else _text(part).encode() for part in body)
    return _text(body).encode()


def _read_attributes(properties: Mapping[Any, Any] | None) -> Mapping[str, str]:
    return {_text(name): _text(value) for name, value in (properties or {}).items()}


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
