"""`chargeonce status`: the numbers, and what people see of them."""

import pytest
from rich.console import Console

from ops.exit_codes import ExitCode
from ops.tables import open_console, spend_bar
from shared.event import UsageEvent
from shared.ports import Envelope, Note, Run
from shared.record import State
from shared.store.postgres import PostgresStore
from tests.cli.conftest import PERIOD, CommandLine, claim, doubt, end

OF_PERIOD = ("--period", PERIOD)


@pytest.fixture
def busy_period(store: PostgresStore) -> None:
    """A run with a charge, a decline and a doubt."""
    store.open_run(PERIOD, "usd", 20_000, 20_000)
    end(store, claim(store, "charged", amount_cents=10_000), State.CHARGED)
    end(store, claim(store, "declined", amount_cents=3000), State.DECLINED, "card_declined")
    doubt(store, claim(store, "doubtful", amount_cents=5000))


def test_nothing_is_known_of_a_period(chargeonce: CommandLine) -> None:
    ran = chargeonce("status", *OF_PERIOD, "--json")
    assert ran.code == ExitCode.FAILED
    assert ran.document["error"]["message"] == f"nothing is known of period {PERIOD}"


@pytest.mark.usefixtures("busy_period")
def test_the_numbers(chargeonce: CommandLine) -> None:
    document = chargeonce("status", *OF_PERIOD, "--json").document
    assert document["billing_period"] == PERIOD
    assert set(document["records"]) == {str(state) for state in State}
    assert document["records"]["charged"] == {
        "count": 1,
        "amount_cents": 10_000,
        "amount": "100.00 USD",
    }
    assert document["records"]["canceled"]["count"] == 0
    run = document["run"]
    assert (run["charged_cents"], run["held_cents"], run["left_cents"]) == (10_000, 5000, 5000)
    oldest = document["oldest_unfinished"]
    assert (oldest["customer_id"], oldest["state"]) == ("doubtful", "in_doubt")
    assert (oldest["code"], oldest["doubts"]) == ("read_timeout", 1)
    assert document["parked_events"] == 0


@pytest.mark.usefixtures("busy_period")
def test_what_people_see(chargeonce: CommandLine) -> None:
    shown = chargeonce("status", *OF_PERIOD).stdout
    assert "█" * 20 + "▒" * 10 + "░" * 10 + " 75.0 % of the cap" in shown
    assert "Oldest unfinished: doubtful, in_doubt for" in shown
    assert "(read_timeout)" in shown
    assert [line.split() for line in shown.splitlines() if "total" in line] == [
        ["total", "3", "180.00", "USD"]
    ]
    assert "\x1b" not in shown


def test_a_period_without_a_run(chargeonce: CommandLine, store: PostgresStore) -> None:
    claim(store, currency="jpy", require_run=False)
    ran = chargeonce("status", *OF_PERIOD)
    assert ran.code == ExitCode.OK
    assert "No run is open for this period" in ran.stdout
    assert chargeonce("status", *OF_PERIOD, "--json").document["run"] is None


def test_refused_messages_are_counted(chargeonce: CommandLine, store: PostgresStore) -> None:
    store.open_run(PERIOD, "usd", 100, 100)
    with pytest.raises(AssertionError):
        claim(store, amount_cents=5000)
    assert chargeonce("status", *OF_PERIOD, "--json").document["parked_events"] == 1
    assert "1 message was dead-lettered" in chargeonce("status", *OF_PERIOD).stdout


@pytest.mark.parametrize(
    ("charged_cents", "held_cents", "bar"),
    [
        (0, 0, "........................................ 0.0 % of the cap"),
        (50, 25, "####################==========.......... 75.0 % of the cap"),
        (100, 0, "######################################## 100.0 % of the cap"),
        (80, 40, "################################======== 120.0 % of the cap (over it)"),
        (500, 40, "######################################## 540.0 % of the cap (over it)"),
    ],
)
def test_the_spend_bar(store: PostgresStore, charged_cents: int, held_cents: int, bar: str) -> None:
    opened, _ = store.open_run(PERIOD, "usd", 100, 100)
    run = Run(PERIOD, "usd", 100, 100, held_cents, charged_cents, True, None, opened.opened_at)
    assert str(spend_bar(run, ascii_only=True)) == bar


def test_colour_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """rich decides by NO_COLOR, TERM and the kind of output: we must not override it."""
    monkeypatch.setenv("NO_COLOR", "1")
    assert open_console().no_color is True
    monkeypatch.delenv("NO_COLOR")
    assert isinstance(open_console(), Console)
    assert open_console().is_terminal is False


def test_kept_messages_are_counted_and_due(chargeonce: CommandLine, store: PostgresStore) -> None:
    """A message that waits for its run is seen before there is anything else of its period."""
    event = UsageEvent("early", PERIOD, "cus_early", 5000, "usd")
    store.keep(event, b"{}", Note(Envelope("servicebus", "message-1", 9), "handed_over"))
    assert chargeonce("status", *OF_PERIOD, "--json").document["kept_messages"] == 1
    assert "1 message is kept" in chargeonce("status", *OF_PERIOD).stdout
    assert chargeonce("reconcile", "--dry-run", "--json").document["due"] == []
    store.open_run(PERIOD, "usd", 10_000, 10_000)
    assert chargeonce("reconcile", "--dry-run", "--json").document["due"] == [
        {"customer_id": "early", "billing_period": PERIOD}
    ]
