"""The timers over PostgreSQL: one run is opened, doubled firings are harmless, trouble is loud."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from shared.errors import RecordsUnavailable, RunError
from shared.outcome import Outcome
from shared.ports import DueRecord
from shared.record import RecordId
from shared.settings import Settings, read_settings
from shared.store.memory import MemoryStore
from shared.store.postgres import PostgresStore
from shared.store.timers import PostgresTimers
from shared.timers import LEASE_SECONDS, open_run_once, reconcile_once
from tests.support.bench import at_once
from tests.support.clock import ManualClock
from tests.support.servicebus import LogLines
from tests.support.store import PERIOD, claim_request

NOW = datetime(2026, 12, 1, 3, tzinfo=UTC)
NOWHERE = "postgresql://127.0.0.1:1/none"


@dataclass
class Clockwork:
    """The mint timer of one cloud.

    Args:
        url: of the database.
    """

    url: str

    def settings(self, **changes: str) -> Settings:
        """Settings that expect 1000 cents."""
        usual = {"STRIPE_API_KEY": "rk_test_x", "BILLING_EXPECTED_TOTAL_CENTS": "1000"}
        return read_settings({**usual, "DATABASE_URL": self.url, **changes})

    def fire(self, **changes: str) -> None:
        """Fire once."""
        timers, store = PostgresTimers(self.url), PostgresStore(self.url, 1)
        try:
            open_run_once(timers, timers, store, self.settings(**changes), NOW)
        finally:
            store.close()

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Ask the database."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def runs(self) -> list[tuple[Any, ...]]:
        """The runs."""
        return self.execute(
            "SELECT billing_period, currency, expected_cents, cap_cents FROM chargeonce.runs"
        )

    def let_lease_run_out(self) -> None:
        """Move the leases into the past."""
        self.execute("UPDATE chargeonce.timers SET lease_until = now()")


@pytest.fixture
def clockwork(migrated_database_url: str) -> Clockwork:
    """A timer over an empty database."""
    return Clockwork(migrated_database_url)


def sql(statement: str) -> dict[str, str]:
    """Settings that ask the database what to expect."""
    return {"BILLING_EXPECTED_TOTAL_CENTS": "", "BILLING_EXPECTED_TOTAL_SQL": statement}


def test_run_of_the_period_before_is_opened(clockwork: Clockwork) -> None:
    """Goal: on the first of December, November's run, with its cap rounded up."""
    clockwork.fire(BILLING_EXPECTED_TOTAL_CENTS="1001", BILLING_CURRENCY="eur")
    assert clockwork.runs() == [("2026-11", "eur", 1001, 1102)]


def test_doubled_firings_open_one_run_and_run_once(clockwork: Clockwork) -> None:
    """Goal: both clouds fire at the same moment; one of them does the work."""
    timers = PostgresTimers(clockwork.url)
    taken: list[bool] = []
    at_once(*[lambda: taken.append(timers.take_timer_lease("mint", LEASE_SECONDS))] * 6)
    assert sorted(taken) == [False] * 5 + [True]
    at_once(*[clockwork.fire] * 4)
    assert len(clockwork.runs()) == 1


def test_late_firing_changes_nothing(clockwork: Clockwork) -> None:
    """Goal: a run that exists stays as it is, whatever is expected by now."""
    clockwork.fire()
    clockwork.let_lease_run_out()
    clockwork.fire(BILLING_EXPECTED_TOTAL_CENTS="9999")
    assert clockwork.runs() == [("2026-11", "usd", 1000, 1100)]


