"""Goal: the parser takes what clients send, in any pieces, and refuses the rest in time."""

import pytest

from local.stripe_simulator import Request, Response
from local.stripe_simulator.http_parser import (
    MAXIMUM_BODY_BYTES,
    MAXIMUM_HEAD_BYTES,
    MalformedRequest,
    RequestParser,
    head_of,
)

POST = (
    b"POST /v1/charges?expand[]=customer HTTP/1.1\r\n"
    b"Host: localhost\r\n"
    b"X-Empty:\r\n"
    b"Idempotency-Key:  a: b \r\n"
    b"Content-Length: 5\r\n\r\n"
    b"a=1&b"
)
PARSED = Request(
    "POST",
    "/v1/charges",
    "expand[]=customer",
    {"host": "localhost", "x-empty": "", "idempotency-key": "a: b", "content-length": "5"},
    b"a=1&b",
)


def parse(data: bytes) -> Request | None:
    parser = RequestParser()
    parser.feed(data)
    return parser.next_request()


def refusal(data: bytes) -> int:
    with pytest.raises(MalformedRequest) as malformed:
        parse(data)
    return malformed.value.status


def test_a_request_in_one_piece() -> None:
    parser = RequestParser()
    parser.feed(POST)

    assert parser.next_request() == PARSED
    assert parser.next_request() is None


def test_a_request_byte_by_byte() -> None:
    parser = RequestParser()
    found = []
    for byte in POST + POST:
        parser.feed(bytes((byte,)))
        found.append(parser.next_request())

    assert [request for request in found if request is not None] == [PARSED, PARSED]


def test_a_request_without_headers_or_body() -> None:
    assert parse(b"GET / HTTP/1.1\r\n\r\n") == Request("GET", "/", "", {}, b"")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /",
        b"GET / HTTP/1.0",
        b"GET relative HTTP/1.1",
        b"GET  / HTTP/1.1",
        b"GET / HTTP/1.1\r\nno colon",
        b"GET / HTTP/1.1\r\n: no name",
        b"GET / HTTP/1.1\r\nspace before : colon",
        b"GET / HTTP/1.1\r\n folded: x",
        b"GET / HTTP/1.1\r\nContent-Length: -1",
        b"GET / HTTP/1.1\r\nContent-Length: +1",
        b"GET / HTTP/1.1\r\nContent-Length: \xb2",
    ],
)
def test_malformed_requests_are_refused(head: bytes) -> None:
    assert refusal(head + b"\r\n\r\n") == 400


def test_a_chunked_body_is_refused() -> None:
    assert refusal(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n") == 411


def test_sizes_are_bounded() -> None:
    assert refusal(b"GET / HTTP/1.1\r\nX: " + b"x" * MAXIMUM_HEAD_BYTES) == 431
    length = str(MAXIMUM_BODY_BYTES + 1).encode()
    assert refusal(b"POST / HTTP/1.1\r\nContent-Length: " + length + b"\r\n\r\n") == 413
    assert refusal(b"x" * (MAXIMUM_HEAD_BYTES + MAXIMUM_BODY_BYTES + 1)) == 413


def test_an_answer_has_a_length_and_says_whether_it_ends_the_connection() -> None:
    response = Response(402, {"Request-Id": "req_1"}, b"{}")

    assert head_of(response, keep_alive=True) == (
        b"HTTP/1.1 402 Payment Required\r\nRequest-Id: req_1\r\nContent-Length: 2\r\n"
        b"Connection: keep-alive\r\n\r\n"
    )
    assert b"Connection: close\r\n\r\n" in head_of(response, keep_alive=False)
