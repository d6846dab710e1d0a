"""`chargeonce publish`: events reach the topic as they were written, all of them or none."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.cloud.pubsub_v1 import SubscriberClient

from local.pubsub_emulator import Effect, EventFilter, EventKind, Fault, PubsubEmulator, Target
from ops import outgoing
from ops.exit_codes import ExitCode
from ops.outgoing import Outgoing
from shared.event import MAX_BODY_BYTES, parse_event
from tests.cli.conftest import CommandLine
from tests.support.malformed_bodies import event_body

PROJECT = "chargeonce-local"
TOPIC = f"projects/{PROJECT}/topics/usage"
SUBSCRIPTION = f"projects/{PROJECT}/subscriptions/usage"


@pytest.fixture(scope="module")
def running() -> Iterator[PubsubEmulator]:
    """An emulator."""
    with PubsubEmulator(project=PROJECT) as emulator:
        emulator.add_topic("usage")
        emulator.add_subscription("usage", "usage")
        yield emulator


@pytest.fixture
def emulator(running: PubsubEmulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[PubsubEmulator]:
    """The same, with nothing published and without faults."""
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    yield running
    running.control.clear_faults()
    received(count=running.control.backlog(SUBSCRIPTION).messages)


def received(count: int) -> list[bytes]:
    """Take so many messages off the subscription and return their bodies."""
    bodies: list[bytes] = []
    with SubscriberClient() as client:
        while len(bodies) < count:
            answer = client.pull(subscription=SUBSCRIPTION, max_messages=count)
            bodies += [one.message.data for one in answer.received_messages]
            ack_ids = [one.ack_id for one in answer.received_messages]
            client.acknowledge(subscription=SUBSCRIPTION, ack_ids=ack_ids)
    return bodies


def event(number: int, **fields: Any) -> bytes:
    """One line of a file."""
    return event_body(customer_id=f"customer-{number}", **fields)


def publish_file(
    run: CommandLine, directory: Path, *lines: bytes, options: tuple[str, ...] = ()
) -> Any:
    """Publish a file with these lines."""
    file = directory / "events.jsonl"
    file.write_bytes(b"\n".join(lines))
    return run("publish", str(file), "--topic", TOPIC, "--json", *options)


def published_count(emulator: PubsubEmulator) -> int:
    """How many messages the topic has taken so far."""
    return len(emulator.control.events(EventFilter(kind=EventKind.PUBLISHED)))


def test_a_file_arrives_as_it_was_written(
    without_database: CommandLine, emulator: PubsubEmulator, tmp_path: Path
) -> None:
    """Goal: unknown fields stay, empty lines go, order is kept over several requests."""
    lines = [event(number, note="kept") for number in range(250)]
    ran = publish_file(without_database, tmp_path, b"", *lines, b" ", b"")
    assert ran.code == ExitCode.OK
    assert (ran.document["events"], ran.document["charges"]) == (250, 250)
    assert ran.document["total_cents"] == {"usd": 250 * 5000}
    assert len(set(ran.document["message_ids"])) == 250
    assert sorted(received(250)) == sorted(lines)


def test_one_event_from_options(without_database: CommandLine, emulator: PubsubEmulator) -> None:
    fields = ("--customer", "acme", "--period", "2026-11", "--stripe-customer", "cus_1")
    ran = without_database(
        "publish", *fields, "--amount-cents", "4900", "--attempt", "2", "--topic", "usage", "--json"
    )
    assert ran.code == ExitCode.OK
    (body,) = received(1)
    assert json.loads(body) == {
        "customer_id": "acme",
        "billing_period": "2026-11",
        "stripe_customer_id": "cus_1",
        "amount_cents": 4900,
        "attempt": 2,
    }


def test_one_event_as_json(
    without_database: CommandLine, emulator: PubsubEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: the topic may come from the setting, and what people see names it."""
    monkeypatch.setenv("PUBSUB_TOPIC", "usage")
    pretty = json.dumps(json.loads(event(1)), indent=2)
    ran = without_database("publish", "--event", pretty)
    assert ran.code == ExitCode.OK
    assert "50.00 USD" in ran.stdout
    assert TOPIC in ran.stdout
    assert json.loads(received(1)[0]) == json.loads(event(1))


def test_standard_input(
    without_database: CommandLine, emulator: PubsubEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(event(1) + b"\r\n" + event(2)))
    monkeypatch.setattr("sys.stdin", stdin)
    assert without_database("publish", "-", "--topic", TOPIC).code == ExitCode.OK
    assert sorted(received(2)) == [event(1), event(2)]
    assert not stdin.closed


