"""Every row of the design's table of answers, as a pure function of status and body."""

import json
from typing import Any

import pytest

from shared.ports import NoResponse, StripeResponse
from shared.stripe_answers import MAX_MESSAGE_CHARACTERS, AnswerKind, classify


def answer_of(status: int, content: Any, **headers: str) -> StripeResponse:
    """A response with a JSON body; header names are given with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return StripeResponse(status, named, json.dumps(content).encode())


def error_of(status: int, **error: Any) -> StripeResponse:
    """A response with Stripe's error shape."""
    return answer_of(status, {"error": error})


INVALID = "invalid_request_error"


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        pytest.param(answer_of(200, {"id": "pi_1"}), AnswerKind.OK, id="success"),
        pytest.param(NoResponse(False, "refused"), AnswerKind.NEVER_SENT, id="never sent"),
        pytest.param(NoResponse(True, "read_timeout"), AnswerKind.IN_DOUBT, id="timeout"),
        pytest.param(error_of(500, type="api_error"), AnswerKind.IN_DOUBT, id="500"),
        pytest.param(error_of(503, type="api_error"), AnswerKind.IN_DOUBT, id="503"),
        pytest.param(
            StripeResponse(502, {}, b"<html>Bad Gateway</html>"), AnswerKind.IN_DOUBT, id="HTML 502"
        ),
        pytest.param(
            StripeResponse(200, {}, b"OK"), AnswerKind.IN_DOUBT, id="200 that is not JSON"
        ),
        pytest.param(StripeResponse(200, {}, b"[]"), AnswerKind.IN_DOUBT, id="200 with an array"),
        pytest.param(StripeResponse(200, {}, b"\xff{"), AnswerKind.IN_DOUBT, id="200 not UTF-8"),
        pytest.param(
            StripeResponse(200, {}, b"[" * 100_000), AnswerKind.IN_DOUBT, id="200 nested too deeply"
        ),
        pytest.param(
            StripeResponse(402, {}, b"<html>"), AnswerKind.IN_DOUBT, id="402 that is not JSON"
        ),
        pytest.param(answer_of(400, {}), AnswerKind.IN_DOUBT, id="400 without an error"),
        pytest.param(error_of(302, type=INVALID), AnswerKind.IN_DOUBT, id="redirect"),
        pytest.param(error_of(424, type="api_error"), AnswerKind.IN_DOUBT, id="unheard-of status"),
        pytest.param(
            error_of(402, type="card_error", code="card_declined"), AnswerKind.DECLINED, id="402"
        ),
        pytest.param(
            error_of(402, type="card_error", code="card_declined", decline_code="lost_card"),
            AnswerKind.DECLINED,
            id="402 with a decline code",
        ),
        pytest.param(
            error_of(
                402, type="card_error", code="card_declined", decline_code="duplicate_transaction"
            ),
            AnswerKind.IN_DOUBT,
            id="duplicate transaction",
        ),
        pytest.param(
            error_of(400, type=INVALID, code="payment_intent_unexpected_state"),
            AnswerKind.DECIDED_BY_INTENT,
            id="unexpected state",
        ),
        pytest.param(
            error_of(404, type=INVALID, code="resource_missing"), AnswerKind.MISSING, id="missing"
        ),
        pytest.param(
            error_of(400, type=INVALID, code="amount_too_small"), AnswerKind.REJECTED, id="rejected"
        ),
        pytest.param(error_of(404, type=INVALID), AnswerKind.REJECTED, id="404 without a code"),
        pytest.param(
            error_of(400, type="idempotency_error"), AnswerKind.CONFLICT, id="other parameters"
        ),
        pytest.param(
            error_of(409, type=INVALID, code="idempotency_key_in_use"),
            AnswerKind.BUSY,
            id="key in use",
        ),
        pytest.param(error_of(409, type="api_error"), AnswerKind.IN_DOUBT, id="another 409"),
        pytest.param(
            error_of(429, type=INVALID, code="lock_timeout"), AnswerKind.BUSY, id="lock timeout"
        ),
        pytest.param(
            error_of(429, type=INVALID, code="rate_limit"), AnswerKind.RATE_LIMITED, id="429"
        ),
        pytest.param(
            error_of(400, type=INVALID, code="rate_limit"), AnswerKind.RATE_LIMITED, id="old 429"
        ),
        pytest.param(error_of(401, type=INVALID), AnswerKind.UNAUTHORIZED, id="401"),
        pytest.param(error_of(403, type=INVALID), AnswerKind.UNAUTHORIZED, id="403"),
        pytest.param(
            answer_of(403, {"error": "endpoint not allowed", "attempted": "/v1/x"}),
            AnswerKind.UNAUTHORIZED,
            id="403 of a spend-cap proxy",
        ),
        pytest.param(
            answer_of(429, {"error": "Daily spend cap of $50 reached", "spent_today_usd": 50}),
            AnswerKind.BLOCKED_BY_CAP,
            id="429 of a spend-cap proxy",
        ),
        pytest.param(
            error_of(429, type=INVALID, code="spend_cap_reached"),
            AnswerKind.BLOCKED_BY_CAP,
            id="our own proxy's cap",
        ),
    ],
)
def test_answer_means(response: StripeResponse | NoResponse, kind: AnswerKind) -> None:
    """Goal: each answer has the one meaning that the design gives it."""
    assert classify(response).kind is kind


def test_answer_carries_what_decides() -> None:
    """Goal: code, parameter, request id, replay and the PaymentIntent in an error are read."""
    response = answer_of(
        400,
        {
            "error": {
                "type": INVALID,
                "code": "payment_intent_unexpected_state",
                "param": "intent",
                "message": "already succeeded",
                "payment_intent": {"id": "pi_1", "status": "succeeded"},
            }
        },
        request_id="req_1",
        idempotent_replayed="true",
    )
    answer = classify(response)
    assert answer.content == {"id": "pi_1", "status": "succeeded"}
    assert (answer.code, answer.parameter) == ("payment_intent_unexpected_state", "intent")
    assert (answer.request_id, answer.replayed, answer.status) == ("req_1", True, 400)


def test_decline_code_comes_before_the_code() -> None:
    """Goal: an operator sees why the bank said no, not only that it did."""
    response = error_of(402, type="card_error", code="card_declined", decline_code="lost_card")
    assert classify(response).code == "lost_card"


def test_message_is_shortened_and_content_stays_out_of_repr() -> None:
    """Goal: nothing long and no client secret reaches a log through an answer."""
    long = classify(error_of(402, type="card_error", message="x" * 10_000))
    assert len(long.message) == MAX_MESSAGE_CHARACTERS
    secret = classify(answer_of(200, {"client_secret": "pi_1_secret_2"}))
    assert "secret" not in repr(secret)
