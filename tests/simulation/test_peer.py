"""Goal: the faults of the simulation are those that the usual recipe falls for, so that our own
consumers' clean ledger means something.
"""

import json

import pytest

from local import simulate as command
from local.simulation import simulate
from local.simulation.peer import Cause, simulate_peer
from local.simulation.plan import Flows

SEEDS = 60


def test_the_usual_recipe_double_charges_where_ours_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Method: the same seeds; the recipe loses answers and records, and keys are forgotten."""
    assert command.main(["--peer", "--seeds", str(SEEDS), "--workers", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schedules"] == SEEDS
    assert report["double_charges"] > 0
    assert report["causes"].keys() <= set(map(str, Cause))
    assert report["culprits"]
    for seed in report["culprits"]:
        assert simulate(seed, Flows.CHARGE).violation is None
        assert simulate(seed, Flows.PAYMENT_INTENT).violation is None


def test_a_seed_costs_the_recipe_the_same_again() -> None:
    assert [simulate_peer(seed) for seed in (3, 4)] == [simulate_peer(seed) for seed in (3, 4)]
