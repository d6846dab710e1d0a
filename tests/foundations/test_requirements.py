"""The pins: exact, whole, and in step with the lists that they are made from."""

import os
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "requirements.txt",
    "requirements-ops.txt",
    "requirements-dev.txt",
    "requirements-ci.txt",
)
# What `make` installs; the last one needs a C compiler, which `.ci/run` sees to.
INSTALLED_FILES = FILES if os.environ.get("CI") == "true" else FILES[:-1]
# An environment of its own.
INFRA_FILE = "requirements-infra.txt"
EXACT = re.compile(r"==[^*,]+")


def pins(file_name: str) -> list[Requirement]:
    lines = (ROOT / file_name).read_text().splitlines()
    return [Requirement(line) for line in lines if line and line[0] not in "#-"]


def asked_for() -> dict[str, list[Requirement]]:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = configuration["project"]
    lists = {
        "requirements.txt": project["dependencies"],
        INFRA_FILE: configuration["dependency-groups"]["infra"],
    }
    for extra, texts in project["optional-dependencies"].items():
        lists[f"requirements-{extra}.txt"] = texts
    return {file: [Requirement(text) for text in texts] for file, texts in lists.items()}


def canonical_name(requirement: Requirement) -> str:
    return canonicalize_name(requirement.name)


@pytest.mark.parametrize("file_name", [*FILES, INFRA_FILE])
def test_every_pin_is_exact(file_name: str) -> None:
    for pin in pins(file_name):
        assert EXACT.fullmatch(str(pin.specifier)), pin


@pytest.mark.parametrize("file_name", [*FILES, INFRA_FILE])
def test_what_is_asked_for_is_pinned_within_its_bounds(file_name: str) -> None:
    here = [pin for name in (FILES if file_name in FILES else [file_name]) for pin in pins(name)]
    for wanted in asked_for()[file_name]:
        versions = [str(pin.specifier)[2:] for pin in here if _same(pin, wanted)]
        assert any(wanted.specifier.contains(version) for version in versions), wanted


def test_no_package_is_pinned_in_two_layers() -> None:
    layers = [{canonical_name(pin) for pin in pins(name)} for name in FILES]
    assert sum(map(len, layers)) == len(set.union(*layers))


def test_what_is_installed_here_is_what_is_pinned() -> None:
    """Also shows that the closure is whole: every requirement of every pin is met by a pin."""
    pinned = {
        canonical_name(pin): pin for name in INSTALLED_FILES for pin in pins(name) if _applies(pin)
    }
    for name, pin in pinned.items():
        distribution = metadata.distribution(name)
        assert pin.specifier.contains(distribution.version), pin
        for text in distribution.requires or []:
            needed = Requirement(text)
            if _applies(needed):
                assert canonical_name(needed) in pinned, f"{name} needs {needed}"


def test_nothing_that_is_deployed_needs_a_pre_release_but_the_settlement_extension() -> None:
    allowed = {
        "azurefunctions-extensions-bindings-servicebus",
        "opentelemetry-semantic-conventions",
    }
    for pin in pins("requirements.txt"):
        assert canonical_name(pin) in allowed or not re.search(r"\d(a|b|rc)\d", str(pin.specifier))


def _same(pin: Requirement, wanted: Requirement) -> bool:
    return canonical_name(pin) == canonical_name(wanted)


def _applies(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})
