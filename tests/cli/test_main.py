"""The command line as a whole: exit codes, errors without secrets, help, and a quick start."""

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ops import status
from ops.__main__ import build_parser, main
from ops.exit_codes import ExitCode
from shared.store.migrations import schema_version
from tests.cli.conftest import CommandLine

ROOT = Path(__file__).resolve().parents[2]
SECRET = "hunter2"
START_CPU_SECONDS = 0.15


def run_process(
    *arguments: str, python: Sequence[str] = ("-m", "ops"), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the real command line, with no setting but the given ones."""
    return subprocess.run(
        [sys.executable, *python, *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def commands(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, str]]:
    """Every command with its help."""
    families = [
        action.choices
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    if not families:
        yield name.strip(), parser.format_help()
    for choices in families:
        for child, child_parser in choices.items():
            yield from commands(child_parser, f"{name} {child}")


COMMANDS = dict(commands(build_parser()))


def test_every_command_is_there() -> None:
    assert set(COMMANDS) == {
        "migrate",
        "publish",
        "run open",
        "run show",
        "run close",
        "run reopen",
        "run raise-cap",
        "status",
        "show",
        "reconcile",
        "audit",
        "rebuild",
        "dlq list",
        "dlq resubmit",
        "dlq drop",
        "retry",
        "cancel",
        "adopt",
        "import",
        "erase",
        "vault mint",
        "vault list",
        "vault revoke",
        "vault calls",
        "vault serve",
        "doctor",
        "demo",
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example_that_parses(name: str) -> None:
    """The examples are taken out of the help text and given to the parser."""
    lines = [line.strip() for line in COMMANDS[name].splitlines()]
    examples = [line for line in lines if line.startswith(f"chargeonce {name}")]
    assert examples
    for example in examples:
        words = shlex.split(example.partition("|")[0])[1:]
        assert callable(build_parser().parse_args(words).run)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_json(name: str) -> None:
    assert "--json" in COMMANDS[name]


def test_help_documents_every_exit_code() -> None:
    help_text = run_process("--help").stdout
    for code in ExitCode:
        assert f"{code:>3}  {code.meaning}" in help_text


def test_a_wrong_command_line(without_database: CommandLine) -> None:
    for arguments in ([], ["run"], ["status"], ["status", "--period", "20:26"], ["nonsense"]):
        ran = without_database(*arguments)
        assert ran.code == ExitCode.USAGE
        assert ran.stdout == ""
        assert "usage: chargeonce" in ran.stderr


def test_a_missing_setting(without_database: CommandLine) -> None:
    ran = without_database("status", "--period", "2026-11", "--json")
    assert ran.code == ExitCode.SETTINGS
    assert ran.document["error"] == {
        "kind": "settings",
        "exit_code": 3,
        "message": "settings need attention:\n  - DATABASE_URL is missing",
    }
    assert "DATABASE_URL is missing" in ran.stderr


def test_all_settings_problems_are_listed(
    without_database: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLING_CAP_PERCENT", SECRET)
    monkeypatch.setenv("STRIPE_API_KEY", SECRET)
    ran = without_database("reconcile")
    assert ran.code == ExitCode.SETTINGS
    for name in ("DATABASE_URL", "BILLING_CAP_PERCENT", "STRIPE_API_KEY"):
        assert name in ran.stderr
    assert SECRET not in ran.stderr


@pytest.mark.parametrize(
    "database_url",
    [
        f"postgresql://operator:{SECRET}@127.0.0.1:1/billing",
        f"postgresql://operator:{SECRET}@127.0.0.1:not-a-port/billing",
        f"host=127.0.0.1 port=1 password={SECRET}",
    ],
)
@pytest.mark.parametrize(
    "arguments", [["status", "--period", "2026-11"], ["migrate"], ["migrate", "--dry-run"]]
)
def test_a_database_that_is_away(
    without_database: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    database_url: str,
    arguments: list[str],
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    ran = without_database(*arguments, "--json")
    assert ran.code == ExitCode.DATABASE
    assert ran.document["error"]["kind"] == "database"
    assert SECRET not in ran.stdout + ran.stderr


def test_a_database_url_that_is_none(
    without_database: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"my database {SECRET}")
    ran = without_database("status", "--period", "2026-11")
    assert ran.code == ExitCode.SETTINGS
    assert "DATABASE_URL" in ran.stderr
    assert SECRET not in ran.stderr


def test_a_schema_that_is_missing(
    without_database: CommandLine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    ran = without_database("status", "--period", "2026-11")
    assert ran.code == ExitCode.SCHEMA
    assert "chargeonce migrate" in ran.stderr


def test_a_missing_package(chargeonce: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rich there are no tables, but everything can still be had as JSON."""
    monkeypatch.delitem(sys.modules, "ops.tables", raising=False)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    ran = chargeonce("migrate")
    assert ran.code == ExitCode.PACKAGE
    assert "requirements-ops.txt" in ran.stderr
    assert chargeonce("migrate", "--json").code == ExitCode.OK


def test_a_defect_of_ours(chargeonce: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(database_url: str) -> None:
        raise ValueError(f"cannot use {SECRET}")

    monkeypatch.setattr("shared.store.migrations.check_schema", fail)
    ran = chargeonce("status", "--period", "2026-11", "--json")
    assert ran.code == ExitCode.DEFECT
    assert ran.document["error"]["kind"] == "defect"
    assert "ValueError at test_main.py" in ran.stderr
    assert SECRET not in ran.stdout + ran.stderr


def test_an_interruption(without_database: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(arguments: argparse.Namespace) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(status, "run", interrupt)
    assert without_database("status", "--period", "2026-11").code == ExitCode.INTERRUPTED


def test_json_through_a_pipe(migrated_database_url: str) -> None:
    environment = {"DATABASE_URL": migrated_database_url}
    opened = run_process(
        *("run", "open", "--period", "2026-11", "--expected-cents", "1000", "--json"), **environment
    )
    assert (opened.returncode, opened.stderr) == (ExitCode.OK, "")
    shown = run_process("status", "--period", "2026-11", "--json", **environment)
    assert (shown.returncode, shown.stderr) == (ExitCode.OK, "")
    assert shown.stdout.count("\n") == 1
    assert json.loads(shown.stdout)["run"]["cap_cents"] == 1100


def test_tables_in_a_pipe_are_plain_text(migrated_database_url: str) -> None:
    ran = run_process("migrate", DATABASE_URL=migrated_database_url)
    assert ran.returncode == ExitCode.OK
    assert ran.stdout == f"The schema is up to date: version {schema_version()}.\n"


def test_a_reader_that_went_away(migrated_database_url: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as pipe:
        ran = subprocess.run(
            [sys.executable, "-m", "ops", "migrate", "--json"],
            cwd=ROOT,
            env={"DATABASE_URL": migrated_database_url},
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (ExitCode.OK, "")


def test_help_loads_no_driver() -> None:
    """Nothing that takes long to import is imported before a command needs it."""
    ran = run_process(
        python=("-c", "import sys, ops.__main__; print('\\n'.join(sys.modules))"),
    )
    loaded = set(ran.stdout.split())
    assert "ops.demo" in loaded
    slow = {"rich", "psycopg", "stripe", "requests", "logging", "dataclasses", "asyncio", "local"}
    assert loaded.isdisjoint(slow)


def test_help_starts_quickly() -> None:
    """Over the bare interpreter; the best of a few, in processor time, bothers no other test."""
    bare = min(_cpu_seconds("-c", "pass") for _ in range(5))
    helped = min(_cpu_seconds("-m", "ops", "--help") for _ in range(5))
    assert helped - bare < START_CPU_SECONDS


def _cpu_seconds(*python: str) -> float:
    before = os.times()
    run_process(python=python)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def test_main_takes_the_process_arguments(
    monkeypatch: pytest.MonkeyPatch, chargeonce: CommandLine
) -> None:
    monkeypatch.setattr(sys, "argv", ["chargeonce", "migrate", "--json"])
    assert main() == ExitCode.OK
