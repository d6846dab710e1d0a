"""`chargeonce dlq`: what each command shows, sends, drops and leaves, and how it ends."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from local.pubsub_emulator import EventFilter, EventKind
from local.servicebus_emulator import QueueSettings
from ops.exit_codes import ExitCode
from shared.dead_letter_attributes import ORIGINAL_MESSAGE_ID
from tests.cli.conftest import CommandLine
from tests.support.dead_letters import CENTRAL_QUEUE, DESCRIBED, QUEUE, Morgue
from tests.support.malformed_bodies import event_body
from tests.support.servicebus import LOCK_SECONDS, PERIOD

BINARY = b"\xff\x00\x1b[31m" + b"x" * 200
AZURE = ("--in", "servicebus")
GOOGLE = ("--in", "pubsub")
PARKED = ("--in", "parked")


def events(morgue: Morgue, *names: str) -> dict[str, bytes]:
    """Events of customers who can pay, by name."""
    return {name: morgue.azure.customer(name) for name in names}


def record(morgue: Morgue, name: str, state: str) -> None:
    """Put a record at its end."""
    morgue.azure.execute(
        """
        INSERT INTO chargeonce.records (
            customer_id, billing_period, key, stripe_customer_id, amount_cents, currency, attempt,
            state, fence, attempt_fence, flow, create_parameters, payment_id, held_cents,
            attempt_started_at, lease_until
        )
        VALUES (%s, %s, %s, %s, 5000, 'usd', 1, %s, 1, 1, 'payment_intent', '{}', 'pi_1', 0,
            now(), now())
        """,
        [name, PERIOD, f"key-{name}", f"cus_{name}", state],
    )


def letters_of(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The letters of the only place, by message id."""
    (place,) = document["places"]
    return {letter["message_id"]: letter for letter in place["letters"]}


def test_service_bus_is_looked_into_for_free(morgue: Morgue, chargeonce: CommandLine) -> None:
    """Goal: reason, description, age, record and verdict; a body that is no text is harmless."""
    morgue.bury_in_azure({**events(morgue, "new", "paid"), "binary": BINARY}, correlation_id="c-1")
    record(morgue, "paid", "charged")
    before = len(morgue.azure.emulator.deliveries(f"{QUEUE}/$DeadLetterQueue"))
    ran = chargeonce("dlq", "list", *AZURE, "--json")
    assert ran.code == ExitCode.OK
    assert ran.document["verdicts"] == {"new_charge": 1, "already_charged": 1, "invalid_event": 1}
    letters = letters_of(ran.document)
    paid = letters["paid"]
    assert (paid["reason"], paid["description"]) == ("CapReached", DESCRIBED)
    assert (paid["customer_id"], paid["billing_period"]) == ("paid", PERIOD)
    assert (paid["record"]["state"], paid["correlation_id"]) == ("charged", "c-1")
    assert paid["body_excerpt"] is None
    assert 0 <= paid["age_seconds"] < 60
    assert letters["binary"]["body_excerpt"].startswith("\\xff\\x00\\x1b[31mxxx")
    assert len(letters["binary"]["body_excerpt"]) < 100
    shown = chargeonce("dlq", "list", *AZURE)
    assert "\x1b" not in shown.stdout
    assert "already_charged" in shown.stdout
    assert len(morgue.azure.emulator.deliveries(f"{QUEUE}/$DeadLetterQueue")) == before
    assert morgue.azure_dead_letters() == 3


def test_pubsub_is_looked_into_at_a_cost(morgue: Morgue, chargeonce: CommandLine) -> None:
    """Goal: what was pulled is given back and nothing acknowledged; the cost is told."""
    morgue.bury_in_google(events(morgue, "a", "b"), shop="berlin")
    ran = chargeonce("dlq", "list", *GOOGLE, "--json")
    letters = letters_of(ran.document)
    assert set(letters) == {"a", "b"}
    assert (letters["a"]["reason"], letters["a"]["delivery_count"]) == ("CapReached", 3)
    assert "counts as delivered" in ran.stderr
    subscription = morgue.google.dead_letter_subscription
    control = morgue.google.cloud.control
    assert control.events(EventFilter(kind=EventKind.ACK, resource=subscription)) == []
    assert control.backlog(subscription).outstanding == 0


