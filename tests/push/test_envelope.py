"""Reading a push: which message a request carries, wrapped or not."""

import json
from typing import Any

import pytest
from werkzeug.datastructures import Headers

from gcp_function.envelope import NotAPush, read_push
from shared.ports import Delivery, Envelope
from tests.support.malformed_bodies import MalformedBody, event_body, every_malformed_body
from tests.support.pubsub import SUBSCRIPTION, wrap

BODY = event_body()
METADATA = {
    "X-Goog-Pubsub-Subscription-Name": SUBSCRIPTION,
    "X-Goog-Pubsub-Message-Id": "11",
    "X-Goog-Pubsub-Publish-Time": "2026-11-30T12:00:00Z",
}


def read(body: bytes, headers: dict[str, str] | None = None) -> Delivery:
    """Read a push as the function does, with Flask's headers."""
    return read_push(body, Headers(headers or {}).get)


def test_wrapped_push_is_unwrapped() -> None:
    """Goal: body, id, delivery attempt and attributes of Pub/Sub's own format arrive."""
    delivery = read(wrap(BODY, "11", deliveryAttempt=3, attributes={"source": "meter"}))
    assert delivery == Delivery(BODY, Envelope("pubsub-push", "11", 3, {"source": "meter"}))


@pytest.mark.parametrize(
    ("message", "wrapper"),
    [
        ({"data": "e30=", "messageId": "11"}, {"deliveryAttempt": 2}),
        ({"data": "e30=", "message_id": "11"}, {"delivery_attempt": 2}),
        ({"data": "e30=", "messageId": None, "message_id": "11"}, {"delivery_attempt": 2}),
    ],
    ids=["camel case", "snake case", "null beside snake case"],
)
def test_both_spellings_are_read(message: dict[str, Any], wrapper: dict[str, Any]) -> None:
    """Goal: either of the twins that Pub/Sub writes is enough."""
    body = json.dumps({"message": message, "subscription": SUBSCRIPTION, **wrapper}).encode()
    assert read(body) == Delivery(b"{}", Envelope("pubsub-push", "11", 2))


@pytest.mark.parametrize(
    "message", [{"messageId": "11"}, {"messageId": "11", "data": None, "attributes": None}]
)
def test_message_without_data_has_an_empty_body(message: dict[str, Any]) -> None:
    """Goal: such a message goes to the dead letters instead of coming back for ever."""
    body = json.dumps({"message": message, "subscription": SUBSCRIPTION}).encode()
    assert read(body) == Delivery(b"", Envelope("pubsub-push", "11"))


def test_wrapper_needs_no_subscription() -> None:
    """Goal: requests that people write by hand from the documentation work."""
    assert read(b'{"message": {"data": "e30="}}').body == b"{}"


def test_unwrapped_push_is_the_message() -> None:
    """Goal: with metadata in headers the body is the message, whatever it looks like."""
    expected = Envelope("pubsub-push", "11")
    assert read(BODY, METADATA) == Delivery(BODY, expected)
    assert read(wrap(BODY), METADATA) == Delivery(wrap(BODY), expected)
    assert read(b"", METADATA) == Delivery(b"", expected)


def test_unwrapped_push_without_metadata_is_the_message() -> None:
    """Goal: without any header the body still is the message, without an id."""
    assert read(BODY) == Delivery(BODY, Envelope("pubsub-push"))


@every_malformed_body
def test_malformed_message_is_kept_as_it_is(malformed: MalformedBody) -> None:
    """Goal: wrapped or not, what is no event arrives byte by byte, to be dead-lettered."""
    assert read(wrap(malformed.body)).body == malformed.body
    assert read(malformed.body, METADATA).body == malformed.body
    if malformed.body:
        assert read(malformed.body).body == malformed.body


def test_event_with_a_field_called_message_is_no_wrapper() -> None:
    """Goal: an unwrapped event may have fields of any name."""
    body = event_body(message={"data": "e30="}, subscription="gold")
    assert read(body).body == body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"subscription": "s"}',
        b'{"subscription": "s", "message": null}',
        b'{"subscription": "s", "message": "e30="}',
        b'{"subscription": "s", "message": []}',
        b'{"message": {"data": 1}}',
        b'{"message": {"data": {}}}',
        b'{"message": {"data": "not base64"}}',
        b'{"message": {"data": "e30"}}',
        '{"message": {"data": "Käse"}}'.encode(),
        b'{"message": {"data": "e30=", "attributes": []}}',
        b'{"message": {"data": "e30=", "attributes": {"a": 1}}}',
    ],
)
def test_request_without_a_message_is_told_apart(body: bytes) -> None:
    """Goal: what Pub/Sub never sends is refused, and not mistaken for an event."""
    with pytest.raises(NotAPush):
        read(body)


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "3", None, 10**10])
def test_delivery_attempt_that_is_none_does_not_count(count: object) -> None:
    """Goal: nothing that the database would refuse comes from the envelope."""
    assert read(wrap(BODY, deliveryAttempt=count)).envelope.delivery_count is None


def test_long_message_id_is_cut() -> None:
    """Goal: no id is too long for the index on parked events."""
    assert read(wrap(BODY, "9" * 5000)).envelope.message_id == "9" * 255
    headers = {**METADATA, "X-Goog-Pubsub-Message-Id": "9" * 5000}
    assert read(BODY, headers).envelope.message_id == "9" * 255


def test_huge_structure_is_not_parsed() -> None:
    """Goal: a large body that cannot be a wrapper is taken as it is, at no cost of memory."""
    body = b'{"message": {}, "subscription": "s", "note": [' + b"{}," * 200_000 + b"{}]}"
    assert read(body).body == body


def test_largest_wrapper_is_parsed() -> None:
    """Goal: the largest message with the most attributes that Pub/Sub carries is read."""
    attributes = {f"{number:03}" + "k" * 253: ",[{" * 341 for number in range(100)}
    largest = bytes(9_800_000)
    delivery = read(wrap(largest, attributes=attributes))
    assert delivery.body == largest
    assert delivery.envelope.attributes == attributes
