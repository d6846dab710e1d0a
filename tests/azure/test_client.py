"""The way to Service Bus: by connection string, or by the identity of the machine."""

from azure.identity import DefaultAzureCredential

from azure_function.client import make_client
from shared.settings import PublishChoice, ServiceBusSettings, read_publish_settings

HOST = "acme.servicebus.windows.net"


def settings(**environment: str) -> ServiceBusSettings:
    """The settings that name a namespace in one way."""
    destination = read_publish_settings(PublishChoice(queue="usage"), environment).destination
    assert isinstance(destination, ServiceBusSettings)
    assert destination.host == HOST
    return destination


def test_connection_string_names_the_namespace() -> None:
    """Goal: a string as the portal shows it; nothing is connected before it is used."""
    string = f"Endpoint=sb://{HOST}/;SharedAccessKeyName=a;SharedAccessKey=hunter2="
    with make_client(settings(ServiceBus=string)) as client:
        assert client.fully_qualified_namespace == HOST
        assert not isinstance(client._credential, DefaultAzureCredential)


def test_identity_needs_no_secret() -> None:
    """Goal: with the namespace alone, the machine's identity is what lets us in."""
    with make_client(settings(ServiceBus__fullyQualifiedNamespace=HOST)) as client:
        assert client.fully_qualified_namespace == HOST
        assert isinstance(client._credential, DefaultAzureCredential)
