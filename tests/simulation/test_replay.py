"""Goal: one seed replays all, wherever it runs, and a failure says how."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from local import simulate as command
from local.simulation import Flows, Invariant, simulate
from tests.simulation.mutants import MUTANTS

ROOT = Path(__file__).resolve().parents[2]

_PRINT_DIGESTS = """
from local.simulation import simulate
print(*(simulate(seed).trace.digest() for seed in range(1, 11)))
"""


def test_the_same_seed_gives_the_same_trace() -> None:
    assert simulate(7).trace.render() == simulate(7).trace.render()


def test_another_seed_gives_another_trace() -> None:
    assert simulate(7).trace.digest() != simulate(8).trace.digest()


def test_a_seed_with_its_own_flow_named_is_the_same() -> None:
    report = simulate(11)
    assert simulate(11, report.plan.flows).trace.digest() == report.trace.digest()


def test_hash_seeds_do_not_matter() -> None:
    digests = {_digests_under(hash_seed) for hash_seed in ("0", "4711")}
    assert len(digests) == 1


def test_every_python_gives_the_same_traces() -> None:
    """Goal: what one machine finds, another one shows, whatever it runs."""
    others = find_pythons()
    if not others:
        pytest.skip("no other Python from 3.11 on is installed: see local/scripts/find_python.sh")
    here = _digests_under("0")
    for python in others:
        assert _digests_under("0", python) == here, python


def find_pythons() -> list[str]:
    """The interpreters of other versions that are installed and run."""
    found = []
    for minor in ("3.11", "3.12", "3.13"):
        tried = subprocess.run(
            ["sh", "local/scripts/find_python.sh"],
            cwd=ROOT,
            env={**os.environ, "PYTHON": minor},
            capture_output=True,
            text=True,
            check=False,
        )
        here = ".".join(map(str, sys.version_info[:2]))
        if tried.returncode == 0 and minor != here:
            found.append(tried.stdout.strip())
    return found


def test_no_line_quotes_an_exception() -> None:
    rendered = "".join(simulate(seed).trace.render() for seed in range(1, 11))
    assert "Error" not in rendered
    assert "Traceback" not in rendered


def test_a_violation_names_the_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _mutate("confirm without storing", monkeypatch)
    code = command.main(["--seeds", "1", "--flow", "payment_intent", "--workers", "1"])
    printed = capsys.readouterr().out
    assert code == 1
    assert "VIOLATED in seed 1" in printed
    assert "python -m local.simulate --trace 1 --flow payment_intent" in printed


def test_the_replay_shows_the_steps_and_the_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _mutate("confirm without storing", monkeypatch)
    code = command.main(["--trace", "1", "--flow", "payment_intent"])
    printed = capsys.readouterr().out
    assert code == 1
    assert f"VIOLATED: {Invariant.RECORD_FIRST}" in printed
    assert "records.claim" in printed
    assert "stripe.send" in printed


def test_a_sound_seed_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--trace", "3", "--flow", Flows.CHARGE]) == 0
    assert "every invariant held" in capsys.readouterr().out


def _mutate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    next(mutant for mutant in MUTANTS if mutant.name == name).apply(monkeypatch)


def _digests_under(hash_seed: str, python: str = sys.executable) -> str:
    # What the simulation imports besides is pure Python, or built for every version.
    packages = sysconfig.get_path("purelib")
    return subprocess.run(
        [python, "-c", _PRINT_DIGESTS],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": packages},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
