"""`chargeonce reconcile`: drives what is due to its end at Stripe, and says what came of it."""

import pytest

from local.stripe_simulator import CustomerSeed, RunningSimulator
from ops.exit_codes import ExitCode
from shared.record import RecordId, State
from shared.store.postgres import PostgresStore
from tests.cli.conftest import PERIOD, CommandLine, claim, doubt


def test_nothing_is_due(deployed: CommandLine) -> None:
    assert deployed("reconcile", "--json").document == {
        "looked_at": 0,
        "outcomes": {},
        "suspended": False,
        "dry_run": False,
    }
    assert "Nothing was due." in deployed("reconcile").stdout
    assert "Nothing is due." in deployed("reconcile", "--dry-run").stdout


def test_what_is_due_is_finished(
    deployed: CommandLine, store: PostgresStore, simulator: RunningSimulator
) -> None:
    """A record whose message is gone is charged; one whose pause is not over is left."""
    simulator.control.seed_customers(CustomerSeed(ids=["cus_due"], payment_method="pm_card_visa"))
    doubt(store, claim(store, "due"))
    doubt(store, claim(store, "resting"), due_in_seconds=3600)
    listed = deployed("reconcile", "--dry-run", "--json").document
    assert listed == {
        "due": [{"customer_id": "due", "billing_period": PERIOD}],
        "dry_run": True,
    }
    assert simulator.control.ledger() == []
    ran = deployed("reconcile", "--json")
    assert ran.code == ExitCode.OK
    assert ran.document == {
        "looked_at": 1,
        "outcomes": {"charged": 1},
        "suspended": False,
        "dry_run": False,
    }
    record = store.get_record(RecordId("due", PERIOD))
    assert record is not None
    assert record.state is State.CHARGED
    assert [entry.customer for entry in simulator.control.ledger()] == ["cus_due"]


def test_no_more_than_the_limit(deployed: CommandLine, store: PostgresStore) -> None:
    for number in range(3):
        doubt(store, claim(store, f"customer-{number}"))
    assert len(deployed("reconcile", "--dry-run", "--limit", "2", "--json").document["due"]) == 2
    assert deployed("reconcile", "--limit", "1", "--json").document["looked_at"] == 1


def test_people_see_a_table_and_warnings_beside_it(
    deployed: CommandLine, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown Stripe customer is rejected; a secret key works, with a warning."""
    monkeypatch.setenv("STRIPE_API_KEY", "sk_test_hunter2")
    doubt(store, claim(store))
    ran = deployed("reconcile")
    assert ran.code == ExitCode.OK
    assert ["rejected", "1"] in [line.split() for line in ran.stdout.splitlines()]
    assert "STRIPE_API_KEY is a secret key" in ran.stderr
    assert "hunter2" not in ran.stdout + ran.stderr
