"""Desks on an emulator where a minute takes a second, and on one that keeps real time."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from local.pubsub_emulator import Limits, PubsubEmulator
from local.stripe_simulator import serve_in_thread
from local.usual_recipe import BillingRecords
from tests.pubsub_emulator.support import Cloud
from tests.support.pulling import Pubsub, PullDesk

OpenDesk: TypeAlias = Callable[..., PullDesk]

SPEED = 60.0


@pytest.fixture(scope="session")
def fast_pubsub() -> Iterator[Pubsub]:
    """An emulator where every lease lapses soon: Google's client extends by the real clock."""
    yield from _serve(SPEED)


@pytest.fixture(scope="session")
def pubsub() -> Iterator[Pubsub]:
    """An emulator that keeps real time."""
    yield from _serve(1.0)


@pytest.fixture
def open_desk(fast_pubsub: Pubsub, migrated_database_url: str) -> Iterator[OpenDesk]:
    """Opens a desk; its database has the table of the usual recipe as well."""
    yield from _opener(fast_pubsub, migrated_database_url)


@pytest.fixture
def open_slow_desk(pubsub: Pubsub, migrated_database_url: str) -> Iterator[OpenDesk]:
    """The same where leases last as long as they say."""
    yield from _opener(pubsub, migrated_database_url)


def _serve(speed: float) -> Iterator[Pubsub]:
    limits = Limits(shortest_ack_deadline_seconds=1)
    with PubsubEmulator(limits=limits, speed=speed) as emulator:
        cloud = Cloud("own", emulator.environment, emulator.control)
        yield Pubsub(cloud, emulator.environment)
        cloud.close()


def _opener(pubsub: Pubsub, database_url: str) -> Iterator[OpenDesk]:
    BillingRecords(database_url).create_table()
    with serve_in_thread() as stripe:

        def open_desk(**settings: Any) -> PullDesk:
            return PullDesk(database_url, stripe, pubsub, **settings)

        yield open_desk
    pubsub.cloud.control.clear_faults()
