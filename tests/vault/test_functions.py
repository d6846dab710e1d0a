"""The proxy as a function of either cloud: the same answers, and closed where it is not set up."""

import sys
from collections.abc import Mapping
from http.client import HTTPConnection
from urllib.parse import urlencode

import pytest

from local.google_function import GoogleFunction
from local.stripe_simulator import RunningSimulator
from shared.errors import SettingsError
from shared.settings import is_vault_proxy, read_vault_proxy_settings
from tests.support.vault import ADMIN_TOKEN, CHARGE, STRIPE_KEY, VaultBench

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


def test_without_settings_it_is_closed() -> None:
    environment = {"VAULT_PROXY_SERVES": "none"}
    with GoogleFunction("vault_proxy", environment) as function:
        connection = HTTPConnection(function.url.removeprefix("http://").strip("/"), timeout=60)
        connection.request("GET", "/v1/charges")
        assert connection.getresponse().status == 503
        connection.close()


@pytest.mark.skipif(sys.version_info < (3, 13), reason="azure-functions 2.x needs Python 3.13")
def test_as_an_azure_function(vault: VaultBench, environment: Mapping[str, str]) -> None:
    """Goal: the function app is the proxy and nothing else."""
    import azure.functions as func

    from azure_function.app import make_app

    app = make_app(environment)
    (function,) = app.get_functions()
    assert function.get_function_name() == "vault_proxy"
    key = vault.mint()

    def call(path: str) -> func.HttpResponse:
        request = func.HttpRequest(
            method="POST",
            url=f"https://app.azurewebsites.net{path}",
            headers={
                "Authorization": f"Bearer {key}",
                "Content-Type": "application/x-www-form-urlencoded",
            },
            body=urlencode(CHARGE).encode(),
        )
        answer = function.get_user_function()(request)
        assert isinstance(answer, func.HttpResponse)
        return answer

    assert call("/stripe/v1/charges").status_code == 200
    assert call("/stripe/v1/%63harges").status_code == 403
    assert call("/stripe/v1/charges?amount=1").status_code == 400
    assert vault.moved_cents() == 1000


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
    from shared.vault.wiring import make_application

    calls = make_application(4, {**environment, "VAULT_PROXY_SERVES": "calls"})
    admin = make_application(4, {**environment, "VAULT_PROXY_SERVES": "admin"})
    authorized = {"authorization": f"Bearer {LONG_TOKEN}"}
    listing = Incoming("GET", "/vault/keys", "", authorized, b"")
    reading = Incoming("GET", "/v1/account", "", {"authorization": f"Bearer {vault.mint()}"}, b"")
    assert [calls.answer(listing).status, admin.answer(listing).status] == [403, 200]
    assert [calls.answer(reading).status, admin.answer(reading).status] == [200, 403]
