"""The endpoint that a Pub/Sub push subscription delivers usage events to.

    204    done with: the record is durable, a dead letter is published
    400    no Pub/Sub message in it
    401    not authenticated
    403    authenticated as somebody else
    405    not a POST
    413    larger than any Pub/Sub message can be
    500    the settings are wrong; the log names them
    503    left: Pub/Sub delivers it again when its retry policy says so

Anything but 204 means to Pub/Sub that the message is to be delivered again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import IO

from flask import Request, Response
from werkzeug.exceptions import ClientDisconnected, HTTPException, RequestEntityTooLarge

from gcp_function.authentication import (
    CertificatesUnavailable,
    RequestRefused,
    make_authentication,
)
from gcp_function.dead_letters import DeadLetters, PubsubDeadLetters
from gcp_function.envelope import TRANSPORT, NotAPush, read_push
from gcp_function.response import BAD_REQUEST, MISCONFIGURED, NOT_ALLOWED, respond
from gcp_function.settlement import LEFT, PushSettlement
from shared import notices
from shared.biller import Biller
from shared.decision_log import DecisionEvent, describe_defect, log_decision
from shared.errors import ChargeonceError, RecordsUnavailable, SchemaMismatch, SettingsError
from shared.once import Once
from shared.settings import Settings, read_push_settings

# Pub/Sub carries 10 MB, which base64 makes a third larger. All of that is read, because a message
# that is too large for an event has to reach the dead letters whole.
MAX_BODY_BYTES = 16 * 1024 * 1024
# An event, wrapped, with every attribute that Pub/Sub allows. Larger ones are read one at a time,
# so that they cannot fill the memory.
USUAL_BODY_BYTES = 256 * 1024


class LargeMessageWaits(ChargeonceError):
    """Another large message is being handled."""


class PushFunction:
    """The push endpoint of one process. Its parts are made when a request first needs them.

    Args:
        environment: the settings, in place of the process's own.
        make_biller: makes the biller from checked settings.
        dead_letters: in place of the dead-letter topic in the settings.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        make_biller: Callable[[Settings], Biller] | None = None,
        dead_letters: DeadLetters | None = None,
    ) -> None:
        make = make_biller or _make_biller
        self._settings = Once(lambda: _read_settings(environment))
        self._authenticate = Once(lambda: make_authentication(self._settings.get().pubsub.push))
        self._biller = Once(lambda: make(self._settings.get()))
        self._dead_letters = Once(
            lambda: dead_letters or PubsubDeadLetters(self._settings.get().pubsub.dead_letter_path)
        )
        self._large_body = threading.Semaphore()

    def answer(self, request: Request) -> Response:
        """Handle one request. Never raises: an uncaught exception would be a 500."""
        try:
            return respond(self._answer(request))
        except Exception as error:  # noqa: BLE001 (a defect of ours must not become a 500)
            return respond(_status_after(error))

    def _answer(self, request: Request) -> int:
        if request.method != "POST":
            return NOT_ALLOWED
        self._authenticate.get()(request.headers.get)
        biller = self._biller.get()
        request.max_content_length = MAX_BODY_BYTES + 1
        body = _read(request.stream, USUAL_BODY_BYTES + 1)
        if len(body) <= USUAL_BODY_BYTES:
            return self._bill(request, body, biller)
        if not self._large_body.acquire(blocking=False):
            raise LargeMessageWaits("another large message is being handled")
        try:
            body += _read(request.stream, MAX_BODY_BYTES + 1 - len(body))
            return self._bill(request, body, biller)
        finally:
            self._large_body.release()

    def _bill(self, request: Request, body: bytes, biller: Biller) -> int:
        _check_whole(request, body)
        delivery = read_push(body, request.headers.get)
        settlement = PushSettlement(delivery, self._dead_letters.get())
        biller.handle(delivery, settlement)
        return settlement.status


def _read_settings(environment: Mapping[str, str] | None) -> Settings:
    settings = read_push_settings(environment)
    notices.warn_each(settings.warnings)
    return settings


def _make_biller(settings: Settings) -> Biller:
    # Here and not above: the database driver is not needed to import the function.
    from shared.wiring import build_biller, open_store

    return build_biller(settings, open_store(settings, settings.function.threads))


def _status_after(error: Exception) -> int:
    """Tell the operator what stood in the way of handling a request, and how to answer it."""
    match error:
        case SettingsError():
            notices.alarm(str(error))
            return MISCONFIGURED
        case RequestRefused():
            notices.warn(f"push refused with {error.status}: {error}")
            return error.status
        case NotAPush():
            notices.warn(f"not a Pub/Sub push: {error}")
            return BAD_REQUEST
        case HTTPException():
            notices.warn(f"the request cannot be read ({type(error).__name__})")
            return error.code or BAD_REQUEST
        case RecordsUnavailable():
            return _leave("database_unavailable", str(error))
        case SchemaMismatch():
            return _leave("schema_mismatch", str(error))
        case CertificatesUnavailable():
            return _leave("certificates_unavailable", str(error))
        case LargeMessageWaits():
            return _leave("large_message_waits", str(error))
        case _:
            return _leave("unexpected_error", describe_defect(error))


def _read(stream: IO[bytes], most_bytes: int) -> bytes:
    """What the stream holds, up to so many bytes."""
    chunks: list[bytes] = []
    while most_bytes > 0 and (chunk := stream.read(most_bytes)):
        chunks.append(chunk)
        most_bytes -= len(chunk)
    return b"".join(chunks)


def _check_whole(request: Request, body: bytes) -> None:
    """Refuse a body that was cut off.

    Where the server ends the stream itself, as gunicorn does, Werkzeug can tell neither a body
    that it has cut at the limit nor one whose sender went away from a complete one.
    """
    if len(body) > MAX_BODY_BYTES:
        raise RequestEntityTooLarge
    if request.content_length is not None and len(body) != request.content_length:
        raise ClientDisconnected


def _leave(code: str, message: str) -> int:
    log_decision(DecisionEvent.TRANSIENT, message, transport=TRANSPORT, code=code)
    return LEFT


_FUNCTION = PushFunction()


def bill(request: Request) -> Response:
    """The HTTP function `bill`; see the module."""
    return _FUNCTION.answer(request)
