"""`chargeonce publish` to Service Bus, over the real SDK, and how it is told which cloud."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage

from local.servicebus_emulator import (
    EmulatorOptions,
    Fault,
    FaultKind,
    Match,
    QueueOptions,
    ServiceBusEmulator,
    SubscriptionOptions,
)
from ops.exit_codes import ExitCode
from ops.outgoing import Outgoing, SendFailed
from ops.servicebus import MESSAGES_PER_BATCH, ServiceBusSender
from shared.event import MAX_BODY_BYTES, parse_event
from shared.settings import PublishChoice, ServiceBusSettings, read_publish_settings
from tests.cli.conftest import CommandLine
from tests.support.malformed_bodies import event_body

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("forget_broken_connections"),
]

QUEUE = "usage"
TOPIC = "metered"
SUBSCRIPTION = "billing"


@pytest.fixture(scope="module")
def running() -> Iterator[ServiceBusEmulator]:
    """A namespace."""
    options = EmulatorOptions(
        queues=[QueueOptions(QUEUE)], subscriptions=[SubscriptionOptions(TOPIC, SUBSCRIPTION)]
    )
    with ServiceBusEmulator(options) as emulator:
        yield emulator


@pytest.fixture
def emulator(
    without_database: CommandLine, running: ServiceBusEmulator, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ServiceBusEmulator]:
    """The same, empty and without faults, and named by the settings."""
    monkeypatch.setenv("ServiceBus", running.connection_string)
    yield running
    running.clear_faults()
    running.purge_queue(QUEUE)


@pytest.fixture
def host(running: ServiceBusEmulator) -> str:
    """Its name."""
    return running.connection_string.partition(";")[0].removeprefix("Endpoint=sb://")


def receive(
    emulator: ServiceBusEmulator, count: int, topic: str | None = None
) -> Sequence[ServiceBusReceivedMessage]:
    """Take so many messages, oldest first."""
    with ServiceBusClient.from_connection_string(emulator.connection_string) as client:
        receiver = (
            client.get_queue_receiver(QUEUE, receive_mode="receiveanddelete")
            if topic is None
            else client.get_subscription_receiver(
                topic, SUBSCRIPTION, receive_mode="receiveanddelete"
            )
        )
        messages: list[ServiceBusReceivedMessage] = []
        with receiver:
            while len(messages) < count:
                taken = receiver.receive_messages(count - len(messages), max_wait_time=5)
                assert taken
                messages += taken
        return messages


def body_of(message: ServiceBusReceivedMessage) -> bytes:
    """The body as it was sent."""
    return b"".join(message.body)


def event(number: int, **fields: Any) -> bytes:
    """One line of a file."""
    return event_body(customer_id=f"customer-{number}", **fields)


def expected_id(body: bytes) -> str:
    """The message id that an event is sent with."""
    return Outgoing(body, parse_event(body, "usd")).message_id


def publish_file(run: CommandLine, directory: Path, *lines: bytes, options: tuple[str, ...]) -> Any:
    """Publish a file with these lines."""
    file = directory / "events.jsonl"
    file.write_bytes(b"\n".join(lines))
    return run("publish", str(file), *options)


def test_a_file_arrives_as_it_was_written_with_ids_of_our_own(
    without_database: CommandLine, emulator: ServiceBusEmulator, host: str, tmp_path: Path
) -> None:
    """Goal: order and unknown fields stay, over several batches; the ids are the events' own."""
    lines = [event(number, note="kept") for number in range(MESSAGES_PER_BATCH + 50)]
    ran = publish_file(without_database, tmp_path, *lines, options=("--queue", QUEUE, "--json"))
    assert ran.code == ExitCode.OK
    assert ran.document["destination"] == f"{host}/{QUEUE}"
    messages = receive(emulator, len(lines))
    assert [body_of(message) for message in messages] == lines
    ids = [expected_id(line) for line in lines]
    assert [message.message_id for message in messages] == ids
    assert ran.document["message_ids"] == ids
    assert messages[0].content_type == "application/json"


