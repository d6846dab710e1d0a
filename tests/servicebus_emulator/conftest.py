"""Fixtures: one emulator and one client of each flavour for the whole session."""

import gc
import warnings
from collections.abc import Callable, Iterator

import pytest

from local.servicebus_emulator import EmulatorOptions, ServiceBusEmulator
from tests.servicebus_emulator.peer import Desk, Peer
from tests.servicebus_emulator.sdk import FLAVOURS, Sdk, queue_options, subscription_options


@pytest.fixture(scope="module", autouse=True)
def _forget_broken_connections(forget_broken_connections: None) -> None:
    """Every module here cuts connections."""


@pytest.fixture(scope="session")
def running_emulator() -> Iterator[ServiceBusEmulator]:
    """The emulator; use `emulator`, which is empty for each test."""
    options = EmulatorOptions(
        queues=queue_options(), subscriptions=subscription_options(), control_port=0
    )
    with ServiceBusEmulator(options) as emulator:
        yield emulator


@pytest.fixture
def emulator(running_emulator: ServiceBusEmulator) -> ServiceBusEmulator:
    """An emulator without messages, faults and records."""
    running_emulator.clear_faults()
    for queue in running_emulator.queues():
        running_emulator.purge_queue(queue.path)
        if queue.path.startswith("billing"):
            (settings,) = {each.settings for each in queue_options()}
            running_emulator.configure_queue(queue.path, settings)
    running_emulator.forget_records()
    return running_emulator


@pytest.fixture(scope="session")
def sdk_of_flavour(running_emulator: ServiceBusEmulator) -> Iterator[Callable[[str], Sdk]]:
    """Returns the client of a flavour, always the same one, whose links stay open."""
    made: dict[str, Sdk] = {}

    def get(flavour: str) -> Sdk:
        if flavour not in made:
            made[flavour] = Sdk(flavour, running_emulator.connection_string)
        return made[flavour]

    yield get
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for client in made.values():
            client.close()
        gc.collect()


@pytest.fixture(params=FLAVOURS)
def sdk(
    request: pytest.FixtureRequest,
    emulator: ServiceBusEmulator,
    sdk_of_flavour: Callable[[str], Sdk],
) -> Sdk:
    """The client, once sync and once async, with an empty emulator."""
    del emulator
    return sdk_of_flavour(request.param)


@pytest.fixture
def sync_sdk(emulator: ServiceBusEmulator, sdk_of_flavour: Callable[[str], Sdk]) -> Sdk:
    """The sync client, with an empty emulator."""
    del emulator
    return sdk_of_flavour("sync")


@pytest.fixture
def desk() -> Desk:
    """A broker whose time stands until it is moved."""
    return Desk()


@pytest.fixture
def peer(desk: Desk) -> Peer:
    """A client of that broker that speaks frame by frame, its session begun."""
    peer = desk.peer()
    peer.listen()
    return peer
