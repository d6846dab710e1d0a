"""The way to Service Bus, for everything here that goes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.settings import ServiceBusSettings

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient


def make_client(servicebus: ServiceBusSettings) -> ServiceBusClient:
    """A client of the SDK, by connection string or by the identity of the machine.

    It connects when a sender or receiver of it is used; neither may be shared by threads.

    Args:
        servicebus: checked.

    Raises:
        ValueError: the connection string is malformed.
    """
    from azure.servicebus import ServiceBusClient

    if servicebus.connection_string is not None:
        return ServiceBusClient.from_connection_string(servicebus.connection_string)
    assert servicebus.namespace is not None
    # Only here: it brings a lot with it.
    from azure.identity import DefaultAzureCredential

    return ServiceBusClient(servicebus.namespace, DefaultAzureCredential())
