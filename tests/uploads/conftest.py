"""Fixtures: what is uploaded, unpacked elsewhere, and what the two entry points talk to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from local.servicebus_emulator import (
    EmulatorOptions,
    QueueOptions,
    QueueSettings,
    ServiceBusEmulator,
)
from local.stripe_simulator import RunningSimulator, serve_in_thread
from tests.support.deployment import Deployment
from tests.support.pubsub import PublisherService, serve_publisher
from tests.support.servicebus import LOCK_SECONDS, Desk
from tests.uploads.isolation import link_packages, required
from tests.uploads.uploading import FUNC, GCLOUD, ROOT, upload

QUEUE = "uploaded"


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of requirements.txt alone."""
    return link_packages(required(), tmp_path_factory.mktemp("packages") / "site")


@pytest.fixture(scope="session")
def func_upload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `func azure functionapp publish` sends, unpacked elsewhere."""
    return upload(ROOT, FUNC, tmp_path_factory.mktemp("func") / "upload")


@pytest.fixture(scope="session")
def gcloud_upload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `gcloud functions deploy` sends, unpacked elsewhere."""
    return upload(ROOT, GCLOUD, tmp_path_factory.mktemp("gcloud") / "upload")


@pytest.fixture
def stripe() -> Iterator[RunningSimulator]:
    """A simulated Stripe."""
    with serve_in_thread() as running:
        yield running


@pytest.fixture
def publisher() -> Iterator[PublisherService]:
    """Pub/Sub's publisher, for dead letters."""
    with serve_publisher() as service:
        yield service


@pytest.fixture
def desk(migrated_database_url: str, stripe: RunningSimulator) -> Iterator[Desk]:
    """A queue with a database and a Stripe."""
    options = EmulatorOptions(queues=[QueueOptions(QUEUE, QueueSettings(LOCK_SECONDS))])
    with ServiceBusEmulator(options) as emulator:
        desk = Desk(migrated_database_url, stripe, emulator, QUEUE)
        yield desk
        desk.close()


@pytest.fixture
def deployment(
    migrated_database_url: str, stripe: RunningSimulator, publisher: PublisherService
) -> Deployment:
    """The push function's settings; nothing runs yet."""
    return Deployment(migrated_database_url, stripe, publisher.host_and_port)
