"""Who may push: the three modes, against forged, foreign, stale and broken tokens."""

import base64
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import crypt, jwt
from werkzeug.datastructures import Headers

from gcp_function.authentication import (
    Authenticate,
    CertificateCache,
    CertificatesUnavailable,
    RequestRefused,
    make_authentication,
)
from shared.settings import read_push_settings
from tests.support.pubsub import PUSH_ACCOUNT, TOPIC, token

AUDIENCE = "https://bill.example.com/"
KEY_ID = "key-1"


def authentication(mode: str, fetch: Callable[..., Any] | None = None) -> Authenticate:
    """The check of a mode, from settings."""
    settings = read_push_settings(
        {
            "DATABASE_URL": "postgresql://nowhere",
            "STRIPE_API_KEY": "rk_test_1",
            "PUBSUB_DEAD_LETTER_TOPIC": TOPIC,
            "PUBSUB_PUSH_AUTH": mode,
            "PUBSUB_PUSH_AUDIENCE": AUDIENCE,
            "PUBSUB_PUSH_SERVICE_ACCOUNT": PUSH_ACCOUNT,
        }
    )
    return make_authentication(settings.pubsub.push, fetch)


def refusal(authenticate: Authenticate, headers: Mapping[str, str]) -> int:
    """With which status a request is refused. The reason quotes nothing of its token."""
    with pytest.raises(RequestRefused) as caught:
        authenticate(Headers(dict(headers)).get)
    for part in " ".join(headers.values()).split():
        assert len(part) < 8 or part not in str(caught.value)
    return caught.value.status


def bearer(value: str) -> dict[str, str]:
    """The header that holds a token."""
    return {"Authorization": f"Bearer {value}"}


def test_mode_none_lets_everybody_in() -> None:
    """Goal: on a desk no token is needed."""
    authentication("none")(Headers().get)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_iam_lets_the_push_account_in(scheme: str) -> None:
    """Goal: a token that Cloud Run has verified, its signature removed, is enough."""
    headers = Headers({"authorization": f"{scheme} {token({'email': PUSH_ACCOUNT})}"})
    authentication("iam")(headers.get)


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "somebody@else.example.com"},
        {"email": PUSH_ACCOUNT.upper()},
        {"email": f"{PUSH_ACCOUNT} "},
        {"email": [PUSH_ACCOUNT]},
        {"email": None},
        {"sub": PUSH_ACCOUNT},
        {},
    ],
)
def test_iam_refuses_another_account(claims: dict[str, object]) -> None:
    """Goal: whoever else may invoke the service may not bill."""
    assert refusal(authentication("iam"), bearer(token(claims))) == 403


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNzd29yZA==",
        token({"email": PUSH_ACCOUNT}),
        "Bearer a.b",
        "Bearer a.b.c.d",
        "Bearer e30.!!!!.e30",
        "Bearer e30.bm90IGpzb24.sig",
        "Bearer e30.W10.sig",
        "Bearer e30.____.sig",
        f"Bearer {token({})}, Bearer {token({'email': PUSH_ACCOUNT})}",
        f"Bearer {token({'email': PUSH_ACCOUNT, 'pad': 'x' * 8000})}",
        "Bearer e30." + base64.urlsafe_b64encode(b"[" * 4000).decode().rstrip("=") + ".sig",
    ],
)
def test_iam_refuses_what_is_no_token(authorization: str) -> None:
    """Goal: nothing odd in the header gets in, or raises anything else."""
    assert refusal(authentication("iam"), {"Authorization": authorization}) == 401


def test_iam_refuses_a_request_without_a_token() -> None:
    """Goal: no header, no entry."""
    assert refusal(authentication("iam"), {}) == 401


def test_iam_refuses_the_header_that_cloud_run_would_verify_instead() -> None:
    """Goal: a token that nobody verified is not believed.

    Where X-Serverless-Authorization is given, Cloud Run verifies that one, and passes an invented
    Authorization header on.
    """
    headers = {
        **bearer(token({"email": PUSH_ACCOUNT})),
        "X-Serverless-Authorization": f"Bearer {token({'email': 'invoker@example.com'})}",
    }
    assert refusal(authentication("iam"), headers) == 401


@dataclass
class Google:
    """Signs tokens and hands out the certificates to verify them with."""

    key: rsa.RSAPrivateKey
    certificates: bytes
    fetched: int = 0
    status: int = 200
    failure: Exception | None = None
    headers: dict[str, str] = field(default_factory=lambda: {"cache-control": "max-age=600"})

    @property
    def data(self) -> bytes:
        """The body of the answer."""
        return self.certificates

    def fetch(self, url: str, **options: Any) -> "Google":
        """Answer as google-auth's transport does."""
        assert url == "https://www.googleapis.com/oauth2/v1/certs"
        assert options["timeout"] <= 10
        self.fetched += 1
        if self.failure is not None:
            raise self.failure
        return self

    def sign(self, **changes: Any) -> str:
        """A token for the push account, with some claims changed; None leaves one out."""
        now = int(time.time())
        claims = {
            "iss": "https://accounts.google.com",
            "aud": AUDIENCE,
            "email": PUSH_ACCOUNT,
            "email_verified": True,
            "iat": now,
            "exp": now + 3600,
            **changes,
        }
        present = {name: value for name, value in claims.items() if value is not None}
        return _sign(self.key, present)


