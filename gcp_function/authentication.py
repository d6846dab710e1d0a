"""Who may call: only Pub/Sub and Cloud Scheduler, under the service accounts that we gave them.

`iam`    Cloud Run has verified the token before our code runs and has removed its signature, so
         it cannot be verified again. Its email is compared: roles/run.invoker may have been
         granted to others, and they must not bill.
`oidc`   the endpoint is open to everybody, and the token is verified here.
`none`   for a desk, or behind something else that lets only them through.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from gcp_function.envelope import Header
from shared.errors import ChargeonceError
from shared.settings import CallerSettings

CERTIFICATE_SECONDS = 3600.0
MAX_CERTIFICATE_SECONDS = 86400.0
FETCH_TIMEOUT_SECONDS = 5
CLOCK_SKEW_SECONDS = 10
MAX_TOKEN_CHARACTERS = 8192
REMOVED_SIGNATURE = "SIGNATURE_REMOVED_BY_GOOGLE"

# Two Authorization headers arrive joined by a comma, which no token holds.
_BEARER = re.compile(r"[Bb]earer +([A-Za-z0-9_-]+\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_=-]*)")
_MAX_AGE = re.compile(r"max-age=(\d{1,9})")

UNAUTHENTICATED = 401
FORBIDDEN = 403


class RequestRefused(ChargeonceError):
    """A request that may not be made.

    Args:
        status: 401 when nobody can tell whose it is, 403 when it is somebody else's.
        problem: for the log; holds nothing of the token.
    """

    def __init__(self, status: int, problem: str) -> None:
        self.status = status
        super().__init__(problem)


class CertificatesUnavailable(ChargeonceError):
    """Google's signing certificates cannot be fetched, so no token can be verified now."""


Authenticate: TypeAlias = Callable[[Header], None]
"""Looks at a request's headers. Raises `RequestRefused` or `CertificatesUnavailable`."""

Fetch: TypeAlias = Callable[..., Any]
"""A request object of google-auth: fetches a URL, returns a response with status, headers, data."""


def make_authentication(caller: CallerSettings, fetch: Fetch | None = None) -> Authenticate:
    """The check that the settings ask for.

    Args:
        caller: checked settings.
        fetch: in place of google-auth's own, for `oidc`.
    """
    if caller.auth == "none" or (caller.auth == "iam" and caller.service_account is None):
        return _let_in
    if caller.auth == "iam":
        return IamAuthentication(caller)
    return OidcAuthentication(caller, CertificateCache(fetch or _fetch_from_google))


class IamAuthentication:
    """Trusts that Cloud Run verified the token, and compares whose it is.

    Args:
        caller: its service account.
    """

    def __init__(self, caller: CallerSettings) -> None:
        self._caller = caller

    def __call__(self, header: Header) -> None:
        """See `Authenticate`."""
        # Where this header is given, Cloud Run verifies it and passes the other one on unread.
        if header("x-serverless-authorization") is not None:
            problem = "neither Pub/Sub nor Cloud Scheduler sends X-Serverless-Authorization"
            raise RequestRefused(UNAUTHENTICATED, problem)
        _, payload = _read_bearer(header)
        if _decode(payload).get("email") != self._caller.service_account:
            raise _not_the_account(self._caller)


class OidcAuthentication:
    """Verifies the token: signature, issuer, expiry, audience, and whose it is.

    Args:
        caller: its service account and the audience of its tokens.
        certificates: where Google's signing certificates come from.
    """

    def __init__(self, caller: CallerSettings, certificates: CertificateCache) -> None:
        self._caller = caller
        self._certificates = certificates

    def __call__(self, header: Header) -> None:
        """See `Authenticate`."""
        token, _ = _read_bearer(header)
        if token.endswith(REMOVED_SIGNATURE):
            raise RequestRefused(
                UNAUTHENTICATED,
                "Cloud Run has verified the token and removed its signature: set "
                f"{self._caller.prefix}_AUTH=iam, or let unauthenticated callers through to be "
                "verified here",
            )
        claims = self._verify(token)
        is_ours = claims.get("email") == self._caller.service_account
        if not (is_ours and claims.get("email_verified") is True):
            raise _not_the_account(self._caller)

    def _verify(self, token: str) -> Any:
        # Here and not above: `iam`, the default, needs none of it.
        from google.oauth2 import id_token

        try:
            return id_token.verify_oauth2_token(  # type: ignore[no-untyped-call]
                token,
                self._certificates,
                audience=self._caller.audience,
                clock_skew_in_seconds=CLOCK_SKEW_SECONDS,
            )
        except CertificatesUnavailable:
            raise
        except Exception:  # noqa: BLE001 (a stranger's token may break a decoder in any way)
            raise RequestRefused(UNAUTHENTICATED, "the token does not verify") from None


class CertificateCache:
    """Google's signing certificates, fetched as seldom as their headers allow.

    Stands where google-auth expects its request object, because google-auth itself would fetch
    them again for every token.

    Args:
        fetch: fetches a URL.
        monotonic: seconds since some start.
    """

    def __init__(self, fetch: Fetch, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._fresh: tuple[float, Any] | None = None

    def __call__(self, url: str, method: str = "GET", **_: Any) -> Any:
        """The response that holds the certificates.

        Raises:
            CertificatesUnavailable: they are needed, and Google did not hand them out.
        """
        with self._lock:
            now = self._monotonic()
            if self._fresh is None or now >= self._fresh[0]:
                response = self._fetch_checked(url, method)
                self._fresh = (now + _seconds_to_keep(response.headers), response)
            return self._fresh[1]

    def _fetch_checked(self, url: str, method: str) -> Any:
        try:
            response = self._fetch(url, method=method, timeout=FETCH_TIMEOUT_SECONDS)
            is_usable = response.status == 200 and isinstance(json.loads(response.data), dict)
        except Exception as error:
            problem = f"Google's certificates cannot be fetched ({type(error).__name__})"
            raise CertificatesUnavailable(problem) from error
        if not is_usable:
            raise CertificatesUnavailable(f"Google's certificates: status {response.status}")
        return response


def _let_in(_: Header) -> None:
    """Every request that gets here may be made."""


def _not_the_account(caller: CallerSettings) -> RequestRefused:
    return RequestRefused(FORBIDDEN, f"the token is not {caller.prefix}_SERVICE_ACCOUNT's")


def _fetch_from_google(url: str, **options: Any) -> Any:
    from google.auth.transport.requests import Request

    return Request()(url, **options)


def _seconds_to_keep(headers: Any) -> float:
    max_age = _MAX_AGE.search(str(headers.get("cache-control", "")))
    return min(float(max_age[1]) if max_age else CERTIFICATE_SECONDS, MAX_CERTIFICATE_SECONDS)


def _read_bearer(header: Header) -> tuple[str, str]:
    """The token and its encoded payload."""
    authorization = header("authorization")
    if authorization is None:
        raise RequestRefused(UNAUTHENTICATED, "there is no Authorization header")
    match = _BEARER.fullmatch(authorization) if len(authorization) < MAX_TOKEN_CHARACTERS else None
    if match is None:
        raise RequestRefused(UNAUTHENTICATED, "the Authorization header holds no bearer token")
    return match[1], match[2]


def _decode(payload: str) -> dict[str, Any]:
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise RequestRefused(UNAUTHENTICATED, "the token cannot be read")
    return claims
