"""An interpreter that finds the packages of requirements.txt, and nothing else of `.venv`."""

from __future__ import annotations

import functools
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.uploads.uploading import ROOT

SITE_PACKAGES: Final = Path(sysconfig.get_path("purelib"))
# Azure brings the worker and its runtime; they are in no requirements.txt.
RUNTIME: Final = "azure-functions-runtime"
_WORKER: Final = (
    "__init__.py",
    "functions_host/__init__.py",
    "functions_host/worker.py",
    "functions_host/worker_messages.py",
    "functions_host/model_binding.py",
)

# Without site: what is installed is not found by itself, only what PYTHONPATH names.
ISOLATED: Final = (sys.executable, "-S")


class _Node:
    """A path in site-packages: who has something in it, and what is in it."""

    def __init__(self) -> None:
        self.owners: set[str] = set()
        self.children: dict[str, _Node] = {}


def required(file: Path = ROOT / "requirements.txt") -> set[str]:
    """The names in a requirements file that are meant for this interpreter."""
    lines = [line.strip() for line in file.read_text("utf-8").splitlines()]
    wanted = [Requirement(line) for line in lines if line and line[0] not in "#-"]
    return {
        canonicalize_name(each.name)
        for each in wanted
        if each.marker is None or each.marker.evaluate()
    }


def link_packages(names: Iterable[str], folder: Path) -> Path:
    """Make a folder with links to those packages alone, for PYTHONPATH.

    Args:
        names: of distributions that are installed here.
        folder: is made, and does not exist yet.
    """
    allowed = set(names)
    installed = _installed()
    missing = allowed - installed.owners
    assert not missing, f"not installed: {sorted(missing)}"
    _link(installed, allowed, SITE_PACKAGES, folder)
    return folder


def worker_folder(folder: Path) -> Path:
    """Make a folder with the worker alone of this repository, which Azure brings too."""
    for name in _WORKER:
        (folder / "local" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "local" / name, folder / "local" / name)
    return folder


@functools.cache
def _installed() -> _Node:
    """Everything in site-packages."""
    root = _Node()
    for distribution in distributions(path=[str(SITE_PACKAGES)]):
        name = canonicalize_name(distribution.name)
        for path in distribution.files or ():
            if path.parts[0] != "..":
                _enter(root, name, path.parts)
    return root


def _enter(node: _Node, owner: str, parts: Sequence[str]) -> None:
    node.owners.add(owner)
    for part in parts:
        node = node.children.setdefault(part, _Node())
        node.owners.add(owner)


def _link(node: _Node, allowed: set[str], source: Path, folder: Path) -> None:
    """Link what belongs to those packages alone; look into what they share with others."""
    if node.owners <= allowed:
        folder.symlink_to(source)
    elif node.owners & allowed:
        folder.mkdir(parents=True)
        for name, child in node.children.items():
            _link(child, allowed, source / name, folder / name)
