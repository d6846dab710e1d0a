"""Goal: the emulator speaks AMQP, and not just what one client makes of it.

Method: Apache Qpid Proton, which shares no code with azure-servicebus, sends and receives.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Self
from uuid import UUID

import pytest

from local.servicebus_emulator import ServiceBusEmulator, SettlementKind
from tests.servicebus_emulator.sdk import LOCK_SECONDS, MAX_DELIVERY_COUNT
from tests.servicebus_emulator.support import eventually
from tests.support.missing import skip_outside_ci

IS_INSTALLED = find_spec("proton") is not None
# Any also where it is installed: it is not on every desk where types are checked.
proton: Any = import_module("proton") if IS_INSTALLED else None
utils: Any = import_module("proton.utils") if IS_INSTALLED else None
reactor: Any = import_module("proton.reactor") if IS_INSTALLED else None

QUEUE = "billing-sync"
SECONDS = 10


@pytest.fixture(scope="module", autouse=True)
def requires_proton() -> None:
    """Proton, which is C source alone."""
    if not IS_INSTALLED:
        skip_outside_ci(
            "Apache Qpid Proton is not installed: `.venv/bin/python -m pip install -r "
            "requirements-ci.txt` builds it, for which a C compiler is needed"
        )


class Client:
    """A blocking client of the queue."""

    def __init__(self, emulator: ServiceBusEmulator, **options: Any) -> None:
        endpoint = emulator.connection_string.partition(";")[0].removeprefix("Endpoint=sb://")
        self._connection = utils.BlockingConnection(endpoint, timeout=SECONDS, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def sender(self, address: str = QUEUE) -> Any:
        return self._connection.create_sender(address)

    def receiver(self, address: str = QUEUE, **options: Any) -> Any:
        return self._connection.create_receiver(address, **options)


def send(client: Client, *message_ids: str) -> None:
    sender = client.sender()
    for message_id in message_ids:
        sender.send(proton.Message(id=message_id, body={"customer": message_id}))


def test_send_and_receive(emulator: ServiceBusEmulator) -> None:
    with Client(emulator) as client:
        send(client, "a", "b")
        receiver = client.receiver(credit=2)
        first, second = receiver.receive(SECONDS), receiver.receive(SECONDS)
        receiver.accept()
        receiver.accept()

    assert [first.id, second.id] == ["a", "b"]
    assert first.body == {"customer": "a"}
    assert first.delivery_count == 0
    assert first.annotations["x-opt-sequence-number"] < second.annotations["x-opt-sequence-number"]
    eventually(lambda: emulator.queue(QUEUE).locked == 0)
    assert [record.kind for record in emulator.settlements()] == [SettlementKind.COMPLETE] * 2


def test_reject_and_release(emulator: ServiceBusEmulator) -> None:
    with Client(emulator) as client:
        send(client, "a", "b")
        receiver = client.receiver(credit=2)
        receiver.receive(SECONDS)
        receiver.reject()
        receiver.receive(SECONDS)
        receiver.release(delivered=False)
        # Nothing is sent before something is waited for.
        receiver.close()
        dead = client.receiver(f"{QUEUE}/$DeadLetterQueue").receive(SECONDS)

    assert dead.id == "a"
    kinds = [record.kind for record in emulator.settlements()]
    assert kinds == [SettlementKind.DEAD_LETTER, SettlementKind.RELEASE]


def test_failed_deliveries_count(emulator: ServiceBusEmulator) -> None:
    with Client(emulator) as client:
        send(client, "a")
        receiver = client.receiver(credit=1)
        counts = []
        for _ in range(MAX_DELIVERY_COUNT):
            counts.append(receiver.receive(SECONDS).delivery_count)
            receiver.fetcher.unsettled[0].local.failed = True
            receiver.release()
        dead = client.receiver(f"{QUEUE}/$DeadLetterQueue").receive(SECONDS)

    assert counts == list(range(MAX_DELIVERY_COUNT))
    assert dead.properties["DeadLetterReason"] == "MaxDeliveryCountExceeded"


def test_locks_outlive_the_connection(emulator: ServiceBusEmulator) -> None:
    with Client(emulator) as client:
        send(client, "a")
        delivered = client.receiver(credit=1)
        delivered.receive(SECONDS)
    assert emulator.queue(QUEUE).locked == 1

    emulator.advance_clock(LOCK_SECONDS)
    with Client(emulator) as client:
        assert client.receiver(credit=1).receive(SECONDS).delivery_count == 1
    (first, second) = emulator.deliveries()
    assert isinstance(first.lock_token, UUID)
    assert first.lock_token != second.lock_token


def test_receive_and_delete(emulator: ServiceBusEmulator) -> None:
    with Client(emulator) as client:
        send(client, "a")
        client.receiver(credit=1, options=reactor.AtMostOnce()).receive(SECONDS)

    queue = emulator.queue(QUEUE)
    assert (queue.active, queue.locked) == (0, 0)


def test_a_large_message_in_small_frames(emulator: ServiceBusEmulator) -> None:
    body = bytes(range(256)) * 800
    with Client(emulator, max_frame_size=4096) as client:
        client.sender().send(proton.Message(body=body))
        received = client.receiver(credit=1).receive(SECONDS)

    assert bytes(received.body) == body


def test_a_message_above_the_limit(emulator: ServiceBusEmulator) -> None:
    with Client(emulator) as client:
        sender = client.sender()
        with pytest.raises(utils.SendException):
            sender.send(proton.Message(body=b"x" * 300_000))
        sender.send(proton.Message(id="small"))


def test_an_unknown_queue(emulator: ServiceBusEmulator) -> None:
    with Client(emulator) as client, pytest.raises(utils.LinkDetached, match="could not be found"):
        client.sender("nothing")


def test_heartbeats_keep_a_quiet_connection_open(emulator: ServiceBusEmulator) -> None:
    with Client(emulator, heartbeat=0.4) as client:
        receiver = client.receiver(credit=1)
        with pytest.raises(proton.Timeout):
            receiver.receive(1.0)
        send(client, "a")
        assert receiver.receive(SECONDS).id == "a"
