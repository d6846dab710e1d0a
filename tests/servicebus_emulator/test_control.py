"""Goal: an emulator is looked at and told what to do alike, from within and over HTTP."""

import contextlib
import http.client
import json
import re
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from azure.servicebus import ServiceBusClient

from local.servicebus_emulator import (
    ControlError,
    EmulatorControl,
    EmulatorOptions,
    EmulatorProcess,
    Fault,
    FaultKind,
    Match,
    QueueOptions,
    QueueSettings,
    ServiceBusEmulator,
    SubscriptionOptions,
    control_server,
)
from local.servicebus_emulator.control import call_over_http
from tests.servicebus_emulator.sdk import Sdk, new_message
from tests.servicebus_emulator.support import eventually, is_cut_off

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(params=["within", "http"])
def control(request: pytest.FixtureRequest, emulator: ServiceBusEmulator) -> EmulatorControl:
    """The controls of one emulator, in both ways."""
    if request.param == "within":
        return emulator
    assert emulator.control_url is not None
    return EmulatorControl(call_over_http(emulator.control_url))


def test_queues(sync_sdk: Sdk, control: EmulatorControl) -> None:
    sync_sdk.send([new_message("a"), new_message("b")])
    sync_sdk.dead_letter(sync_sdk.receive_one())
    status = control.queue(sync_sdk.queue.upper())

    assert (status.active, status.locked, status.scheduled, status.dead_lettered) == (1, 0, 0, 1)
    assert status.settings == QueueSettings(30.0, None, 3)
    assert {each.path for each in control.queues()} >= {
        "billing-sync",
        "usage-async/Subscriptions/audit",
    }
    control.purge_queue(sync_sdk.queue)
    assert control.queue(sync_sdk.queue).active == 0
    with pytest.raises(ControlError, match="no queue nothing"):
        control.queue("nothing")


def test_settings(sync_sdk: Sdk, control: EmulatorControl) -> None:
    settings = QueueSettings(2.5, 20.0, 7)
    control.configure_queue(sync_sdk.queue, settings)

    assert control.queue(sync_sdk.queue).settings == settings
    with pytest.raises(ControlError, match="nothing"):
        control.configure_queue("nothing", settings)


def test_records(sync_sdk: Sdk, control: EmulatorControl) -> None:
    before = control.now()
    sync_sdk.send(new_message())
    received = sync_sdk.receive_one()
    token = received.lock_token
    sync_sdk.renew(received)
    sync_sdk.complete(received)

    (delivery,) = control.deliveries(sync_sdk.queue)
    (renewal,) = control.renewals(sync_sdk.queue)
    (settlement,) = control.settlements(sync_sdk.queue)
    for record in (delivery, renewal, settlement):
        assert (record.queue, record.message_id) == (sync_sdk.queue, "m-1")
        assert record.lock_token == token
        assert before <= record.at <= control.now()
    for records in (control.settlements, control.renewals, control.deliveries):
        assert records("other") == []
    control.forget_records()
    for records in (control.settlements, control.renewals, control.deliveries):
        assert records() == []


def test_records_of_what_was_received_and_deleted(sync_sdk: Sdk, control: EmulatorControl) -> None:
    sync_sdk.send(new_message())
    sync_sdk.receive(1, deletes=True)

    assert [record.lock_token for record in control.deliveries()] == [None]


def test_faults(control: EmulatorControl) -> None:
    fault = Fault(FaultKind.SETTLEMENT_LOST, Match(entity="billing", count=2), acts=False)
    first, second = control.add_fault(fault), control.add_fault(Fault(FaultKind.RENEWAL_BUSY))
    assert [status.fault_id for status in control.faults()] == [first, second]
    assert control.faults()[0].fault == fault

    control.remove_fault(first)
    assert [status.fault_id for status in control.faults()] == [second]
    with pytest.raises(ControlError, match=f"no fault {first}"):
        control.remove_fault(first)
    control.clear_faults()
    assert control.faults() == []


def test_connections(sync_sdk: Sdk, control: EmulatorControl) -> None:
    sync_sdk.send(new_message())
    assert control.connection_count() >= 1

    assert control.cut_connections() >= 1
    control.refuse_connections(0)
    with pytest.raises(ControlError, match="seconds lie"):
        control.refuse_connections(-1)


def test_the_clock(control: EmulatorControl) -> None:
    before = control.now()
    control.advance_clock(1000)

    assert before + 1000 <= control.now() < before + 1100
    with pytest.raises(ControlError, match="seconds lie"):
        control.advance_clock(-1)


# HTTP as such.


@pytest.fixture
def address(emulator: ServiceBusEmulator) -> tuple[str, int]:
    assert emulator.control_url is not None
    parts = urlsplit(emulator.control_url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def call(
    address: tuple[str, int], method: str, target: str, body: str | None = None
) -> tuple[int, dict[str, object]]:
    connection = http.client.HTTPConnection(*address, timeout=5)
    try:
        connection.request(method, target, body)
        answer = connection.getresponse()
        return answer.status, json.load(answer)
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "problem"),
    [
        ("GET", "/nothing", None, 404, "there is no GET /nothing"),
        ("PUT", "/queues", None, 404, "there is no PUT /queues"),
        ("PATCH", "/queues", "{}", 400, "path"),
        ("PATCH", "/queues", '{"path": "billing-sync", "colour": 1}', 400, "colour"),
        ("PATCH", "/queues", '{"path": "billing-sync", "lock_seconds": -1}', 400, "at most"),
        ("POST", "/faults", '{"kind": "earthquake"}', 400, "earthquake"),
        ("POST", "/faults", "{", 400, "JSON"),
        ("POST", "/faults", "[]", 400, "not a JSON object"),
        ("POST", "/faults", "[" * 60_000, 400, "JSON"),
        ("POST", "/connections/refuse", "{}", 400, "seconds"),
        ("POST", "/connections/refuse", '{"seconds": "5"}', 400, "seconds lie"),
        ("DELETE", "/faults?id=fault_0", None, 400, "no fault"),
        ("GET", "/" + "a" * 20_000, None, 400, "no HTTP request"),
    ],
)
def test_requests_that_make_no_sense(
    address: tuple[str, int],
    method: str,
    target: str,
    body: str | None,
    status: int,
    problem: str,
) -> None:
    answered, answer = call(address, method, target, body)

    assert answered == status
    assert problem in str(answer["error"])


