"""Fixtures: both emulators, each with Google's client connected to it."""

from collections.abc import Iterator

import pytest

from local.pubsub_emulator import Limits, PubsubEmulator
from local.pubsub_emulator_gcloud import GcloudPubsubEmulator
from tests.pubsub_emulator.support import Cloud, Endpoint


@pytest.fixture(scope="session")
def own_cloud() -> Iterator[Cloud]:
    """Our own emulator, which allows ack deadlines as short as gcloud's does."""
    limits = Limits(shortest_ack_deadline_seconds=1)
    with PubsubEmulator(limits=limits) as emulator:
        cloud = Cloud("own", emulator.environment, emulator.control)
        yield cloud
        cloud.close()


@pytest.fixture(scope="session")
def gcloud_cloud(gcloud_emulator: GcloudPubsubEmulator) -> Iterator[Cloud]:
    """Google's emulator."""
    cloud = Cloud("gcloud", gcloud_emulator.environment, None)
    yield cloud
    cloud.close()


@pytest.fixture
def cloud(request: pytest.FixtureRequest) -> Cloud:
    """The emulator that the test asks for."""
    cloud: Cloud = request.getfixturevalue(f"{request.param}_cloud")
    return cloud


@pytest.fixture
def own(own_cloud: Cloud) -> Iterator[Cloud]:
    """Our own emulator, without faults before and after."""
    own_cloud.control.clear_faults()
    yield own_cloud
    own_cloud.control.clear_faults()


@pytest.fixture(scope="session")
def endpoint() -> Iterator[Endpoint]:
    """An HTTP server to push to."""
    with Endpoint().serving() as endpoint:
        yield endpoint
