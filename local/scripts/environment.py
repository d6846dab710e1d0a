"""Prepare a virtual environment at the repository's root; do nothing if it is right.

Run by `make` with the interpreter that the environment is to be made from, before anything is
installed: standard library only. Without an argument it is `.venv`; `infra` is the one with what
checks infra/, whose pins contradict those of everything else.

A stamp inside the environment says what it was made from and is written last. An environment
without the right stamp, such as one whose making was interrupted, is made anew. Two runs at once
take turns.
"""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
STAMP: Final = "chargeonce-stamp.json"
SUPPORTED: Final = ((3, 11), (3, 13))
OUTPUT_LINES_SHOWN: Final = 30

# Settings of the user's shell that would install elsewhere, or other packages than these.
_FOREIGN_SETTINGS: Final = (
    "PIP_CONSTRAINT",
    "PIP_PREFIX",
    "PIP_REQUIREMENT",
    "PIP_ROOT",
    "PIP_TARGET",
    "PIP_USER",
    "PYTHONHOME",
    "PYTHONPATH",
    "__PYVENV_LAUNCHER__",
)


class EnvironmentFailed(Exception):
    """The virtual environment could not be made; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a virtual environment is made from.

    Args:
        directory: Its name at the root.
        requirements: The files that decide; the last one includes the others.
        holds_project: Whether the project itself is installed, editable.
        compiles: Whether everything is compiled at once, or each module when it is first needed.
    """

    directory: str
    requirements: tuple[str, ...]
    holds_project: bool
    compiles: bool


MAIN: Final = Recipe(
    directory=".venv",
    requirements=("requirements.txt", "requirements-ops.txt", "requirements-dev.txt"),
    holds_project=True,
    compiles=True,
)
# Most of it is read or unused: compiling it all would take longer than installing it.
INFRA: Final = Recipe(
    directory=".venv-infra",
    requirements=("requirements-infra.txt",),
    holds_project=False,
    compiles=False,
)
RECIPES: Final[Mapping[str, Recipe]] = {"main": MAIN, "infra": INFRA}


def wanted_stamp(root: Path, recipe: Recipe) -> dict[str, str]:
    """Return what an environment made now would be made from."""
    digest = hashlib.sha256()
    for name in recipe.requirements:
        digest.update((root / name).read_bytes())
    if recipe.holds_project:
        # Of pyproject.toml only what is installed: a changed lint rule must not cost a minute.
        configuration = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        installed = {name: configuration[name] for name in ("build-system", "project")}
        digest.update(json.dumps(installed, sort_keys=True).encode())
    return {
        "python": sys.version,
        "interpreter": os.path.realpath(sys.executable),
        "requirements": digest.hexdigest(),
        # Scripts inside name the environment's own path, so a moved one is not the same.
        "root": str(root),
    }


def is_ready(environment: Path, wanted: Mapping[str, str]) -> bool:
    """Say whether the environment exists, is whole, and was made from what is wanted."""
    try:
        made_from = json.loads((environment / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(made_from == wanted) and os.access(environment / "bin" / "python", os.X_OK)


def make(root: Path, recipe: Recipe, wanted: Mapping[str, str]) -> None:
    """Make the environment anew, and stamp it when everything is in.

    Raises:
        EnvironmentFailed: A command failed; the message ends with what it printed.
    """
    environment = root / recipe.directory
    stamp = environment / STAMP
    stamp.unlink(missing_ok=True)
    _run([sys.executable, "-I", "-m", "venv", "--clear", str(environment)], root)
    pip = [str(environment / "bin" / "python"), "-I", "-m", "pip", "--no-input"]
    pip += ["--disable-pip-version-check", "install", "--quiet"]
    compiling = "--compile" if recipe.compiles else "--no-compile"
    _run([*pip, compiling, "--requirement", recipe.requirements[-1]], root)
    if recipe.holds_project:
        _run([*pip, "--no-deps", "--no-build-isolation", "--editable", "."], root)
    unfinished = stamp.with_suffix(".new")
    unfinished.write_text(json.dumps(wanted, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(stamp)


def prepare(root: Path, recipe: Recipe = MAIN) -> None:
    """Make sure that the virtual environment under the root is ready for use.

    Raises:
        EnvironmentFailed: It could not be made.
    """
    environment = root / recipe.directory
    if is_ready(environment, wanted_stamp(root, recipe)):
        return
    with _one_at_a_time(root / f"{recipe.directory}.lock", recipe):
        wanted = wanted_stamp(root, recipe)
        if is_ready(environment, wanted):
            return
        version = ".".join(str(number) for number in sys.version_info[:3])
        _say(f"Preparing {recipe.directory} with Python {version}: about a minute, this once.")
        make(root, recipe, wanted)


@contextmanager
def _one_at_a_time(lock_file: Path, recipe: Recipe) -> Iterator[None]:
    with lock_file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"Another make is preparing {recipe.directory}; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str], directory: Path) -> None:
    settings = {name: value for name, value in os.environ.items() if name not in _FOREIGN_SETTINGS}
    done = subprocess.run(
        command,
        cwd=directory,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        last_lines = done.stdout.splitlines()[-OUTPUT_LINES_SHOWN:]
        raise EnvironmentFailed("\n".join([f"This failed: {' '.join(command)}", *last_lines]))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] = ()) -> int:
    """Prepare the environment that the argument names and return the exit status."""
    if not SUPPORTED[0] <= sys.version_info[:2] <= SUPPORTED[1]:
        _say("Chargeonce supports Python 3.11, 3.12 and 3.13.")
        return 1
    recipe = RECIPES[arguments[0]] if arguments else MAIN
    try:
        prepare(ROOT, recipe)
    except EnvironmentFailed as failure:
        _say(f"{failure}\n")
        _say(f"Could not prepare {recipe.directory}. It needs a package registry (PyPI, or the one")
        _say("that pip is set up for). Once the cause is gone, run make again: it starts afresh.")
        return 1
    except PermissionError as failure:
        _say(f"Could not prepare {recipe.directory}: {failure}")
        _say("Does it belong to another user, perhaps root? Remove it as that user, then rerun.")
        return 1
    except KeyboardInterrupt:
        _say(f"\nInterrupted. The next make starts {recipe.directory} afresh.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