def test_what_is_asked_for(morgue: Morgue, chargeonce: CommandLine) -> None:
    """Goal: by customer, period, reason and age; each place's letters up to the limit."""
    morgue.park(events(morgue, "a", "b"), reason="RunClosed")
    morgue.park({"c": event_body(customer_id="c", billing_period="2026-12")})

    def found(*options: str) -> set[str]:
        return set(letters_of(chargeonce("dlq", "list", *PARKED, *options, "--json").document))

    assert found() == {"a", "b", "c"}
    assert found("--customer", "a") == {"a"}
    assert found("--period", "2026-12") == {"c"}
    assert found("--reason", "runclosed") == {"a", "b"}
    assert found("--before", "1h") == set()
    assert found("--since", "1h", "--reason", "CapReached") == {"c"}
    limited = chargeonce("dlq", "list", *PARKED, "--limit", "1", "--json").document
    assert (limited["places"][0]["asked_for"], len(letters_of(limited))) == (3, 1)


def test_a_letter_keeps_everything_on_service_bus(morgue: Morgue, chargeonce: CommandLine) -> None:
    """Goal: body, message id, properties, correlation id; the traces of its death are gone."""
    letters = events(morgue, "a")
    morgue.bury_in_azure(
        letters,
        correlation_id="c-1",
        subject="usage",
        content_type="application/json",
        application_properties={"shop": "berlin", "number": 7},
    )
    ran = chargeonce("dlq", "resubmit", *AZURE, "--json")
    assert ran.code == ExitCode.OK
    assert (ran.document["done"], ran.document["verdicts"]) == (1, {"new_charge": 1})
    assert morgue.azure_dead_letters() == 0
    (message,) = morgue.waiting_in_azure()
    assert b"".join(message.body) == letters["a"]
    assert (message.message_id, message.correlation_id) == ("a", "c-1")
    assert (message.subject, message.content_type) == ("usage", "application/json")
    assert message.application_properties == {b"shop": b"berlin", b"number": 7}
    assert message.delivery_count == 0


def test_a_letter_keeps_what_pubsub_lets_it(morgue: Morgue, chargeonce: CommandLine) -> None:
    """Goal: body and attributes; its first id stays readable, ours about its death are gone."""
    letters = events(morgue, "a")
    morgue.bury_in_google(letters, shop="berlin")
    ran = chargeonce("dlq", "resubmit", *GOOGLE, "--json")
    assert (ran.code, ran.document["done"]) == (ExitCode.OK, 1)
    assert morgue.google_dead_letters() == 0
    (received,) = morgue.waiting_in_google(1)
    assert received.message.data == letters["a"]
    assert dict(received.message.attributes) == {"shop": "berlin", ORIGINAL_MESSAGE_ID: "a"}


def test_what_would_come_back_is_left(morgue: Morgue, chargeonce: CommandLine) -> None:
    """Goal: told with its verdict; a dry run says the same beforehand and sends nothing."""
    morgue.bury_in_azure({**events(morgue, "new", "paid"), "binary": BINARY})
    record(morgue, "paid", "charged")
    sent, left = {"new_charge": 1, "already_charged": 1}, {"invalid_event": 1}
    planned = chargeonce("dlq", "resubmit", *AZURE, "--dry-run", "--json")
    assert (planned.code, planned.document["dry_run"]) == (ExitCode.OK, True)
    assert (planned.document["verdicts"], planned.document["left"]) == (sent, left)
    assert morgue.sent_to_azure() == 0
    ran = chargeonce("dlq", "resubmit", *AZURE, "--json")
    assert (ran.document["verdicts"], ran.document["left"]) == (sent, left)
    assert (morgue.sent_to_azure(), morgue.azure_dead_letters()) == (2, 1)
    forced = chargeonce("dlq", "resubmit", *AZURE, "--even-if-refused", "--json")
    assert forced.document["verdicts"] == {"invalid_event": 1}
    assert morgue.azure_dead_letters() == 0


def test_a_dry_run_adds_up_against_the_cap(morgue: Morgue, chargeonce: CommandLine) -> None:
    """Goal: what fits alone and not together is told before anything is sent."""
    morgue.azure.execute("UPDATE chargeonce.runs SET cap_cents = 12000")
    morgue.park(events(morgue, "a", "b", "c"))
    planned = chargeonce("dlq", "resubmit", *PARKED, "--dry-run", "--json").document
    assert (planned["verdicts"], planned["left"]) == ({"new_charge": 2}, {"cap_reached": 1})


def test_some_are_picked_out_of_many(morgue: Morgue, chargeonce: CommandLine) -> None:
    """Goal: what is passed over is free again at once; a fresh id leaves the old one readable."""
    morgue.bury_in_azure(events(morgue, "a", "b", "c"))
    ran = chargeonce("dlq", "resubmit", *AZURE, "--customer", "c", "--json")
    assert (ran.code, ran.document["done"]) == (ExitCode.OK, 1)
    assert [message.message_id for message in morgue.waiting_in_azure()] == ["c"]
    fresh = ("--limit", "1", "--fresh-ids")
    assert chargeonce("dlq", "resubmit", *AZURE, *fresh, "--json").document["done"] == 1
    assert morgue.azure_dead_letters() == 1
    (message,) = morgue.waiting_in_azure()
    assert message.message_id != "a"
    assert message.application_properties == {ORIGINAL_MESSAGE_ID.encode(): b"a"}


