"""Reading a call: what cannot be understood whole is refused, and only what was understood is sent.

The body is parsed once and built anew, so that Stripe cannot read another amount in it than the one
that is counted here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode

from shared.vault.catalogue import SEGMENT, Endpoint, Money, find_endpoint, is_allowed
from shared.vault.refusal import BAD_REQUEST, FORBIDDEN, Refusal, RefusalCode

MAX_BODY_BYTES = 64 * 1024
MAX_PARAMETERS = 200
MAX_HEADER_CHARACTERS = 1000
FORM = "application/x-www-form-urlencoded"
CURRENCY = "usd"
MARK_PARAMETER = "metadata[vault_request]"
"""Set here, so that a payment whose answer is lost can be found; callers may not set it."""

FORWARDED_HEADERS = ("idempotency-key", "stripe-version", "user-agent")
"""What passes through unchanged. `x-stripe-client-user-agent` describes the caller's machine, and
the authorization is the vault key."""

_SCOPE_HEADERS = ("stripe-account", "stripe-context")
_UNREADABLE_HEADERS = ("transfer-encoding", "content-encoding")
_AMOUNT = re.compile(r"[1-9][0-9]{0,7}", re.ASCII)
_PRINTABLE = re.compile(r"[\x20-\x7e]+")


@dataclass(frozen=True, slots=True)
class Incoming:
    """A call as the web server hands it over.

    Args:
        method: HTTP method.
        path: behind the proxy's own prefix, still encoded: `/v1/...`.
        query: the query string, still encoded.
        headers: names in lower case.
        body: whole; never more than `MAX_BODY_BYTES` + 1.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was understood.

    Args:
        endpoint: what it asks for.
        path: built anew from its segments.
        parameters: in their order.
        headers: those that are forwarded.
        amount_cents: what it names, on an endpoint that names an amount.
        confirms: whether it can move money by itself.
    """

    endpoint: Endpoint
    path: str
    parameters: Sequence[tuple[str, str]] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    amount_cents: int | None
    confirms: bool

    @property
    def form(self) -> str:
        """The parameters, encoded anew."""
        return urlencode(self.parameters)

    @property
    def payment_id(self) -> str | None:
        """The PaymentIntent or charge that the path names."""
        return named_payment(self.path)

    @property
    def idempotency_key(self) -> str | None:
        """The caller's."""
        return self.headers.get("idempotency-key")


def named_payment(path: str) -> str | None:
    """The PaymentIntent or charge that a path names."""
    segments = path.split("/")
    names_one = len(segments) > 3 and segments[2] in ("payment_intents", "charges")
    return segments[3] if names_one else None


def read_call(incoming: Incoming, allowed_endpoints: Sequence[str]) -> Call:
    """Understand a call, or refuse it.

    Args:
        incoming: as it came.
        allowed_endpoints: what its key may call.

    Raises:
        Refusal: says what is wrong with it.
    """
    endpoint, segments = _read_endpoint(incoming, allowed_endpoints)
    parameters = _read_parameters(incoming, endpoint)
    values = dict(parameters)
    amount_cents = _read_amount(endpoint, values)
    return Call(
        endpoint=endpoint,
        path="/" + "/".join(segments),
        parameters=parameters,
        headers=_read_headers(incoming.headers),
        amount_cents=amount_cents,
        confirms=_read_confirms(endpoint, values),
    )


def _read_endpoint(
    incoming: Incoming, allowed_endpoints: Sequence[str]
) -> tuple[Endpoint, Sequence[str]]:
    first, *segments = incoming.path.split("/")
    is_plain = first == "" and all(SEGMENT.fullmatch(segment) for segment in segments)
    endpoint = find_endpoint(incoming.method, segments) if is_plain else None
    if endpoint is None or not is_allowed(segments, allowed_endpoints):
        attempted = f"{incoming.method} {incoming.path}"[:MAX_HEADER_CHARACTERS]
        raise Refusal(
            FORBIDDEN,
            RefusalCode.ENDPOINT_NOT_ALLOWED,
            "This key does not allow that endpoint.",
            {"allowed_endpoints": list(allowed_endpoints), "attempted": attempted},
        )
    return endpoint, segments


