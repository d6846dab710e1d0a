"""The endpoints that the proxy understands, and what each may carry.

What is not here is never forwarded, whatever a key allows: a parameter that the proxy does not know
could move other money than it counts (`transfer_data`, `application_fee_amount`, `on_behalf_of`).
The parameters are Stripe's own (https://docs.stripe.com/api).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from shared.record import Flow

SEGMENT = re.compile(r"[A-Za-z0-9_-]{1,255}")
WILDCARD = "*"


class Money(StrEnum):
    """What an endpoint can do to money."""

    NONE = "none"
    CHARGE = "charge"
    CREATE_INTENT = "create_intent"
    CONFIRM = "confirm"
    CAPTURE = "capture"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint.

    Args:
        method: `GET` or `POST`.
        path: with `*` for one segment.
        money: what it can do to money.
        parameters: the names that it may carry. `name[]` also stands for `name[0]` and so on,
            `name[*]` for any one key in brackets.
    """

    method: str
    path: str
    money: Money
    parameters: frozenset[str]

    def allows_parameter(self, name: str) -> bool:
        """Whether it may carry a parameter of this name."""
        return name in self.parameters or _general(name) in self.parameters


_EXPAND = frozenset({"expand[]"})
_LIST = _EXPAND | {
    "limit",
    "starting_after",
    "ending_before",
    "customer",
    "created",
    "created[gt]",
    "created[gte]",
    "created[lt]",
    "created[lte]",
}
_DESCRIBING = _EXPAND | {"description", "statement_descriptor", "receipt_email"}
# Only of a payment that is being made: by its metadata an existing one is recognised.
_MAKING = _DESCRIBING | {"metadata[*]"}

CATALOGUE: Sequence[Endpoint] = (
    Endpoint("GET", "/v1/account", Money.NONE, _EXPAND),
    Endpoint("GET", "/v1/customers/*", Money.NONE, _EXPAND),
    Endpoint("GET", "/v1/customers", Money.NONE, _LIST | {"email"}),
    Endpoint("GET", "/v1/charges", Money.NONE, _LIST | {"payment_intent"}),
    Endpoint("GET", "/v1/charges/*", Money.NONE, _EXPAND),
    Endpoint("GET", "/v1/payment_intents", Money.NONE, _LIST),
    Endpoint("GET", "/v1/payment_intents/*", Money.NONE, _EXPAND),
    Endpoint("GET", "/v1/refunds", Money.NONE, _LIST | {"charge", "payment_intent"}),
    Endpoint(
        "POST",
        "/v1/charges",
        Money.CHARGE,
        _MAKING | {"amount", "currency", "customer", "source"},
    ),
    Endpoint(
        "POST",
        "/v1/payment_intents",
        Money.CREATE_INTENT,
        _MAKING
        | {
            "amount",
            "currency",
            "customer",
            "payment_method",
            "payment_method_types[]",
            "automatic_payment_methods[enabled]",
            "automatic_payment_methods[allow_redirects]",
            "capture_method",
            "confirm",
            "off_session",
            "return_url",
            "statement_descriptor_suffix",
        },
    ),
    # Of a PaymentIntent itself nothing may change that money depends on.
    Endpoint("POST", "/v1/payment_intents/*", Money.NONE, _DESCRIBING),
    Endpoint(
        "POST",
        "/v1/payment_intents/*/confirm",
        Money.CONFIRM,
        _EXPAND | {"payment_method", "off_session", "return_url", "receipt_email"},
    ),
    Endpoint(
        "POST",
        "/v1/payment_intents/*/capture",
        Money.CAPTURE,
        _EXPAND | {"amount_to_capture"},
    ),
    Endpoint(
        "POST", "/v1/payment_intents/*/cancel", Money.CANCEL, _EXPAND | {"cancellation_reason"}
    ),
)

TWO_STEP_ENDPOINTS = (
    "/v1/account",
    "/v1/customers/*",
    "/v1/payment_intents",
    "/v1/payment_intents/*",
    "/v1/payment_intents/*/confirm",
    "/v1/payment_intents/*/cancel",
)
"""What the two-step flow calls; see `shared.stripe_requests`."""

ONE_STEP_ENDPOINTS = ("/v1/account", "/v1/charges", "/v1/charges/*")
"""What the one-step flow calls."""

ENDPOINTS_OF_FLOW = {
    Flow.PAYMENT_INTENT: TWO_STEP_ENDPOINTS,
    Flow.CHARGE: ONE_STEP_ENDPOINTS,
}
"""What each flow calls; with both, what a search through Stripe's lists reads."""


def find_endpoint(method: str, segments: Sequence[str]) -> Endpoint | None:
    """The endpoint of a path, or None."""
    for endpoint in CATALOGUE:
        if endpoint.method == method and _matches(endpoint.path, segments):
            return endpoint
    return None


def is_allowed(segments: Sequence[str], allowed: Iterable[str]) -> bool:
    """Whether a key's list holds the path: every segment the same, `*` for any one segment."""
    return any(_matches(pattern, segments) for pattern in allowed)


def is_pattern(path: str) -> bool:
    """Whether a text can stand in a key's list of endpoints."""
    first, *segments = path.split("/")
    return (
        first == ""
        and bool(segments)
        and segments[0] == "v1"
        and all(segment == WILDCARD or SEGMENT.fullmatch(segment) for segment in segments)
    )


def _matches(pattern: str, segments: Sequence[str]) -> bool:
    wanted = pattern.split("/")[1:]
    return len(wanted) == len(segments) and all(
        one in (WILDCARD, other) for one, other in zip(wanted, segments, strict=True)
    )


def _general(name: str) -> str:
    """`expand[0]` as `expand[]`, `metadata[order]` as `metadata[*]`."""
    root, bracket, rest = name.partition("[")
    if not bracket or not rest.endswith("]") or "[" in rest or "]" in rest[:-1]:
        return name
    return f"{root}[]" if rest[:-1].isdigit() and rest[:-1].isascii() else f"{root}[*]"
