"""Fixtures: a pure model on a desk, and one simulator over HTTP for the whole session."""

from collections.abc import Iterator

import pytest
import requests
import stripe

from local.stripe_simulator import RunningSimulator, SettableClock, serve_in_thread
from tests.stripe_simulator.support import EPOCH, Desk


@pytest.fixture
def desk() -> Desk:
    """A simulated Stripe without HTTP, new for each test."""
    return Desk()


@pytest.fixture(scope="session")
def served() -> Iterator[RunningSimulator]:
    """One simulator over HTTP; use `simulator`, which is reset for each test."""
    with serve_in_thread(clock=SettableClock.frozen(EPOCH)) as running:
        yield running


@pytest.fixture
def simulator(served: RunningSimulator) -> RunningSimulator:
    """A simulator over HTTP without any object, at the same time of day for each test."""
    served.control.reset()
    served.control.set_clock(EPOCH)
    return served


@pytest.fixture
def client(simulator: RunningSimulator) -> Iterator[stripe.StripeClient]:
    """The real SDK, without retries, that talks to the simulator."""
    with requests.Session() as session:
        yield stripe.StripeClient(
            "sk_test_desk",
            base_addresses={"api": simulator.base_url},
            http_client=stripe.RequestsClient(timeout=(2, 5), session=session),
            max_network_retries=0,
        )
