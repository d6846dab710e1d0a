"""Hunting a mutant: in a copy of the project, by seeds or by tests."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from local.mutants.mutant import Mutant

ROOT = Path(__file__).resolve().parents[2]
SEEDS_AT_MOST = 1000
HUNT_SECONDS = 600.0

_COPIED = ("azure_function", "gcp_function", "local", "ops", "shared", "tests")
_COPIED_FILES = ("function_app.py", "host.json", "main.py", "pyproject.toml")
_TESTS_FAILED = 1
_SHORT = re.compile(r"^FAILED (\S+)", re.MULTILINE)


class HuntFailed(Exception):
    """The hunt itself went wrong, so that nothing is known about the mutant."""


@dataclass(frozen=True, slots=True)
class Catch:
    """How a hunt ended.

    Args:
        caught_by: the invariant or the test; None when the mutant got away.
        seeds: how many seeds that took; None where tests hunted.
        seconds: how long it took.
    """

    caught_by: str | None
    seeds: int | None
    seconds: float


def hunt(mutant: Mutant, seeds: int = SEEDS_AT_MOST) -> Catch:
    """Take a safety out of a copy of the project, and see what notices.

    Args:
        mutant: what to take out.
        seeds: how many at the most.

    Raises:
        EditDoesNotFit: the code that it takes out has moved.
        HuntFailed: the simulation or pytest ended in an unknown way.
    """
    started = time.monotonic()
    with _copied_project() as folder:
        mutant.apply(folder)
        if mutant.tests:
            caught_by, needed = _first_failure(folder, mutant.tests), None
        else:
            caught_by, needed = _first_violation(folder, mutant, seeds)
    return Catch(caught_by, needed, time.monotonic() - started)


@contextmanager
def _copied_project() -> Iterator[Path]:
    with TemporaryDirectory(prefix="chargeonce-mutant-") as name:
        folder = Path(name)
        for package in _COPIED:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / package, folder / package, ignore=ignored)
        for file in _COPIED_FILES:
            shutil.copy(ROOT / file, folder / file)
        yield folder


def _first_violation(folder: Path, mutant: Mutant, seeds: int) -> tuple[str | None, int | None]:
    flow = mutant.flows or "any"
    command = ["-m", "local.mutants.first_violation", flow, str(seeds)]
    ended = _run(command, folder)
    if ended.returncode != 0:
        raise HuntFailed(f"{mutant.name}: {ended.stderr[-2000:]}")
    found = json.loads(ended.stdout)
    return found["invariant"], found["seed"] or seeds


def _first_failure(folder: Path, tests: tuple[str, ...]) -> str | None:
    options = ("-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist")
    ended = _run(["-m", "pytest", *options, "-m", "not prove", *tests], folder)
    if ended.returncode == 0:
        return None
    failed = _SHORT.search(ended.stdout)
    if ended.returncode != _TESTS_FAILED or failed is None:
        raise HuntFailed(f"pytest ended with {ended.returncode}: {ended.stdout[-2000:]}")
    return failed[1].partition("[")[0]


def _run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=HUNT_SECONDS,
    )