def test_events_of_the_largest_size_are_spread_over_batches(
    without_database: CommandLine, emulator: ServiceBusEmulator, tmp_path: Path
) -> None:
    """Goal: a batch is sent before it is too large for the broker."""
    filled = [event(number, note="") for number in range(6)]
    lines = [event(n, note="x" * (MAX_BODY_BYTES - len(line))) for n, line in enumerate(filled)]
    assert {len(line) for line in lines} == {MAX_BODY_BYTES}
    ran = publish_file(without_database, tmp_path, *lines, options=("--queue", QUEUE, "--json"))
    assert ran.code == ExitCode.OK
    assert [body_of(message) for message in receive(emulator, 6)] == lines


def test_a_topic(
    without_database: CommandLine, emulator: ServiceBusEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: the topic of the settings; people see where it went, and the key stays out of sight."""
    monkeypatch.setenv("BILLING_TOPIC", TOPIC)
    monkeypatch.setenv("BILLING_SUBSCRIPTION", SUBSCRIPTION)
    ran = without_database("publish", "--event", event(1).decode())
    assert ran.code == ExitCode.OK
    assert f"/{TOPIC}" in ran.stdout
    assert "50.00 USD" in ran.stdout
    assert "SharedAccessKey" not in ran.stdout + ran.stderr
    assert [body_of(message) for message in receive(emulator, 1, TOPIC)] == [event(1)]


def test_a_dry_run_needs_no_broker(
    without_database: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: the namespace of an identity is named, and nothing is asked of anybody."""
    monkeypatch.setenv("ServiceBus__fullyQualifiedNamespace", "acme.servicebus.windows.net")
    monkeypatch.setenv("BILLING_QUEUE", QUEUE)
    ran = without_database("publish", "--event", event(1).decode(), "--dry-run", "--json")
    assert ran.code == ExitCode.OK
    assert ran.document["destination"] == f"acme.servicebus.windows.net/{QUEUE}"
    assert (ran.document["message_ids"], ran.document["dry_run"]) == ([], True)


def test_what_did_not_arrive_is_told(
    without_database: CommandLine, emulator: ServiceBusEmulator, tmp_path: Path
) -> None:
    """Goal: after a failure in the middle one knows how many arrived, and that a repeat is safe."""
    match = Match(entity=QUEUE, operation="send", nth=2)
    refusal = Fault(FaultKind.SEND_REFUSED, match, condition="amqp:unauthorized-access")
    emulator.add_fault(refusal)
    lines = [event(number) for number in range(MESSAGES_PER_BATCH + 1)]
    ran = publish_file(without_database, tmp_path, *lines, options=("--queue", QUEUE, "--json"))
    assert ran.code == ExitCode.FAILED
    message = ran.document["error"]["message"]
    assert f"{MESSAGES_PER_BATCH} of {len(lines)} events were sent" in message
    assert "nobody is charged twice" in message
    assert emulator.queue(QUEUE).active == MESSAGES_PER_BATCH


def test_a_queue_that_is_missing_is_named(
    without_database: CommandLine, emulator: ServiceBusEmulator, host: str
) -> None:
    ran = without_database("publish", "--event", event(1).decode(), "--queue", "nowhere")
    assert ran.code == ExitCode.FAILED
    assert f"there is no queue or topic {host}/nowhere" in ran.stderr


def test_a_broken_connection_string_is_not_shown(
    without_database: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection_string = "Endpoint=sb://127.0.0.1:1/;SharedAccessKey=hunter2"
    monkeypatch.setenv("ServiceBus", connection_string)
    ran = without_database("publish", "--event", event(1).decode(), "--queue", QUEUE)
    assert ran.code == ExitCode.FAILED
    assert f"127.0.0.1:1/{QUEUE} takes no message (ValueError)" in ran.stderr
    assert "hunter2" not in ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("away", "problem"),
    [(False, "ServiceBusAuthenticationError"), (True, "ServiceBusConnectionError")],
)
def test_a_key_that_is_refused_is_not_shown(
    emulator: ServiceBusEmulator, *, away: bool, problem: str
) -> None:
    """Goal: nothing of a failure to connect but its kind. Method: a client that is impatient."""
    emulator.add_fault(Fault(FaultKind.TOKEN_REFUSED))
    emulator.refuse_connections(60 if away else 0)
    settings = read_publish_settings(PublishChoice(queue=QUEUE)).destination
    assert isinstance(settings, ServiceBusSettings)

    def connect(servicebus: ServiceBusSettings) -> ServiceBusClient:
        assert servicebus.connection_string is not None
        return ServiceBusClient.from_connection_string(servicebus.connection_string, retry_total=0)

    outgoing = Outgoing(event(1), parse_event(event(1), "usd"))
    with pytest.raises(SendFailed) as caught:
        list(ServiceBusSender(settings, connect).send([outgoing]))
    emulator.refuse_connections(0)
    host = settings.host
    assert str(caught.value) == f"{host}/{QUEUE} takes no message ({problem})"


AZURE = {"ServiceBus": "Endpoint=sb://acme/;SharedAccessKey=hunter2", "BILLING_QUEUE": QUEUE}
GOOGLE = {"GOOGLE_CLOUD_PROJECT": "acme", "PUBSUB_TOPIC": QUEUE}
GOOGLE_TOPIC = f"projects/acme/topics/{QUEUE}"


@pytest.mark.parametrize(
    ("settings", "options", "destination"),
    [
        (AZURE, (), "acme/usage"),
        (GOOGLE, (), GOOGLE_TOPIC),
        (AZURE | GOOGLE, ("--cloud", "azure"), "acme/usage"),
        (AZURE | GOOGLE, ("--cloud", "google"), GOOGLE_TOPIC),
        (AZURE | GOOGLE, ("--queue", "other"), "acme/other"),
        (AZURE | GOOGLE, ("--topic", GOOGLE_TOPIC), GOOGLE_TOPIC),
        (AZURE | GOOGLE, ("--cloud", "azure", "--topic", "other"), "acme/other"),
        (AZURE, ("--topic", "other"), "acme/other"),
        # Half of a cloud is none.
        (AZURE | {"GOOGLE_CLOUD_PROJECT": "acme"}, (), "acme/usage"),
        (GOOGLE | {"BILLING_QUEUE": QUEUE}, (), GOOGLE_TOPIC),
    ],
)
def test_the_cloud_is_the_one_that_is_set_up_or_said(
    without_database: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    options: tuple[str, ...],
    destination: str,
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    ran = without_database("publish", "--event", event(1).decode(), "--dry-run", "--json", *options)
    assert ran.code == ExitCode.OK, ran.stderr
    assert ran.document["destination"] == destination


@pytest.mark.parametrize(
    ("settings", "options", "problems"),
    [
        ({}, (), ["--cloud azure: either ServiceBus", "--cloud azure: either BILLING_QUEUE"]),
        ({}, (), ["--cloud google: PUBSUB_TOPIC is missing"]),
        (AZURE | GOOGLE, (), ["both clouds are set up", "--cloud azure or --cloud google"]),
        (AZURE | GOOGLE, ("--topic", "other"), ["both clouds are set up"]),
        (GOOGLE, ("--cloud", "azure"), ["- either ServiceBus", "- either BILLING_QUEUE"]),
        (AZURE, ("--cloud", "google"), ["- PUBSUB_TOPIC is missing"]),
        (GOOGLE, ("--cloud", "google", "--queue", "a"), ["--queue is one of Service Bus"]),
        (AZURE | {"BILLING_TOPIC": "a"}, ("--cloud", "azure"), ["either BILLING_QUEUE"]),
        ({"ServiceBus": "hunter2"}, ("--queue", "a"), ["ServiceBus must be a connection string"]),
        (AZURE, ("--cloud", "azure", "--topic", GOOGLE_TOPIC), ["is not called projects/"]),
    ],
)
def test_what_has_to_be_given_is_listed(
    without_database: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    options: tuple[str, ...],
    problems: list[str],
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    ran = without_database("publish", "--event", event(1).decode(), *options)
    assert ran.code == ExitCode.SETTINGS
    for problem in problems:
        assert problem in ran.stderr
    assert "hunter2" not in ran.stderr


def test_queue_and_topic_exclude_each_other(without_database: CommandLine) -> None:
    ran = without_database("publish", "--event", "{}", "--queue", "a", "--topic", "b")
    assert ran.code == ExitCode.USAGE
