"""The page that sets everything up by hand, followed to the letter on ports that are free."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READY_SECONDS = 60


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def blocks() -> list[str]:
    """The page's commands, with free ports and this interpreter."""
    text = (ROOT / "docs" / "by-hand.md").read_text()
    for port in ("12111", "8085"):
        text = text.replace(port, str(free_port()))
    text = text.replace(".venv/bin/python", sys.executable)
    text = text.replace('alias chargeonce="$PWD/.venv/bin/chargeonce"', "")
    text = text.replace("\nchargeonce ", f"\n{sys.executable} -m ops ")
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def database_line(blocks: list[str]) -> Iterator[str]:
    """Start the servers of the page; the line that is to be pasted."""
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    lines = []
    with ExitStack() as running:
        for command in blocks[0].splitlines():
            server = running.enter_context(
                subprocess.Popen(
                    command.split(), cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
                )
            )
            running.callback(server.send_signal, signal.SIGTERM)
            assert server.stdout is not None
            lines.append(server.stdout.readline())
        yield lines[0]


def decisions_of(log: Iterable[str]) -> Iterator[str]:
    """What a worker logs about deliveries, as it comes."""
    for line in log:
        if decided := re.search(r'"event": "(\w+)"', line):
            yield decided[1]


@pytest.mark.timeout(120)
def test_the_page_that_sets_everything_up_by_hand(blocks: list[str], database_line: str) -> None:
    """Goal: a newcomer who pastes the page sees one charge and one duplicate prevented."""
    assert database_line.startswith("export DATABASE_URL=")
    setting_up, looking = blocks[1], blocks[2]
    setting_up = setting_up.replace(f"{sys.executable} -m gcp", f"exec {sys.executable} -m gcp")
    worker = subprocess.Popen(
        ["sh", "-ec", f"{database_line}\n{setting_up}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    decisions = decisions_of(worker.stdout)
    assert next(decisions) == "charged"
    exports = "\n".join(line for line in setting_up.splitlines() if line.startswith("export"))
    looked = subprocess.run(
        ["sh", "-ec", f"{database_line}\n{exports}\n{looking}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=READY_SECONDS,
    ).stdout
    assert next(decisions) == "duplicate_prevented"
    worker.send_signal(signal.SIGTERM)
    worker.stdout.close()
    assert worker.wait(READY_SECONDS) == 0
    assert "charged" in looked
    assert json.loads(looked.splitlines()[-1])["totals"]["usd"]["charges"] == 1