def _sign(key: rsa.RSAPrivateKey, claims: Mapping[str, Any]) -> str:
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    signer = crypt.RSASigner.from_string(pem, KEY_ID)  # type: ignore[no-untyped-call]
    signed: bytes = jwt.encode(signer, claims)  # type: ignore[no-untyped-call]
    return signed.decode()


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def signing_key() -> rsa.RSAPrivateKey:
    """Google's key."""
    return _new_key()


@pytest.fixture
def google(signing_key: rsa.RSAPrivateKey) -> Google:
    """Google with a certificate for its key."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "google")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(signing_key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(signing_key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return Google(signing_key, json.dumps({KEY_ID: pem}).encode())


def test_oidc_lets_the_push_account_in_and_fetches_certificates_once(google: Google) -> None:
    """Goal: a good token is let in, at the cost of one request to Google for many."""
    authenticate = authentication("oidc", google.fetch)
    for _ in range(3):
        authenticate(Headers(bearer(google.sign())).get)
    assert google.fetched == 1


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"aud": "https://other.example.com/"}, 401),
        ({"aud": None}, 401),
        ({"iss": "https://evil.example.com"}, 401),
        ({"iss": None}, 401),
        ({"iat": 1_600_000_000, "exp": 1_600_003_600}, 401),
        ({"iat": 4_000_000_000, "exp": 4_000_003_600}, 401),
        ({"exp": None}, 401),
        ({"email": "somebody@else.example.com"}, 403),
        ({"email": None}, 403),
        ({"email_verified": False}, 403),
        ({"email_verified": "true"}, 403),
        ({"email_verified": None}, 403),
    ],
)
def test_oidc_checks_every_claim(google: Google, changes: dict[str, Any], status: int) -> None:
    """Goal: audience, issuer, expiry, account and its verification all count."""
    authenticate = authentication("oidc", google.fetch)
    assert refusal(authenticate, bearer(google.sign(**changes))) == status


def test_oidc_refuses_another_signature(google: Google) -> None:
    """Goal: a token signed by anybody else, or altered, is refused."""
    authenticate = authentication("oidc", google.fetch)
    header, payload, signature = google.sign().split(".")
    claims = jwt.decode(google.sign(), verify=False)  # type: ignore[no-untyped-call]
    _, other_payload, _ = google.sign(email_verified=False).split(".")
    for forged in (
        _sign(_new_key(), claims),
        f"{header}.{other_payload}.{signature}",
        f"{header}.{payload}.",
        f"{header}.{payload}.{signature[:-6]}",
        token(claims, signature="c2ln"),
        "e30.e30.e30",
        "W10.W10.W10",
    ):
        assert refusal(authenticate, bearer(forged)) == 401


def test_oidc_behind_cloud_run_says_what_to_change(google: Google) -> None:
    """Goal: the one combination that never works is explained in the log."""
    with pytest.raises(RequestRefused, match="PUBSUB_PUSH_AUTH=iam"):
        authentication("oidc", google.fetch)(Headers(bearer(token({}))).get)
    assert google.fetched == 0


@pytest.mark.parametrize(
    ("failure", "status", "certificates"),
    [
        (TimeoutError(), 200, b"{}"),
        (None, 503, b"{}"),
        (None, 200, b"<html>"),
        (None, 200, b"[]"),
    ],
    ids=["no answer", "error", "not JSON", "not an object"],
)
def test_missing_certificates_refuse_nobody(
    google: Google, failure: Exception | None, status: int, certificates: bytes
) -> None:
    """Goal: while Google's certificates are away messages wait, and are let in afterwards."""
    authenticate = authentication("oidc", google.fetch)
    headers = Headers(bearer(google.sign()))
    good = google.certificates
    google.failure, google.status, google.certificates = failure, status, certificates
    with pytest.raises(CertificatesUnavailable):
        authenticate(headers.get)
    google.failure, google.status, google.certificates = None, 200, good
    authenticate(headers.get)


@pytest.mark.parametrize(
    ("cache_control", "seconds"),
    [
        ("public, max-age=600, must-revalidate", 600),
        ("", 3600),
        ("no-store", 3600),
        ("max-age=999999999", 86400),
    ],
)
def test_certificates_are_kept_as_long_as_google_says(
    google: Google, cache_control: str, seconds: int
) -> None:
    """Goal: they are fetched again when they grow old, and never kept longer than a day."""
    google.headers = {"cache-control": cache_control}
    now = 1000.0
    cache = CertificateCache(google.fetch, lambda: now)
    url = "https://www.googleapis.com/oauth2/v1/certs"
    cache(url)
    now += seconds - 1
    cache(url)
    assert google.fetched == 1
    now += 1
    cache(url)
    assert google.fetched == 2
