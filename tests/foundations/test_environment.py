"""The virtual environment: made once, made anew when it must be, never half-made and used."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from local.scripts import environment

ROOT = Path(__file__).resolve().parents[2]


class Interrupted(Exception):
    """Stands for whatever ends the making half-way."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (*environment.MAIN.requirements, *environment.INFRA.requirements, "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the commands by ones that take no time; the list tells which were made."""
    runs: list[str] = []

    def run(command: list[str], directory: Path) -> None:
        if "venv" in command:
            environment = Path(command[-1])
            runs.append("made" if environment.name == ".venv" else environment.name)
            python = environment / "bin" / "python"
            python.parent.mkdir(parents=True, exist_ok=True)
            python.touch(mode=0o755)

    monkeypatch.setattr(environment, "_run", run)
    return runs


def test_it_is_made_once(root: Path, made: list[str]) -> None:
    environment.prepare(root)
    environment.prepare(root)
    assert made == ["made"]


@pytest.mark.parametrize("name", environment.MAIN.requirements)
def test_other_requirements_make_it_anew(root: Path, made: list[str], name: str) -> None:
    environment.prepare(root)
    with (root / name).open("a") as file:
        file.write("one-more==1.0\n")
    environment.prepare(root)
    assert made == ["made", "made"]


def test_another_lint_rule_does_not(root: Path, made: list[str]) -> None:
    environment.prepare(root)
    with (root / "pyproject.toml").open("a") as file:
        file.write("[tool.another]\nrule = 1\n")
    environment.prepare(root)
    assert made == ["made"]


@pytest.mark.parametrize("name", ["python", "interpreter", "root"])
def test_another_python_or_place_makes_it_anew(root: Path, made: list[str], name: str) -> None:
    environment.prepare(root)
    stamp = root / ".venv" / environment.STAMP
    stamp.write_text(json.dumps(json.loads(stamp.read_text()) | {name: "another"}))
    environment.prepare(root)
    assert made == ["made", "made"]


def test_the_one_for_infra_is_made_apart(root: Path, made: list[str]) -> None:
    environment.prepare(root, environment.INFRA)
    environment.prepare(root, environment.INFRA)
    assert made == [".venv-infra"]
    (root / "requirements-infra.txt").write_text("another==1.0\n")
    environment.prepare(root)
    environment.prepare(root, environment.INFRA)
    assert made == [".venv-infra", "made", ".venv-infra"]


def test_an_interpreter_that_is_gone_makes_it_anew(root: Path, made: list[str]) -> None:
    environment.prepare(root)
    (root / ".venv" / "bin" / "python").unlink()
    environment.prepare(root)
    assert made == ["made", "made"]


@pytest.mark.parametrize("interrupted_at", ["venv", "--requirement", "--editable"])
def test_an_interrupted_one_is_made_anew(
    root: Path, made: list[str], monkeypatch: pytest.MonkeyPatch, interrupted_at: str
) -> None:
    whole_run = environment._run
    environment.prepare(root)
    (root / "requirements.txt").write_text("another==1.0\n")

    def run(command: list[str], directory: Path) -> None:
        whole_run(command, directory)
        if interrupted_at in command:
            raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(environment, "_run", run)
        with pytest.raises(Interrupted):
            environment.prepare(root)
    made.clear()
    # Even back at the old requirements: the half-made one must not pass for them.
    shutil.copy(ROOT / "requirements.txt", root)
    environment.prepare(root)
    assert made == ["made"]


def test_two_at_once_make_one(root: Path, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    whole_make = environment.make

    def slow_make(root: Path, recipe: environment.Recipe, wanted: Mapping[str, str]) -> None:
        time.sleep(0.2)
        whole_make(root, recipe, wanted)

    monkeypatch.setattr(environment, "make", slow_make)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(environment.prepare, [root] * 4))
    assert made == ["made"]


def test_a_failed_command_shows_what_it_printed(tmp_path: Path) -> None:
    program = "print('no such package'); raise SystemExit(1)"
    with pytest.raises(environment.EnvironmentFailed, match="no such package"):
        environment._run([sys.executable, "-c", program], tmp_path)


def test_settings_that_would_install_elsewhere_are_not_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_TARGET", str(tmp_path))
    program = "import os, sys; sys.exit('PIP_TARGET' in os.environ)"
    environment._run([sys.executable, "-c", program], tmp_path)


def test_a_failure_ends_in_one_kind_message(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], directory: Path) -> None:
        raise environment.EnvironmentFailed("pip said so")

    monkeypatch.setattr(environment, "_run", run)
    monkeypatch.setattr(environment, "ROOT", root)
    assert environment.main() == 1
    said = capsys.readouterr().err
    assert "pip said so" in said
    assert "run make again" in said


def test_the_script_needs_nothing_installed() -> None:
    """It runs before the first package is there; -S hides those that are."""
    program = f"import runpy; runpy.run_path({environment.__file__!r}, run_name='elsewhere')"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)
