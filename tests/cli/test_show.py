"""`chargeonce show`: a record and every delivery that touched it, shown safely."""

import pytest

from ops.exit_codes import ExitCode
from shared.record import State
from shared.store.postgres import PostgresStore
from tests.cli.conftest import PERIOD, CommandLine, claim, end

OF_PERIOD = ("--period", PERIOD)


def test_there_is_no_record(chargeonce: CommandLine) -> None:
    ran = chargeonce("show", "--customer", "nobody\x1b[31m", *OF_PERIOD)
    assert ran.code == ExitCode.FAILED
    assert "no record of customer 'nobody\\x1b[31m'" in ran.stderr


def test_a_record_and_its_attempts(chargeonce: CommandLine, store: PostgresStore) -> None:
    store.open_run(PERIOD, "jpy", 9000, 9000)
    end(store, claim(store, "acme", amount_cents=5000, currency="jpy"), State.CHARGED)
    claim(store, "acme", amount_cents=5000, currency="jpy", message_id="message-2")
    document = chargeonce("show", "--customer", "acme", *OF_PERIOD, "--json").document
    record = document["record"]
    assert (record["state"], record["payment_id"]) == ("charged", "pi_acme")
    assert (record["amount_cents"], record["amount"]) == (5000, "5,000 JPY")
    assert (record["held_cents"], record["verdict"], record["code"]) == (0, None, None)
    assert [
        (line["decision"], line["message_id"], line["delivery_count"], line["request_id"])
        for line in document["attempts"]
    ] == [
        ("claimed", "message-1", 1, None),
        ("charged", "message-1", 1, "req_1"),
        ("already_charged", "message-2", 1, None),
    ]


def test_what_people_see(chargeonce: CommandLine, store: PostgresStore) -> None:
    store.open_run(PERIOD, "usd", 9000, 9000)
    end(store, claim(store), State.DECLINED, "card_declined")
    shown = chargeonce("show", "--customer", "acme", *OF_PERIOD).stdout
    for text in ("acme", "declined", "card_declined", "50.00 USD", "pubsub-push", "req_1"):
        assert text in shown
    assert "lease until" not in shown


def test_the_newest_attempts(chargeonce: CommandLine, store: PostgresStore) -> None:
    store.open_run(PERIOD, "usd", 9000, 9000)
    end(store, claim(store), State.CHARGED)
    for number in range(3):
        claim(store, message_id=f"again-{number}")
    ran = chargeonce("show", "--customer", "acme", *OF_PERIOD, "--limit", "2", "--json")
    messages = [line["message_id"] for line in ran.document["attempts"]]
    assert messages == ["again-1", "again-2"]


@pytest.mark.parametrize("hostile", ["\x1b]0;title\x07", "\u202e", "[red]markup[/red]", "a\rb"])
def test_what_others_wrote_cannot_drive_the_terminal(
    chargeonce: CommandLine, store: PostgresStore, hostile: str
) -> None:
    """A message id is anybody's text: neither escape codes nor markup may take effect."""
    store.open_run(PERIOD, "usd", 9000, 9000)
    claim(store, message_id=hostile)
    shown = chargeonce("show", "--customer", "acme", *OF_PERIOD).stdout
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(shown)
    if hostile.isprintable():
        assert hostile in shown
