"""Deployments that call Stripe through the proxy alone, without a key of Stripe's."""

from http.client import HTTPConnection

import pytest

from local.google_function import HOST, GoogleFunction
from ops.exit_codes import ExitCode
from shared.outcome import Outcome
from tests.cli.conftest import CommandLine
from tests.support.bench import CAP_CENTS, PERIOD
from tests.support.malformed_bodies import event_body
from tests.support.pubsub import PUSH_ACCOUNT, TOPIC, bearer, wrap
from tests.support.run_keys import ProxiedBench
from tests.support.vault import ADMIN_TOKEN

SCHEDULER_ACCOUNT = "scheduler@chargeonce-desk.iam.gserviceaccount.com"


def post(function: GoogleFunction, email: str, body: bytes) -> int:
    """Call a function and return the status."""
    connection = HTTPConnection(HOST, function.port, timeout=60)
    try:
        connection.request("POST", "/", body, bearer(email))
        response = connection.getresponse()
        assert response.read() == b""
        return response.status
    finally:
        connection.close()


def test_functions_of_google_cloud(proxied: ProxiedBench) -> None:
    """Goal: an event waits for its run's key, the timer mints it, and the event is charged once.

    Method: the functions under the real functions-framework, without Stripe's key.
    """
    environment = {
        **proxied.environment,
        "SCHEDULER_SERVICE_ACCOUNT": SCHEDULER_ACCOUNT,
        "PUBSUB_PUSH_SERVICE_ACCOUNT": PUSH_ACCOUNT,
        "PUBSUB_DEAD_LETTER_TOPIC": TOPIC,
        "BILLING_EXPECTED_TOTAL_CENTS": "1000",
    }
    event = wrap(event_body(billing_period=PERIOD, stripe_customer_id="cus_1", amount_cents=5000))
    with (
        GoogleFunction("bill", environment) as bill,
        GoogleFunction("mint_vault_key", environment) as mint,
    ):
        assert post(bill, PUSH_ACCOUNT, event) == 503
        assert proxied.vault.upstream.sent == []
        assert post(mint, SCHEDULER_ACCOUNT, b"{}") == 204
        proxied.bench.lapse_leases()
        assert [post(bill, PUSH_ACCOUNT, event) for _ in range(2)] == [204, 204]
        logs = bill.log() + mint.log()
    assert proxied.vault.moved_cents() == 5000
    assert len(proxied.live_keys()) == 1
    for secret in (ADMIN_TOKEN, proxied.encryption_key, "vault_key_"):
        assert secret not in logs.replace("vault_key_missing", "")


def test_reconcile_of_google_cloud_keeps_keys_and_finishes(proxied: ProxiedBench) -> None:
    """Goal: a message that was kept because there was no key is charged by the same firing."""
    assert proxied.bench.deliver(proxied.biller(), delivery_count=9) is Outcome.HANDED_OVER
    proxied.bench.lapse_leases()
    environment = {**proxied.environment, "SCHEDULER_SERVICE_ACCOUNT": SCHEDULER_ACCOUNT}
    with GoogleFunction("reconcile", environment) as function:
        assert post(function, SCHEDULER_ACCOUNT, b"{}") == 204
    proxied.bench.assert_charged_once()


@pytest.fixture
def operator(
    proxied: ProxiedBench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """The command line with the settings of such a deployment."""
    for name, value in proxied.environment.items():
        monkeypatch.setenv(name, value)
    return CommandLine(capsys)


def test_raising_the_cap_replaces_the_key(proxied: ProxiedBench, operator: CommandLine) -> None:
    """Goal: what the operator allows can be charged at once, without waiting for a timer."""
    proxied.bench.execute("UPDATE chargeonce.runs SET cap_cents = 4999")
    proxied.keeper().keep()
    first = proxied.stored_text()
    assert proxied.bench.deliver(proxied.biller()) is Outcome.CAP_REACHED
    asked = ("run", "raise-cap", "--period", PERIOD, "--cap-cents", str(CAP_CENTS))
    assert operator(*asked, "--dry-run").code == ExitCode.OK
    assert proxied.stored_text() == first
    raised = operator(*asked, "--json")
    assert (raised.code, raised.document["vault_key_replaced"]) == (ExitCode.OK, True)
    assert proxied.vault.get(first, "/v1/account").status == 401
    assert proxied.bench.deliver(proxied.biller()) is Outcome.CHARGED
    proxied.bench.assert_charged_once()


def test_who_may_not_mint_leaves_the_key_to_the_timer(
    proxied: ProxiedBench, operator: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxied.keeper().keep()
    monkeypatch.delenv("VAULT_PROXY_API_KEY")
    ran = operator("run", "raise-cap", "--period", PERIOD, "--cap-cents", str(CAP_CENTS + 1))
    assert ran.code == ExitCode.OK
    assert "the reconcile timer tries again" in ran.stdout
    assert proxied.keeper().keep()
    assert len(proxied.live_keys()) == 1


def test_commands_act_through_the_proxy(proxied: ProxiedBench, operator: CommandLine) -> None:
    """Goal: reconcile and cancel of an operator without Stripe's key, under the run's key."""
    proxied.keeper().keep()
    assert proxied.bench.deliver(proxied.biller()) is Outcome.CHARGED
    customer = ("--customer", "customer-1", "--period", PERIOD)
    assert operator("reconcile", "--json").code == ExitCode.OK
    assert operator("cancel", *customer, "--json").code == ExitCode.FAILED
    proxied.bench.assert_charged_once()
    listed = operator("vault", "list", "--json").document["keys"]
    assert [key["state"] for key in listed] == ["live"]
