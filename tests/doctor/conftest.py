"""Fixtures: the command line over a database and a Stripe of its own."""

from tests.cli.conftest import (
    chargeonce,
    deployed,
    no_settings,
    simulator,
    store,
    without_database,
)

__all__ = ["chargeonce", "deployed", "no_settings", "simulator", "store", "without_database"]
