"""Reading Stripe's answers: the one place that says what an answer means.

The rules are Stripe's own (https://docs.stripe.com/api/idempotent_requests and
https://docs.stripe.com/error-low-level) read with one question in mind: may money have moved?
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from shared.ports import NoResponse, StripeResponse

CAP_CODE = "spend_cap_reached"
"""The error code that this project's spend-cap proxy answers with."""

CAP_BEHIND_CODE = "vault_cap_behind"
"""Our code for a cap that was reached although the run's cap leaves room."""

MAX_MESSAGE_CHARACTERS = 300


class AnswerKind(StrEnum):
    """What an answer means for the charge."""

    OK = "ok"
    NEVER_SENT = "never_sent"
    IN_DOUBT = "in_doubt"
    DECLINED = "declined"
    DECIDED_BY_INTENT = "decided_by_intent"
    MISSING = "missing"
    REJECTED = "rejected"
    CONFLICT = "conflict"
    BUSY = "busy"
    RATE_LIMITED = "rate_limited"
    UNAUTHORIZED = "unauthorized"
    BLOCKED_BY_CAP = "blocked_by_cap"
    CAP_BEHIND = "cap_behind"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, classified.

    Args:
        kind: what it means.
        content: the object that Stripe returned, or the PaymentIntent inside an error. Never
            logged: it carries a `client_secret`.
        code: Stripe's error code, the decline code if there is one, or ours for transport errors.
        message: Stripe's message, shortened.
        parameter: the request parameter that the error is about.
        request_id: Stripe's request id.
        replayed: Stripe says that this is the stored answer of an earlier request.
        status: the HTTP status; 0 when there was no answer.
    """

    kind: AnswerKind
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)
    code: str | None = None
    message: str = ""
    parameter: str | None = None
    request_id: str | None = None
    replayed: bool = False
    status: int = 0

    @property
    def refuses_key(self) -> bool:
        """Whether the key is what was refused, so that another one would help."""
        return self.status == 401 or self.kind is AnswerKind.CAP_BEHIND


def under_partial_cap(answer: Answer) -> Answer:
    """What an answer means under a vault key whose cap is less than what its run has left.

    Such a cap is no verdict about the charge: the next key may have the room for it.
    """
    if answer.kind is not AnswerKind.BLOCKED_BY_CAP:
        return answer
    return replace(answer, kind=AnswerKind.CAP_BEHIND, code=CAP_BEHIND_CODE)


def classify(response: StripeResponse | NoResponse) -> Answer:
    """Say what an answer means, when its request is looked at alone."""
    if isinstance(response, NoResponse):
        kind = AnswerKind.IN_DOUBT if response.sent else AnswerKind.NEVER_SENT
        return Answer(kind, code=response.problem, message=f"no answer: {response.problem}")
    content = _parse_object(response.body)
    request_id = response.headers.get("request-id")
    replayed = response.headers.get("idempotent-replayed", "").lower() == "true"
    if content is None:
        problem = f"HTTP {response.status} with a body that is not JSON"
        return Answer(
            AnswerKind.IN_DOUBT,
            code="unreadable_answer",
            message=problem,
            request_id=request_id,
            replayed=replayed,
            status=response.status,
        )
    if 200 <= response.status < 300:
        return Answer(
            AnswerKind.OK,
            content,
            request_id=request_id,
            replayed=replayed,
            status=response.status,
        )
    error = _read_error(content)
    return Answer(
        kind=_classify_error(response.status, error),
        content=error.intent,
        code=_name_error(response.status, error),
        message=error.message,
        parameter=error.parameter,
        request_id=request_id,
        replayed=replayed,
        status=response.status,
    )


@dataclass(frozen=True, slots=True)
class _Error:
    """An error body. A spend-cap proxy's `error` is a bare string: then `is_text` is set."""

    type: str | None = None
    code: str | None = None
    decline_code: str | None = None
    message: str = ""
    parameter: str | None = None
    intent: Mapping[str, Any] = field(default_factory=dict)
    is_text: bool = False


def _parse_object(body: bytes) -> dict[str, Any] | None:
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _read_error(content: dict[str, Any]) -> _Error:
    error = content.get("error")
    if isinstance(error, str):
        return _Error(message=error[:MAX_MESSAGE_CHARACTERS], is_text=True)
    if not isinstance(error, dict):
        return _Error()
    intent = error.get("payment_intent")
    return _Error(
        type=_text(error.get("type")),
        code=_text(error.get("code")),
        decline_code=_text(error.get("decline_code")),
        message=(_text(error.get("message")) or "")[:MAX_MESSAGE_CHARACTERS],
        parameter=_text(error.get("param")),
        intent=intent if isinstance(intent, dict) else {},
    )


def _name_error(status: int, error: _Error) -> str:
    if error.type == "idempotency_error":
        return error.type
    return error.decline_code or error.code or f"http_{status}"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _classify_error(status: int, error: _Error) -> AnswerKind:
    if error.code == CAP_CODE or (status == 429 and error.is_text):
        return AnswerKind.BLOCKED_BY_CAP
    if status in (401, 403):
        return AnswerKind.UNAUTHORIZED
    if status == 402:
        return _classify_decline(error)
    if status == 429 or (status == 400 and error.code == "rate_limit"):
        return AnswerKind.BUSY if error.code == "lock_timeout" else AnswerKind.RATE_LIMITED
    if status == 409 and error.code == "idempotency_key_in_use":
        return AnswerKind.BUSY
    if status in (400, 404) and error.type is not None:
        return _classify_invalid_request(error)
    return AnswerKind.IN_DOUBT


def _classify_decline(error: _Error) -> AnswerKind:
    # A recent identical payment exists somewhere; it may be ours.
    if "duplicate_transaction" in (error.code, error.decline_code):
        return AnswerKind.IN_DOUBT
    return AnswerKind.IN_DOUBT if error.type is None else AnswerKind.DECLINED


def _classify_invalid_request(error: _Error) -> AnswerKind:
    if error.type == "idempotency_error":
        return AnswerKind.CONFLICT
    if error.code == "payment_intent_unexpected_state":
        return AnswerKind.DECIDED_BY_INTENT
    if error.code == "resource_missing":
        return AnswerKind.MISSING
    return AnswerKind.REJECTED
