"""`chargeonce rebuild`: told or not, it waits, reads Stripe's lists, and says what it found."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from local.stripe_simulator import CustomerSeed, RunningSimulator, serve_in_thread
from ops.exit_codes import ExitCode
from ops.rebuild import _wait
from shared.biller import Biller
from shared.clock import SystemClock
from shared.outcome import Outcome
from shared.ports import Delivery, Envelope
from shared.record import RecordId, State
from shared.settings import read_settings
from shared.store.postgres import PostgresStore
from shared.wiring import build_payments
from tests.cli.conftest import PERIOD, CommandLine
from tests.support.bench import RecordedSettlement
from tests.support.losing import LosableDatabase


@pytest.fixture(scope="module")
def simulator() -> Iterator[RunningSimulator]:
    """A simulated Stripe."""
    with serve_in_thread() as running:
        yield running


@pytest.fixture
def database(migrated_database_url: str) -> LosableDatabase:
    """The command line's database."""
    return LosableDatabase(migrated_database_url)


@pytest.fixture
def lost(
    chargeonce: CommandLine,
    store: PostgresStore,
    simulator: RunningSimulator,
    database: LosableDatabase,
    monkeypatch: pytest.MonkeyPatch,
) -> CommandLine:
    """The command line of a deployment that has just lost the record of a charge."""
    simulator.control.reset()
    simulator.control.seed_customers(CustomerSeed(ids=["cus_acme"], payment_method="pm_card_visa"))
    monkeypatch.setenv("STRIPE_API_KEY", "rk_test_deployed")
    monkeypatch.setenv("STRIPE_API_BASE", simulator.base_url)
    monkeypatch.setenv("BILLING_KEY_NAMESPACE", "usage-billing")
    store.open_run(PERIOD, "usd", 100_000, 100_000)
    database.back_up()
    deliver(store)
    # While the command waits, an hour passes.
    monkeypatch.setattr("ops.rebuild._wait", lambda *_, **__: database.let_requests_end())
    return chargeonce


def deliver(store: PostgresStore) -> None:
    """Charge the usual customer, as the deployment does."""
    event = {
        "customer_id": "acme",
        "billing_period": PERIOD,
        "stripe_customer_id": "cus_acme",
        "amount_cents": 5000,
    }
    settings = read_settings()
    with closing(build_payments(settings)) as payments:
        biller = Biller(store, payments, SystemClock(), settings.rules)
        delivery = Delivery(json.dumps(event).encode(), Envelope("pubsub-push", "message-1", 1))
        assert biller.handle(delivery, RecordedSettlement()) is Outcome.CHARGED


def state_of(store: PostgresStore) -> State | None:
    """What the record says, if there is one."""
    record = store.get_record(RecordId("acme", PERIOD))
    return record.state if record else None


def test_nothing_to_rebuild(lost: CommandLine) -> None:
    ran = lost("rebuild", "--json")
    assert ran.code == ExitCode.OK
    assert ran.document == {
        "state": "whole",
        "since": None,
        "adoptions": {},
        "unreadable": [],
        "dry_run": False,
    }
    assert "nothing to rebuild" in lost("rebuild").stdout


def test_a_loss_that_the_server_shows(
    lost: CommandLine, store: PostgresStore, database: LosableDatabase
) -> None:
    database.lose_commits()
    ran = lost("rebuild", "--json")
    assert (ran.code, ran.document["state"]) == (ExitCode.OK, "whole")
    assert ran.document["adoptions"] == {"restored": 1}
    assert state_of(store) is State.CHARGED


def test_a_loss_that_is_told(
    lost: CommandLine, store: PostgresStore, database: LosableDatabase
) -> None:
    """Goal: people see what came of it, and the exit code says that all is well."""
    database.lose_commits(keep_timeline=True)
    assert lost("rebuild", "--json").document["since"] is None
    ran = lost("rebuild", "--since", "3h")
    assert ran.code == ExitCode.OK
    assert ["restored", "1"] in [line.split() for line in ran.stdout.splitlines()]
    assert "whole again" in ran.stdout
    assert state_of(store) is State.CHARGED


def test_a_dry_run_changes_nothing(
    lost: CommandLine, store: PostgresStore, database: LosableDatabase
) -> None:
    database.lose_commits(keep_timeline=True)
    since = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M")
    ran = lost("rebuild", "--since", since, "--dry-run", "--json")
    assert ran.code == ExitCode.OK
    assert ran.document["adoptions"] == {"restored": 1}
    assert ran.document["dry_run"] is True
    assert state_of(store) is None
    assert lost("rebuild", "--json").document["since"] is None
    assert "Nothing was changed." in lost("rebuild", "--since", since, "--dry-run").stdout


def test_a_dry_run_must_know_how_far_back(lost: CommandLine) -> None:
    ran = lost("rebuild", "--dry-run", "--json")
    assert ran.code == ExitCode.FAILED
    assert "--since" in ran.document["error"]["message"]


def test_a_customer_who_paid_twice_is_no_success(
    lost: CommandLine, store: PostgresStore, database: LosableDatabase
) -> None:
    """Goal: a script that runs it notices."""
    database.lose_commits()
    lost("rebuild")
    database.execute("UPDATE chargeonce.records SET payment_id = 'pi_another'")
    ran = lost("rebuild", "--since", "3h", "--json")
    assert ran.document["adoptions"] == {"second_payment": 1}
    assert (ran.code, ran.document["state"]) == (ExitCode.FAILED, "whole")
    assert state_of(store) is State.CHARGED


def test_stripe_away_leaves_it_suspended(
    lost: CommandLine, database: LosableDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.lose_commits()
    monkeypatch.setenv("STRIPE_API_BASE", "http://127.0.0.1:1")
    ran = lost("rebuild", "--json")
    assert ran.code == ExitCode.STRIPE
    assert "Stripe" in ran.document["error"]["message"]


def test_reconcile_says_that_the_database_is_suspended(
    lost: CommandLine, store: PostgresStore, database: LosableDatabase
) -> None:
    """Goal: it begins the rebuild too; who runs it again a little later finds it done."""
    database.lose_commits()
    ran = lost("reconcile", "--json")
    assert (ran.code, ran.document["suspended"]) == (ExitCode.FAILED, True)
    assert "chargeonce rebuild" in lost("reconcile").stdout
    database.let_requests_end()
    assert lost("reconcile").code == ExitCode.OK
    assert state_of(store) is State.CHARGED


def test_the_wait_is_as_long_as_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("ops.rebuild.time.sleep", slept.append)
    _wait(2.5, is_shown=False)
    assert 2.5 <= sum(slept) <= 3.5


@pytest.mark.parametrize("text", ["yesterday", "3w", "-1h", "2026-13-01", ""])
def test_a_moment_that_is_none(lost: CommandLine, text: str) -> None:
    ran = lost("rebuild", "--since", text)
    assert ran.code == ExitCode.USAGE
