"""`chargeonce run`: each command says what it did, and doing it twice is as good as once."""

import pytest

from ops.exit_codes import ExitCode
from shared.record import State
from shared.store.postgres import PostgresStore
from tests.cli.conftest import PERIOD, CommandLine, Ran, claim, end

OF_PERIOD = ("--period", PERIOD)


def open_run(chargeonce: CommandLine, *options: str) -> Ran:
    return chargeonce("run", "open", *OF_PERIOD, *options)


def test_the_cap_comes_from_what_is_expected(chargeonce: CommandLine) -> None:
    ran = open_run(chargeonce, "--expected-cents", "1001", "--json")
    assert ran.code == ExitCode.OK
    assert ran.document["opened"] is True
    run = ran.document["run"]
    assert (run["state"], run["currency"], run["expected_cents"]) == ("open", "usd", 1001)
    assert (run["cap_cents"], run["cap"]) == (1102, "11.02 USD")
    assert (run["held_cents"], run["charged_cents"], run["left_cents"]) == (0, 0, 1102)


def test_the_settings_decide_what_is_not_given(
    chargeonce: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLING_EXPECTED_TOTAL_CENTS", "2000")
    monkeypatch.setenv("BILLING_CAP_PERCENT", "150")
    monkeypatch.setenv("BILLING_CURRENCY", "JPY")
    run = open_run(chargeonce, "--json").document["run"]
    assert (run["cap_cents"], run["cap"], run["currency"]) == (3000, "3,000 JPY", "jpy")


def test_the_command_line_decides_before_the_settings(
    chargeonce: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLING_EXPECTED_TOTAL_CENTS", "2000")
    options = ("--expected-cents", "500", "--cap-cents", "700", "--currency", "EUR", "--json")
    run = open_run(chargeonce, *options).document["run"]
    assert (run["expected_cents"], run["cap_cents"], run["currency"]) == (500, 700, "eur")


def test_nothing_is_guessed(chargeonce: CommandLine) -> None:
    ran = open_run(chargeonce)
    assert ran.code == ExitCode.SETTINGS
    assert "--expected-cents" in ran.stderr
    assert "BILLING_EXPECTED_TOTAL_CENTS" in ran.stderr


@pytest.mark.parametrize("amount", ["0", "-5", "1.5", "1e3", "٣", "9" * 5000, ""])
def test_an_amount_is_a_whole_number(without_database: CommandLine, amount: str) -> None:
    assert open_run(without_database, f"--expected-cents={amount}").code == ExitCode.USAGE


def test_a_run_that_is_open_already(chargeonce: CommandLine) -> None:
    open_run(chargeonce, "--expected-cents", "1000")
    same = open_run(chargeonce, "--expected-cents", "1000", "--json")
    assert (same.code, same.document["opened"]) == (ExitCode.OK, False)
    assert same.document["message"] == f"run {PERIOD} is already open"
    other = open_run(chargeonce, "--expected-cents", "5000", "--json")
    assert other.code == ExitCode.OK
    assert other.document["message"].endswith("with another cap than 55.00 USD")
    assert other.document["run"]["cap_cents"] == 1100


def test_a_run_in_another_currency_is_not_as_asked(chargeonce: CommandLine) -> None:
    open_run(chargeonce, "--expected-cents", "1000")
    ran = open_run(chargeonce, "--expected-cents", "1000", "--currency", "eur")
    assert ran.code == ExitCode.FAILED
    assert "in USD, not in EUR" in ran.stderr


def test_a_closed_run_is_not_as_asked(chargeonce: CommandLine) -> None:
    open_run(chargeonce, "--expected-cents", "1000")
    chargeonce("run", "close", *OF_PERIOD, "--reason", "books are done")
    ran = open_run(chargeonce, "--expected-cents", "1000")
    assert ran.code == ExitCode.FAILED
    assert "books are done" in ran.stderr


@pytest.mark.parametrize("command", ["show", "close", "reopen", "raise-cap --cap-cents 5"])
def test_there_is_no_such_run(chargeonce: CommandLine, command: str) -> None:
    ran = chargeonce("run", *command.split(), *OF_PERIOD, "--json")
    assert ran.code == ExitCode.FAILED
    assert "there is no run" in ran.document["error"]["message"]


def test_close_and_close_again(chargeonce: CommandLine) -> None:
    open_run(chargeonce, "--expected-cents", "1000")
    first = chargeonce("run", "close", *OF_PERIOD, "--reason", "one", "--json")
    assert (first.code, first.document["closed"]) == (ExitCode.OK, True)
    again = chargeonce("run", "close", *OF_PERIOD, "--reason", "two", "--json")
    assert (again.code, again.document["closed"]) == (ExitCode.OK, False)
    assert again.document["run"]["closed_reason"] == "one"


def test_close_by_mistake_and_reopen(chargeonce: CommandLine, store: PostgresStore) -> None:
    open_run(chargeonce, "--expected-cents", "1000")
    chargeonce("run", "close", *OF_PERIOD)
    planned = chargeonce("run", "reopen", *OF_PERIOD, "--dry-run", "--json")
    assert "would reopen" in planned.document["message"]
    assert planned.document["run"]["state"] == "closed"
    first = chargeonce("run", "reopen", *OF_PERIOD, "--json")
    assert (first.code, first.document["reopened"]) == (ExitCode.OK, True)
    again = chargeonce("run", "reopen", *OF_PERIOD, "--json")
    assert (again.code, again.document["reopened"]) == (ExitCode.OK, False)
    assert again.document["run"]["state"] == "open"


@pytest.mark.parametrize("reason", ["", "x" * 201, "two\nlines", "\x1b[31m"])
def test_a_reason_is_one_line(without_database: CommandLine, reason: str) -> None:
    ran = without_database("run", "close", *OF_PERIOD, f"--reason={reason}")
    assert ran.code == ExitCode.USAGE


def test_a_cap_is_raised_never_lowered(chargeonce: CommandLine) -> None:
    open_run(chargeonce, "--expected-cents", "1000")
    raised = chargeonce("run", "raise-cap", *OF_PERIOD, "--cap-cents", "2000", "--json")
    assert (raised.code, raised.document["raised"]) == (ExitCode.OK, True)
    assert raised.document["run"]["cap_cents"] == 2000
    again = chargeonce("run", "raise-cap", *OF_PERIOD, "--cap-cents", "2000", "--json")
    assert (again.code, again.document["raised"]) == (ExitCode.OK, False)
    lowered = chargeonce("run", "raise-cap", *OF_PERIOD, "--cap-cents", "1999")
    assert lowered.code == ExitCode.FAILED
    assert "would lower it" in lowered.stderr


def test_raising_the_cap_reopens_a_run_that_passed_it(
    chargeonce: CommandLine, store: PostgresStore
) -> None:
    """Proof of a charge comes after its record was declined and its room was given away."""
    store.open_run(PERIOD, "usd", 5000, 5000)
    late = claim(store, "late", amount_cents=5000)
    end(store, late, State.DECLINED, "card_declined")
    end(store, claim(store, "other", amount_cents=5000), State.CHARGED)
    end(store, late, State.CHARGED)
    shown = chargeonce("run", "show", *OF_PERIOD)
    assert "closed (over_cap)" in shown.stdout
    assert "200.0 % of the cap (over it)" in shown.stdout
    reopened = chargeonce("run", "reopen", *OF_PERIOD)
    assert reopened.code == ExitCode.FAILED
    assert "raise the cap" in reopened.stderr
    raised = chargeonce("run", "raise-cap", *OF_PERIOD, "--cap-cents", "20000", "--json")
    assert raised.document["message"].endswith("and reopened it")
    assert raised.document["run"]["state"] == "open"


def test_a_dry_run_changes_nothing(chargeonce: CommandLine, store: PostgresStore) -> None:
    planned = open_run(chargeonce, "--expected-cents", "1000", "--dry-run", "--json")
    assert planned.code == ExitCode.OK
    assert "would open" in planned.document["message"]
    assert store.get_run(PERIOD) is None
    open_run(chargeonce, "--expected-cents", "1000")
    before = store.get_run(PERIOD)
    close = chargeonce("run", "close", *OF_PERIOD, "--dry-run", "--json")
    raised = chargeonce("run", "raise-cap", *OF_PERIOD, "--cap-cents", "9999", "--dry-run")
    assert "would close" in close.document["message"]
    assert "would raise" in raised.stdout
    assert store.get_run(PERIOD) == before


def test_people_see_the_spend(chargeonce: CommandLine, store: PostgresStore) -> None:
    open_run(chargeonce, "--expected-cents", "10000", "--cap-cents", "10000")
    end(store, claim(store, "charged", amount_cents=5000), State.CHARGED)
    claim(store, "held", amount_cents=2500)
    shown = chargeonce("run", "show", *OF_PERIOD).stdout
    assert "█" * 20 + "▒" * 10 + "░" * 10 + " 75.0 % of the cap" in shown
    assert "50.00 USD" in shown
