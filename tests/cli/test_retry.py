"""`chargeonce retry`: declined and rejected records get another attempt, one or many."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from local.stripe_simulator import CustomerSeed, Fault, FaultKind, Match, RunningSimulator
from ops.exit_codes import ExitCode
from shared.outcome import Outcome
from shared.record import RecordId, State
from shared.store.postgres import PostgresStore
from tests.cli.conftest import PERIOD, CommandLine, claim

ROOT = Path(__file__).resolve().parents[2]
CUSTOMERS = ("acme", "bolt", "cord")
CONFIRM = "/v1/payment_intents/*/confirm"


@pytest.fixture
def declined(
    deployed: CommandLine, deliver: Callable[..., Outcome], simulator: RunningSimulator
) -> CommandLine:
    """Three customers who were declined and would pay now; the last for a reason of its own."""
    control = simulator.control
    ids = [f"cus_{customer}" for customer in CUSTOMERS]
    control.seed_customers(CustomerSeed(ids=ids, payment_method="pm_card_visa"))
    codes = ("insufficient_funds", "insufficient_funds", "expired_card")
    for customer, code in zip(CUSTOMERS, codes, strict=True):
        match = Match(path=CONFIRM, count=1)
        control.add_fault(Fault(FaultKind.DECLINE, match, code=code))
        assert deliver(customer) is Outcome.DECLINED
    return deployed


def charged_customers(simulator: RunningSimulator) -> list[str]:
    """Whose money moved, in order."""
    return sorted(entry.customer or "" for entry in simulator.control.ledger())


def test_one_customer(declined: CommandLine, simulator: RunningSimulator) -> None:
    """Goal: a dry run says what would be tried; trying again once it is charged is refused."""
    one = ("retry", "--customer", "acme", "--period", PERIOD)
    planned = declined(*one, "--dry-run", "--json")
    assert planned.code == ExitCode.OK
    assert planned.document["verdicts"] == {"would_retry": 1}
    assert planned.document["records"][0]["message"] == "as attempt 2"
    assert charged_customers(simulator) == []
    ran = declined(*one, "--payment-method", "pm_card_mastercard", "--json")
    assert ran.code == ExitCode.OK
    (record,) = ran.document["records"]
    assert (record["verdict"], record["state"], record["attempt"]) == ("charged", "charged", 2)
    assert charged_customers(simulator) == ["cus_acme"]
    again = declined(*one)
    assert again.code == ExitCode.FAILED
    assert "it is charged" in again.stdout
    assert charged_customers(simulator) == ["cus_acme"]


def test_all_that_failed_for_a_reason(declined: CommandLine, simulator: RunningSimulator) -> None:
    many = ("retry", "--period", PERIOD, "--code", "insufficient_funds")
    assert declined(*many, "--limit", "1", "--dry-run", "--json").document["looked_at"] == 1
    ran = declined(*many)
    assert ran.code == ExitCode.OK
    assert ["charged", "2"] in [line.split() for line in ran.stdout.splitlines()]
    assert charged_customers(simulator) == ["cus_acme", "cus_bolt"]
    assert "No record failed for that reason." in declined(*many).stdout
    both = declined(*many, "--code", "expired_card", "--json")
    assert both.document["verdicts"] == {"charged": 1}


def test_what_fails_again_is_tried_once(declined: CommandLine, simulator: RunningSimulator) -> None:
    """Goal: one attempt more for each, and an exit code that says that it was in vain."""
    match = Match(path=CONFIRM)
    simulator.control.add_fault(Fault(FaultKind.DECLINE, match, code="insufficient_funds"))
    ran = declined("retry", "--period", PERIOD, "--code", "insufficient_funds", "--json")
    assert ran.code == ExitCode.FAILED
    assert ran.document["verdicts"] == {"declined": 2}
    assert [record["attempt"] for record in ran.document["records"]] == [2, 2]
    assert charged_customers(simulator) == []


def test_two_operators_at_once(
    declined: CommandLine, simulator: RunningSimulator, store: PostgresStore
) -> None:
    """Goal: two processes try the same records at the same time; each is charged once."""
    command = [sys.executable, "-m", "ops", "retry", "--period", PERIOD, "--json"]
    codes = ["--code", "insufficient_funds", "--code", "expired_card"]
    match = Match(path=CONFIRM)
    simulator.control.add_fault(Fault(FaultKind.DELAY, match, before_seconds=0.3))
    operators = [
        subprocess.Popen([*command, *codes], stdout=subprocess.PIPE, cwd=ROOT) for _ in range(2)
    ]
    for operator in operators:
        assert json.loads(operator.communicate(timeout=60)[0])["looked_at"] in range(4)
    assert charged_customers(simulator) == ["cus_acme", "cus_bolt", "cus_cord"]
    for customer in CUSTOMERS:
        record = store.get_record(RecordId(customer, PERIOD))
        assert record is not None
        assert (record.state, record.attempt) == (State.CHARGED, 2)


def test_an_unfinished_record_is_refused(deployed: CommandLine, store: PostgresStore) -> None:
    claim(store)
    ran = deployed("retry", "--customer", "acme", "--period", PERIOD, "--json")
    assert (ran.code, ran.document["verdicts"]) == (ExitCode.FAILED, {"unfinished": 1})
    record = store.get_record(RecordId("acme", PERIOD))
    assert record is not None
    assert (record.state, record.attempt) == (State.IN_PROGRESS, 1)


def test_wrong_command_lines(deployed: CommandLine) -> None:
    period = ("--period", PERIOD)
    assert deployed("retry", *period).code == ExitCode.FAILED
    both = deployed("retry", *period, "--customer", "acme", "--code", "x")
    assert "either --customer, or --code" in both.stderr
    method = ("--payment-method", "pm_1")
    assert "one customer" in deployed("retry", *period, "--code", "x", *method).stderr
    missing = deployed("retry", *period, "--customer", "acme", "--json")
    assert (missing.code, missing.document["error"]["kind"]) == (ExitCode.FAILED, "failed")
    bad = deployed("retry", *period, "--customer", "acme", "--payment-method", "tok_1")
    assert bad.code == ExitCode.USAGE
    assert "insufficient_funds --dry-run" in deployed("retry", "--help").stdout
