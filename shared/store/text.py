"""Text as the stores keep it: an envelope and an error message are anybody's text."""

from __future__ import annotations

import re

from shared.ports import Envelope

MAX_MESSAGE_ID_CHARACTERS = 512

_NOT_STORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str) -> str:
    """Replace what PostgreSQL's text cannot hold: NUL and lone surrogates."""
    return _NOT_STORABLE.sub("\ufffd", text)


def storable_or_none(text: str | None) -> str | None:
    """The same for text that may be missing."""
    return None if text is None else storable(text)


def storable_envelope(envelope: Envelope) -> Envelope:
    """An envelope as it is kept. The message id is cut short: an index holds it."""
    return Envelope(
        transport=envelope.transport,
        message_id=storable(envelope.message_id)[:MAX_MESSAGE_ID_CHARACTERS],
        delivery_count=envelope.delivery_count,
        attributes={storable(name): storable(value) for name, value in envelope.attributes.items()},
    )
