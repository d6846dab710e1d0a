"""Reading a Pub/Sub push: which message a request carries, wrapped or not.

Wrapped, the body is Pub/Sub's own JSON with the message in base64. Unwrapped, the body is the
message, and what Pub/Sub knows about it stands in `x-goog-pubsub-*` headers, or nowhere. Its
attributes then are headers of any name, which cannot be told from others: they are not kept. Nor
does it say how often it was delivered, so it is not handed over near the limit.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from shared.errors import ChargeonceError
from shared.ports import Delivery, Envelope

TRANSPORT = "pubsub-push"
MAX_MESSAGE_ID_CHARACTERS = 255
MAX_DELIVERY_COUNT = 1_000_000
# A wrapper is base64, which holds none of these, and at most 128 KiB of attributes. What has more
# is somebody's own JSON: parsing it could fill the memory.
MAX_WRAPPER_MARKS = 200_000
_MARKS = b"[{,"

_UNWRAPPED_HEADERS = (
    "x-goog-pubsub-subscription-name",
    "x-goog-pubsub-message-id",
    "x-goog-pubsub-publish-time",
)

Header: TypeAlias = Callable[[str], str | None]
"""Looks a request header up by its name, in any case."""


class NotAPush(ChargeonceError):
    """A request that carries no Pub/Sub message."""


def read_push(body: bytes, header: Header) -> Delivery:
    """Read the message that a request carries.

    A body that is neither a wrapper nor announced by headers is taken for an unwrapped message:
    a message must not be lost for looking odd.

    Args:
        body: the whole HTTP body.
        header: the request's headers.

    Raises:
        NotAPush: there is no message in it.
    """
    if any(header(name) is not None for name in _UNWRAPPED_HEADERS):
        message_id = header("x-goog-pubsub-message-id") or ""
        return Delivery(body, Envelope(TRANSPORT, message_id[:MAX_MESSAGE_ID_CHARACTERS]))
    wrapper = _parse_wrapper(body)
    if wrapper is not None:
        return _read_wrapped(wrapper)
    if not body:
        raise NotAPush("the body is empty")
    return Delivery(body, Envelope(TRANSPORT))


def _parse_wrapper(body: bytes) -> dict[str, Any] | None:
    """The body as a wrapper, or None when it is the message itself."""
    if sum(body.count(mark) for mark in _MARKS) > MAX_WRAPPER_MARKS:
        return None
    try:
        parsed = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict) or "customer_id" in parsed:
        return None
    is_wrapper = isinstance(parsed.get("message"), dict) or "subscription" in parsed
    return parsed if is_wrapper else None


def _read_wrapped(wrapper: Mapping[str, Any]) -> Delivery:
    message = wrapper.get("message")
    if not isinstance(message, dict):
        raise NotAPush("the wrapper holds no message")
    message_id = _either(message, "messageId", "message_id")
    envelope = Envelope(
        TRANSPORT,
        message_id[:MAX_MESSAGE_ID_CHARACTERS] if isinstance(message_id, str) else "",
        _read_delivery_count(_either(wrapper, "deliveryAttempt", "delivery_attempt")),
        _read_attributes(message),
    )
    return Delivery(_read_data(message), envelope)


def _read_data(message: Mapping[str, Any]) -> bytes:
    data = message.get("data")
    if data is None:
        return b""
    if not isinstance(data, str):
        raise NotAPush("the message's data is not a string")
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        raise NotAPush("the message's data is not base64") from None


def _read_attributes(message: Mapping[str, Any]) -> Mapping[str, str]:
    attributes = message.get("attributes")
    if attributes is None:
        return {}
    if not isinstance(attributes, dict):
        raise NotAPush("the message's attributes are not an object")
    if not all(isinstance(value, str) for value in attributes.values()):
        raise NotAPush("an attribute of the message is not a string")
    return attributes


def _read_delivery_count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 1 <= value <= MAX_DELIVERY_COUNT else None


def _either(fields: Mapping[str, Any], name: str, twin: str) -> object:
    value: object = fields.get(name)
    return fields.get(twin) if value is None else value
