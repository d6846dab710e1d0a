"""The proxy as a function of either cloud: the same answers, and closed where it is not set up."""

import json
from collections.abc import Mapping
from http.client import HTTPConnection
from urllib.parse import urlencode

import pytest

from local.google_function import GoogleFunction
from local.stripe_simulator import Fault, FaultKind, Match, RunningSimulator
from shared.errors import SettingsError
from shared.settings import is_vault_proxy, read_vault_proxy_settings
from tests.support.pubsub import bearer
from tests.support.vault import ADMIN_TOKEN, CHARGE, STRIPE_KEY, VaultBench

BODY = urlencode(CHARGE).encode()
LONG_TOKEN = ADMIN_TOKEN + "-which-is-long-enough"


@pytest.fixture
def environment(vault_database_url: str, vault_stripe: RunningSimulator) -> Mapping[str, str]:
    """The settings of a proxy that serves everything."""
    return {
        "DATABASE_URL": vault_database_url,
        "STRIPE_API_KEY": STRIPE_KEY,
        "STRIPE_API_BASE": vault_stripe.base_url,
        "VAULT_PROXY_SERVES": "both",
        "VAULT_ADMIN_TOKEN": LONG_TOKEN,
    }


def test_under_functions_framework(vault: VaultBench, environment: Mapping[str, str]) -> None:
    """Goal: the real framework and its gunicorn hand over paths, headers and bodies as they are."""
    with GoogleFunction("vault_proxy", environment) as function:
        key = vault.mint()
        vault.port = int(function.url.rsplit(":", 1)[1].strip("/"))
        assert vault.post(key, "/v1/charges", CHARGE).status == 200
        assert vault.post(key, "/v1//charges", CHARGE).code == "endpoint_not_allowed"
        assert vault.post(key, "/v1/%63harges", CHARGE).code == "endpoint_not_allowed"
        assert vault.post(key, "/v1/charges?amount=1", CHARGE).code == "body_not_allowed"
        assert vault.post("vault_key_nobody", "/v1/charges", CHARGE).status == 401
        listed = vault.raw("GET", "/vault/keys", {"Authorization": f"Bearer {LONG_TOKEN}"})
        assert listed.document["data"][0]["spent_usd"] == 10.0
    assert vault.moved_cents() == 1000


def hold_one(vault: VaultBench, key: str) -> None:
    """Let a charge be made whose answer is lost: a hold that is due."""
    vault.fault(Fault(FaultKind.RESET, Match(path="/v1/charges", count=1), acts=True))
    assert vault.post(key, "/v1/charges", CHARGE, "lost").status == 502
    vault.make_due()


def test_the_scheduled_function(vault: VaultBench, environment: Mapping[str, str]) -> None:
    """Goal: in a deployment that is the proxy, Cloud Scheduler's reconcile resolves its holds."""
    account = "scheduler@desk.iam.gserviceaccount.com"
    key = vault.mint()
    hold_one(vault, key)
    settings = {**environment, "SCHEDULER_SERVICE_ACCOUNT": account}
    with GoogleFunction("reconcile", settings) as function:
        connection = HTTPConnection(f"127.0.0.1:{function.port}", timeout=60)
        for email, status in (("else@example.com", 403), (account, 204)):
            assert vault.money() == (1000, 0)
            connection.request("POST", "/", b"{}", bearer(email))
            response = connection.getresponse()
            assert (response.status, response.read()) == (status, b"")
        connection.close()
    assert (vault.money(), vault.moved_cents()) == ((0, 1000), 1000)


def test_two_timers_at_once(vault: VaultBench, environment: Mapping[str, str]) -> None:
    """Goal: what another firing has begun is left to it, and the next round does it anew."""
    from shared.vault.wiring import VaultParts

    parts = VaultParts(read_vault_proxy_settings(environment), 4)
    parts.keep_up()
    key = vault.mint()
    hold_one(vault, key)
    vault.execute("INSERT INTO chargeonce.timers VALUES ('vault_holds', now() + interval '1 h')")
    parts.keep_up()
    assert vault.money() == (1000, 0)
    vault.make_due()
    parts.keep_up()
    assert vault.money() == (0, 1000)


@pytest.mark.parametrize(("retention_days", "left"), [("0", 3), ("30", 1)])
def test_old_calls_are_forgotten(
    vault: VaultBench, environment: Mapping[str, str], retention_days: str, left: int
) -> None:
    """Goal: the lines about calls do not grow for ever; what they spent stays counted."""
    from shared.vault.wiring import VaultParts

    key = vault.mint()
    for number in range(3):
        assert vault.post(key, "/v1/charges", CHARGE, f"call-{number}").status == 200
    vault.execute("UPDATE chargeonce.vault_keys SET created_at = now() - interval '40 days'")
    vault.execute(
        """
        UPDATE chargeonce.vault_calls SET called_at = called_at - interval '31 days'
        WHERE call_id IN (SELECT call_id FROM chargeonce.vault_calls ORDER BY called_at LIMIT 2)
        """
    )
    vault.make_due()
    settings = {**environment, "RETENTION_DAYS": retention_days}
    VaultParts(read_vault_proxy_settings(settings), 4).keep_up()
    assert len(vault.records.list_calls(vault.key_row().key_id, None, 10)) == left
    assert vault.money() == (0, 3000)
    assert vault.post(key, "/v1/charges", CHARGE, "call-0").status == 200
    assert vault.money() == (0, 3000)


