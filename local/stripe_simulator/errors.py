"""Stripe's error answers.

An error that parameters alone decide is a validation failure: Stripe does not keep it under
the idempotency key. An error that needed a look at an object is an executed request: kept.
"""

from collections.abc import Mapping

from local.stripe_simulator.wire import JsonObject

INVALID_REQUEST = "invalid_request_error"
CARD_ERROR = "card_error"
API_ERROR = "api_error"
IDEMPOTENCY_ERROR = "idempotency_error"


class StripeError(Exception):
    """An error answer of Stripe."""

    def __init__(
        self,
        status: int,
        error_type: str,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        stored: bool = True,
        details: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Describe the answer.

        Args:
            status: HTTP status.
            error_type: `type` in the body.
            message: `message` in the body.
            code: `code` in the body, left out when None.
            param: `param` in the body, left out when None.
            stored: Whether the answer is kept under the idempotency key.
            details: Further fields of the error object, such as `decline_code`.
            headers: Further response headers.
        """
        super().__init__(message)
        self.status = status
        self.error_type = error_type
        self.message = message
        self.code = code
        self.param = param
        self.stored = stored
        self.details = details or {}
        self.headers = headers or {}

    def body(self) -> JsonObject:
        """Return the JSON body of the answer."""
        error: JsonObject = {"message": self.message, "type": self.error_type}
        if self.code is not None:
            error["code"] = self.code
            error["doc_url"] = f"https://stripe.com/docs/error-codes/{self.code.replace('_', '-')}"
        if self.param is not None:
            error["param"] = self.param
        error.update(self.details)
        return {"error": error}


def invalid_parameter(message: str, param: str, code: str | None = None) -> StripeError:
    """Return a validation failure: 400, not stored."""
    return StripeError(400, INVALID_REQUEST, message, code=code, param=param, stored=False)


def missing_parameter(param: str) -> StripeError:
    """Return the answer to a request that lacks a required parameter."""
    return invalid_parameter(f"Missing required param: {param}.", param, "parameter_missing")


def invalid_state(message: str, code: str | None = None, param: str | None = None) -> StripeError:
    """Return a refusal that depends on an object: 400, stored."""
    return StripeError(400, INVALID_REQUEST, message, code=code, param=param)


def resource_missing(label: str, object_id: str, param: str, *, hint: str = "") -> StripeError:
    """Return the answer for an unknown object: 404 when the path names it, else 400.

    Args:
        label: Stripe's word for the object, such as `customer`.
        object_id: The id that is unknown.
        param: The parameter that named it; `id` and `intent` mean the path.
        hint: A text after the id, as for an object of the other mode.
    """
    status = 404 if param in {"id", "intent"} else 400
    return StripeError(
        status,
        INVALID_REQUEST,
        f"No such {label}: '{object_id}'{hint}",
        code="resource_missing",
        param=param,
    )


def server_error() -> StripeError:
    """Return Stripe's 500, which says nothing about whether the request took effect."""
    return StripeError(500, API_ERROR, "An unknown error occurred.")


def unauthorized(message: str, code: str | None = None) -> StripeError:
    """Return a 401."""
    return StripeError(
        401,
        INVALID_REQUEST,
        message,
        code=code,
        stored=False,
        headers={"WWW-Authenticate": 'Basic realm="Stripe"'},
    )


def forbidden(message: str, code: str | None = None) -> StripeError:
    """Return a 403."""
    return StripeError(403, INVALID_REQUEST, message, code=code, stored=False)


def idempotency_key_in_use(key: str) -> StripeError:
    """Return the 409 for a key whose first request is still running."""
    return StripeError(
        409,
        IDEMPOTENCY_ERROR,
        "There is currently another in-progress request using this Idempotent Key (that probably "
        f"means you submitted twice, and the other request is still going through): {key}. Please "
        "try again later.",
        code="idempotency_key_in_use",
        stored=False,
        headers={"Stripe-Should-Retry": "true"},
    )


def lock_timeout() -> StripeError:
    """Return the 429 for an object that another request is working on."""
    return StripeError(
        429,
        INVALID_REQUEST,
        "This object cannot be accessed right now because another API request or Stripe process "
        "is currently accessing it. If you see this error intermittently, retry the request. If "
        "you see this error frequently and are making multiple concurrent requests to a single "
        "object, make your requests serially or at a lower rate.",
        code="lock_timeout",
        stored=False,
        headers={"Stripe-Should-Retry": "true"},
    )


def rate_limited(reason: str) -> StripeError:
    """Return the 429 of a rate limit.

    Args:
        reason: Which limit was hit, such as `global-rate`, `endpoint-rate`.
    """
    return StripeError(
        429,
        INVALID_REQUEST,
        "Request rate limit exceeded. Learn more about rate limits here "
        "https://stripe.com/docs/rate-limits.",
        code="rate_limit",
        stored=False,
        headers={"Stripe-Rate-Limited-Reason": reason},
    )
