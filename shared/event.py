"""The usage event: what a message body must hold to become a charge."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from shared.errors import InvalidEvent

MAX_BODY_BYTES = 64 * 1024
MAX_AMOUNT_CENTS = 99_999_999
MAX_ATTEMPT = 100
MAX_CUSTOMER_ID_CHARACTERS = 200
MAX_DESCRIPTION_CHARACTERS = 500
MAX_INTEGER_DIGITS = 18

# Stands for every longer number. Python refuses to read thousands of digits, and then nobody
# could say which field holds them; this one is out of every field's range.
_TOO_MANY_DIGITS = 10**MAX_INTEGER_DIGITS

_BILLING_PERIOD = re.compile(r"[A-Za-z0-9._-]{1,64}")
_STRIPE_CUSTOMER_ID = re.compile(r"cus_[A-Za-z0-9_-]{1,200}")
_PAYMENT_METHOD_ID = re.compile(r"(?:pm|card|src)_[A-Za-z0-9_-]{1,200}")
_CURRENCY = re.compile(r"[A-Za-z]{3}")
_NOT_TEXT = frozenset({"Cc", "Cs"})


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What may never differ between two deliveries of one charge."""

    amount_cents: int
    currency: str
    stripe_customer_id: str


@dataclass(frozen=True, slots=True)
class UsageEvent:
    """One customer's already summed usage of one period. Amounts are in the smallest unit."""

    customer_id: str
    billing_period: str
    stripe_customer_id: str
    amount_cents: int
    currency: str
    payment_method_id: str | None = None
    description: str | None = None
    attempt: int = 1

    @property
    def fingerprint(self) -> Fingerprint:
        """The fields in which a redelivery must agree with the record."""
        return Fingerprint(self.amount_cents, self.currency, self.stripe_customer_id)


def parse_event(body: bytes, default_currency: str) -> UsageEvent:
    """Read a message body.

    Unknown fields are ignored; `null` for an optional field means that it is absent.

    Args:
        body: the raw message body, at most 64 KiB of UTF-8 JSON.
        default_currency: used when the event names none, lower case.

    Raises:
        InvalidEvent: names the first field that is wrong. Such a message can never become a
            charge, so it belongs to the dead letters at once.
    """
    fields = _parse_object(body)
    return UsageEvent(
        customer_id=_customer_id(fields),
        billing_period=_required(fields, "billing_period", _billing_period),
        stripe_customer_id=_required(fields, "stripe_customer_id", _stripe_customer_id),
        amount_cents=_integer(fields, "amount_cents", 1, MAX_AMOUNT_CENTS),
        currency=_optional(fields, "currency", _currency) or default_currency,
        payment_method_id=_optional(fields, "payment_method_id", _payment_method_id),
        description=_optional(fields, "description", _description),
        attempt=_attempt(fields),
    )


def is_billing_period(text: str) -> bool:
    """Whether the text may name a billing period."""
    return _BILLING_PERIOD.fullmatch(text) is not None


def _parse_object(body: bytes) -> dict[str, Any]:
    if len(body) > MAX_BODY_BYTES:
        raise InvalidEvent("body", f"is {len(body)} bytes long; at most {MAX_BODY_BYTES} are read")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidEvent("body", f"is not UTF-8 (byte {error.start})") from None
    try:
        parsed = json.loads(
            text,
            object_pairs_hook=_object_without_duplicates,
            parse_constant=_refuse_constant,
            parse_int=_parse_integer,
        )
    except json.JSONDecodeError as error:
        raise InvalidEvent(
            "body", f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        ) from None
    except RecursionError:
        raise InvalidEvent("body", "is nested too deeply") from None
    if not isinstance(parsed, dict):
        raise InvalidEvent("body", f"is a JSON {_json_type(parsed)}, not an object")
    return parsed


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise InvalidEvent(
                _shown(name), "stands there twice; which one counts is anybody's guess"
            )
        fields[name] = value
    return fields


def _refuse_constant(constant: str) -> NoReturn:
    raise InvalidEvent("body", f"holds {constant}, which is not JSON")


def _parse_integer(digits: str) -> int:
    return int(digits) if len(digits) <= MAX_INTEGER_DIGITS else _TOO_MANY_DIGITS


def _required(fields: dict[str, Any], name: str, check: Callable[[str], str]) -> str:
    value = _optional(fields, name, check)
    if value is None:
        raise InvalidEvent(name, "is missing")
    return value


def _optional(fields: dict[str, Any], name: str, check: Callable[[str], str]) -> str | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidEvent(name, f"must be a string, not a JSON {_json_type(value)}")
    for character in value:
        if unicodedata.category(character) in _NOT_TEXT:
            raise InvalidEvent(
                name, f"holds U+{ord(character):04X}, a control character or half of one"
            )
    try:
        return check(value)
    except ValueError as error:
        raise InvalidEvent(name, str(error)) from None


def _customer_id(fields: dict[str, Any]) -> str:
    def check(value: str) -> str:
        if not 1 <= len(value) <= MAX_CUSTOMER_ID_CHARACTERS:
            raise ValueError(f"must have 1 to {MAX_CUSTOMER_ID_CHARACTERS} characters")
        if not value.isprintable():
            raise ValueError("holds a character that cannot be printed")
        return value

    return _required(fields, "customer_id", check)


def _billing_period(value: str) -> str:
    if not is_billing_period(value):
        raise ValueError("must be 1 to 64 letters, digits, dots, dashes or underscores; no colon")
    return value


def _stripe_customer_id(value: str) -> str:
    if not _STRIPE_CUSTOMER_ID.fullmatch(value):
        raise ValueError("must be a Stripe customer id (cus_...)")
    return value


def _payment_method_id(value: str) -> str:
    if not _PAYMENT_METHOD_ID.fullmatch(value):
        raise ValueError("must be a Stripe id that starts with pm_, card_ or src_")
    return value


def _currency(value: str) -> str:
    if not _CURRENCY.fullmatch(value):
        raise ValueError("must be a three-letter ISO code")
    return value.lower()


def _description(value: str) -> str:
    if len(value) > MAX_DESCRIPTION_CHARACTERS:
        raise ValueError(f"has {len(value)} characters; at most {MAX_DESCRIPTION_CHARACTERS} fit")
    return value


def _attempt(fields: dict[str, Any]) -> int:
    if fields.get("attempt") is None:
        return 1
    return _integer(fields, "attempt", 1, MAX_ATTEMPT)


def _integer(fields: dict[str, Any], name: str, least: int, most: int) -> int:
    value = fields.get(name)
    if value is None:
        raise InvalidEvent(name, "is missing")
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidEvent(name, f"must be an integer, not a JSON {_json_type(value)}")
    if not least <= value <= most:
        raise InvalidEvent(name, f"must be between {least} and {most}")
    return value


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number with a fraction or exponent"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _shown(name: str) -> str:
    """A field's name as it may stand in a log line, whatever the sender called it."""
    return ascii(name[:64])[1:-1] or "body"
