"""The wrapper around Google's emulator: found or explained, and gone with its owner."""

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from local.pubsub_emulator_gcloud import (
    GcloudEmulatorUnavailable,
    GcloudPubsubEmulator,
    PubsubEmulatorError,
)
from local.tools import find_tool
from tests.pubsub_emulator.support import eventually

REPOSITORY = Path(__file__).parents[2]


def put_program(path: Path, script: str) -> Path:
    """Write a program that stands in for another."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """A program that starts and answers like Google's emulator, only faster."""
    return put_program(
        tmp_path / "emulator",
        f"""
        mkdir -p v1/projects/chargeonce-desk
        echo '{{}}' > v1/projects/chargeonce-desk/topics
        {sys.executable} -m http.server --bind "${{1#--host=}}" "${{2#--port=}}" &
        wait
        """,
    )


def test_it_leaves_nothing_behind(stand_in: Path) -> None:
    """Goal: the process, its child and its files are gone, whatever the start script does."""
    with GcloudPubsubEmulator(stand_in) as emulator:
        process = psutil.Process(emulator.process_id)
        family = [process, *process.children()]
        directory = emulator.log_file.parent
        assert emulator.environment["PUBSUB_EMULATOR_HOST"] == emulator.host_and_port
        assert directory.exists()
    assert len(family) == 2
    eventually(lambda: not any(one.is_running() for one in family))
    assert not directory.exists()


def test_a_given_port_is_used(stand_in: Path) -> None:
    with GcloudPubsubEmulator(stand_in) as first:
        port = int(first.host_and_port.rpartition(":")[2])
        # Somebody answers there, but not the process that was started.
        with pytest.raises(PubsubEmulatorError, match="did not start"):
            GcloudPubsubEmulator(stand_in, port=port, start_seconds=0.5).__enter__()
    with GcloudPubsubEmulator(stand_in, port=port) as second:
        assert second.host_and_port == f"127.0.0.1:{port}"


def test_java_ends_with_an_owner_that_is_killed(requires_pubsub_emulator: Path) -> None:
    owner = textwrap.dedent(
        """
        import os, signal
        from local.pubsub_emulator_gcloud import GcloudPubsubEmulator
        with GcloudPubsubEmulator() as emulator:
            print(emulator.process_id, emulator.log_file.parent, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    command = [sys.executable, "-c", owner]
    done = subprocess.run(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, timeout=60, check=False
    )
    process_id, directory = done.stdout.split()
    eventually(lambda: not psutil.pid_exists(int(process_id)))
    eventually(lambda: not Path(directory).exists())


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    find_tool.cache_clear()
    with pytest.raises(GcloudEmulatorUnavailable, match=r"Java.*apt-get install"):
        GcloudPubsubEmulator().__enter__()
    put_program(tmp_path / "java", "exit 0")
    find_tool.cache_clear()
    with pytest.raises(GcloudEmulatorUnavailable, match=r"gcloud is not on PATH.*https://"):
        GcloudPubsubEmulator().__enter__()
    find_tool.cache_clear()


def test_a_program_that_ends_at_once_is_reported_with_its_log(tmp_path: Path) -> None:
    program = put_program(tmp_path / "emulator", "echo no luck today; exit 3")
    with pytest.raises(PubsubEmulatorError, match="no luck today"):
        GcloudPubsubEmulator(program).__enter__()


def test_a_program_that_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(GcloudEmulatorUnavailable, match="cannot be run"):
        GcloudPubsubEmulator(tmp_path / "missing").__enter__()


def test_a_program_that_never_listens_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    program = put_program(tmp_path / "emulator", "sleep 60")
    started_at = time.monotonic()
    with pytest.raises(PubsubEmulatorError, match="did not start"):
        GcloudPubsubEmulator(program, start_seconds=0.3).__enter__()
    assert time.monotonic() - started_at < 10


def test_without_having_run_it_knows_neither_process_nor_log() -> None:
    emulator = GcloudPubsubEmulator()
    with pytest.raises(PubsubEmulatorError):
        _ = emulator.process_id
    with pytest.raises(PubsubEmulatorError):
        _ = emulator.log_file
