"""The guardian: children end with their owner, even one that cannot say goodbye."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.processes import is_running
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]

OWNER = """
import subprocess, sys, time
from local.guardian import end_with_this_process
CHILD = '''
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
time.sleep(600)
'''
child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True)
end_with_this_process(child.pid)
print(child.pid, child.stdout.readline().strip(), flush=True)
if sys.stdin.readline():
    child.kill()
    child.wait()
"""


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def family(owner: subprocess.Popen[str]) -> list[psutil.Process]:
    """Wait until the owner has started all; return the child, its own child and the guardian."""
    assert owner.stdout is not None
    child, grandchild = owner.stdout.readline().split()
    everyone = psutil.Process(owner.pid).children(recursive=True)
    assert {int(child), int(grandchild)} < {process.pid for process in everyone}
    return everyone


def test_children_end_with_an_owner_that_is_killed(owner: subprocess.Popen[str]) -> None:
    everyone = family(owner)
    owner.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, everyone)), "its children are gone")


def test_the_guardian_ends_before_an_owner_that_ends_in_order(
    owner: subprocess.Popen[str],
) -> None:
    """The child's own child, which its parent left behind, is nobody's business any more."""
    everyone = family(owner)
    guardian = next(process for process in everyone if "guardian.py" in " ".join(process.cmdline()))
    owner.communicate("end\n")
    assert not is_running(guardian)
    for process in everyone:
        if is_running(process):
            process.kill()
