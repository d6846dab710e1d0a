"""What Azure is told of our functions, and what importing them costs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from local.functions_host import MISSING

pytestmark = pytest.mark.usefixtures("requires_functions_runtime")

REPOSITORY = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    "DATABASE_URL": "postgresql:///none",
    "STRIPE_API_KEY": "rk_test_hunter2",
    "ServiceBus": "Endpoint=sb://hunter2/",
    "BILLING_QUEUE": "billing",
    "PYTHON_THREADPOOL_THREAD_COUNT": "8",
}

_IMPORT = """
import json, sys
import azure.functions, azurefunctions.extensions.bindings.servicebus
before = set(sys.modules)
import function_app
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def bindings_of(environment: dict[str, str]) -> dict[str, Any]:
    """The trigger of each function, as Azure is told."""
    from azure_function.app import make_app

    functions = make_app(environment).get_functions()
    return {
        str(each.get_function_name()): each.get_bindings()[0].get_dict_repr() for each in functions
    }


def test_messages_come_from_a_queue() -> None:
    """Goal: the names are app settings, and nobody but us settles."""
    bill = bindings_of(ENVIRONMENT)["bill"]
    assert bill.pop("direction").name == "IN"
    assert bill == {
        "type": "serviceBusTrigger",
        "name": "message",
        "connection": "ServiceBus",
        "queueName": "%BILLING_QUEUE%",
        "autoCompleteMessages": False,
    }


def test_messages_come_from_a_subscription() -> None:
    """Goal: a topic in place of the queue, with the identity of the function app."""
    environment = {
        **ENVIRONMENT,
        "ServiceBus": "",
        "ServiceBus__fullyQualifiedNamespace": "example.servicebus.windows.net",
        "BILLING_QUEUE": "",
        "BILLING_TOPIC": "usage",
        "BILLING_SUBSCRIPTION": "billing",
    }
    bill = bindings_of(environment)["bill"]
    assert (bill["topicName"], bill["subscriptionName"]) == (
        "%BILLING_TOPIC%",
        "%BILLING_SUBSCRIPTION%",
    )
    assert (bill["connection"], bill["autoCompleteMessages"]) == ("ServiceBus", False)


def test_schedules_come_from_the_settings_where_there_are_any() -> None:
    """Goal: an app setting that is not there would keep the host from starting the timer."""
    usual = bindings_of(ENVIRONMENT)
    own = bindings_of({**ENVIRONMENT, "MINT_SCHEDULE": "0 0 4 2 * *"})
    assert (usual["mint_vault_key"]["schedule"], usual["reconcile"]["schedule"]) == (
        "0 0 3 1 * *",
        "0 */5 * * * *",
    )
    assert own["mint_vault_key"]["schedule"] == "%MINT_SCHEDULE%"
    for timer in (usual["mint_vault_key"], usual["reconcile"]):
        assert (timer["useMonitor"], timer["runOnStartup"]) == (True, False)


def test_importing_loads_our_own_modules_only() -> None:
    """Goal: neither a database driver, nor Stripe, nor another SDK costs a cold start."""
    assert not MISSING
    output = subprocess.run(
        [sys.executable, "-c", _IMPORT],
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        capture_output=True,
        check=True,
    ).stdout
    top_level = {name.partition(".")[0] for name in json.loads(output)}
    assert top_level - set(sys.stdlib_module_names) == {"azure_function", "function_app", "shared"}
