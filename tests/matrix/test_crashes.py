"""Goal: whoever dies, wherever, and whoever dies again over the recovery: one charge, nothing lost.

Method: the real code over ports in memory, killed at each crossing that it came by; the judge is
the simulated Stripe's ledger. Every single crash runs here, every pair of one scenario too; all
pairs are `make prove`, or `python -m local.check_crashes`.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from local import check_crashes
from local.matrix.exploring import Case, Recovery, cases, run
from local.matrix.scenarios import SCENARIOS, Scenario
from local.matrix.world import Provider
from shared import charge_flow, intent_flow, run_keys
from shared.ports import StripeRequest
from shared.record import Flow, Record
from shared.stripe_requests import create_charge

ROOT = Path(__file__).resolve().parents[2]
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
LEAST_POINTS = 50
LEAST_CRASHES = 3000
LEAST_PAIRS = 50_000

# What the two flows and both vault providers cross; a rename here is a hole in the matrix.
MUST_BE_POINTS = {
    f"{port}.{side}"
    for port in (
        "records.claim",
        "records.store_payment",
        "records.store_verdict",
        "records.finish",
        "records.release",
        "stripe.create",
        "stripe.confirm",
        "stripe.cancel",
        "stripe.charge",
        "settlement.complete",
        "settlement.dead_letter",
        "vault.mint",
        "run_keys.store_key",
    )
    for side in ("before", "after")
}


def _check(*arguments: str) -> Any:
    ended = subprocess.run(
        [sys.executable, "-m", "local.check_crashes", "--json", "--workers", "2", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode in (0, 1), ended.stderr
    return json.loads(ended.stdout)


def test_every_crash_ends_well() -> None:
    report = _check("--singles")
    assert report["problems"] == []
    assert report["points"] >= LEAST_POINTS
    assert report["crashes"] >= LEAST_CRASHES


def test_every_pair_of_crashes_of_the_main_scenario_ends_well() -> None:
    way = ("--flow", "payment_intent", "--provider", "ledger")
    report = _check("--scenario", "charged at once", *way)
    assert report["problems"] == []
    assert report["pairs"] > report["crashes"]


@pytest.mark.prove
@pytest.mark.timeout(0)
def test_every_pair_of_crashes_ends_well() -> None:
    report = _check()
    assert report["problems"] == []
    assert report["pairs"] >= LEAST_PAIRS


def test_the_code_names_the_points() -> None:
    """Goal: the points are those that the code really comes by, and none of ours is missing."""
    names: set[str] = set()
    for scenario, flow, provider in product(SCENARIOS, Flow, Provider):
        if flow in scenario.flows:
            ran = run(Case(scenario, flow, provider, Recovery.REDELIVERY, None))
            names.update(ran.first_names)
    assert names >= MUST_BE_POINTS


def problems_of(scenario: Scenario, flow: Flow, provider: Provider = Provider.LEDGER) -> int:
    """How many of a scenario's crashes end badly."""
    every_case = cases([scenario], [flow], [provider], with_pairs=False)
    return sum(bool(ran.problems) for ran, _ in every_case)


def _no_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        intent_flow._IntentCharge,
        "_cancel",
        lambda charge, intent, verdict: charge._conclude_canceled(intent, verdict),
    )


def _not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        intent_flow._IntentCharge,
        "_store",
        lambda charge, answer: intent_flow._read_intent_object(answer),
    )


def _new_key_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def charge_anew(record: Record) -> StripeRequest:
        request = create_charge(record)
        key = f"{request.idempotency_key}:{record.fence}"
        return StripeRequest(request.method, request.path, request.parameters, key)

    monkeypatch.setattr(charge_flow, "create_charge", charge_anew)


def _strays_live_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_keys, "_live", lambda listed, now: [])


@pytest.mark.parametrize(
    ("remove", "scenario", "flow", "provider"),
    [
        (_no_cancel, "blocked by the proxy's cap", Flow.PAYMENT_INTENT, Provider.LEDGER),
        (_not_stored, "charged at once", Flow.PAYMENT_INTENT, Provider.LEDGER),
        (_new_key_each_time, "charged at once", Flow.CHARGE, Provider.LEDGER),
        (_strays_live_on, "charged at once", Flow.PAYMENT_INTENT, Provider.PROXY),
    ],
)
def test_without_a_safety_some_crash_ends_badly(
    monkeypatch: pytest.MonkeyPatch,
    remove: Callable[[pytest.MonkeyPatch], None],
    scenario: str,
    flow: Flow,
    provider: Provider,
) -> None:
    """Goal: the matrix can fail."""
    assert problems_of(BY_NAME[scenario], flow, provider) == 0
    remove(monkeypatch)
    assert problems_of(BY_NAME[scenario], flow, provider) > 0


def test_a_case_is_shown_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Goal: the command that a failure prints leads to it."""
    case = Case(SCENARIOS[0], Flow.CHARGE, Provider.PROXY, Recovery.RECONCILE, 5, 2)
    words = case.replay.split("local.check_crashes ")[1]
    arguments = [word.strip("'") for word in words.replace(SCENARIOS[0].name, "NAME").split()]
    arguments = [SCENARIOS[0].name if word == "NAME" else word for word in arguments]
    assert check_crashes.main(arguments) == 0
    shown = capsys.readouterr().out
    assert "everything held" in shown
    for name in run(case).second_names:
        assert name in shown
