"""Goal: the simulation can fail. Whatever safety is removed from the code, it notices.

Method: one safety at a time is taken out of the real code; seeds run until one is violated.
`pytest tests/simulation/test_mutants.py --log-cli-level=INFO` tells how many that took.
"""

import logging

import pytest

from local.simulation import Invariant, simulate
from tests.simulation.mutants import MUTANTS, Mutant

SEEDS_AT_MOST = 400

_logger = logging.getLogger(__name__)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_removed_safety_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.apply(monkeypatch)
    for seed in range(1, SEEDS_AT_MOST + 1):
        violation = simulate(seed, mutant.flows).violation
        if violation is not None:
            _logger.info("%s: seed %d: %s", mutant.name, seed, violation.invariant)
            assert violation.invariant in mutant.violates
            return
    pytest.fail(f"{SEEDS_AT_MOST} seeds did not notice: {mutant.name}")


def test_every_invariant_is_broken_by_some_mutant() -> None:
    broken = {invariant for mutant in MUTANTS for invariant in mutant.violates}
    assert broken == set(Invariant)
