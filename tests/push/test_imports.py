"""A cold start loads what the first request needs, and nothing else."""

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
OURS = {"main", "gcp_function", "shared"}
TRIES = 3

_MEASURE = """
import json, sys, time
started = time.perf_counter()
import functions_framework
framework_seconds = time.perf_counter() - started
before = set(sys.modules)
started = time.perf_counter()
import main
main_seconds = time.perf_counter() - started
added = sorted(set(sys.modules) - before)
print(json.dumps([framework_seconds, main_seconds, sorted(sys.modules), added]))
"""


@functools.cache
def measure(number: int) -> Any:
    """Import `main` in a process of its own, as functions-framework does."""
    output = subprocess.run(
        [sys.executable, "-c", _MEASURE], cwd=REPOSITORY, capture_output=True, check=True
    ).stdout
    return json.loads(output)


def test_no_sdk_and_no_driver_is_loaded() -> None:
    """Goal: neither cloud's SDK, nor Stripe's, nor the database driver costs a cold start."""
    loaded = measure(1)[2]
    for heavy in ("google.cloud.pubsub_v1", "google.pubsub_v1", "grpc", "stripe", "azure"):
        assert not any(name == heavy or name.startswith(f"{heavy}.") for name in loaded)
    for driver in ("psycopg", "requests", "google.auth", "google.oauth2"):
        assert driver not in loaded


def test_only_our_own_modules_come_on_top_of_the_framework() -> None:
    """Goal: a new dependency at start does not slip in."""
    top_level = {name.partition(".")[0] for name in measure(1)[3]}
    assert top_level - set(sys.stdlib_module_names) == OURS


def test_import_takes_a_fraction_of_the_frameworks() -> None:
    """Goal: an import-time ceiling that holds on any machine: it is relative.

    Method: the best of a few processes, so that a busy machine does not decide.
    """
    shares = [main / framework for framework, main, *_ in map(measure, range(1, TRIES + 1))]
    assert min(shares) < 0.5
