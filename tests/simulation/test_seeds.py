"""Goal: hundreds of seeds hold every invariant, and reach all that could break one.

Method: the command that people run, in a process of its own so that its workers are spawned from
a clean one.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from local import simulate as command

ROOT = Path(__file__).resolve().parents[2]
SEEDS_IN_THE_SUITE = 800
SEEDS = 5000
SEEDS_OF_A_FLOW = 60
CROSSINGS_AT_LEAST = 200


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "seeds", [SEEDS_IN_THE_SUITE, pytest.param(SEEDS, marks=pytest.mark.prove)]
)
def test_every_seed_holds_every_invariant_and_together_they_reach_every_fault(seeds: int) -> None:
    report = _simulate("--seeds", str(seeds), "--workers", "2")
    assert report["violations"] == []
    assert report["seeds"] == seeds
    assert report["unreached"] == []
    assert report["crossings"] >= CROSSINGS_AT_LEAST * seeds


@pytest.mark.parametrize(
    ("flow", "money_moves_at"),
    [("payment_intent", {"confirm"}), ("charge", {"charge"}), ("mixed", {"confirm", "charge"})],
)
def test_each_flow_can_be_looked_at_alone(flow: str, money_moves_at: set[str]) -> None:
    arguments = ("--seeds", str(SEEDS_OF_A_FLOW), "--first", "5001", "--workers", "2")
    report = _simulate(*arguments, "--flow", flow)
    assert report["violations"] == []
    reached = {
        name
        for name in ("confirm", "charge")
        if any(f"stripe.{name}." in place for place in report["coverage"])
    }
    assert reached == money_moves_at


def test_the_two_step_flow_needs_no_idempotency_keys() -> None:
    """Goal: with Stripe's idempotency switched off altogether nobody is charged twice."""
    arguments = ("--flow", "payment_intent", "--without-idempotency", "--workers", "2")
    report = _simulate("--seeds", str(SEEDS_OF_A_FLOW), *arguments)
    assert report["violations"] == []
    assert report["coverage"]["takeover"] > 0


def test_a_campaign_that_reaches_too_little_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Goal: what stands in the counters' list and is never reached does not pass for proven."""
    monkeypatch.setattr(command, "SEEDS_THAT_REACH_ALL", 2)
    assert command.main(["--seeds", "1", "--workers", "1"]) == 0
    assert command.main(["--seeds", "2", "--workers", "1"]) == 1
    assert "never reached: " in capsys.readouterr().out


def _simulate(*arguments: str) -> Any:
    found = subprocess.run(
        [sys.executable, "-m", "local.simulate", "--json", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=390,
    )
    assert found.returncode in (0, 1), found.stderr
    return json.loads(found.stdout)
