"""A cold start loads what the first request needs, and nothing else."""

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
OURS = {"main", "gcp_function", "shared"}

_MEASURE = """
import json, sys
import functions_framework
before = set(sys.modules)
import main
print(json.dumps([sorted(sys.modules), sorted(set(sys.modules) - before)]))
"""


@functools.cache
def load() -> Any:
    """The modules after an import of `main` as functions-framework does it, and what came by it."""
    output = subprocess.run(
        [sys.executable, "-c", _MEASURE], cwd=REPOSITORY, capture_output=True, check=True
    ).stdout
    return json.loads(output)


def test_no_sdk_and_no_driver_is_loaded() -> None:
    """Goal: neither cloud's SDK, nor Stripe's, nor the database driver costs a cold start."""
    loaded = load()[0]
    for heavy in ("google.cloud.pubsub_v1", "google.pubsub_v1", "grpc", "stripe", "azure"):
        assert not any(name == heavy or name.startswith(f"{heavy}.") for name in loaded)
    for driver in ("psycopg", "requests", "google.auth", "google.oauth2"):
        assert driver not in loaded


def test_only_our_own_modules_come_on_top_of_the_framework() -> None:
    """Goal: a new dependency at start does not slip in."""
    top_level = {name.partition(".")[0] for name in load()[1]}
    assert top_level - set(sys.stdlib_module_names) == OURS


def test_what_bills_does_not_load_the_proxy() -> None:
    """Goal: a deployment that is not the proxy does not pay for it at each cold start."""
    assert not {"shared.vault.proxy", "shared.vault.admin", "shared.vault.wsgi"} & set(load()[1])
