"""Both ways to bill from Service Bus, with everything that they talk to."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

import pytest

from local.postgres import DatabaseServer
from local.servicebus_emulator import (
    EmulatorOptions,
    QueueOptions,
    QueueSettings,
    ServiceBusEmulator,
    SettlementKind,
    SubscriptionOptions,
)
from local.stripe_simulator import serve_in_thread
from tests.support.servicebus import (
    LOCK_SECONDS,
    Desk,
    FunctionsPath,
    Path,
    running_consumer,
)

QUEUES = ("functions", "consumer", "careless", "own", "central", "ours", "keyless", "keyed")

OpenDesk: TypeAlias = Callable[[str], AbstractContextManager[Desk]]


@pytest.fixture(scope="module", autouse=True)
def _forget_broken_connections(forget_broken_connections: None) -> None:
    """Every module here cuts connections."""


@pytest.fixture(scope="session")
def emulator() -> Iterator[ServiceBusEmulator]:
    """One Service Bus namespace for the test process."""
    settings = QueueSettings(lock_seconds=LOCK_SECONDS)
    options = EmulatorOptions(
        queues=[QueueOptions(name, settings) for name in QUEUES],
        subscriptions=[SubscriptionOptions("usage", "billing", settings)],
    )
    with ServiceBusEmulator(options) as running:
        yield running


@pytest.fixture(scope="session")
def open_desk(
    postgres_server: DatabaseServer, migrated_template_url: str, emulator: ServiceBusEmulator
) -> OpenDesk:
    """Opens a desk over one of the queues, with a database and a Stripe of its own."""

    @contextmanager
    def open_desk(queue: str) -> Iterator[Desk]:
        url = postgres_server.create_database(template=migrated_template_url)
        with serve_in_thread() as stripe:
            desk = Desk(url, stripe, emulator, queue)
            yield desk
            desk.forget()
            desk.close()
        postgres_server.drop_database(url)

    return open_desk


@pytest.fixture
def desk(open_desk: OpenDesk) -> Iterator[Desk]:
    """A desk whose queue nobody consumes yet."""
    with open_desk("own") as desk:
        yield desk


@pytest.fixture(scope="module", params=["functions", "consumer"])
def consumed(request: pytest.FixtureRequest, open_desk: OpenDesk) -> Iterator[tuple[Desk, Path]]:
    """A desk whose queue is consumed: by the function app, then by the consumer."""
    if request.param == "functions":
        request.getfixturevalue("requires_functions_runtime")
        from local.functions_host.host import FunctionsHost

        with open_desk("functions") as desk, FunctionsHost(desk.environment) as host:
            yield desk, FunctionsPath(host, desk)
    else:
        with open_desk("consumer") as desk, running_consumer(desk.environment) as path:
            yield desk, path


@pytest.fixture
def billed(consumed: tuple[Desk, Path]) -> Iterator[Desk]:
    """A desk whose queue is consumed. Whatever a test did, nothing was abandoned or raised."""
    desk, path = consumed
    yield desk
    kinds = {record.kind for record in desk.emulator.settlements(desk.queue)}
    assert kinds <= {SettlementKind.COMPLETE, SettlementKind.DEAD_LETTER}
    desk.emulator.clear_faults()
    desk.stripe.clear_faults()
    desk.set_lock(LOCK_SECONDS)
    assert path.failures() == []


@pytest.fixture
def path(consumed: tuple[Desk, Path]) -> Path:
    """How the desk's queue is consumed."""
    return consumed[1]
