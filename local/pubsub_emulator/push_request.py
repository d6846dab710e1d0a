"""What a push endpoint is sent, and what its answer means."""

import base64
import json
import re
from dataclasses import dataclass
from typing import Any, Final

from local.pubsub_emulator.messages import Delivery
from local.pubsub_emulator.settings import PushSettings, SubscriptionSettings

ACKNOWLEDGING_STATUSES: Final = frozenset({102, 200, 201, 202, 204})

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_USER_AGENT: Final = "chargeonce-pubsub-emulator"


@dataclass(frozen=True, slots=True)
class PushRequest:
    """The body and the headers of one POST."""

    body: bytes
    headers: dict[str, str]


def push_request(settings: SubscriptionSettings, delivery: Delivery) -> PushRequest:
    """Return what is sent to the subscription's endpoint for a delivery."""
    push = settings.push
    assert push is not None, "the subscription has no endpoint"
    if push.wrapped:
        body = json.dumps(_wrapped(settings, delivery)).encode()
        headers = {"Content-Type": "application/json"}
    else:
        body = delivery.message.content.data
        headers = _metadata_headers(settings, push, delivery)
    return PushRequest(body, {"User-Agent": _USER_AGENT, **headers})


def _wrapped(settings: SubscriptionSettings, delivery: Delivery) -> dict[str, Any]:
    content = delivery.message.content
    message: dict[str, Any] = {
        "attributes": dict(content.attributes),
        "messageId": delivery.message.message_id,
        "message_id": delivery.message.message_id,
        "publishTime": delivery.message.published_text,
        "publish_time": delivery.message.published_text,
    }
    if content.data:
        message["data"] = base64.b64encode(content.data).decode()
    if content.ordering_key:
        message["orderingKey"] = content.ordering_key
    body: dict[str, Any] = {"message": message, "subscription": settings.name}
    if settings.dead_letter_policy is not None:
        body["deliveryAttempt"] = delivery.attempt
    return body


def _metadata_headers(
    settings: SubscriptionSettings, push: PushSettings, delivery: Delivery
) -> dict[str, str]:
    if not push.writes_metadata:
        return {}
    message = delivery.message
    headers = {
        "x-goog-pubsub-subscription-name": settings.name,
        "x-goog-pubsub-message-id": message.message_id,
        "x-goog-pubsub-publish-time": message.published_text,
    }
    if message.ordering_key:
        headers["x-goog-pubsub-ordering-key"] = message.ordering_key
    attributes = {
        name: value
        for name, value in message.content.attributes.items()
        if _HEADER_NAME.fullmatch(name) and value.isascii() and value.isprintable()
    }
    return {**attributes, **headers}
