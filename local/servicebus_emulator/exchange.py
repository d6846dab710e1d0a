"""Requests and their answers, as `$cbs` and `$management` exchange them in messages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from local.servicebus_emulator.encoding import encode
from local.servicebus_emulator.errors import DECODE_ERROR, PRECONDITION_FAILED, DecodeError
from local.servicebus_emulator.links import LinkPort
from local.servicebus_emulator.outgoing import ResponseLink
from local.servicebus_emulator.performatives import Accepted, Outcome, rejected
from local.servicebus_emulator.sections import Section, section_value, split_sections
from local.servicebus_emulator.wire_types import Described, UnsignedLong, Value

# Where the properties have it.
_REPLY_TO: Final = 4


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks.

    Attributes:
        message_id: What the answer refers to.
        reply_to: The address of the link that the answer is meant for, or None.
        properties: The application properties; `operation` says what is asked.
        body: The parameters.
    """

    message_id: Value
    reply_to: str | None
    properties: Mapping[str, Value]
    body: Value


@dataclass(frozen=True, slots=True)
class Response:
    """What the client is told."""

    properties: Mapping[str, Value]
    body: Value = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A response, or none where a fault swallowed it, and whether the connection is cut."""

    response: Response | None
    cuts: bool = False


class RequestHandler(Protocol):
    """Answers requests."""

    def answer(self, request: Request) -> Reply:
        """Do what is asked."""
        ...


class RequestTarget:
    """Takes requests in and sees to it that the answers go out.

    Args:
        port: The session of the link that brings the requests.
        handler: Answers them.
        find_response_link: Finds the link for an answer by the request's reply-to.
    """

    def __init__(
        self,
        port: LinkPort,
        handler: RequestHandler,
        find_response_link: Callable[[str | None], ResponseLink | None],
    ) -> None:
        self._port = port
        self._handler = handler
        self._find_response_link = find_response_link

    def accept(self, message_format: int, payload: bytes) -> Outcome:
        """Take a request in, and return what the client is told about the message itself."""
        del message_format
        try:
            request = parse_request(payload)
        except DecodeError as error:
            return rejected(DECODE_ERROR, error.description)
        link = self._find_response_link(request.reply_to)
        if link is None:
            return rejected(PRECONDITION_FAILED, "no link is attached for the response")
        reply = self._handler.answer(request)
        if reply.response is not None:
            link.respond(encode_response(request, reply.response))
        if reply.cuts:
            self._port.cut()
        return Accepted()


def parse_request(payload: bytes) -> Request:
    """Return the request that a message is.

    Raises:
        DecodeError: It is none.
    """
    values = {section: section_value(data) for section, data in split_sections(payload)}
    properties = values.get(Section.PROPERTIES)
    application_properties = values.get(Section.APPLICATION_PROPERTIES)
    if not isinstance(properties, list) or not isinstance(application_properties, dict):
        raise DecodeError("a request lacks its properties")
    reply_to = properties[_REPLY_TO] if len(properties) > _REPLY_TO else None
    return Request(
        message_id=properties[0] if properties else None,
        reply_to=reply_to if isinstance(reply_to, str) else None,
        properties={str(key): value for key, value in application_properties.items()},
        body=values.get(Section.VALUE),
    )


def encode_response(request: Request, response: Response) -> bytes:
    """Return the message that answers a request."""
    correlation: list[Value] = [None, None, None, None, None, request.message_id]
    return b"".join(
        encode(Described(UnsignedLong(section), value))
        for section, value in (
            (Section.PROPERTIES, correlation),
            (Section.APPLICATION_PROPERTIES, dict(response.properties)),
            (Section.VALUE, response.body),
        )
    )