def test_who_serves_no_calls_resolves_no_holds(environment: Mapping[str, str]) -> None:
    from shared.vault.wiring import VaultParts

    admin = {**environment, "VAULT_PROXY_SERVES": "admin", "STRIPE_API_KEY": ""}
    with pytest.raises(SettingsError, match="VAULT_PROXY_SERVES"):
        VaultParts(read_vault_proxy_settings(admin), 4).keep_up()


def test_without_settings_it_is_closed() -> None:
    environment = {"VAULT_PROXY_SERVES": "none"}
    with GoogleFunction("vault_proxy", environment) as function:
        connection = HTTPConnection(function.url.removeprefix("http://").strip("/"), timeout=60)
        connection.request("GET", "/v1/charges")
        assert connection.getresponse().status == 503
        connection.close()


@pytest.mark.usefixtures("requires_functions_runtime")
def test_under_the_functions_runtime(vault: VaultBench, environment: Mapping[str, str]) -> None:
    """Goal: the function app is the proxy and nothing else; its timer resolves what it holds."""
    from local.functions_host.host import FunctionsHost, HttpAnswer, HttpCall

    key = vault.mint()
    headers = {
        "Authorization": f"Bearer {key}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    with FunctionsHost(environment) as host:

        def call(path: str) -> HttpAnswer:
            url = f"https://app.azurewebsites.net{path}"
            return host.call("vault_proxy", HttpCall("POST", url, headers, BODY))

        assert host.worker.functions.keys() == {"vault_proxy", "reconcile"}
        charged = call("/stripe/v1/charges")
        assert (charged.status, json.loads(charged.body)["amount"]) == (200, 1000)
        assert charged.headers["content-type"] == "application/json"
        assert call("/stripe/v1/%63harges").status == 403
        assert call("/stripe/v1/charges?amount=1").status == 400
        assert vault.moved_cents() == 1000
        hold_one(vault, key)
        assert host.fire("reconcile") is None
        assert key not in host.log()
    assert (vault.money(), vault.moved_cents()) == ((0, 2000), 2000)


@pytest.mark.usefixtures("requires_functions_runtime")
def test_the_admin_api_alone_has_no_timer(environment: Mapping[str, str]) -> None:
    from azure_function.app import make_app

    app = make_app({**environment, "VAULT_PROXY_SERVES": "admin", "STRIPE_API_KEY": ""})
    assert [one.get_function_name() for one in app.get_functions()] == ["vault_proxy"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"VAULT_PROXY_SERVES": ""}, "VAULT_PROXY_SERVES"),
        ({"VAULT_PROXY_SERVES": "everything"}, "VAULT_PROXY_SERVES"),
        ({"VAULT_ADMIN_TOKEN": "short"}, "VAULT_ADMIN_TOKEN"),
        ({"VAULT_ADMIN_TOKEN": ""}, "VAULT_ADMIN_TOKEN"),
        ({"STRIPE_API_KEY": ""}, "STRIPE_API_KEY"),
        ({"DATABASE_URL": ""}, "DATABASE_URL"),
    ],
)
def test_settings_that_are_wrong(
    environment: Mapping[str, str], changes: Mapping[str, str], named: str
) -> None:
    with pytest.raises(SettingsError, match=named) as caught:
        read_vault_proxy_settings({**environment, **changes})
    assert "short" not in str(caught.value)


def test_the_admin_api_alone_needs_no_stripe_key(environment: Mapping[str, str]) -> None:
    admin = {**environment, "VAULT_PROXY_SERVES": "admin", "STRIPE_API_KEY": ""}
    assert read_vault_proxy_settings(admin).serves_calls is False


def test_only_who_is_asked_to_is_the_proxy(environment: Mapping[str, str]) -> None:
    assert is_vault_proxy(environment)
    assert not is_vault_proxy({})
    assert not is_vault_proxy({"VAULT_PROXY_SERVES": "none"})


def test_a_part_that_is_not_served_is_not_there(
    vault: VaultBench, environment: Mapping[str, str]
) -> None:
    from shared.vault.incoming import Incoming
    from shared.vault.wiring import VaultParts

    calls, admin = (
        VaultParts(read_vault_proxy_settings({**environment, "VAULT_PROXY_SERVES": part}), 4)
        for part in ("calls", "admin")
    )
    authorized = {"authorization": f"Bearer {LONG_TOKEN}"}
    listing = Incoming("GET", "/vault/keys", "", authorized, b"")
    reading = Incoming("GET", "/v1/account", "", {"authorization": f"Bearer {vault.mint()}"}, b"")
    assert [parts.application.answer(listing).status for parts in (calls, admin)] == [403, 200]
    assert [parts.application.answer(reading).status for parts in (calls, admin)] == [200, 403]
