"""What Cloud Scheduler calls: reconcile and the mint timer, over HTTP and through Flask."""

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http.client import HTTPConnection
from typing import NoReturn

import flask
import pytest

from gcp_function.scheduled import ScheduledFunctions, _reconcile_seconds
from local.google_function import HOST, GoogleFunction
from shared.errors import RecordsUnavailable, RunError, SchemaMismatch, SettingsError
from shared.periods import period_at
from shared.settings import Settings, read_scheduled_settings
from shared.wiring import Parts
from tests.support.deployment import Deployment
from tests.support.malformed_bodies import event_body
from tests.support.pubsub import bearer, token

SCHEDULER_ACCOUNT = "scheduler@chargeonce-desk.iam.gserviceaccount.com"
ENVIRONMENT = {
    "DATABASE_URL": "postgresql://user:hunter2@nowhere/db",
    "STRIPE_API_KEY": "rk_test_hunter2",
}
LATE_PERIOD = "2031-01"


def call(function: GoogleFunction, email: str = SCHEDULER_ACCOUNT, method: str = "POST") -> int:
    """Call a function as Cloud Scheduler does and return the status."""
    connection = HTTPConnection(HOST, function.port, timeout=30)
    try:
        connection.request(method, "/", b"{}", bearer(email))
        response = connection.getresponse()
        assert response.read() == b""
        return response.status
    finally:
        connection.close()


def scheduled(deployment: Deployment, target: str, **settings: str) -> GoogleFunction:
    """A scheduled function beside the deployed one."""
    account = {"SCHEDULER_SERVICE_ACCOUNT": SCHEDULER_ACCOUNT}
    return GoogleFunction(target, {**deployment.environment, **account, **settings})


def test_reconcile_charges_what_was_kept_for_its_run(deployment: Deployment) -> None:
    """Goal: pushed up to the limit before its run is there, then charged with no human."""
    deployment.customer("kept")
    event = event_body(
        customer_id="kept", stripe_customer_id="cus_kept", billing_period=LATE_PERIOD
    )
    assert deployment.push(event, "kept", deliveryAttempt=8) == 503
    assert deployment.push(event, "kept", deliveryAttempt=9) == 204
    deployment.execute(
        """
        INSERT INTO chargeonce.runs (billing_period, currency, expected_cents, cap_cents)
        VALUES (%s, 'usd', 5000, 5000)
        """,
        [LATE_PERIOD],
    )
    with scheduled(deployment, "reconcile") as function:
        assert call(function, email="else@example.com") == 403
        assert call(function, method="GET") == 405
        assert deployment.charged_cents("kept") == []
        assert call(function) == 204
        assert deployment.charged_cents("kept") == [5000]
        assert call(function) == 204, "a double"
        lines = [json.loads(line) for line in function.log().splitlines() if line.startswith("{")]
        assert "hunter2" not in function.log()
    assert [line["event"] for line in lines if line.get("message_id") == "kept"] == ["charged"]
    assert deployment.execute("SELECT FROM chargeonce.kept_messages") == []


def test_mint_timer_opens_the_run_that_is_due(deployment: Deployment) -> None:
    """Goal: the same run as Azure's timer opens; without an account any invoker will do."""
    settings = {
        "BILLING_EXPECTED_TOTAL_CENTS": "1000",
        "BILLING_PERIOD_FORMAT": "mint-%Y",
        "SCHEDULER_SERVICE_ACCOUNT": "",
    }
    with scheduled(deployment, "mint_vault_key", **settings) as function:
        assert call(function, email="any@example.com") == 204
    period = period_at(datetime.now(UTC), "mint-%Y", -1)
    found = deployment.execute(
        "SELECT cap_cents FROM chargeonce.runs WHERE billing_period = %s", [period]
    )
    assert found == [(1100,)]


def status_of(
    make_parts: Callable[[Settings], Parts] | None = None,
    environment: Mapping[str, str] = ENVIRONMENT,
    headers: Mapping[str, str] | None = None,
) -> int:
    """How `reconcile` answers a call in this process."""
    functions = ScheduledFunctions(environment, make_parts)
    with flask.Flask("reconcile").test_request_context("/", method="POST", headers=headers):
        response = functions.reconcile(flask.request)
    assert response.get_data() == b""
    return response.status_code


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RecordsUnavailable("the database is away"), 503),
        (SchemaMismatch("the schema is older"), 503),
        (SettingsError(["DATABASE_URL is missing"]), 500),
        (RunError("nothing is expected"), 500),
        (ZeroDivisionError("hunter2"), 500),
    ],
)
def test_failures_are_told_to_scheduler_and_operator(
    error: Exception, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal: a job that failed counts as failed, and the log says why without quoting a secret."""

    def fail(_: Settings) -> NoReturn:
        raise error

    with caplog.at_level(logging.INFO):
        assert status_of(fail) == status
    assert "hunter2" not in caplog.text
    if not isinstance(error, RunError):
        (line,) = [json.loads(record.getMessage()) for record in caplog.records]
        assert line["severity"] == "ERROR"


def test_wrong_settings_are_all_listed(caplog: pytest.LogCaptureFixture) -> None:
    """Goal: one look at the log is enough."""
    environment = {"STRIPE_API_KEY": "hunter2", "SCHEDULER_AUTH": "oidc"}
    assert status_of(environment=environment) == 500
    for name in ("DATABASE_URL", "STRIPE_API_KEY", "SCHEDULER_AUDIENCE"):
        assert name in caplog.text
    assert "hunter2" not in caplog.text


def test_oidc_verifies_the_token_here() -> None:
    """Goal: an endpoint that is open to everybody lets in neither nobody nor a forger."""
    environment = {
        **ENVIRONMENT,
        "SCHEDULER_AUTH": "oidc",
        "SCHEDULER_AUDIENCE": "https://reconcile.example.com/",
        "SCHEDULER_SERVICE_ACCOUNT": SCHEDULER_ACCOUNT,
    }
    assert status_of(environment=environment) == 401
    forged = {"Authorization": f"Bearer {token({'email': SCHEDULER_ACCOUNT})}"}
    assert status_of(environment=environment, headers=forged) == 401


def test_reconcile_ends_before_its_request_does() -> None:
    """Goal: the charge that was begun last is not cut off."""
    settings = read_scheduled_settings({**ENVIRONMENT, "CLOUD_RUN_TIMEOUT_SECONDS": "200"})
    assert _reconcile_seconds(settings) == 200 - 120 - 35
    assert _reconcile_seconds(read_scheduled_settings(ENVIRONMENT)) == 120
    with pytest.raises(SettingsError, match="CLOUD_RUN_TIMEOUT_SECONDS"):
        read_scheduled_settings({**ENVIRONMENT, "CLOUD_RUN_TIMEOUT_SECONDS": "155"})
    (warning,) = read_scheduled_settings({**ENVIRONMENT, "SCHEDULER_AUTH": "none"}).warnings
    assert "SCHEDULER_AUTH" in warning
