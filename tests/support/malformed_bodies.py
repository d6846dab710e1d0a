"""Message bodies that are no usage events, and odd ones that are."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

VALID = {
    "customer_id": "customer-1",
    "billing_period": "2026-11",
    "stripe_customer_id": "cus_1",
    "amount_cents": 5000,
}
MAX_BODY_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class MalformedBody:
    """A body and what is said about it.

    Args:
        name: tells it from the others.
        body: the bytes of the message.
        reason: how the description of the dead letter begins: the field and what is wrong with it.
    """

    name: str
    body: bytes
    reason: str


def event_body(**fields: Any) -> bytes:
    """A valid event with some fields changed; non-ASCII stays as it is."""
    text = json.dumps({**VALID, **fields}, ensure_ascii=False)
    return text.encode("utf-8")


def event_text(insert: str) -> bytes:
    """A valid event whose text begins with other fields, written by hand."""
    return b"{" + insert.encode() + b", " + event_body()[1:]


def without(name: str) -> bytes:
    """A valid event that lacks a field."""
    return json.dumps({key: value for key, value in VALID.items() if key != name}).encode()


def escaped(name: str, escape: str) -> bytes:
    """A valid event whose field holds a JSON escape, as in `\\u0000`."""
    fields = json.dumps({**VALID, name: "MARK"})
    return fields.replace("MARK", f"a{escape}b").encode()


def _digits(name: str, digits: str) -> bytes:
    fields = json.dumps({**VALID, name: "MARK"})
    return fields.replace('"MARK"', digits).encode()


_NOT_OBJECTS = [
    MalformedBody("empty", b"", "body: is not JSON"),
    MalformedBody("white space", b" \n\t ", "body: is not JSON"),
    MalformedBody("plain text", b"charge customer-1 please", "body: is not JSON"),
    MalformedBody("null", b"null", "body: is a JSON null"),
    MalformedBody("array", b"[]", "body: is a JSON array"),
    MalformedBody("array of events", b"[" + event_body() + b"]", "body: is a JSON array"),
    MalformedBody("string", b'"event"', "body: is a JSON string"),
    MalformedBody("number", b"42", "body: is a JSON integer"),
    MalformedBody("true", b"true", "body: is a JSON boolean"),
    MalformedBody("JSON within a JSON string", json.dumps(event_body().decode()).encode(), "body:"),
    MalformedBody("cut off", event_body()[:-1], "body: is not JSON"),
    MalformedBody("two events", event_body() + event_body(), "body: is not JSON: Extra data"),
    MalformedBody("single quotes", b"{'customer_id': 'customer-1'}", "body: is not JSON"),
    MalformedBody("trailing comma", event_body()[:-1] + b",}", "body: is not JSON"),
    MalformedBody("byte order mark", b"\xef\xbb\xbf" + event_body(), "body: is not JSON"),
    MalformedBody("Latin-1", '{"customer_id": "Käse"}'.encode("latin-1"), "body: is not UTF-8"),
    MalformedBody("UTF-16", event_body().decode().encode("utf-16"), "body: is not UTF-8"),
    MalformedBody("overlong UTF-8", b'{"customer_id": "\xc0\x80"}', "body: is not UTF-8"),
    MalformedBody("surrogate in UTF-8", b'{"customer_id": "\xed\xa0\x80"}', "body: is not UTF-8"),
    MalformedBody("gzip", b"\x1f\x8b\x08\x00" + bytes(60), "body: is not UTF-8"),
    MalformedBody("zero bytes", bytes(100), "body: is not JSON"),
    MalformedBody(
        "raw control character",
        event_body(customer_id="a\x01").replace(b"\\u0001", b"\x01"),
        "body: is not JSON",
    ),
    MalformedBody("too long", event_body(note="x" * MAX_BODY_BYTES), "body: is 65659 bytes long"),
    MalformedBody("deep arrays", b"[" * 60_000, "body: is nested too deeply"),
    MalformedBody("deep objects", b'{"a":' * 12_000, "body: is nested too deeply"),
    MalformedBody(
        "deep in an extra field",
        event_text('"note": ' + "[" * 30_000),
        "body: is nested too deeply",
    ),
    MalformedBody("NaN", _digits("amount_cents", "NaN"), "body: holds NaN"),
    MalformedBody("Infinity", _digits("amount_cents", "Infinity"), "body: holds Infinity"),
    MalformedBody(
        "minus Infinity in an extra field", event_text('"note": -Infinity'), "body: holds -Infinity"
    ),
]

_DUPLICATES = [
    MalformedBody(
        "amount twice", event_text('"amount_cents": 1'), "amount_cents: stands there twice"
    ),
    MalformedBody(
        "customer twice, the same",
        event_text('"customer_id": "customer-1"'),
        "customer_id: stands there twice",
    ),
    MalformedBody(
        "twice, once escaped",
        event_text('"\\u0061mount_cents": 1'),
        "amount_cents: stands there twice",
    ),
    MalformedBody(
        "twice in an extra field", event_text('"note": {"a": 1, "a": 2}'), "a: stands there twice"
    ),
]

_STRINGS = [
    MalformedBody("no customer", without("customer_id"), "customer_id: is missing"),
    MalformedBody("null customer", event_body(customer_id=None), "customer_id: is missing"),
    MalformedBody("empty customer", event_body(customer_id=""), "customer_id: must have 1 to 200"),
    MalformedBody("numeric customer", event_body(customer_id=42), "customer_id: must be a string"),
    MalformedBody(
        "customer in an array",
        event_body(customer_id=["a"]),
        "customer_id: must be a string, not a JSON array",
    ),
    MalformedBody(
        "long customer", event_body(customer_id="c" * 201), "customer_id: must have 1 to 200"
    ),
    MalformedBody("NUL", escaped("customer_id", "\\u0000"), "customer_id: holds U+0000"),
    MalformedBody("line feed", escaped("customer_id", "\\n"), "customer_id: holds U+000A"),
    MalformedBody("delete", event_body(customer_id="a\x7f"), "customer_id: holds U+007F"),
    MalformedBody("C1 control", event_body(customer_id="a\x85"), "customer_id: holds U+0085"),
    MalformedBody("lone surrogate", escaped("customer_id", "\\ud800"), "customer_id: holds U+D800"),
    MalformedBody(
        "right-to-left mark",
        event_body(customer_id="a\u200f"),
        "customer_id: holds a character that cannot be printed",
    ),
    MalformedBody(
        "right-to-left override",
        event_body(customer_id="a\u202e"),
        "customer_id: holds a character that cannot be printed",
    ),
    MalformedBody(
        "zero width space",
        event_body(customer_id="a\u200b"),
        "customer_id: holds a character that cannot be printed",
    ),
    MalformedBody(
        "line separator",
        event_body(customer_id="a\u2028"),
        "customer_id: holds a character that cannot be printed",
    ),
    MalformedBody("no period", without("billing_period"), "billing_period: is missing"),
    MalformedBody(
        "colon in the period", event_body(billing_period="2026:11"), "billing_period: must be"
    ),
    MalformedBody(
        "space in the period", event_body(billing_period="2026 11"), "billing_period: must be"
    ),
    MalformedBody(
        "line feed after the period",
        event_body(billing_period="2026-11\n"),
        "billing_period: holds U+000A",
    ),
    MalformedBody(
        "foreign digits in the period",
        event_body(billing_period="２０２６"),
        "billing_period: must be",
    ),
    MalformedBody(
        "numeric period", event_body(billing_period=202611), "billing_period: must be a string"
    ),
    MalformedBody("long period", event_body(billing_period="1" * 65), "billing_period: must be"),
    MalformedBody(
        "no Stripe customer", without("stripe_customer_id"), "stripe_customer_id: is missing"
    ),
    MalformedBody(
        "wrong Stripe id", event_body(stripe_customer_id="sub_1"), "stripe_customer_id: must be"
    ),
    MalformedBody(
        "path in the Stripe id",
        event_body(stripe_customer_id="cus_1/../x"),
        "stripe_customer_id: must be",
    ),
    MalformedBody("long currency", event_body(currency="usdd"), "currency: must be"),
    MalformedBody("empty currency", event_body(currency=""), "currency: must be"),
    MalformedBody(
        "foreign letters in the currency", event_body(currency="ＵＳＤ"), "currency: must be"
    ),
    MalformedBody(
        "wrong payment method",
        event_body(payment_method_id="tok_visa"),
        "payment_method_id: must be",
    ),
    MalformedBody(
        "long description", event_body(description="d" * 501), "description: has 501 characters"
    ),
    MalformedBody(
        "NUL in the description", escaped("description", "\\u0000"), "description: holds U+0000"
    ),
    MalformedBody(
        "description is an object", event_body(description={}), "description: must be a string"
    ),
]

_NUMBERS = [
    MalformedBody("no amount", without("amount_cents"), "amount_cents: is missing"),
    MalformedBody("null amount", event_body(amount_cents=None), "amount_cents: is missing"),
    MalformedBody("zero", event_body(amount_cents=0), "amount_cents: must be between"),
    MalformedBody("minus zero", _digits("amount_cents", "-0"), "amount_cents: must be between"),
    MalformedBody("negative", event_body(amount_cents=-5000), "amount_cents: must be between"),
    MalformedBody(
        "too large", event_body(amount_cents=100_000_000), "amount_cents: must be between"
    ),
    MalformedBody(
        "number as a string",
        event_body(amount_cents="5000"),
        "amount_cents: must be an integer, not a JSON string",
    ),
    MalformedBody("fraction", event_body(amount_cents=50.5), "amount_cents: must be an integer"),
    MalformedBody(
        "whole fraction", event_body(amount_cents=5000.0), "amount_cents: must be an integer"
    ),
    MalformedBody("exponent", _digits("amount_cents", "5e3"), "amount_cents: must be an integer"),
    MalformedBody(
        "infinite exponent", _digits("amount_cents", "1e999"), "amount_cents: must be an integer"
    ),
    MalformedBody(
        "boolean",
        event_body(amount_cents=True),
        "amount_cents: must be an integer, not a JSON boolean",
    ),
    MalformedBody(
        "array amount", event_body(amount_cents=[5000]), "amount_cents: must be an integer"
    ),
    MalformedBody(
        "5000 digits", _digits("amount_cents", "9" * 5000), "amount_cents: must be between"
    ),
    MalformedBody(
        "minus 5000 digits",
        _digits("amount_cents", "-" + "9" * 5000),
        "amount_cents: must be between",
    ),
    MalformedBody("leading zero", _digits("amount_cents", "0500"), "body: is not JSON"),
    MalformedBody("hexadecimal", _digits("amount_cents", "0x10"), "body: is not JSON"),
    MalformedBody("attempt 0", event_body(attempt=0), "attempt: must be between 1 and 100"),
    MalformedBody("attempt 101", event_body(attempt=101), "attempt: must be between 1 and 100"),
    MalformedBody("attempt true", event_body(attempt=True), "attempt: must be an integer"),
    MalformedBody("attempt as a string", event_body(attempt="2"), "attempt: must be an integer"),
]

MALFORMED_BODIES = [*_NOT_OBJECTS, *_DUPLICATES, *_STRINGS, *_NUMBERS]

ODD_BUT_VALID = {
    "extra fields": event_body(note="hello", tags=["a", {"b": None}], message={"data": "x"}),
    "extra field of 5000 digits": event_text('"note": ' + "9" * 5000),
    "null for what is optional": event_body(currency=None, description=None, attempt=None),
    "white space around": b"\n  " + event_body() + b"\r\n\t",
    "escaped field name": event_body().replace(b'"amount_cents"', b'"\\u0061mount_cents"'),
    "printable in any script": event_body(customer_id="客户-Käse-🧀", description="שלום\u200f"),
    "longest of everything": event_body(
        customer_id="c" * 200,
        billing_period="p" * 64,
        amount_cents=99_999_999,
        description="d" * 500,
        attempt=100,
    ),
    "exactly 64 KiB": event_body() + b" " * (MAX_BODY_BYTES - len(event_body())),
}

every_malformed_body = pytest.mark.parametrize(
    "malformed", MALFORMED_BODIES, ids=lambda malformed: malformed.name
)