def test_a_queue_that_dead_letters_are_forwarded_to(
    morgue: Morgue, chargeonce: CommandLine
) -> None:
    """Goal: the reason is read from where forwarding leaves it, and taken off."""
    morgue.put_in_central_queue(events(morgue, "a", "b"))
    central = (*AZURE, "--queue", CENTRAL_QUEUE)
    listed = letters_of(chargeonce("dlq", "list", *central, "--json").document)
    assert {letter["reason"] for letter in listed.values()} == {"CapReached"}
    ran = chargeonce("dlq", "resubmit", *central, "--customer", "b", "--json")
    assert (ran.code, ran.document["done"]) == (ExitCode.OK, 1)
    (message,) = morgue.waiting_in_azure()
    assert (message.message_id, message.application_properties) == ("b", None)
    assert morgue.azure.emulator.queue(CENTRAL_QUEUE).active == 1


def test_our_own_table_needs_no_broker(morgue: Morgue, chargeonce: CommandLine) -> None:
    """Goal: reconcile delivers what it sends again, once, and not again unless it is asked to."""
    morgue.park({**events(morgue, "a", "b"), "binary": BINARY})
    ran = chargeonce("dlq", "resubmit", *PARKED, "--json")
    assert (ran.document["verdicts"], ran.document["left"]) == (
        {"new_charge": 2},
        {"invalid_event": 1},
    )
    assert chargeonce("dlq", "resubmit", *PARKED, "--json").document["done"] == 0
    again = chargeonce("dlq", "resubmit", *PARKED, "--again", "--customer", "a", "--json")
    assert again.document["done"] == 1
    forced = chargeonce("dlq", "resubmit", *PARKED, "--even-if-refused", "--json")
    assert (forced.document["done"], forced.document["left"]) == (0, {"invalid_event": 1})
    morgue.azure.execute("UPDATE chargeonce.kept_messages SET due_at = now()")
    assert chargeonce("reconcile").code == ExitCode.OK
    assert morgue.charges() == {"cus_a": 1, "cus_b": 1}
    assert morgue.azure.execute("SELECT count(*) FROM chargeonce.kept_messages") == [(0,)]


def test_what_is_refused_again_is_shown_again(morgue: Morgue, chargeonce: CommandLine) -> None:
    """Goal: a parked event that reconcile could not charge either is not lost from sight."""
    letter = events(morgue, "again")
    morgue.park(letter, reason="RunClosed")
    run = ("run", "close", "--period", PERIOD)
    assert chargeonce("dlq", "resubmit", *PARKED, "--json").document["done"] == 1
    assert chargeonce(*run).code == ExitCode.OK
    morgue.azure.execute("UPDATE chargeonce.kept_messages SET due_at = now()")
    assert chargeonce("reconcile").code == ExitCode.OK
    assert chargeonce("run", "reopen", "--period", PERIOD).code == ExitCode.OK
    assert chargeonce("dlq", "resubmit", *PARKED, "--json").document["done"] == 1
    morgue.azure.execute("UPDATE chargeonce.kept_messages SET due_at = now()")
    assert chargeonce("reconcile").code == ExitCode.OK
    assert morgue.charges() == {"cus_again": 1}


def test_what_is_done_with_is_dropped(
    morgue: Morgue, chargeonce: CommandLine, tmp_path: Path
) -> None:
    """Goal: on proof alone, and only after a file has it whole."""
    letters = events(morgue, "paid", "declined", "canceled", "rejected", "new")
    other = event_body(customer_id="paid", stripe_customer_id="cus_paid", amount_cents=7)
    next_try = event_body(customer_id="declined", stripe_customer_id="cus_declined", attempt=2)
    morgue.bury_in_azure({**letters, "other": other, "next": next_try, "binary": BINARY})
    for name, state in (
        ("paid", "charged"),
        ("declined", "declined"),
        ("canceled", "canceled"),
        ("rejected", "rejected"),
    ):
        record(morgue, name, state)
    dropped = {"already_charged": 1, "already_declined": 1, "already_canceled": 1}
    file = tmp_path / "dropped.jsonl"
    ran = chargeonce("dlq", "drop", *AZURE, "--to", str(file), "--json")
    assert (ran.code, ran.document["verdicts"]) == (ExitCode.OK, dropped)
    assert morgue.azure_dead_letters() == 5
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    bodies = {line["message_id"]: base64.b64decode(line["body_base64"]) for line in lines}
    assert bodies == {name: letters[name] for name in ("paid", "declined", "canceled")}
    assert file.stat().st_mode & 0o777 == 0o600
    forced = tmp_path / "forced.jsonl"
    chargeonce("dlq", "drop", *AZURE, "--reason", "CapReached", "--force", "--to", str(forced))
    assert morgue.azure_dead_letters() == 0
    assert len(forced.read_text().splitlines()) == 5


