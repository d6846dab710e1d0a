"""A message as the Service Bus extension hands it to a worker."""

from typing import TYPE_CHECKING, Any, Final

import uamqp

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusReceivedMessage

VERSION: Final = "1.0"
SOURCE: Final = "AzureServiceBusReceivedMessage"
CONTENT_TYPE: Final = "application/octet-stream"

_SEPARATOR: Final = b"x-opt-lock-token"
_PROPERTIES: Final = ("message_id", "correlation_id", "subject", "content_type", "to", "reply_to")


def bind(message: "ServiceBusReceivedMessage") -> bytes:
    """Return the content of the model binding data: the lock token, then the encoded message."""
    token: Any = message.lock_token
    return bytes(token.bytes_le) + _SEPARATOR + _encode(message)


def _encode(message: "ServiceBusReceivedMessage") -> bytes:
    raw = message.raw_amqp_message
    properties = uamqp.message.MessageProperties(
        **{name: getattr(raw.properties, name) for name in _PROPERTIES if raw.properties}
    )
    header = uamqp.message.MessageHeader()
    header.delivery_count = message.delivery_count
    is_value = raw.body_type.value == "value"
    encoded = uamqp.Message(
        body=raw.body if is_value else list(raw.body),
        body_type=uamqp.MessageBodyType.Value if is_value else uamqp.MessageBodyType.Data,
        properties=properties,
        application_properties=raw.application_properties or None,
        annotations=raw.annotations,
        header=header,
    ).encode_message()
    return bytes(encoded)
