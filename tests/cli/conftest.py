"""Fixtures of the command line's tests."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from local.stripe_simulator import RunningSimulator, serve_in_thread
from ops.__main__ import main
from shared.biller import Biller
from shared.clock import SystemClock
from shared.event import UsageEvent
from shared.outcome import Outcome
from shared.ports import ClaimRequest, Delivery, Ending, Envelope, Note, Release
from shared.record import Flow, Record, State
from shared.retrying import NoMessage
from shared.settings import read_settings
from shared.store.postgres import PostgresStore
from shared.stripe_requests import create_parameters
from shared.wiring import build_payments

PERIOD = "2026-11"
SETTING_PREFIXES = (
    "BILLING_",
    "CHARGE_",
    "CLAIM_",
    "DATABASE_",
    "GOOGLE_CLOUD_",
    "PUBSUB_",
    "SCHEDULER_",
    "STRIPE_",
    "ServiceBus",
    "VAULT_",
    "KEYBRAKE_",
)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended, and what it printed."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """Standard output, which must be one JSON object and nothing else."""
        document = json.loads(self.stdout)
        assert isinstance(document, dict)
        return document


class CommandLine:
    """Runs `chargeonce` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Ran:
        self._capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Ran(code, *self._capsys.readouterr())


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which nothing is set."""
    for name in os.environ:
        if name.startswith(SETTING_PREFIXES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def without_database(capsys: pytest.CaptureFixture[str], no_settings: None) -> CommandLine:
    """The command line where no setting is set."""
    return CommandLine(capsys)


@pytest.fixture
def chargeonce(
    migrated_database_url: str, monkeypatch: pytest.MonkeyPatch, without_database: CommandLine
) -> CommandLine:
    """The command line over a migrated database of its own."""
    monkeypatch.setenv("DATABASE_URL", migrated_database_url)
    return without_database


@pytest.fixture
def store(migrated_database_url: str) -> Iterator[PostgresStore]:
    """The records of that database."""
    with closing(PostgresStore(migrated_database_url, pool_size=1)) as store:
        yield store


@pytest.fixture(scope="session")
def simulator() -> Iterator[RunningSimulator]:
    """A simulated Stripe."""
    with serve_in_thread() as running:
        yield running


@pytest.fixture
def deployed(
    chargeonce: CommandLine,
    store: PostgresStore,
    simulator: RunningSimulator,
    monkeypatch: pytest.MonkeyPatch,
) -> CommandLine:
    """The command line with a deployment's settings, and an open run."""
    simulator.control.reset()
    store.open_run(PERIOD, "usd", 100_000, 100_000)
    monkeypatch.setenv("STRIPE_API_KEY", "rk_test_deployed")
    monkeypatch.setenv("STRIPE_API_BASE", simulator.base_url)
    return chargeonce


@pytest.fixture
def deliver(
    deployed: CommandLine, store: PostgresStore, simulator: RunningSimulator
) -> Iterator[Callable[..., Outcome]]:
    """Bills usage events, as the functions of that deployment do."""
    settings = read_settings()
    with closing(build_payments(settings)) as payments:

        def deliver(customer_id: str = "acme", **fields: Any) -> Outcome:
            event = {
                "customer_id": customer_id,
                "billing_period": PERIOD,
                "stripe_customer_id": f"cus_{customer_id}",
                "amount_cents": 5000,
                **fields,
            }
            biller = Biller(store, payments, SystemClock(), settings.rules)
            delivery = Delivery(json.dumps(event).encode(), Envelope("pubsub-push", "message-1", 1))
            return biller.handle(delivery, NoMessage())

        yield deliver


def claim(
    store: PostgresStore,
    customer_id: str = "acme",
    *,
    amount_cents: int = 5000,
    currency: str = "usd",
    message_id: str = "message-1",
    require_run: bool = True,
) -> Record:
    """Make a record in progress."""
    event = UsageEvent(customer_id, PERIOD, f"cus_{customer_id}", amount_cents, currency)
    key = f"key-of-{customer_id}"
    request = ClaimRequest(
        key=key,
        event=event,
        body=b"{}",
        envelope=Envelope("pubsub-push", message_id, 1),
        flow=Flow.PAYMENT_INTENT,
        create_parameters=create_parameters(event, key, Flow.PAYMENT_INTENT),
        require_run=require_run,
        lease_seconds=60,
        token="00000000-0000-4000-8000-000000000001",
    )
    record = store.claim(request).record
    assert record is not None
    return record


def end(store: PostgresStore, record: Record, state: State, code: str | None = None) -> None:
    """End a record in a state."""
    payment_id = f"pi_{record.customer_id}" if state is State.CHARGED else None
    note = Note(Envelope("pubsub-push", "message-1", 1), state, code, "req_1")
    store.finish(record, Ending(state, payment_id, code), note, None)


def doubt(store: PostgresStore, record: Record, due_in_seconds: float = 0) -> None:
    """Leave a record in doubt."""
    note = Note(Envelope("pubsub-push", "message-1", 1), "in_doubt", "read_timeout")
    store.release(record.lease, Release(True, False, "read_timeout", due_in_seconds), note, None)
