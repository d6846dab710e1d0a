"""The control API over HTTP, with the client that the project has for it and without."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from local.pubsub_emulator import (
    BacklogSummary,
    ControlClient,
    Effect,
    EventFilter,
    EventKind,
    Fault,
    NotFound,
    PubsubEmulator,
    Target,
)

SUBSCRIPTION = "projects/chargeonce-local/subscriptions/billing"
LOST_ACK = {"target": "ack", "effect": "lose"}


@pytest.fixture(scope="module")
def emulator() -> Iterator[PubsubEmulator]:
    """An emulator with a control port."""
    with PubsubEmulator(control_port=0) as emulator:
        emulator.add_topic("orders")
        emulator.add_subscription("orders", "billing")
        yield emulator


@pytest.fixture
def control(emulator: PubsubEmulator) -> Iterator[ControlClient]:
    """A client of its control API; no fault is in force."""
    client = ControlClient(emulator.control_url)
    yield client
    client.clear_faults()


def call(emulator: PubsubEmulator, method: str, path: str, body: str = "") -> tuple[int, Any]:
    """Return the status and the JSON of a plain HTTP request."""
    connection = http.client.HTTPConnection(emulator.control_url.removeprefix("http://"))
    connection.request(method, path, body)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def test_faults_come_and_go(control: ControlClient) -> None:
    fault = Fault(Target.EXTENSION, Effect.DELAY, resource="billing", count=3, seconds=1.5)
    fault_id = control.inject(fault)
    (injected,) = control.faults()
    assert (injected.fault_id, injected.fault) == (fault_id, fault)
    assert (injected.fitted, injected.struck) == (0, 0)
    assert control.remove_fault(fault_id)
    assert not control.remove_fault(fault_id)
    control.inject(fault)
    control.clear_faults()
    assert control.faults() == []


def test_both_controls_tell_the_same(control: ControlClient, emulator: PubsubEmulator) -> None:
    wanted = EventFilter(kind=EventKind.STREAM_OPENED, resource="billing", after=0)
    assert control.events() == emulator.control.events()
    assert control.events(wanted) == emulator.control.events(wanted) == []
    assert control.backlog(SUBSCRIPTION) == BacklogSummary(messages=0, outstanding=0)
    assert control.cut_streams() == control.cut_streams("billing") == 0


def test_waiting_in_vain(control: ControlClient) -> None:
    with pytest.raises(TimeoutError):
        control.wait_for_events(EventFilter(kind=EventKind.NACK), wait_seconds=0.05)


def test_what_is_not_there(control: ControlClient) -> None:
    with pytest.raises(NotFound):
        control.backlog("projects/chargeonce-local/subscriptions/missing")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"target": "extension"},
        {"target": "extension", "effect": "duplicate"},
        {"target": "extension", "effect": "lose", "unknown": 1},
        {"target": "extension", "effect": "lose", "probability": 2},
        {"target": "extension", "effect": "lose", "nth": "first"},
    ],
    ids=str,
)
def test_faults_that_make_no_sense(emulator: PubsubEmulator, given: dict[str, Any]) -> None:
    status, answer = call(emulator, "POST", "/faults", json.dumps(given))
    assert (status, list(answer)) == (400, ["error"])


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/faults", "not JSON", 400),
        ("/faults", "[]", 400),
        ("/faults", json.dumps({**LOST_ACK, "resource": "x" * 70_000}), 400),
        ("/nothing", "", 404),
    ],
    ids=["not JSON", "no object", "too large", "unknown"],
)
def test_requests_that_make_no_sense(
    emulator: PubsubEmulator, path: str, body: str, status: int
) -> None:
    assert call(emulator, "POST", path, body)[0] == status


@pytest.mark.parametrize("query", ["kind=nonsense", "outcome=nonsense", "after=x", "at_least=x"])
def test_filters_that_make_no_sense(emulator: PubsubEmulator, query: str) -> None:
    assert call(emulator, "GET", f"/events?{query}")[0] == 400


def test_it_explains_itself(emulator: PubsubEmulator) -> None:
    status, answer = call(emulator, "GET", "/")
    assert status == 200
    assert any("/streams/cut" in line for line in answer["usage"])
