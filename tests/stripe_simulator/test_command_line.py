"""Goal: the command starts, says where it serves, and ends when told to."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from local.stripe_simulator import SimulatorProcess
from local.stripe_simulator.__main__ import main

REPOSITORY = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "local.stripe_simulator"]


def test_a_process_serves_and_ends_with_the_block() -> None:
    with SimulatorProcess(seed=3, clock="1800000000") as simulator:
        assert simulator.control.now() == 1_800_000_000
        account = requests.get(
            f"{simulator.base_url}/v1/account", auth=("sk_test_1", ""), timeout=5
        )
        assert account.json()["object"] == "account"
        port = int(simulator.base_url.rpartition(":")[2])

        with pytest.raises(RuntimeError, match="did not start"), SimulatorProcess(port=port):
            pytest.fail("two simulators cannot serve on one port")

    with pytest.raises(OSError, match="refused"):
        simulator.control.now()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_cleanly(how: signal.Signals) -> None:
    with subprocess.Popen(
        [*COMMAND, "--port", "0"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Stripe simulator ready at http://127.0.0.1:")
        process.send_signal(how)
        output, errors = process.communicate(timeout=10)

    assert (process.returncode, output, errors) == (0, "", "")


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])

    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert "examples:" in shown
    assert "--clock real|EPOCH" in shown


@pytest.mark.parametrize(
    "arguments", [["--port", "70000"], ["--clock", "noon"], ["--idempotency", "maybe"]]
)
def test_bad_arguments_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert arguments[0] in capsys.readouterr().err
