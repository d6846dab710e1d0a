"""Serves the control API over HTTP."""

import asyncio
import io
import json
from http import HTTPStatus
from http.client import HTTPException, parse_headers
from typing import Final

from local.servicebus_emulator.control_api import (
    ControlAnswer,
    ControlApi,
    ControlRequest,
    request_of,
)

MAXIMUM_HEAD_BYTES: Final = 16 * 1024
MAXIMUM_BODY_BYTES: Final = 64 * 1024
MAXIMUM_CLIENTS: Final = 100
REQUEST_SECONDS: Final = 10.0


class BadRequest(Exception):
    """What came is no request of the control API."""


class ControlServer:
    """One request per connection, which is plenty for a test.

    Args:
        api: Answers the requests.
        host: The address to listen on.
        port: The port; 0 takes any that is free.
    """

    def __init__(self, api: ControlApi, host: str, port: int) -> None:
        self._api = api
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._client_count = 0

    @property
    def port(self) -> int:
        """The port on which it listens."""
        assert self._server is not None, "the server was not started"
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            OSError: The address cannot be had.
        """
        self._server = await asyncio.start_server(
            self._serve, self._host, self._port, limit=MAXIMUM_HEAD_BYTES
        )

    def stop(self) -> None:
        """Listen no more; who is being served is cut off when the loop ends."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._client_count += 1
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                answer = await self._answer(reader)
                writer.write(_encode(answer))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            self._client_count -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> ControlAnswer:
        if self._client_count > MAXIMUM_CLIENTS:
            return ControlAnswer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "too many clients"})
        try:
            request = await _read_request(reader)
        except BadRequest as error:
            return ControlAnswer(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        return self._api.handle(request)


async def _read_request(reader: asyncio.StreamReader) -> ControlRequest:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        request_line, _, header_lines = head.partition(b"\r\n")
        method, target, _version = request_line.decode("ascii").split(" ")
        headers = parse_headers(io.BytesIO(header_lines))
        body_bytes = int(headers.get("content-length", "0"))
        if not 0 <= body_bytes <= MAXIMUM_BODY_BYTES:
            raise BadRequest(f"a body has at most {MAXIMUM_BODY_BYTES} bytes")
        body = json.loads(await reader.readexactly(body_bytes) or b"{}")
    except (asyncio.LimitOverrunError, HTTPException, ValueError, RecursionError) as error:
        raise BadRequest("this is no HTTP request with a JSON body") from error
    if not isinstance(body, dict):
        raise BadRequest("the body is not a JSON object")
    return request_of(method, target, body)


def _encode(answer: ControlAnswer) -> bytes:
    body = json.dumps(answer.body).encode()
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        "content-type: application/json\r\n"
        f"content-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode() + body
