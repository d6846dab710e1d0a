"""The demo from end to end: real processes, real sockets, and nothing left of them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from local.functions_host import MISSING
from tests.support.processes import is_running
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
CUSTOMERS = 40
START_SECONDS = 60.0
END_SECONDS = 60.0
# Words of command lines, and how many processes have them.
LAST_TO_START = {
    "functions_framework": 3,
    "azure_function.consumer": 2,
    "local.functions_host.worker": 0 if MISSING else 1,
}

KEYS = {
    "customers",
    "events_published",
    "deliveries",
    "charged",
    "declined",
    "parked",
    "duplicates_prevented",
    "in_doubt_resolved",
    "double_charges",
    "lost_events",
    "charged_cents",
    "cap_cents",
    "killed_processes",
    "vault",
    "seconds",
}


def start_demo(temporary: Path, *options: str) -> subprocess.Popen[str]:
    """Start a small demo whose temporary files lie in a directory of their own."""
    return subprocess.Popen(
        [sys.executable, "-m", "ops", "demo", "--customers", str(CUSTOMERS), *options],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(demo: subprocess.Popen[str], within_seconds: float) -> tuple[str, str]:
    """Wait for the demo's end and return what it printed."""
    try:
        return demo.communicate(timeout=within_seconds)
    finally:
        demo.kill()


def check_books(demo: subprocess.Popen[str]) -> None:
    """The demo succeeds, prints one JSON object and nothing else, and its numbers add up."""
    stdout, stderr = finish(demo, within_seconds=280)
    assert (demo.returncode, stderr) == (0, "")
    books = json.loads(stdout)
    assert set(books) >= KEYS
    assert books["promises_broken"] == []
    assert (books["double_charges"], books["lost_events"]) == (0, 0)
    assert books["customers"] == CUSTOMERS
    assert books["charged"] + books["declined"] + books["parked"] == CUSTOMERS
    assert min(books["charged"], books["declined"], books["parked"]) > 0
    assert books["events_published"] > CUSTOMERS
    assert books["deliveries"] >= books["events_published"]
    assert books["duplicates_prevented"] > 0
    assert books["killed_processes"] == 2
    assert 0 < books["charged_cents"] <= books["cap_cents"]
    assert books["customers_on_both_clouds"] > 0
    for cloud in ("pubsub", "service_bus"):
        seen = books["clouds"][cloud]
        assert seen["deliveries"] >= seen["published"] > 0
        assert seen["duplicates_prevented"] > 0
        assert seen["dead_letters"] > 0
    # Those whom Stripe answers late lose their locks; and no lock was ever renewed.
    assert books["clouds"]["service_bus"]["leases_run_out"] > 0
    assert books["clouds"]["service_bus"]["leases_not_extended"] > 0
    vault = books["vault"]
    assert vault["asked_cents"] >= 2 * vault["cap_cents"]
    assert 0 <= vault["cap_cents"] - vault["charged_cents"] < vault["largest_cents"]
    assert vault["refused_by_cap"] > 0
    assert vault["charges_before_revocation"] > 0
    assert vault["charges_after_revocation"] == 0
    assert vault["refused_after_revocation"] > 0
    assert books["function_app"] is not bool(MISSING)


def descendants(process_id: int) -> Sequence[psutil.Process]:
    """The processes below a process, however deep."""
    try:
        return psutil.Process(process_id).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def wait_for_everybody(demo: subprocess.Popen[str]) -> Sequence[psutil.Process]:
    """Wait until the consumers of both clouds run; return everything that runs by then."""
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up:
        running = descendants(demo.pid)
        if all(_count(running, word) >= count for word, count in LAST_TO_START.items()):
            return running
        time.sleep(0.05)
    raise AssertionError("not everybody started")


def _count(processes: Sequence[psutil.Process], word: str) -> int:
    return sum(word in _command(process) for process in processes)


def _command(process: psutil.Process) -> Sequence[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.timeout(300)
def test_our_own_pusher_delivers(tmp_path: Path) -> None:
    check_books(start_demo(tmp_path, "--seed", "3", "--delivery", "pusher", "--json"))
    assert list(tmp_path.glob("chargeonce-demo-*")) == []


@pytest.mark.prove
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("requires_pubsub_emulator")
def test_the_gcloud_emulator_delivers(tmp_path: Path) -> None:
    check_books(start_demo(tmp_path, "--seed", "4", "--delivery", "gcloud", "--json"))


@pytest.mark.prove
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_our_own_emulator_delivers(tmp_path: Path, seed: int) -> None:
    check_books(start_demo(tmp_path, "--seed", str(seed), "--json"))


@pytest.mark.parametrize(
    "ending", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.prove)]
)
def test_it_ends_its_children_when_it_is_interrupted(
    tmp_path: Path, ending: signal.Signals
) -> None:
    demo = start_demo(tmp_path, "--delivery", "pusher")
    children = wait_for_everybody(demo)
    demo.send_signal(ending)
    _, stderr = finish(demo, within_seconds=END_SECONDS)
    assert demo.returncode == 130
    assert stderr == "chargeonce: interrupted\n"
    # Its guardians end when they notice that it has.
    wait_until(lambda: not any(map(is_running, children)), "its children are gone")
    assert list(tmp_path.iterdir()) == []


def test_nothing_outlives_it_when_it_is_killed(tmp_path: Path) -> None:
    """Only its logs stay, as after a demo that failed."""
    demo = start_demo(tmp_path)
    children = wait_for_everybody(demo)
    demo.kill()
    finish(demo, within_seconds=END_SECONDS)
    wait_until(lambda: not any(map(is_running, children)), "its children are gone")
