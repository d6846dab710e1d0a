"""A morgue: dead letters on both brokers, over a database and a Stripe of one's own."""

from collections.abc import Iterator

import pytest

from local.pubsub_emulator import Limits, PubsubEmulator
from local.servicebus_emulator import (
    EmulatorOptions,
    QueueOptions,
    QueueSettings,
    ServiceBusEmulator,
    SubscriptionOptions,
)
from local.stripe_simulator import RunningSimulator, serve_in_thread
from tests.cli.conftest import CommandLine
from tests.pubsub_emulator.support import Cloud
from tests.support.dead_letters import CENTRAL_QUEUE, QUEUE, Morgue
from tests.support.pulling import Pubsub, PullDesk
from tests.support.servicebus import LOCK_SECONDS, Desk


@pytest.fixture(scope="session")
def pubsub() -> Iterator[Pubsub]:
    """Pub/Sub's emulator."""
    limits = Limits(shortest_ack_deadline_seconds=1)
    with PubsubEmulator(limits=limits) as emulator:
        cloud = Cloud("own", emulator.environment, emulator.control)
        yield Pubsub(cloud, emulator.environment)
        cloud.close()


@pytest.fixture(scope="session")
def servicebus() -> Iterator[ServiceBusEmulator]:
    """Service Bus' emulator."""
    settings = QueueSettings(LOCK_SECONDS)
    options = EmulatorOptions(
        queues=[QueueOptions(name, settings) for name in (QUEUE, CENTRAL_QUEUE)],
        subscriptions=[SubscriptionOptions("events", "billing", settings)],
    )
    with ServiceBusEmulator(options) as emulator:
        yield emulator


@pytest.fixture(scope="session")
def stripe() -> Iterator[RunningSimulator]:
    """A simulated Stripe."""
    with serve_in_thread() as running:
        yield running


@pytest.fixture
def morgue(
    migrated_database_url: str,
    stripe: RunningSimulator,
    pubsub: Pubsub,
    servicebus: ServiceBusEmulator,
) -> Iterator[Morgue]:
    """The morgue, empty."""
    stripe.control.reset()
    google = PullDesk(migrated_database_url, stripe, pubsub)
    azure = Desk(migrated_database_url, stripe, servicebus, QUEUE)
    morgue = Morgue(azure, google)
    yield morgue
    morgue.close()
    azure.forget()
    azure.close()
    servicebus.purge_queue(CENTRAL_QUEUE)
    pubsub.cloud.control.clear_faults()


@pytest.fixture
def chargeonce(
    morgue: Morgue, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """The command line with the settings of a deployment on both clouds."""
    for name, value in {**morgue.environment, "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, value)
    return CommandLine(capsys)
