"""The function app as the real runtime loads it, and the host that the tests believe."""

import json
from collections.abc import Iterator

import pytest

from local.servicebus_emulator import SettlementKind
from tests.azure.conftest import OpenDesk
from tests.support.servicebus import COMPLETED, DEAD_LETTERED, Desk, wait_until

pytestmark = pytest.mark.usefixtures("requires_functions_runtime")

CARELESS_APP = """
import threading
import azure.functions as func
import azurefunctions.extensions.bindings.servicebus as sb

app = func.FunctionApp()
running = threading.Semaphore(2)

@app.service_bus_queue_trigger(
    arg_name="message",
    queue_name="%BILLING_QUEUE%",
    connection="ServiceBus",
    auto_complete_messages=False,
)
def careless(message: sb.ServiceBusReceivedMessage, actions: sb.ServiceBusMessageActions) -> None:
    assert running.acquire(blocking=False), "more than maxConcurrentCalls at once"
    try:
        body = b"".join(message.body)
        if body == b"raise":
            raise ValueError("as functions do")
        if body == b"settle twice":
            actions.complete(message)
            actions.complete(message)
        if body == b"dead-letter":
            actions.deadletter(message, "Reason", "Description")
    finally:
        running.release()
"""
CARELESS_HOST = {
    "version": "2.0",
    "functionTimeout": "00:01:00",
    "extensions": {
        "serviceBus": {
            "autoCompleteMessages": False,
            "maxConcurrentCalls": 2,
            "maxAutoLockRenewalDuration": "00:00:10",
        }
    },
}


@pytest.fixture(scope="module")
def careless_desk(
    open_desk: OpenDesk, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Desk, list[str]]]:
    """A function app that does what ours must not, under the host; and what failed."""
    from local.functions_host.host import FunctionsHost

    directory = tmp_path_factory.mktemp("careless")
    (directory / "function_app.py").write_text(CARELESS_APP)
    (directory / "host.json").write_text(json.dumps(CARELESS_HOST))
    with open_desk("careless") as desk, FunctionsHost(desk.environment, directory) as host:
        yield desk, host.failures


def test_function_that_raises_burns_its_deliveries(
    careless_desk: tuple[Desk, list[str]],
) -> None:
    """Goal: the host abandons at once, whatever autoComplete says: ten deliveries in seconds."""
    desk, failures = careless_desk
    desk.send(b"raise", "raising")
    wait_until(lambda: "raising" in desk.dead_letters())
    assert desk.dead_letters()["raising"].dead_letter_reason == "MaxDeliveryCountExceeded"
    assert {kind for kind, _ in desk.settlements("raising")} == {SettlementKind.ABANDON}
    deliveries = desk.deliveries("raising")
    assert len(deliveries) == 10
    assert deliveries[-1].at - deliveries[0].at < 30
    assert failures == ["ValueError: as functions do"] * 10


def test_function_that_returns_without_settling_is_left_alone(
    careless_desk: tuple[Desk, list[str]],
) -> None:
    """Goal: nobody completes or abandons for it; the lock brings the message back."""
    desk, _ = careless_desk
    desk.send(b"return", "returning")
    wait_until(lambda: len(desk.deliveries("returning")) == 1)
    desk.lapse_locks()
    wait_until(lambda: len(desk.deliveries("returning")) == 2)
    assert desk.settlements("returning") == []
    assert [each.delivery_count for each in desk.deliveries("returning")] == [0, 1]
    desk.emulator.purge_queue(desk.queue)


def test_settlements_of_a_function_reach_the_broker(
    careless_desk: tuple[Desk, list[str]],
) -> None:
    """Goal: dead-lettering carries its texts; settling twice raises, and nothing comes of it."""
    desk, failures = careless_desk
    failures_before = len(failures)
    desk.send(b"dead-letter", "dead")
    desk.wait_for("dead", DEAD_LETTERED)
    letter = desk.dead_letters()["dead"]
    assert letter.dead_letter_reason == "Reason"
    assert letter.dead_letter_error_description == "Description"
    desk.send(b"settle twice", "twice")
    desk.wait_for("twice", COMPLETED)
    wait_until(lambda: len(failures) > failures_before)
    assert failures[-1].startswith("SettlementError")
    assert desk.settlements("twice") == [COMPLETED]


def test_wrong_settings_keep_the_app_from_starting(desk: Desk) -> None:
    """Goal: with wrong settings no message is taken, and the host is told each of them."""
    from local.functions_host.host import FunctionsHost
    from local.functions_host.worker_process import WorkerFailed

    environment = {**desk.environment, "DATABASE_URL": "", "PYTHON_THREADPOOL_THREAD_COUNT": "x"}
    with pytest.raises(WorkerFailed) as caught, FunctionsHost(environment):
        raise AssertionError("it must not start")
    for named in ("SettingsError", "DATABASE_URL", "PYTHON_THREADPOOL_THREAD_COUNT"):
        assert named in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_runtime_finds_our_functions_and_their_timers_work(desk: Desk) -> None:
    """Goal: what the host reads of our functions; and the timers, through the real runtime."""
    from local.functions_host.host import FunctionsHost

    desk.execute("DELETE FROM chargeonce.runs")
    environment = {**desk.environment, "BILLING_PERIOD_OFFSET": "0", "MINT_SCHEDULE": "0 0 4 1 * *"}
    with FunctionsHost(environment) as host:
        functions = host.worker.functions
        assert {name: function.trigger["type"] for name, function in functions.items()} == {
            "bill": "serviceBusTrigger",
            "mint_vault_key": "timerTrigger",
            "reconcile": "timerTrigger",
        }
        bill = functions["bill"].trigger
        assert (bill["queueName"], bill["connection"]) == ("%BILLING_QUEUE%", "ServiceBus")
        assert bill["autoCompleteMessages"] is False
        for name, schedule in (
            ("mint_vault_key", "%MINT_SCHEDULE%"),
            ("reconcile", "0 */5 * * * *"),
        ):
            timer = functions[name].trigger
            assert (timer["schedule"], timer["useMonitor"]) == (schedule, True)
            assert timer["runOnStartup"] is False
        assert host.fire("mint_vault_key") is None
        assert host.fire("reconcile") is None
    ((expected_cents, cap_cents),) = desk.execute(
        "SELECT expected_cents, cap_cents FROM chargeonce.runs"
    )
    assert (expected_cents, cap_cents) == (1_000_000, 1_100_000)
