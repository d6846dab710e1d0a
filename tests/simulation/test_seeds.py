"""A thousand seeds of the real core, judged by the ledger; then the code without its safeties."""

import subprocess
import sys

import pytest

from local.simulation import Flows, run_campaign, simulate
from tests.simulation.mutants import MUTANTS, Mutant

SEEDS = range(1, 1001)
MUTANT_SEEDS = 400
LONG_SECONDS = 900


@pytest.mark.timeout(LONG_SECONDS)
def test_every_invariant_holds_in_a_thousand_seeds() -> None:
    """Goal: no interleaving, crash, lapse, loss or pruning charges twice or passes the cap.

    Method: each seed interleaves consumers at every port crossing; the same thousand seeds must
    also reach everything that is worth reaching, or they would prove less than they seem to.
    """
    summary = run_campaign(SEEDS, None, workers=2, tell=lambda _: None)
    assert [failure.replay for failure in summary.failures] == []
    assert summary.seed_count == len(SEEDS)
    assert summary.unreached == []


@pytest.mark.timeout(LONG_SECONDS)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_code_without_a_safety_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the simulation can fail: each safety that is removed breaks an invariant."""
    mutant.apply(monkeypatch)
    for seed in range(1, MUTANT_SEEDS + 1):
        violation = simulate(seed, mutant.flows).violation
        if violation is not None:
            assert violation.invariant in mutant.violates
            return
    pytest.fail(f"{MUTANT_SEEDS} seeds did not notice: {mutant.name}")


@pytest.mark.parametrize("flows", list(Flows))
def test_a_seed_replays_byte_for_byte(flows: Flows) -> None:
    """Goal: one seed is one story, whatever the hash seed and however often it is told."""
    command = [sys.executable, "-m", "local.simulate", "--trace", "7", "--flow", str(flows)]
    told = {
        subprocess.run(
            command, env={"PYTHONHASHSEED": hash_seed}, capture_output=True, check=True
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(told) == 1
    assert b"every invariant held" in told.pop()
