"""The emulator as a command, and as a process that ends with its owner."""

import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from local.pubsub_emulator import (
    Effect,
    EmulatorProcess,
    EmulatorUnavailable,
    EventFilter,
    EventKind,
    Fault,
    Target,
)
from local.pubsub_emulator.__main__ import main
from tests.pubsub_emulator.support import Cloud, eventually

COMMAND = [sys.executable, "-m", "local.pubsub_emulator"]
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def process() -> Iterator[EmulatorProcess]:
    """The emulator in a process of its own, twenty times as fast."""
    with EmulatorProcess(
        project="acceptance", subscriptions=[("orders", "billing")], speed=20.0
    ) as process:
        yield process


def test_it_serves_what_the_command_line_names(process: EmulatorProcess) -> None:
    """Goal: Google's client works against it, its time is fast, and its control API sees it."""
    cloud = Cloud("own", process.environment, process.control)
    topic, subscription = process.topic_path("orders"), process.subscription_path("billing")
    process.control.inject(Fault(Target.ACK, Effect.LOSE, count=1))
    cloud.publish(topic, b"event")
    (first,) = cloud.pull(subscription)
    cloud.acknowledge(subscription, first)
    # The ack deadline of ten seconds is over after half a second.
    (second,) = cloud.pull(subscription, seconds=5.0)
    cloud.acknowledge(subscription, second)
    acks = process.control.wait_for_events(EventFilter(kind=EventKind.ACK), at_least=2)
    assert [ack.message_id for ack in acks] == [first.message.message_id] * 2
    assert process.control.backlog(subscription).messages == 0
    cloud.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_well_on_a_signal(number: signal.Signals) -> None:
    command = [*COMMAND, "--host-port", "127.0.0.1:0", "--topic", "orders"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("PUBSUB_EMULATOR_HOST=127.0.0.1:")
        process.send_signal(number)
        assert process.wait(timeout=30) == 0
        assert process.stdout.read() == ""


def test_it_ends_with_an_owner_that_is_killed() -> None:
    owner = textwrap.dedent(
        """
        import os, signal
        from local.pubsub_emulator import EmulatorProcess
        with EmulatorProcess() as process:
            print(process.process_id, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    command = [sys.executable, "-c", owner]
    done = subprocess.run(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
    eventually(lambda: not psutil.pid_exists(int(done.stdout)))


def test_a_process_that_does_not_run_has_no_id() -> None:
    with pytest.raises(EmulatorUnavailable):
        _ = EmulatorProcess().process_id


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["--host-port", f"127.0.0.1:{port}"]) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


def test_a_control_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["--host-port", "127.0.0.1:0", "--control-port", str(port)]) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


def test_a_topic_that_cannot_be_named_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--host-port", "127.0.0.1:0", "--topic", "1"]) == 1
    assert "Invalid [topics] name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--host-port", "0.0.0.0:0"], "--allow-other-machines"),
        (["--host-port", "127.0.0.1:nonsense"], "--host-port"),
        (["--host-port", "127.0.0.1:65536"], "65535"),
        (["--subscription", "without-topic"], "TOPIC/NAME"),
        (["--speed", "0"], "speed"),
        (["--shortest-ack-deadline-seconds", "0"], "deadline"),
    ],
)
def test_arguments_that_make_no_sense(
    capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert complaint in capsys.readouterr().err


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert "python -m local.pubsub_emulator --topic orders" in shown
    assert "PUBSUB_EMULATOR_HOST" in shown
