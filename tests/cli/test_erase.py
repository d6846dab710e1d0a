"""`chargeonce erase`: personal data goes, the charge and its proof stay."""

from collections.abc import Callable

from local.stripe_simulator import CustomerSeed, RunningSimulator
from ops.exit_codes import ExitCode
from shared.outcome import Outcome
from shared.record import RecordId
from shared.store.postgres import PostgresStore
from tests.cli.conftest import PERIOD, CommandLine, claim

ACME = ("erase", "--customer", "acme")


def test_an_erased_customer_is_not_charged_again(
    deployed: CommandLine,
    deliver: Callable[..., Outcome],
    simulator: RunningSimulator,
    store: PostgresStore,
) -> None:
    simulator.control.seed_customers(CustomerSeed(ids=["cus_acme"], payment_method="pm_card_visa"))
    assert deliver(description="for Erika") is Outcome.CHARGED
    planned = deployed(*ACME, "--dry-run")
    assert planned.code == ExitCode.OK
    assert "would erase" in planned.stdout
    ran = deployed(*ACME, "--json")
    assert (ran.code, ran.document["periods"]) == (ExitCode.OK, [PERIOD])
    record = store.get_record(RecordId("acme", PERIOD))
    assert record is not None
    assert record.create_parameters == {}
    for attempt in (1, 2):
        assert deliver(description="for Erika", attempt=attempt) is Outcome.CHARGED
    assert len(simulator.control.ledger()) == 1
    shown = deployed("show", "--customer", "acme", "--period", PERIOD, "--json").document
    assert shown["record"]["payment_id"] == record.payment_id


def test_while_a_charge_is_under_way(deployed: CommandLine, store: PostgresStore) -> None:
    before = claim(store)
    ran = deployed(*ACME, "--json")
    assert ran.code == ExitCode.FAILED
    assert f"{PERIOD}: the record is not at its end" in ran.document["error"]["message"]
    assert store.get_record(RecordId("acme", PERIOD)) == before


def test_strangers_and_help(deployed: CommandLine) -> None:
    assert "Nothing is kept" in deployed(*ACME).stdout
    assert "chargeonce erase --customer acme" in deployed("erase", "--help").stdout
    assert deployed("erase").code == ExitCode.USAGE
