"""Reading messages as the SDK and the Functions extension hand them over."""

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from azure.servicebus import ServiceBusMessage

from azure_function.envelope import read_message
from shared.ports import Envelope


def received(**fields: Any) -> Any:
    """A message with the attributes that are read of it."""
    usual = {
        "body": iter([b"{}"]),
        "message_id": "id-1",
        "delivery_count": 0,
        "application_properties": None,
    }
    return SimpleNamespace(**{**usual, **fields})


def test_envelope_counts_deliveries_from_one_and_has_text_only() -> None:
    """Goal: the broker counts failed deliveries, and its properties come as bytes."""
    properties = {
        b"source": b"meter",
        "plain": "text",
        b"number": 7,
        b"odd": b"\xff",
        b"none": None,
    }
    delivery = read_message(received(delivery_count=2, application_properties=properties))
    assert delivery.envelope == Envelope(
        "servicebus",
        "id-1",
        3,
        {"source": "meter", "plain": "text", "number": "7", "odd": "\ufffd", "none": ""},
    )


def test_what_is_missing_stays_missing() -> None:
    """Goal: a message without id and header is read too."""
    delivery = read_message(received(message_id=None, delivery_count=None))
    assert delivery.envelope == Envelope("servicebus", "", None, {})


def test_message_id_of_another_type_becomes_text() -> None:
    """Goal: other clients send a UUID, bytes or a number for an id."""
    number = uuid4()
    for given, text in ((number, str(number)), (b"bytes", "bytes"), (7, "7")):
        assert read_message(received(message_id=given)).envelope.message_id == text


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (iter([b'{"a":', b"1}"]), b'{"a":1}'),
        (iter([]), b""),
        (b"bytes", b"bytes"),
        ("text \u00fc", "text \u00fc".encode()),
        ({b"customer_id": b"1"}, b"{b'customer_id': b'1'}"),
        (iter([[1, 2]]), b"[1, 2]"),
        (7, b"7"),
        (None, b""),
    ],
)
def test_body_is_read_whatever_its_type(body: Any, expected: bytes) -> None:
    """Goal: data comes whole; values and sequences of other clients do not stop the consumer."""
    assert read_message(received(body=body)).body == expected


def test_message_of_the_sdk_is_read() -> None:
    """Goal: the attributes are those that the SDK has."""
    message: Any = ServiceBusMessage(b"{}", application_properties={"a": "b"}, message_id="1")
    message.delivery_count = 0
    assert read_message(message).body == b"{}"
    assert read_message(message).envelope == Envelope("servicebus", "1", 1, {"a": "b"})
