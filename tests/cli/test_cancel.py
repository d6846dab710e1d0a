"""`chargeonce cancel`: closes a record before any money moved, or says why not."""

from collections.abc import Callable

from local.stripe_simulator import CustomerSeed, RunningSimulator
from ops.exit_codes import ExitCode
from shared.outcome import Outcome
from shared.record import RecordId, State
from shared.store.postgres import PostgresStore
from tests.cli.conftest import PERIOD, CommandLine, claim, doubt

ACME = ("cancel", "--customer", "acme", "--period", PERIOD)


def test_a_record_is_closed(deployed: CommandLine, store: PostgresStore) -> None:
    """Goal: a dry run changes nothing; canceling twice is no error."""
    doubt(store, claim(store))
    planned = deployed(*ACME, "--dry-run", "--json")
    assert planned.code == ExitCode.OK
    assert (planned.document["verdict"], planned.document["canceled"]) == ("canceled", False)
    assert "if Stripe proves it" in planned.document["message"]
    record = store.get_record(RecordId("acme", PERIOD))
    assert record is not None
    assert record.state is State.IN_DOUBT
    ran = deployed(*ACME, "--json")
    assert ran.code == ExitCode.OK
    assert (ran.document["verdict"], ran.document["canceled"]) == ("canceled", True)
    assert ran.document["record"]["state"] == "canceled"
    run = store.get_run(PERIOD)
    assert run is not None
    assert run.held_cents == 0
    again = deployed(*ACME)
    assert again.code == ExitCode.OK
    assert "already_canceled" in again.stdout


def test_what_cannot_be_closed(
    deployed: CommandLine,
    deliver: Callable[..., Outcome],
    simulator: RunningSimulator,
    store: PostgresStore,
) -> None:
    """Goal: each exits with 1 and says what to do."""
    nothing = deployed(*ACME, "--json")
    assert (nothing.code, nothing.document["verdict"]) == (ExitCode.FAILED, "no_record")
    assert nothing.document["record"] is None
    simulator.control.seed_customers(CustomerSeed(ids=["cus_acme"], payment_method="pm_card_visa"))
    assert deliver() is Outcome.CHARGED
    charged = deployed(*ACME, "--json")
    assert (charged.code, charged.document["verdict"]) == (ExitCode.FAILED, "charged")
    assert "refund it at Stripe" in charged.document["message"]
    claim(store, "busy")
    busy = deployed("cancel", "--customer", "busy", "--period", PERIOD)
    assert busy.code == ExitCode.FAILED
    assert "at work on it" in busy.stdout


def test_help_and_settings(without_database: CommandLine) -> None:
    assert "chargeonce cancel --customer acme" in without_database("cancel", "--help").stdout
    assert without_database("cancel", "--customer", "a").code == ExitCode.USAGE
    assert without_database(*ACME).code == ExitCode.SETTINGS
