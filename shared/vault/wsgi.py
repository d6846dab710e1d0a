"""The proxy in the form that web servers run (PEP 3333)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import IO, Any, TypeAlias
from urllib.parse import urlsplit

from shared.vault.application import VaultApplication
from shared.vault.incoming import MAX_BODY_BYTES, Incoming
from shared.vault.proxy import Outgoing, refused
from shared.vault.refusal import BAD_REQUEST, Refusal, RefusalCode

Environment: TypeAlias = Mapping[str, Any]
StartResponse: TypeAlias = Callable[..., Any]
WsgiApplication: TypeAlias = Callable[[Environment, StartResponse], Iterable[bytes]]


def as_wsgi(application: VaultApplication) -> WsgiApplication:
    """The application in the form that web servers run."""

    def run(environ: Environment, start_response: StartResponse) -> Iterable[bytes]:
        outgoing = answer_wsgi(application, environ)
        headers = {**outgoing.headers, "content-length": str(len(outgoing.body))}
        status = f"{outgoing.status} {_phrase(outgoing.status)}"
        start_response(status, list(headers.items()))
        return [outgoing.body]

    return run


def answer_wsgi(application: VaultApplication, environ: Environment) -> Outgoing:
    """Answer the request in a WSGI environment."""
    try:
        body = _read_body(environ)
    except Refusal as refusal:
        return refused(refusal)
    return application.answer(
        Incoming(
            method=str(environ["REQUEST_METHOD"]),
            path=_raw_path(environ),
            query=str(environ.get("QUERY_STRING", "")),
            headers=_headers(environ),
            body=body,
        )
    )


def _raw_path(environ: Environment) -> str:
    """The path as it was sent.

    PATH_INFO is decoded, so `%2e%2e` could not be told from `..`. Where the server keeps the
    original, it must be the same: nothing that is served here needs encoding.
    """
    decoded = str(environ.get("PATH_INFO", ""))
    raw = environ.get("RAW_URI") or environ.get("REQUEST_URI")
    if not isinstance(raw, str):
        return decoded
    raw_path = raw.partition("?")[0] if raw.startswith("/") else urlsplit(raw).path
    return decoded if raw_path.endswith(decoded) else raw_path


def _headers(environ: Environment) -> dict[str, str]:
    headers = {
        name[5:].replace("_", "-").lower(): str(value)
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    if environ.get("CONTENT_TYPE"):
        headers["content-type"] = str(environ["CONTENT_TYPE"])
    return headers


def _read_body(environ: Environment) -> bytes:
    """The body; of one that is too large, as much as shows that it is.

    A body without a length is not read: its transfer encoding has it refused.
    """
    length = str(environ.get("CONTENT_LENGTH") or "0")
    stream: IO[bytes] = environ["wsgi.input"]
    if "HTTP_TRANSFER_ENCODING" in environ or not (length.isascii() and length.isdigit()):
        return b""
    wanted = min(int(length), MAX_BODY_BYTES + 1)
    chunks: list[bytes] = []
    while wanted > 0 and (chunk := stream.read(wanted)):
        chunks.append(chunk)
        wanted -= len(chunk)
    if wanted > 0:
        raise Refusal(BAD_REQUEST, RefusalCode.BODY_NOT_ALLOWED, "The body was cut off.")
    return b"".join(chunks)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
