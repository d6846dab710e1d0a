"""Fixtures of the scenarios."""

from collections.abc import Iterator

import pytest

from local.postgres import DatabaseServer
from local.stripe_simulator import RunningSimulator, serve_in_thread
from shared.record import Flow
from tests.support.bench import Bench


@pytest.fixture(scope="session")
def stripe_simulator() -> Iterator[RunningSimulator]:
    """One simulated Stripe for the test process; each test starts it anew."""
    with serve_in_thread() as running:
        yield running


@pytest.fixture(scope="session")
def scenario_database_url(
    postgres_server: DatabaseServer, migrated_template_url: str
) -> Iterator[str]:
    """One database for the test process; each test empties it."""
    url = postgres_server.create_database(template=migrated_template_url)
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def bench(scenario_database_url: str, stripe_simulator: RunningSimulator) -> Iterator[Bench]:
    """A whole system with an open run and no customer."""
    stripe_simulator.control.reset()
    bench = Bench(scenario_database_url, stripe_simulator.control, stripe_simulator.base_url)
    yield bench
    bench.close()


@pytest.fixture(params=list(Flow))
def flow(request: pytest.FixtureRequest) -> Flow:
    """Both flows, one after the other."""
    flow: Flow = request.param
    return flow