def test_nothing_is_sent_when_a_line_is_wrong(
    without_database: CommandLine, emulator: PubsubEmulator, tmp_path: Path
) -> None:
    """Goal: every wrong line is named with what is wrong with it."""
    before = published_count(emulator)
    lines = [
        event(1),
        b"{",
        event(2, amount_cents=0),
        b"",
        event(3) + b" " * MAX_BODY_BYTES + b"x",
        event(1, amount_cents=7),
        event(4),
    ]
    ran = publish_file(without_database, tmp_path, *lines)
    assert ran.code == ExitCode.FAILED
    message = ran.document["error"]["message"]
    assert "line 2: body: is not JSON" in message
    assert "line 3: amount_cents: must be between 1" in message
    assert "line 5: body: is longer" in message
    assert "line 6: line 1 has another amount" in message
    assert "line 7" not in message
    assert published_count(emulator) == before


def test_many_wrong_lines_are_counted(
    without_database: CommandLine, emulator: PubsubEmulator, tmp_path: Path
) -> None:
    ran = publish_file(without_database, tmp_path, *[b"{"] * 1000)
    assert "line 20:" in ran.document["error"]["message"]
    assert "line 21:" not in ran.document["error"]["message"]
    assert "and 980 more" in ran.document["error"]["message"]


def test_a_dry_run_sends_nothing(
    without_database: CommandLine, emulator: PubsubEmulator, tmp_path: Path
) -> None:
    before = published_count(emulator)
    ran = publish_file(without_database, tmp_path, event(1), event(1), options=("--dry-run",))
    assert ran.code == ExitCode.OK
    assert ran.document == {
        "destination": TOPIC,
        "events": 2,
        "charges": 1,
        "total_cents": {"usd": 5000},
        "message_ids": [],
        "dry_run": True,
    }
    assert published_count(emulator) == before


def test_what_did_not_arrive_is_told(
    without_database: CommandLine, emulator: PubsubEmulator, tmp_path: Path
) -> None:
    """Goal: after a failure in the middle one knows how many arrived, and that a repeat is safe."""
    fault = Fault(Target.PUBLISH, Effect.REFUSE, nth=2, status="PERMISSION_DENIED")
    emulator.control.inject(fault)
    lines = [event(number) for number in range(150)]
    ran = publish_file(without_database, tmp_path, *lines)
    assert ran.code == ExitCode.FAILED
    message = ran.document["error"]["message"]
    assert "(PermissionDenied); 100 of 150 events were sent" in message
    assert "nobody is charged twice" in message


def test_a_topic_that_is_missing_is_named(
    without_database: CommandLine, emulator: PubsubEmulator
) -> None:
    ran = without_database("publish", "--event", event(1).decode(), "--topic", "nowhere")
    assert ran.code == ExitCode.FAILED
    assert f"there is no topic projects/{PROJECT}/topics/nowhere" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "give either FILE, or --event"),
        (("--event", "{}", "--customer", "a"), "give either FILE, or --event"),
        (("missing.jsonl",), "missing.jsonl cannot be read: No such file"),
        (("--event", ""), "there is no event in it"),
        (("--customer", "a", "--amount-cents", "5.0"), "line 1: billing_period: is missing"),
    ],
)
def test_sources_that_make_no_sense(
    without_database: CommandLine, arguments: tuple[str, ...], problem: str
) -> None:
    ran = without_database("publish", *arguments, "--topic", TOPIC)
    assert ran.code == ExitCode.FAILED
    assert problem in ran.stderr


@pytest.mark.parametrize(
    ("topic", "problem"),
    [
        (None, "PUBSUB_TOPIC is missing"),
        ("usage", "GOOGLE_CLOUD_PROJECT is missing"),
        ("a/b", "must"),
    ],
)
def test_topics_that_cannot_be_found(
    without_database: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    topic: str | None,
    problem: str,
) -> None:
    options = () if topic is None else ("--topic", topic)
    ran = without_database("publish", "--event", event(1).decode(), *options)
    assert ran.code == ExitCode.SETTINGS
    assert problem in ran.stderr


def test_too_many_events_are_refused(
    without_database: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing, "MAX_EVENTS", 2)
    ran = publish_file(without_database, tmp_path, event(1), event(2), event(3))
    assert "more than 2 events" in ran.document["error"]["message"]


def test_message_ids_are_of_business_fields_alone() -> None:
    """Goal: a broker that detects duplicates knows an event that is sent again."""

    def message_id(**fields: Any) -> str:
        body = event_body(**fields)
        return Outgoing(body, parse_event(body, "usd")).message_id

    usual = message_id()
    assert usual == message_id(note="x", description="y")
    assert len({usual, message_id(attempt=2), message_id(billing_period="2026-12")}) == 3
