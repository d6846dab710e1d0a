"""gcloud commands: recorded where scripts would run them, and judged by gcloud itself."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.infra.planning import ROOT

SCRIPT_SECONDS: Final = 60
BATCH: Final = Path(__file__).with_name("gcloud_batch.py")
_SOURCES: Final = ("infra", "gcp_function", "main.py", "requirements.txt", "shared")
_END: Final = "\x1e"

# Programs that scripts run, each writing down what it is called with. gcloud's answers are such as
# the next commands can use.
_RECORDER: Final = """\
#!/bin/sh
{{ printf '%s\\0' {name} "$@"; printf '\\036'; }} >>"$RECORD"
case "$*" in
*projectNumber*) echo 1234567890 ;;
*status.url*) echo "https://$4.run.app" ;;
*payment_intents*) echo '      "status": "succeeded",' ;;
*v1/customers*) printf '{{\\n  "id": "cus_123",\\n' ;;
*) echo 7 ;;
esac
"""
_RECORDED: Final = ("curl", "gcloud", "openssl", "sleep", "terraform")


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a program by a script."""

    program: str
    arguments: tuple[str, ...]

    def option(self, name: str) -> str | None:
        """The value of `--name=value`."""
        for argument in self.arguments:
            if argument.startswith(f"--{name}="):
                return argument.partition("=")[2]
        return None


class Desk:
    """A repository with the scripts in it, and programs that only write down how they are called.

    Args:
        folder: empty.
    """

    def __init__(self, folder: Path) -> None:
        self._repository = folder / "repository"
        self._programs = folder / "programs"
        self._record = folder / "record"
        self._make_repository()
        self._programs.mkdir()
        for name in _RECORDED:
            program = self._programs / name
            program.write_text(_RECORDER.format(name=name))
            program.chmod(0o755)

    def run(self, script: str, *arguments: str, **environment: str) -> list[Call]:
        """Run a script of infra/gcp to its end and return what it would have called.

        Raises:
            AssertionError: it failed.
        """
        done = self.try_to_run(script, *arguments, **environment)
        assert done.returncode == 0, done.stderr
        calls = self._record.read_text().split(_END)[:-1] if self._record.exists() else []
        return [Call(each.split("\0")[0], tuple(each.split("\0")[1:-1])) for each in calls]

    def try_to_run(
        self, script: str, *arguments: str, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a script and return how it ended."""
        self._record.unlink(missing_ok=True)
        return subprocess.run(
            ["sh", f"infra/gcp/{script}", *arguments],
            cwd=self._repository,
            env={
                "PATH": f"{self._programs}:{os.environ['PATH']}",
                "RECORD": str(self._record),
                "PROJECT": "a-project",
                **environment,
            },
            input="",
            capture_output=True,
            text=True,
            timeout=SCRIPT_SECONDS,
            check=False,
        )

    def _make_repository(self) -> None:
        self._repository.mkdir()
        for name in _SOURCES:
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, self._repository / name)
        git = ["git", "-c", "user.name=Test", "-c", "user.email=test@example.com"]
        for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "All"]):
            subprocess.run([*git, *command], cwd=self._repository, check=True)


def documented_commands(file: Path) -> Iterator[tuple[str, ...]]:
    """The gcloud commands in the code blocks of a Markdown file."""
    for block in re.findall(
        r"^```\w*\n(.*?)^```", file.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        for line in block.replace("\\\n", " ").splitlines():
            words = line.strip().removeprefix("$ ").split(" #")[0]
            if words.startswith("gcloud "):
                yield tuple(shlex.split(words))


def judge(
    gcloud: Path,
    commands: Sequence[tuple[tuple[str, ...], bool]],
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> list[str | None]:
    """What gcloud says against each command, which is parsed and, where it is true, run.

    Args:
        gcloud: its launcher.
        commands: arguments of gcloud, and whether to run them.
        folder: where gcloud keeps its settings and logs.
        environment: leads to an emulator.
    """
    given = [{"arguments": list(arguments), "runs": runs} for arguments, runs in commands]
    done = subprocess.run(
        [gcloud],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "CLOUDSDK_CONFIG": str(folder),
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
            "CLOUDSDK_PYTHON_ARGS": str(BATCH),
            **(environment or {}),
        },
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=SCRIPT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [
        problem and f"gcloud {' '.join(arguments)}\n{problem}\n{done.stderr}"
        for (arguments, _), problem in zip(commands, json.loads(done.stdout), strict=True)
    ]
