"""Finding an interpreter: the newest supported one that really runs, or a kind word.

The script sees stand-ins for interpreters on a PATH of its own. A stand-in answers the three
questions that the script asks (does it run, which version is it, can it make an environment).
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "local" / "scripts" / "find_python.sh"

StandIn = Callable[..., Path]


@dataclass(frozen=True)
class Desk:
    """A machine with these folders on PATH and this pyenv."""

    programs: Path
    more_programs: Path
    pyenv_root: Path

    def find(self, **settings: str) -> subprocess.CompletedProcess[str]:
        shell = shutil.which("sh")
        assert shell is not None
        environment = {
            "PATH": f"{self.programs}:{self.more_programs}",
            "HOME": str(self.programs),
            "PYENV_ROOT": str(self.pyenv_root),
        }
        return subprocess.run(
            [shell, str(SCRIPT)],
            env=environment | settings,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )

    def found(self, **settings: str) -> Path:
        result = self.find(**settings)
        assert result.returncode == 0, result.stderr
        assert result.stdout.count("\n") == 1
        return Path(result.stdout.strip())

    def refusal(self, **settings: str) -> str:
        result = self.find(**settings)
        assert result.returncode == 1
        assert result.stdout == ""
        assert "apt-get install python3 python3-venv" in result.stderr
        return result.stderr


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    folders = Desk(tmp_path / "first", tmp_path / "second", tmp_path / "pyenv")
    for folder in (folders.programs, folders.more_programs, folders.pyenv_root / "versions"):
        folder.mkdir(parents=True)
    cat = shutil.which("cat")
    assert cat is not None
    (folders.programs / "cat").symlink_to(cat)
    return folders


def stand_in(path: Path, version: str, *, complete: bool = True) -> Path:
    """Put an interpreter there that calls itself by its path."""
    make_environment = f"echo {path}" if complete else "exit 1"
    return script(
        path, f'case "$*" in *ensurepip*) {make_environment} ;; *) echo {version} ;; esac'
    )


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def broken(path: Path) -> Path:
    """Put there what pyenv leaves for a version that is not selected."""
    return script(path, f"echo 'pyenv: {path.name}: command not found' >&2; exit 127")


def test_the_newest_is_preferred(desk: Desk) -> None:
    stand_in(desk.programs / "python3", "3.11")
    stand_in(desk.programs / "python3.12", "3.12")
    newest = stand_in(desk.more_programs / "python3.13", "3.13")
    assert desk.found() == newest


def test_a_newer_one_may_have_only_a_plain_name(desk: Desk) -> None:
    stand_in(desk.programs / "python3.11", "3.11")
    newest = stand_in(desk.programs / "python3", "3.13")
    assert desk.found() == newest


def test_a_shim_that_does_not_run_hides_nothing(desk: Desk) -> None:
    broken(desk.programs / "python3.13")
    behind_it = stand_in(desk.more_programs / "python3.13", "3.13")
    assert desk.found() == behind_it


def test_a_shim_that_does_not_run_is_passed_over(desk: Desk) -> None:
    broken(desk.programs / "python3.13")
    older = stand_in(desk.programs / "python3.11", "3.11")
    assert desk.found() == older


def test_one_that_cannot_make_an_environment_is_passed_over(desk: Desk) -> None:
    stand_in(desk.programs / "python3.13", "3.13", complete=False)
    older = stand_in(desk.programs / "python3.12", "3.12")
    assert desk.found() == older


def test_pyenv_is_asked(desk: Desk) -> None:
    home = desk.pyenv_root / "versions" / "3.13.5"
    theirs = stand_in(home / "bin" / "python", "3.13")
    stand_in(desk.programs / "python3.12", "3.12")
    script(desk.programs / "pyenv", f'[ "$*" = "prefix 3.13" ] && echo "{home}"')
    assert desk.found() == theirs


def test_an_older_pyenv_that_does_not_know_short_versions(desk: Desk) -> None:
    theirs = stand_in(desk.pyenv_root / "versions" / "3.13.5" / "bin" / "python", "3.13")
    script(desk.programs / "pyenv", "exit 1")
    assert desk.found() == theirs


def test_a_folder_with_a_blank_in_its_name(desk: Desk, tmp_path: Path) -> None:
    named = tmp_path / "my tools" / "python3"
    script(named, f"case \"$*\" in *ensurepip*) echo '{named}' ;; *) echo 3.13 ;; esac")
    assert desk.found(PATH=f"{named.parent}:{desk.programs}") == named
    assert desk.found(PYTHON=str(named)) == named


@pytest.mark.parametrize("version", ["2.7", "3.10", "3.14"])
def test_unsupported_versions_are_passed_over(desk: Desk, version: str) -> None:
    stand_in(desk.programs / "python3", version)
    assert "No Python was found" in desk.refusal()


def test_none_at_all(desk: Desk) -> None:
    assert "Looked for: 3.13 3.12 3.11, on PATH and under pyenv" in desk.refusal()


@pytest.mark.parametrize("named", ["3.12", "python3.12"])
def test_a_version_may_be_named(desk: Desk, named: str) -> None:
    stand_in(desk.programs / "python3.13", "3.13")
    broken(desk.programs / "python3.12")
    theirs = stand_in(desk.pyenv_root / "versions" / "3.12.1" / "bin" / "python", "3.12")
    assert desk.found(PYTHON=named) == theirs


def test_the_one_named_is_taken_though_there_is_a_newer(desk: Desk, tmp_path: Path) -> None:
    stand_in(desk.programs / "python3.13", "3.13")
    named = stand_in(tmp_path / "mine", "3.11")
    assert desk.found(PYTHON=str(named)) == named


@pytest.mark.parametrize("version", ["2.7", "3.10", "3.14"])
def test_the_one_named_must_be_supported(desk: Desk, tmp_path: Path, version: str) -> None:
    stand_in(desk.programs / "python3.13", "3.13")
    named = stand_in(tmp_path / "mine", version)
    assert f"is Python {version}" in desk.refusal(PYTHON=str(named))


def test_the_one_named_must_run(desk: Desk) -> None:
    stand_in(desk.programs / "python3.13", "3.13")
    assert "does not run" in desk.refusal(PYTHON="/no/such/python")


def test_the_one_named_must_be_able_to_make_an_environment(desk: Desk, tmp_path: Path) -> None:
    named = stand_in(tmp_path / "mine", "3.12", complete=False)
    assert "ensurepip" in desk.refusal(PYTHON=str(named))


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="not run from an environment")
def test_the_real_thing_inside_an_environment_is_followed_home(desk: Desk) -> None:
    """With `.venv` activated, its own python must not become the base of a new `.venv`."""
    found = desk.found(PYTHON=sys.executable)
    assert found != Path(sys.executable)
    assert not found.is_relative_to(sys.prefix)
