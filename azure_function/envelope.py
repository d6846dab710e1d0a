"""Reading a Service Bus message, as the Functions extension or the SDK hands it over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.ports import Delivery, Envelope
from shared.servicebus_values import read_body, read_properties, read_text

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
        read_text(message.message_id),
        # Service Bus counts those that failed, so it says 0 at first.
        None if failed_deliveries is None else failed_deliveries + 1,
        read_properties(message.application_properties),
    )
    return Delivery(read_body(message.body), envelope)
