"""Fixtures of the audit's tests: Stripe, a database, and the command line over both."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest

from local.stripe_simulator import RunningSimulator, serve_in_thread
from tests.audit.world import World
from tests.cli.conftest import CommandLine, chargeonce, no_settings, without_database

__all__ = ["chargeonce", "no_settings", "without_database"]


@pytest.fixture(scope="session")
def simulator() -> Iterator[RunningSimulator]:
    """A simulated Stripe."""
    with serve_in_thread() as running:
        yield running


@pytest.fixture
def world(simulator: RunningSimulator, migrated_database_url: str) -> Iterator[World]:
    """An empty Stripe, and a database without records."""
    simulator.control.reset()
    simulator.control.set_clock(datetime.now(UTC).timestamp())
    with closing(World(simulator, migrated_database_url)) as world:
        yield world


@pytest.fixture
def deployed(chargeonce: CommandLine, world: World, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line with a deployment's settings."""
    monkeypatch.setenv("STRIPE_API_KEY", "rk_test_auditor")
    monkeypatch.setenv("STRIPE_API_BASE", world.simulator.base_url)
    return chargeonce
