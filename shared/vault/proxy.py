"""One call through the proxy: who, what, how much; count it; forward it; write what it proved."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from shared import notices
from shared.errors import RecordsUnavailable
from shared.ports import Clock, NoResponse, StripeResponse
from shared.stripe_answers import AnswerKind, classify
from shared.vault.catalogue import Money
from shared.vault.incoming import (
    CURRENCY,
    MARK_PARAMETER,
    Call,
    Incoming,
    read_call,
)
from shared.vault.judging import judge, judge_intent
from shared.vault.keys import TOKEN_PREFIX, Token, VaultKey, read_token
from shared.vault.ports import (
    Admission,
    AdmissionResult,
    CallEnd,
    Effect,
    Spending,
    Upstream,
    VaultRecords,
)
from shared.vault.refusal import (
    BAD_REQUEST,
    FORBIDDEN,
    UNAUTHORIZED,
    Refusal,
    RefusalCode,
    cap_reached,
)

BAD_GATEWAY = 502
MOST_KEYS_KEPT = 1000
_RETURNED_HEADERS = (
    "content-type",
    "idempotent-replayed",
    "request-id",
    "retry-after",
    "stripe-rate-limited-reason",
    "stripe-should-retry",
    "stripe-version",
)
# Whoever has it and the public key confirms the PaymentIntent from a browser, past every cap.
_CLIENT_SECRET = re.compile(rb'("client_secret"\s*:\s*)"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What the caller gets."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class Proxy:
    """Forwards what vault keys allow. Safe to share between threads.

    Args:
        records: the keys and what counts against them.
        upstream: Stripe, with the real key.
        clock: time and chance.
    """

    def __init__(self, records: VaultRecords, upstream: Upstream, clock: Clock) -> None:
        self._records = records
        self._upstream = upstream
        self._clock = clock
        self._keys: dict[str, VaultKey] = {}

    def forward(self, incoming: Incoming) -> Outgoing:
        """Answer one call.

        Raises:
            Refusal: it may not be made; Stripe got nothing.
            RecordsUnavailable: the database is away; Stripe got nothing.
        """
        token = _read_authorization(incoming.headers)
        key = self._find_key(token)
        call_id = self._clock.token()
        call = self._read_call(incoming, key, call_id)
        spending = self._spending_of(call, call_id)
        if spending is not None and spending.request_mark is not None:
            call = _marked(call, spending.request_mark, call_id)
        admission = self._records.admit(call_id, key.key_id, _endpoint(call), spending)
        if admission.verdict is not Admission.ADMITTED:
            raise _refusal_of(admission, spending.amount_cents if spending else 0)
        return self._send(key, call, call_id, admission)

    def _find_key(self, token: Token) -> VaultKey:
        """The key of a token.

        Kept in memory for what never changes of it: its hash and its endpoints. Whether it still
        works and what is spent, the records say at each call.
        """
        key = self._keys.get(token.key_id) or self._records.find_key(token.key_id)
        if key is None or not key.is_held_by(token):
            raise _unknown_key()
        if len(self._keys) >= MOST_KEYS_KEPT:
            self._keys.clear()
        self._keys[key.key_id] = key
        return key

    def _read_call(self, incoming: Incoming, key: VaultKey, call_id: str) -> Call:
        try:
            return read_call(incoming, key.allowed_endpoints)
        except Refusal as refusal:
            endpoint = f"{incoming.method} {incoming.path}"[:200]
            self._records.refuse(call_id, key.key_id, endpoint, str(refusal.code))
            raise

    def _spending_of(self, call: Call, call_id: str) -> Spending | None:
        """What the call may spend; None when it moves no money."""
        if not call.confirms:
            return None
        if call.endpoint.money in (Money.CHARGE, Money.CREATE_INTENT):
            request_key = call.idempotency_key or call_id
            mark = hashlib.sha256(request_key.encode()).hexdigest()[:32]
            return Spending(None, request_key, mark, call.amount_cents or 0)
        payment_id = call.payment_id or ""
        amount_cents = self._records.find_amount(payment_id) or self._look_up(payment_id, call)
        if amount_cents is None:
            return None
        if call.amount_cents is not None and call.amount_cents > amount_cents:
            message = f"The PaymentIntent is for {amount_cents}; no more can be captured."
            raise Refusal(BAD_REQUEST, RefusalCode.PARAMETER_INVALID, message)
        return Spending(payment_id, None, None, amount_cents)

    def _look_up(self, payment_id: str, call: Call) -> int | None:
        """The amount of a PaymentIntent made elsewhere; None when it cannot move money any more."""
        headers = {name: value for name, value in call.headers.items() if name != "idempotency-key"}
        path = f"/v1/payment_intents/{payment_id}"
        response = self._upstream.send("GET", path, "", headers)
        intent = _read_intent(response, payment_id)
        amount_cents, currency = intent.get("amount"), intent.get("currency")
        if judge_intent(intent).effect in (Effect.SPENT, Effect.IMPOSSIBLE):
            return None
        if not isinstance(amount_cents, int) or amount_cents <= 0:
            raise _unknown_payment()
        if currency != CURRENCY:
            message = "The caps of this key count USD; the PaymentIntent is in another currency."
            raise Refusal(FORBIDDEN, RefusalCode.CURRENCY_NOT_ALLOWED, message)
        return amount_cents

    def _send(
        self, key: VaultKey, call: Call, call_id: str, admission: AdmissionResult
    ) -> Outgoing:
        started = self._clock.monotonic()
        response = self._upstream.send(call.endpoint.method, call.path, call.form, call.headers)
        milliseconds = round((self._clock.monotonic() - started) * 1000)
        status, request_id = None, None
        if isinstance(response, StripeResponse):
            status, request_id = response.status, response.headers.get("request-id")
        end = CallEnd(call_id, status, request_id, milliseconds)
        try:
            self._records.settle(key.key_id, admission.payment_row, judge(call, response), end)
        except RecordsUnavailable as error:
            # The hold stays and is resolved later; what Stripe said is the caller's all the same.
            notices.alarm(f"a forwarded call is not written down: {error}")
        return _returned(response)


def refused(refusal: Refusal) -> Outgoing:
    """A refusal as the caller gets it."""
    should_retry = "true" if refusal.status >= 500 else "false"
    headers = {"content-type": "application/json", "stripe-should-retry": should_retry}
    if refusal.status == UNAUTHORIZED:
        headers["www-authenticate"] = 'Bearer realm="vault"'
    return Outgoing(refusal.status, headers, refusal.body)


def _returned(response: StripeResponse | NoResponse) -> Outgoing:
    if isinstance(response, NoResponse):
        message = f"Stripe did not answer ({response.problem}); it may have acted."
        return refused(Refusal(BAD_GATEWAY, RefusalCode.UPSTREAM_FAILED, message))
    headers = {name: value for name, value in response.headers.items() if name in _RETURNED_HEADERS}
    return Outgoing(response.status, headers, _CLIENT_SECRET.sub(rb"\1null", response.body))


def _read_authorization(headers: Mapping[str, str]) -> Token:
    """The vault key, as a bearer or, as curl sends `-u key:`, as the user of basic credentials."""
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    text = credentials.strip()
    if scheme.lower() == "basic":
        text = _basic_user(text)
    elif scheme.lower() != "bearer":
        text = ""
    token = read_token(text)
    if token is None:
        raise _unknown_key()
    return token


def _basic_user(encoded: str) -> str:
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode("ascii").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return "" if password else user


def _unknown_key() -> Refusal:
    message = f"No such vault key: send a live {TOKEN_PREFIX}... as the bearer token."
    return Refusal(UNAUTHORIZED, RefusalCode.KEY_INVALID, message)


def _unknown_payment() -> Refusal:
    message = "The PaymentIntent cannot be read, so its amount is not known and nothing is sent."
    return Refusal(BAD_REQUEST, RefusalCode.PAYMENT_UNKNOWN, message)


def _read_intent(response: StripeResponse | NoResponse, payment_id: str) -> Mapping[str, object]:
    answer = classify(response)
    if answer.kind is not AnswerKind.OK or answer.content.get("id") != payment_id:
        raise _unknown_payment()
    return answer.content


def _marked(call: Call, mark: str, call_id: str) -> Call:
    """The call with its mark; and with an idempotency key, so that it can be told from another."""
    headers = {"idempotency-key": call_id, **call.headers}
    return replace(call, parameters=[*call.parameters, (MARK_PARAMETER, mark)], headers=headers)


def _endpoint(call: Call) -> str:
    return f"{call.endpoint.method} {call.path}"


_KEY_REFUSALS = {
    Admission.KEY_UNKNOWN: (RefusalCode.KEY_INVALID, "No such vault key."),
    Admission.KEY_REVOKED: (RefusalCode.KEY_REVOKED, "This vault key was revoked."),
    Admission.KEY_EXPIRED: (RefusalCode.KEY_EXPIRED, "This vault key has expired."),
}


def _refusal_of(admission: AdmissionResult, amount_cents: int) -> Refusal:
    verdict = admission.verdict
    if verdict in _KEY_REFUSALS:
        code, message = _KEY_REFUSALS[verdict]
        return Refusal(UNAUTHORIZED, code, message)
    if verdict is Admission.AMOUNT_CHANGED:
        message = "The same payment was counted with another amount."
        return Refusal(BAD_REQUEST, RefusalCode.AMOUNT_CHANGED, message)
    which = "daily" if verdict is Admission.OVER_DAILY_CAP else "total"
    return cap_reached(which, admission.cap_cents or 0, admission.used_cents or 0, amount_cents)
