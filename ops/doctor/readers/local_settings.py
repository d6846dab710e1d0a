"""local.settings.json, from which `func start` takes the settings on a desk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ops.doctor.facts import Facts
from ops.doctor.readers.environment import read_environment

FILE = "local.settings.json"


def read_local_settings(root: Path) -> Iterator[Facts]:
    """Its settings with host.json, where there is one."""
    path = root / FILE
    if path.exists():
        values = json.loads(path.read_text("utf-8")).get("Values", {})
        host = json.loads((root / "host.json").read_text("utf-8"))
        yield replace(read_environment(FILE, {**values}), host=host)