def test_dropping_from_the_others(morgue: Morgue, chargeonce: CommandLine, tmp_path: Path) -> None:
    letters = events(morgue, "paid")
    record(morgue, "paid", "charged")
    morgue.bury_in_google(letters)
    morgue.park(letters)
    file = str(tmp_path / "dropped.jsonl")
    planned = chargeonce("dlq", "drop", *PARKED, "--dry-run", "--json")
    assert planned.document["verdicts"] == {"already_charged": 1}
    ran = chargeonce("dlq", "drop", *GOOGLE, *PARKED, "--to", file, "--json")
    assert (ran.code, ran.document["done"]) == (ExitCode.OK, 2)
    assert morgue.google_dead_letters() == 0
    assert morgue.azure.execute("SELECT count(*) FROM chargeonce.parked_events") == [(0,)]


def test_a_file_is_never_overwritten(
    morgue: Morgue, chargeonce: CommandLine, tmp_path: Path
) -> None:
    morgue.park(events(morgue, "paid"))
    record(morgue, "paid", "charged")
    file = tmp_path / "dropped.jsonl"
    file.write_text("mine")
    for target in (("--to", str(file)), ("--to", str(tmp_path / "no" / "folder")), ()):
        ran = chargeonce("dlq", "drop", *PARKED, *target, "--json")
        assert ran.code == ExitCode.FAILED
        assert "error" in ran.document
    assert file.read_text() == "mine"
    assert morgue.azure.execute("SELECT count(*) FROM chargeonce.parked_events") == [(1,)]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_lock_that_runs_out_costs_no_letter(
    morgue: Morgue, chargeonce: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: slower than the locks last: they are renewed, and each letter is sent once."""
    morgue.bury_in_azure(events(morgue, "a", "b", "c", "d"))
    morgue.azure.emulator.configure_queue(QUEUE, QueueSettings(lock_seconds=2))
    ran = chargeonce("dlq", "resubmit", *AZURE, "--per-second", "1", "--json")
    morgue.azure.emulator.configure_queue(QUEUE, QueueSettings(LOCK_SECONDS))
    assert (ran.code, ran.document["done"]) == (ExitCode.OK, 4)
    assert sorted(message.message_id for message in morgue.waiting_in_azure()) == list("abcd")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"BILLING_QUEUE": "missing"}, "there is no such queue, topic or subscription"),
        (
            {
                "PUBSUB_DEAD_LETTER_SUBSCRIPTION": "projects/acceptance/subscriptions/missing",
                "BILLING_QUEUE": "",
            },
            "there is no such subscription or topic",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_broker_that_refuses(
    morgue: Morgue,
    chargeonce: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    problem: str,
) -> None:
    """Goal: an exit code of its own, in plain words, without a key."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    place = AZURE if "missing" in settings["BILLING_QUEUE"] else GOOGLE
    ran = chargeonce("dlq", "list", *place, "--json")
    assert ran.code == ExitCode.BROKER
    assert problem in ran.document["error"]["message"]
    assert "SharedAccessKey" not in ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("list", "--in", "servicebus"), ExitCode.SETTINGS, "BILLING_QUEUE"),
        (("list", "--in", "pubsub"), ExitCode.SETTINGS, "PUBSUB_DEAD_LETTER_SUBSCRIPTION"),
        (("resubmit", "--in", "pubsub"), ExitCode.SETTINGS, "PUBSUB_TOPIC is missing"),
        (("list", "--queue", "central"), ExitCode.FAILED, "--queue names one of Service Bus"),
        (("list", "--in", "nowhere"), ExitCode.USAGE, "invalid choice"),
        (("list", "--before", "soon"), ExitCode.USAGE, "how long ago"),
    ],
)
def test_settings_that_are_missing(
    morgue: Morgue,
    chargeonce: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: ExitCode,
    problem: str,
) -> None:
    for name in ("BILLING_QUEUE", "ServiceBus", "PUBSUB_TOPIC", "PUBSUB_DEAD_LETTER_SUBSCRIPTION"):
        monkeypatch.delenv(name)
    ran = chargeonce("dlq", *arguments)
    assert ran.code == code
    assert problem in ran.stderr