def test_partial_settings_leave_the_others(address: tuple[str, int]) -> None:
    status, answer = call(
        address, "PATCH", "/queues", '{"path": "billing-sync", "lock_seconds": 4}'
    )

    assert status == 200
    assert answer["settings"] == {
        "lock_seconds": 4,
        "advertised_lock_seconds": None,
        "max_delivery_count": 3,
    }


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\ncontent-length: many\r\n\r\n",
        b"GET / HTTP/1.1\r\ncontent-length: 70000\r\n\r\n",
        b"\xff /\r\n\r\n",
    ],
)
def test_what_is_no_http(address: tuple[str, int], data: bytes) -> None:
    with socket.create_connection(address, timeout=5) as connection:
        connection.sendall(data)
        answer = connection.recv(1000)

    assert answer.startswith(b"HTTP/1.1 400")


def test_the_number_of_clients_has_a_limit(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_server, "MAXIMUM_CLIENTS", 0)

    assert call(address, "GET", "/status") == (503, {"error": "too many clients"})


def test_a_silent_client_is_cut_off(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_server, "REQUEST_SECONDS", 0.05)
    with socket.create_connection(address, timeout=5) as connection:
        assert is_cut_off(connection)


def test_who_goes_away_halfway_harms_nobody(
    address: tuple[str, int], emulator: ServiceBusEmulator
) -> None:
    with socket.create_connection(address, timeout=5) as connection:
        connection.sendall(b"POST /faults HTTP/1.1\r\ncontent-length: 100\r\n\r\n{")
    with socket.create_connection(address, timeout=5) as connection:
        connection.sendall(b"GET /stat")

    assert call(address, "GET", "/status")[0] == 200
    assert emulator.faults() == []


# Emulators as such.


def test_an_emulator_that_is_not_running() -> None:
    emulator = ServiceBusEmulator(EmulatorOptions(queues=[QueueOptions("billing")]))

    for use in (lambda: emulator.connection_string, emulator.now, lambda: emulator.control_url):
        with pytest.raises(ControlError, match="not running"):
            use()
    emulator.stop()


def test_an_address_that_is_taken(address: tuple[str, int]) -> None:
    host, port = address
    options = EmulatorOptions(queues=[QueueOptions("billing")], host=host, port=port)
    with pytest.raises(OSError, match="in use"):
        ServiceBusEmulator(options).start()
    with pytest.raises(ControlError, match="cannot start"):
        EmulatorProcess(options).start()


def test_clients_do_not_keep_it_from_ending() -> None:
    options = EmulatorOptions(queues=[QueueOptions("billing")], control_port=0)
    emulator = ServiceBusEmulator(options)
    emulator.start()
    began_at = time.monotonic()
    ports = [
        int(port)
        for port in re.findall(r":(\d+)", f"{emulator.connection_string} {emulator.control_url}")
    ]
    assert len(ports) == 2
    with contextlib.ExitStack() as connections:
        for port in ports:
            connections.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        eventually(lambda: emulator.connection_count() == 1)
        emulator.stop()

    assert time.monotonic() - began_at < 9, "it did not wait for them"


def test_many_emulators_at_once() -> None:
    options = EmulatorOptions(queues=[QueueOptions("billing")])
    with ServiceBusEmulator(options) as first, ServiceBusEmulator(options) as second:
        first.advance_clock(100)
        assert first.connection_string != second.connection_string
        assert first.now() - second.now() > 90
        assert first.control_url is None


@pytest.fixture(scope="module")
def process() -> Iterator[EmulatorProcess]:
    options = EmulatorOptions(
        queues=[QueueOptions("billing", QueueSettings(2.0, 20.0, 4))],
        topics=["usage", "other"],
        subscriptions=[SubscriptionOptions("usage", "billing")],
        seed=5,
    )
    with EmulatorProcess(options) as running:
        yield running


def test_a_process_gets_all_options(process: EmulatorProcess) -> None:
    assert process.queue("billing").settings == QueueSettings(2.0, 20.0, 4)
    assert process.queue("usage/subscriptions/billing").settings == QueueSettings()


def test_a_process_serves_the_real_client(process: EmulatorProcess) -> None:
    with (
        ServiceBusClient.from_connection_string(process.connection_string) as client,
        client.get_queue_sender("billing") as sender,
    ):
        sender.send_messages(new_message())

    assert process.queue("billing").active == 1
    assert process.process_id > 0


def test_a_process_that_is_gone_does_not_answer() -> None:
    emulator = EmulatorProcess(EmulatorOptions(queues=[QueueOptions("billing")]))
    with emulator:
        url = emulator.control_url
    with pytest.raises(ControlError, match="not running"):
        emulator.now()
    with pytest.raises(ControlError, match="does not answer"):
        EmulatorControl(call_over_http(url)).now()