def _read_headers(headers: Mapping[str, str]) -> dict[str, str]:
    for name in _SCOPE_HEADERS:
        if name in headers:
            raise _not_allowed_header(name, "would act for another account")
    forwarded = {}
    for name in FORWARDED_HEADERS:
        value = headers.get(name)
        if value is None:
            continue
        if len(value) > MAX_HEADER_CHARACTERS or not _PRINTABLE.fullmatch(value):
            raise _not_allowed_header(name, "is too long or not plain ASCII")
        forwarded[name] = value
    return forwarded


def _not_allowed_header(name: str, problem: str) -> Refusal:
    message = f"The header {name} {problem}."
    return Refusal(BAD_REQUEST, RefusalCode.HEADER_NOT_ALLOWED, message, {"param": name})


def _read_parameters(incoming: Incoming, endpoint: Endpoint) -> Sequence[tuple[str, str]]:
    parameters = _parse(_encoded_parameters(incoming))
    seen: set[str] = set()
    for name, _ in parameters:
        if name == MARK_PARAMETER or not endpoint.allows_parameter(name):
            raise _parameter(name, RefusalCode.PARAMETER_NOT_ALLOWED, "is not allowed here")
        if name in seen and not name.endswith("[]"):
            raise _parameter(name, RefusalCode.PARAMETER_INVALID, "is given twice")
        seen.add(name)
    return parameters


def _encoded_parameters(incoming: Incoming) -> bytes:
    """The query of a GET or the body of a POST; whatever else there may be is refused."""
    for name in _UNREADABLE_HEADERS:
        if incoming.headers.get(name, "identity").lower() != "identity":
            raise _body(f"A {name} is not read here: send the body plain, with its length.")
    if incoming.method == "GET":
        if incoming.body:
            raise _body("A GET has no body.")
        return incoming.query.encode("ascii", "replace")
    if incoming.query:
        raise _body("The parameters of a POST belong into its body, not into the query.")
    if len(incoming.body) > MAX_BODY_BYTES:
        raise _body(f"A body has at most {MAX_BODY_BYTES} bytes.")
    content_type = incoming.headers.get("content-type", FORM)
    kind, _, charset = content_type.replace(" ", "").lower().partition(";")
    if incoming.body and (kind != FORM or charset not in ("", "charset=utf-8")):
        raise _body(f"A body must be {FORM} in UTF-8.")
    return incoming.body


def _parse(encoded: bytes) -> Sequence[tuple[str, str]]:
    if not encoded:
        return []
    try:
        return parse_qsl(
            encoded.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
        )
    except ValueError:
        # What is wrong with it may be a part of a secret.
        raise _body("The parameters cannot be read.") from None


def _read_amount(endpoint: Endpoint, values: Mapping[str, str]) -> int | None:
    if endpoint.money is Money.CAPTURE:
        return _amount(values, "amount_to_capture") if "amount_to_capture" in values else None
    if endpoint.money not in (Money.CHARGE, Money.CREATE_INTENT):
        return None
    if values.get("currency", "").lower() != CURRENCY:
        message = f"The caps of this key count {CURRENCY.upper()}, so nothing else may be charged."
        raise Refusal(FORBIDDEN, RefusalCode.CURRENCY_NOT_ALLOWED, message, {"param": "currency"})
    return _amount(values, "amount")


def _amount(values: Mapping[str, str], name: str) -> int:
    text = values.get(name, "")
    if not _AMOUNT.fullmatch(text):
        raise _parameter(name, RefusalCode.PARAMETER_INVALID, "must be a whole number of cents")
    return int(text)


def _read_confirms(endpoint: Endpoint, values: Mapping[str, str]) -> bool:
    if endpoint.money is not Money.CREATE_INTENT:
        return endpoint.money in (Money.CHARGE, Money.CONFIRM, Money.CAPTURE)
    confirm = values.get("confirm", "false")
    if confirm not in ("true", "false"):
        raise _parameter("confirm", RefusalCode.PARAMETER_INVALID, "must be true or false")
    return confirm == "true"


def _parameter(name: str, code: RefusalCode, problem: str) -> Refusal:
    shown = name[:100]
    return Refusal(BAD_REQUEST, code, f"The parameter {shown} {problem}.", {"param": shown})


def _body(message: str) -> Refusal:
    return Refusal(BAD_REQUEST, RefusalCode.BODY_NOT_ALLOWED, message)
