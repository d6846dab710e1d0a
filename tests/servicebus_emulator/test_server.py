"""Goal: what the sockets hold has a limit, and what is due is done without anybody asking."""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from local.servicebus_emulator import (
    EmulatorOptions,
    QueueOptions,
    QueueSettings,
    QueueStatus,
    ServiceBusEmulator,
    server,
)
from local.servicebus_emulator.frames import (
    AMQP_HEADER,
    Frame,
    FrameReader,
    encode_frame,
)
from local.servicebus_emulator.performatives import (
    Composite,
    Disposition,
    Transfer,
    decode_performative,
    encode_performative,
)
from local.servicebus_emulator.wire_types import UnsignedInt
from tests.servicebus_emulator.peer import OPENING, attach_receiver, attach_sender, credit
from tests.servicebus_emulator.support import encoded_message, eventually, is_cut_off


@pytest.fixture
def lone_emulator() -> Iterator[ServiceBusEmulator]:
    options = EmulatorOptions(queues=[QueueOptions("billing", QueueSettings(lock_seconds=0.2))])
    with ServiceBusEmulator(options) as emulator:
        yield emulator


def connect(emulator: ServiceBusEmulator) -> socket.socket:
    endpoint = emulator.connection_string.partition(";")[0].removeprefix("Endpoint=")
    parts = urlsplit(endpoint)
    assert parts.port is not None
    connection = socket.create_connection(("127.0.0.1", parts.port), timeout=10)
    connection.sendall(AMQP_HEADER)
    return connection


def say(connection: socket.socket, *performatives: Composite, payload: bytes = b"") -> None:
    for performative in performatives:
        connection.sendall(encode_frame(0, encode_performative(performative) + payload))


def hear(connection: socket.socket, wanted: type[Composite], count: int) -> list[Composite]:
    """So many performatives of a type; other frames are skipped."""
    reader = FrameReader()
    heard: list[Composite] = []
    while len(heard) < count:
        data = connection.recv(65_536)
        assert data, "the connection was closed"
        reader.feed(data)
        while (unit := reader.take()) is not None:
            if isinstance(unit, Frame) and unit.body:
                performative, _ = decode_performative(unit.body)
                if isinstance(performative, wanted):
                    heard.append(performative)
    return heard


def publish(emulator: ServiceBusEmulator, count: int, body: bytes) -> None:
    with connect(emulator) as connection:
        say(connection, *OPENING, attach_sender("billing"))
        whole = encoded_message(body=body)
        for number in range(count):
            first = Transfer(UnsignedInt(1), UnsignedInt(number), b"t", more=len(whole) > 60_000)
            say(connection, first, payload=whole[:60_000])
            for begin in range(60_000, len(whole), 60_000):
                part = Transfer(UnsignedInt(1), more=begin + 60_000 < len(whole))
                say(connection, part, payload=whole[begin : begin + 60_000])
        hear(connection, Disposition, count)


def test_a_client_that_does_not_read_is_sent_no_more(lone_emulator: ServiceBusEmulator) -> None:
    count, size_bytes = 60, 250_000
    lone_emulator.configure_queue("billing", QueueSettings(lock_seconds=60))
    publish(lone_emulator, count, b"x" * size_bytes)
    with connect(lone_emulator) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        say(connection, *OPENING, attach_receiver("billing"), credit(count))
        eventually(lambda: lone_emulator.queue("billing").locked > 0)
        assert lone_emulator.queue("billing").active > 0, "not everything was sent at once"

        last_frames = [
            each
            for each in hear(connection, Transfer, count * 4)
            if isinstance(each, Transfer) and not each.more
        ]
    assert len(last_frames) >= count - 1


def test_locks_run_out_by_themselves(lone_emulator: ServiceBusEmulator) -> None:
    publish(lone_emulator, 1, b"")
    with connect(lone_emulator) as connection:
        say(connection, *OPENING, attach_receiver("billing"), credit(3))
        hear(connection, Transfer, 3)

    counts = [delivery.delivery_count for delivery in lone_emulator.deliveries()]
    assert counts[:3] == [0, 1, 2]


def test_each_lock_runs_out_at_its_own_time(lone_emulator: ServiceBusEmulator) -> None:
    with connect(lone_emulator) as connection:
        say(connection, *OPENING, attach_receiver("billing"), credit(2))
        for lock_seconds in (2.0, 0.2):
            lone_emulator.configure_queue("billing", QueueSettings(lock_seconds))
            publish(lone_emulator, 1, b"")
        hear(connection, Transfer, 2)

    def with_an_active_message() -> QueueStatus | None:
        status = lone_emulator.queue("billing")
        return status if status.active else None

    status = eventually(with_an_active_message)
    assert status is not None
    assert (status.active, status.locked) == (1, 1), "the later one was not waited for"
    eventually(lambda: lone_emulator.queue("billing").active == 2)


def test_the_number_of_connections_has_a_limit(
    lone_emulator: ServiceBusEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAXIMUM_CONNECTIONS", 1)
    with connect(lone_emulator) as first:
        assert first.recv(8) == AMQP_HEADER
        with connect(lone_emulator) as second:
            assert is_cut_off(second)
        assert lone_emulator.connection_count() == 1
    eventually(lambda: lone_emulator.connection_count() == 0)
    with connect(lone_emulator) as third:
        assert third.recv(8) == AMQP_HEADER
