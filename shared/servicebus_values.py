"""Reading what the Service Bus SDK hands out, which may be text, bytes, or several parts of either.

Without the SDK: its values are plain ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def read_body(body: Any) -> bytes:
    """A message's body as it was sent.

    What other clients send as an AMQP value may be text; a sequence or a map cannot be an event,
    so its text will be refused as one.
    """
    if isinstance(body, bytes):
        return body
    if isinstance(body, str | Mapping):
        return read_text(body).encode("utf-8", "replace")
    if isinstance(body, Iterable):
        return b"".join(
            part if isinstance(part, bytes) else read_text(part).encode() for part in body
        )
    return read_text(body).encode()


def read_properties(properties: Mapping[Any, Any] | None) -> Mapping[str, str]:
    """Application properties, whose names and strings are bytes."""
    return {read_text(name): read_text(value) for name, value in (properties or {}).items()}


def read_text(value: object) -> str:
    """One value as text; empty for None."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
