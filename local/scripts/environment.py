"""Prepare the virtual environment `.venv` at the repository's root; do nothing if it is right.

Run by `make` with the interpreter that the environment is to be made from, before anything is
installed: standard library only.

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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
REQUIREMENTS: Final = ("requirements.txt", "requirements-ops.txt", "requirements-dev.txt")
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


def wanted_stamp(root: Path) -> dict[str, str]:
    """Return what an environment made now would be made from."""
    digest = hashlib.sha256()
    for name in REQUIREMENTS:
        digest.update((root / name).read_bytes())
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


def make(environment: Path, root: Path, wanted: Mapping[str, str]) -> None:
    """Make the environment anew, and stamp it when everything is in.

    Raises:
        EnvironmentFailed: A command failed; the message ends with what it printed.
    """
    stamp = environment / STAMP
    stamp.unlink(missing_ok=True)
    _run([sys.executable, "-I", "-m", "venv", "--clear", str(environment)], root)
    pip = [str(environment / "bin" / "python"), "-I", "-m", "pip", "--no-input"]
    pip += ["--disable-pip-version-check", "install", "--quiet"]
    _run([*pip, "--requirement", REQUIREMENTS[-1]], root)
    _run([*pip, "--no-deps", "--no-build-isolation", "--editable", "."], root)
    unfinished = stamp.with_suffix(".new")
    unfinished.write_text(json.dumps(wanted, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(stamp)


def prepare(root: Path) -> None:
    """Make sure that `.venv` under the root is ready for use.

    Raises:
        EnvironmentFailed: It could not be made.
    """
    environment = root / ".venv"
    if is_ready(environment, wanted_stamp(root)):
        return
    with _one_at_a_time(root / ".venv.lock"):
        wanted = wanted_stamp(root)
        if is_ready(environment, wanted):
            return
        version = ".".join(str(number) for number in sys.version_info[:3])
        _say(f"Preparing .venv with Python {version}: about a minute, this once.")
        make(environment, root, wanted)


@contextmanager
def _one_at_a_time(lock_file: Path) -> Iterator[None]:
    with lock_file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("Another make is preparing .venv; waiting for it.")
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


def main() -> int:
    """Prepare the environment and return the exit status."""
    if not SUPPORTED[0] <= sys.version_info[:2] <= SUPPORTED[1]:
        _say("Chargeonce supports Python 3.11, 3.12 and 3.13.")
        return 1
    try:
        prepare(ROOT)
    except EnvironmentFailed as failure:
        _say(f"{failure}\n")
        _say("Could not prepare .venv. It needs a package registry (PyPI, or the one that pip is")
        _say("set up for). Once the cause is gone, run make again: it starts afresh.")
        return 1
    except PermissionError as failure:
        _say(f"Could not prepare .venv: {failure}")
        _say("Does it belong to another user, perhaps root? Remove it as that user, then rerun.")
        return 1
    except KeyboardInterrupt:
        _say("\nInterrupted. The next make starts .venv afresh.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
