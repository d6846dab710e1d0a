"""Goal: the command says how it is used, serves, and leaves nothing behind."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from azure.servicebus import ServiceBusClient

from local.servicebus_emulator.command import main
from tests.servicebus_emulator.sdk import new_message
from tests.servicebus_emulator.support import eventually

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

REPOSITORY = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "local.servicebus_emulator", "--port", "0"]


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])

    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert "--queue billing:lock=30,max-delivery=10" in shown
    assert "example:" in shown


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "name a --queue"),
        (["--queue", "a b"], "'a b' cannot be the name"),
        (["--queue", "a", "--queue", "a"], "two of the queue"),
        (["--queue", "a:colour=1"], "'colour' is no setting"),
        (["--queue", "a:lock=soon"], "'soon' is no value for lock"),
        (["--queue", "a:lock=1000"], "at most 300"),
        (["--queue", "a:max-delivery=1.5"], "'1.5' is no value for max-delivery"),
        (["--subscription", "usage"], "'usage' is not TOPIC/NAME"),
        (["--queue", "a", "--port", "70000"], "between 0 and 65535"),
        (["--queue", "a", "--port", "many"], "invalid int value"),
    ],
)
def test_wrong_usage(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert problem in capsys.readouterr().err


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status = main(["--queue", "billing", "--port", str(taken.getsockname()[1])])

    assert status == 1
    assert "cannot listen" in capsys.readouterr().err


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_end(how: signal.Signals) -> None:
    arguments = ["--queue", "billing:lock=5,max-delivery=3", "--subscription", "usage/audit"]
    with subprocess.Popen(
        [*COMMAND, *arguments, "--lock-seconds", "20", "--control-port", "0"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline().rstrip() for _ in range(8)]
        client = ServiceBusClient.from_connection_string(said[-1])
        with client, client.get_queue_sender("billing") as sender:
            sender.send_messages(new_message())
            # Whoever is still connected does not keep it from ending.
            process.send_signal(how)
            output, errors = process.communicate(timeout=30)

    assert said[0] == "The Service Bus emulator is ready."
    assert said[2:5] == [
        "  queue         billing (lock 5 s, 3 deliveries)",
        "  topic         usage",
        "  subscription  usage/audit (lock 20 s, 10 deliveries)",
    ]
    assert said[5].startswith("  control API   http://127.0.0.1:")
    assert "UseDevelopmentEmulator=true" in said[-1]
    assert (process.returncode, output, errors) == (0, "", "")


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    """Method: a process starts an emulator, says its id, and is killed."""
    script = (
        "import time\n"
        "from local.servicebus_emulator import *\n"
        "emulator = EmulatorProcess(EmulatorOptions(queues=[QueueOptions('billing')]))\n"
        "emulator.start()\n"
        "print(emulator.process_id, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        process_id = int(owner.stdout.readline())
        assert psutil.pid_exists(process_id)
        owner.kill()

    eventually(lambda: not _is_alive(process_id))


def _is_alive(process_id: int) -> bool:
    try:
        return psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_json_is_one_line() -> None:
    with subprocess.Popen(
        [*COMMAND, "--queue", "billing", "--json", "--until-stdin-closes"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        announced = json.loads(process.stdout.readline())
        process.stdin.write("this is not what it waits for\n")
        process.stdin.flush()
        process.stdin.close()
        assert process.wait(30) == 0

    assert announced["control_url"] is None
    assert announced["connection_string"].startswith("Endpoint=sb://127.0.0.1:")
