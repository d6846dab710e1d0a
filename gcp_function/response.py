"""How the HTTP functions answer: a status, and never a word."""

from __future__ import annotations

from flask import Response

DONE = 204
BAD_REQUEST = 400
NOT_ALLOWED = 405
MISCONFIGURED = 500
FAILED = 500
UNAVAILABLE = 503


def respond(status: int) -> Response:
    """A response without a body."""
    if status == DONE:
        return Response(status=status)
    # A stream, so that functions-framework does not read a body that was refused into memory.
    response = Response(iter(()), status=status)
    if status == NOT_ALLOWED:
        response.headers["Allow"] = "POST"
    return response
