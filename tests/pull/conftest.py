"""Workers that pull, on both emulators, with everything that they talk to."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from local.pubsub_emulator import EventKind, Limits, PubsubEmulator
from local.pubsub_emulator_gcloud import GcloudPubsubEmulator
from local.stripe_simulator import serve_in_thread
from tests.pubsub_emulator.support import Cloud
from tests.support.pulling import Pubsub, PullDesk

OpenDesk: TypeAlias = Callable[..., PullDesk]


@pytest.fixture(scope="session")
def own_pubsub() -> Iterator[Pubsub]:
    """Our own emulator."""
    with PubsubEmulator(limits=Limits(shortest_ack_deadline_seconds=1)) as emulator:
        cloud = Cloud("own", emulator.environment, emulator.control)
        yield Pubsub(cloud, emulator.environment)
        cloud.close()


@pytest.fixture(scope="session")
def gcloud_pubsub(gcloud_emulator: GcloudPubsubEmulator) -> Iterator[Pubsub]:
    """Google's emulator."""
    cloud = Cloud("gcloud", gcloud_emulator.environment, None)
    yield Pubsub(cloud, gcloud_emulator.environment)
    cloud.close()


@pytest.fixture(params=["own", "gcloud"])
def open_desk(request: pytest.FixtureRequest, migrated_database_url: str) -> Iterator[OpenDesk]:
    """Opens a desk on each emulator; its arguments are the subscription's settings.

    Whatever a worker does, it never nacks.
    """
    pubsub: Pubsub = request.getfixturevalue(f"{request.param}_pubsub")
    yield from opener(pubsub, migrated_database_url)


@pytest.fixture
def open_own_desk(own_pubsub: Pubsub, migrated_database_url: str) -> Iterator[OpenDesk]:
    """The same on our own emulator alone: it has faults and a journal."""
    yield from opener(own_pubsub, migrated_database_url)


def opener(pubsub: Pubsub, database_url: str) -> Iterator[OpenDesk]:
    """What opens desks on an emulator, and what must hold afterwards."""
    desks: list[PullDesk] = []
    with serve_in_thread() as stripe:

        def open_desk(**subscription_settings: Any) -> PullDesk:
            desks.append(PullDesk(database_url, stripe, pubsub, **subscription_settings))
            return desks[-1]

        yield open_desk
    if pubsub.cloud.kind == "own":
        pubsub.cloud.control.clear_faults()
        for desk in desks:
            assert not desk.events(EventKind.NACK)
