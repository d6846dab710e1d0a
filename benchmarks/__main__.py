"""`python -m benchmarks`: what the records cost beside the plainest thing that PostgreSQL can do,
what the spend-cap proxy costs, and what a cold start does.

The yardstick is a claim and a completion without any safety: one INSERT and one UPDATE, each
autocommitted, over one open connection. Exits with 1 when a ratio is worse than its bound.
"""

import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import psycopg

from benchmarks import cold_start, vault
from local.postgres import database_server
from shared.event import UsageEvent
from shared.ports import ClaimRequest, Ending, Envelope, Note
from shared.record import Flow, State
from shared.store.migrations import migrate
from shared.store.postgres import PostgresStore

ROUNDS = 1000
PERIOD = "2026-11"
ENVELOPE = Envelope("benchmark", "message", 1)


@dataclass(frozen=True, eq=False)
class Timing:
    """How long one kind of operation took, many times over."""

    name: str
    seconds: list[float]

    @property
    def median_milliseconds(self) -> float:
        """The middle one."""
        return median(self.seconds) * 1000

    @property
    def per_second(self) -> float:
        """How many fit into a second, one after the other."""
        return len(self.seconds) / sum(self.seconds)


def measure(name: str, operation: Callable[[int], None]) -> Timing:
    """Run an operation `ROUNDS` times."""
    seconds = []
    for number in range(ROUNDS):
        started = time.perf_counter()
        operation(number)
        seconds.append(time.perf_counter() - started)
    return Timing(name, seconds)


def bare(connection: psycopg.Connection) -> Callable[[int], None]:
    """An INSERT and an UPDATE without any safety."""
    connection.execute(
        "CREATE TABLE bare (customer_id text, billing_period text, state text,"
        " PRIMARY KEY (customer_id, billing_period))"
    )

    def claim_and_complete(number: int) -> None:
        key = [f"customer-{number}", PERIOD]
        connection.execute("INSERT INTO bare VALUES (%s, %s, 'in_progress')", key)
        connection.execute(
            "UPDATE bare SET state = 'charged' WHERE customer_id = %s AND billing_period = %s", key
        )

    return claim_and_complete


def request_for(number: int) -> ClaimRequest:
    """The claim of one customer."""
    event = UsageEvent(f"customer-{number}", PERIOD, "cus_1", 100, "usd")
    return ClaimRequest(
        f"key-{number}",
        event,
        b"{}",
        ENVELOPE,
        Flow.PAYMENT_INTENT,
        {"amount": "100"},
        require_run=True,
        lease_seconds=180,
        token=str(uuid.uuid4()),
    )


def safe(store: PostgresStore) -> Callable[[int], None]:
    """A claim with its hold and an ending with its money, as the core does them."""

    def claim_and_finish(number: int) -> None:
        record = store.claim(request_for(number)).record
        assert record is not None
        ending = Ending(State.CHARGED, f"pi_{number}")
        assert store.finish(record, ending, Note(ENVELOPE, "charged"), None).written

    return claim_and_finish


def duplicate(store: PostgresStore) -> Callable[[int], None]:
    """A delivery of what is already charged."""

    def claim(number: int) -> None:
        store.claim(request_for(number))

    return claim


def main() -> int:
    """Run every benchmark; see `benchmarks.cold_start` and `benchmarks.vault` for the others."""
    return max(cold_start.main(), measure_records(), vault.main())


def measure_records() -> int:
    """Measure, print, judge."""
    with database_server() as server:
        url = server.create_database()
        migrate(url)
        store = PostgresStore(url, pool_size=1)
        store.open_run(PERIOD, "usd", 10**9, 10**9)
        with psycopg.connect(url, autocommit=True) as connection:
            yardstick = measure("bare insert and update", bare(connection))
        charged = measure("claim and finish", safe(store))
        repeated = measure("duplicate of a finished charge", duplicate(store))
        store.close()
    bounds = {charged: 4.0, repeated: 2.0}
    slow = []
    for timing in (yardstick, charged, repeated):
        ratio = timing.median_milliseconds / yardstick.median_milliseconds
        print(
            f"{timing.name:32}{timing.per_second:8.0f}/s"
            f"{timing.median_milliseconds:9.2f} ms median{ratio:7.2f} x bare"
        )
        if timing in bounds and ratio > bounds[timing]:
            slow.append(f"{timing.name} takes more than {bounds[timing]} times the bare statements")
    print("\n".join(slow))
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
