"""Worker processes: as many as there should be, and none without whoever started them."""

import subprocess
import sys
from pathlib import Path

import psutil

from local.demo.workers import Workers
from tests.support.processes import is_running
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ("http.server", "0", "--bind", "127.0.0.1")
OWNER = f"""
import sys, time
from local.demo.workers import Workers
with open("/dev/null", "wb") as log:
    Workers({COMMAND!r}, {{}}, 2, log).start()
print("started", flush=True)
time.sleep(600)
"""


def workers_of(process_id: int) -> list[psutil.Process]:
    """The servers that a process has started."""
    children = psutil.Process(process_id).children()
    return [child for child in children if COMMAND[0] in child.cmdline()]


def test_another_takes_the_place_of_one_that_is_killed(tmp_path: Path) -> None:
    this_process = psutil.Process().pid
    with (tmp_path / "log").open("wb") as log:
        workers = Workers(COMMAND, {}, 2, log)
        workers.start()
        before = workers_of(this_process)
        workers.kill_one()
        after = workers_of(this_process)
        workers.stop()
    assert (len(before), len(after), len({*before, *after})) == (2, 2, 3)
    assert not any(map(is_running, [*before, *after]))


def test_they_end_with_an_owner_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        workers = workers_of(owner.pid)
        owner.kill()
    assert len(workers) == 2
    wait_until(lambda: not any(map(is_running, workers)), "the workers are gone")