def test_statement_gets_the_period(clockwork: Clockwork) -> None:
    """Goal: the total may come from the operator's own tables."""
    clockwork.execute("CREATE TABLE usage (period text, cents bigint)")
    clockwork.execute("INSERT INTO usage VALUES ('2026-11', 700), ('2026-11', 1), ('2026-10', 5)")
    clockwork.fire(**sql("SELECT sum(cents) FROM usage WHERE period = $1 AND period LIKE '%'"))
    assert clockwork.runs() == [("2026-11", "usd", 701, 772)]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"BILLING_EXPECTED_TOTAL_CENTS": "0"}, "zero or missing"),
        ({"BILLING_EXPECTED_TOTAL_CENTS": ""}, "zero or missing"),
        (sql("SELECT NULL::bigint WHERE $1 <> ''"), "zero or missing"),
        (sql("SELECT -5 WHERE $1 <> ''"), "zero or missing"),
        (sql("SELECT 1.5 WHERE $1 <> ''"), "whole number"),
        (sql("SELECT true WHERE $1 <> ''"), "whole number"),
        (sql("SELECT $1"), "whole number"),
        (sql("SELECT 1, 2 WHERE $1 <> ''"), "one row of one column"),
        (sql("SELECT 1 WHERE $1 = ''"), "one row of one column"),
        (sql("SELECT hunter2 FROM $1"), "failed (42601)"),
        (sql("INSERT INTO chargeonce.timers VALUES ($1, now()) RETURNING 1"), "failed (25006)"),
        (sql("SELECT 1 WHERE $1 <> ''; DROP TABLE chargeonce.runs"), "failed (42601)"),
    ],
)
def test_without_a_usable_total_no_run_is_opened_and_it_is_loud(
    clockwork: Clockwork, changes: dict[str, str], problem: str
) -> None:
    """Goal: a cap that would be a guess is none; the statement can change nothing."""
    lines = LogLines()
    with lines.installed(), pytest.raises(RunError) as caught:
        clockwork.fire(**changes)
    assert problem in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert clockwork.runs() == []
    (line,) = [json.loads(line) for line in lines.lines]
    assert line["severity"] == "ERROR"
    assert problem in line["message"]


def test_statement_is_cut_off_at_its_time_limit(clockwork: Clockwork) -> None:
    """Goal: a slow report does not hold the timer up."""
    timers = PostgresTimers(clockwork.url)
    with pytest.raises(RunError, match="57014"):
        timers.expected_total_cents("SELECT 1 FROM pg_sleep(20) WHERE $1 <> ''", "2026-11", 0.2)


def test_without_runs_there_is_nothing_to_open(clockwork: Clockwork) -> None:
    """Goal: who bills without a cap is not alarmed every month."""
    clockwork.fire(BILLING_REQUIRE_RUN="false", BILLING_EXPECTED_TOTAL_CENTS="")
    assert clockwork.runs() == []


def test_database_that_is_away_is_said_to_be_away() -> None:
    """Goal: the invocation fails as what it is."""
    timers = PostgresTimers(NOWHERE)
    calls: list[Callable[[], object]] = [
        lambda: timers.take_timer_lease("one", LEASE_SECONDS),
        lambda: timers.expected_total_cents("SELECT $1", "2026-11", 1),
    ]
    for call in calls:
        with pytest.raises(RecordsUnavailable):
            call()


class SlowRecords:
    """Stands in for the database and the biller: any number of records, each a minute's work.

    Args:
        clock: moved on by each.
    """

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._store = MemoryStore(clock)
        self._store.open_run(PERIOD, "usd", 10**9, 10**9)
        self._is_free = True
        self.lease_seconds = 180.0
        self.quiet_seconds = 360.0
        self.retention_days = 0
        self.clock = clock
        self.records = self
        self.resumed: list[str] = []

    def begin_rebuild(self, told_since: datetime | None, margin_seconds: float) -> None:
        """See `Rebuilds`: the database is whole."""

    def doubted_creates(self, limit: int, quiet_seconds: float) -> list[Any]:
        """See `Orphanage`: none."""
        return []

    def take_runs_near_cap(self, percent: int) -> list[Any]:
        """See `RunsNearCap`: none."""
        return []

    def take_timer_lease(self, name: str, lease_seconds: float) -> bool:
        """See `Timers`: once."""
        is_free, self._is_free = self._is_free, False
        return is_free

    def take_due(self, lease_seconds: float) -> DueRecord:
        """See `Records`: there is always one more."""
        record = self._store.claim(claim_request(f"customer-{len(self.resumed)}")).record
        assert record is not None
        return DueRecord(record, lease_seconds)

    def take_kept(self, lease_seconds: float) -> None:
        """See `Records`: none."""

    def resume(self, record_id: RecordId) -> Outcome:
        """See `Biller`."""
        self.resumed.append(record_id.customer_id)
        self._clock.advance(60)
        return Outcome.CHARGED


def test_reconcile_runs_once_and_ends_in_time() -> None:
    """Goal: a doubled firing does nothing; a long one ends before its function is cut off."""
    clock = ManualClock()
    slow: Any = SlowRecords(clock)
    for _ in range(2):
        reconcile_once(slow, slow, slow)
    assert slow.resumed == ["customer-0", "customer-1"]
