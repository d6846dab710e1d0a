"""Just enough of HTTP/1.1 to serve Stripe's clients: one request after the other, bounded."""

import re
from typing import NamedTuple

from local.stripe_simulator.wire import Request, Response

MAXIMUM_HEAD_BYTES = 32 * 1024
MAXIMUM_BODY_BYTES = 8 * 1024 * 1024

_END_OF_HEAD = b"\r\n\r\n"
_HEADER_LINE = re.compile(r"^([!#-'*+\-.0-9A-Z^-z|~]+):[ \t]*([^\r\n]*)(?:\r|\Z)", re.MULTILINE)
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    502: "Bad Gateway",
}


class MalformedRequest(Exception):
    """The bytes are not a request that this server takes; the connection must end."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Head(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    body_bytes: int


class RequestParser:
    """Collects bytes of one connection and cuts requests out of them."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: _Head | None = None

    def feed(self, data: bytes) -> None:
        """Add received bytes.

        Raises:
            MalformedRequest: More arrived than one request may hold.
        """
        self._buffer += data
        if len(self._buffer) > MAXIMUM_HEAD_BYTES + MAXIMUM_BODY_BYTES:
            raise MalformedRequest(413, "too much at once")

    def next_request(self) -> Request | None:
        """Return the next complete request, or None while it is still arriving.

        Raises:
            MalformedRequest: It is too large or not HTTP/1.1 as this server understands it.
        """
        if self._head is None:
            self._head = self._take_head()
        head = self._head
        if head is None or len(self._buffer) < head.body_bytes:
            return None
        self._head = None
        body = bytes(self._buffer[: head.body_bytes])
        del self._buffer[: head.body_bytes]
        path, _, query = head.target.partition("?")
        return Request(head.method, path, query, head.headers, body)

    def _take_head(self) -> "_Head | None":
        end = self._buffer.find(_END_OF_HEAD, 0, MAXIMUM_HEAD_BYTES)
        if end < 0:
            if len(self._buffer) >= MAXIMUM_HEAD_BYTES:
                raise MalformedRequest(431, "the header is too large")
            return None
        first, _, lines = self._buffer[:end].decode("latin-1").partition("\r\n")
        del self._buffer[: end + len(_END_OF_HEAD)]
        parts = first.split(" ")
        if len(parts) != 3 or not parts[1].startswith("/") or parts[2] != "HTTP/1.1":
            raise MalformedRequest(400, "the request line is malformed")
        headers = _headers(lines)
        return _Head(parts[0], parts[1], headers, _body_bytes(headers))


def head_of(response: Response, *, keep_alive: bool) -> bytes:
    """Return the status line and headers of an answer, up to and with the empty line."""
    reason = _REASONS.get(response.status, "Unknown")
    lines = [f"HTTP/1.1 {response.status} {reason}"]
    lines += [f"{name}: {value}" for name, value in response.headers.items()]
    lines.append(f"Content-Length: {len(response.body)}")
    lines.append("Connection: keep-alive\r\n\r\n" if keep_alive else "Connection: close\r\n\r\n")
    return "\r\n".join(lines).encode("latin-1", errors="replace")


def _headers(lines: str) -> dict[str, str]:
    found = _HEADER_LINE.findall(lines)
    if len(found) != (lines.count("\r\n") + 1 if lines else 0):
        raise MalformedRequest(400, "a header line is malformed")
    return {name.lower(): value.rstrip() for name, value in found}


def _body_bytes(headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise MalformedRequest(411, "only bodies with a Content-Length are read")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise MalformedRequest(400, "the Content-Length is malformed")
    if int(length) > MAXIMUM_BODY_BYTES:
        raise MalformedRequest(413, "the body is too large")
    return int(length)
