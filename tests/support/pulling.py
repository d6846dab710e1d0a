"""Pub/Sub, Stripe and PostgreSQL on the desk, and workers that pull from it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Self
from unittest import mock

import psycopg
from google.cloud.pubsub_v1 import SubscriberClient
from google.pubsub_v1.types import ReceivedMessage

from gcp_function.dead_letters import PubsubDeadLetters
from gcp_function.pull import PullWorker
from local.pubsub_emulator import Event, EventFilter, EventKind, Outcome
from local.stripe_simulator import CustomerSeed, Fault, FaultKind, Match, RunningSimulator
from shared.biller import Biller
from shared.clock import SystemClock
from shared.settings import read_pull_settings
from shared.wiring import build_parts
from tests.pubsub_emulator.support import Cloud
from tests.support.malformed_bodies import event_body

PERIOD = "2026-11"
PERIOD_WITHOUT_RUN = "2026-12"
CAP_CENTS = 100_000_000
PATIENCE_SECONDS = 30.0
# Cloud Run waits for ten.
SHUTDOWN_SECONDS = 8.0

OURS = "gcp_function.pull"

_INHERITED = ("PATH", "HOME", "TMPDIR", "LANG", "PYTHONPYCACHEPREFIX")


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for something that happens by itself; fails if it does not."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Pubsub:
    """An emulator, and what leads Google's clients to it."""

    cloud: Cloud
    environment: Mapping[str, str]


class PullDesk:
    """One subscription with all that a worker talks to, and a look into all of it.

    Args:
        database_url: a migrated database.
        stripe: the Stripe that is charged.
        pubsub: the emulator.
        max_delivery_attempts: lets Pub/Sub count deliveries, and give a message up after so many.
        subscription_settings: further ones of the subscription.
    """

    def __init__(
        self,
        database_url: str,
        stripe: RunningSimulator,
        pubsub: Pubsub,
        max_delivery_attempts: int | None = None,
        **subscription_settings: Any,
    ) -> None:
        self.stripe = stripe.control
        self.stripe_url = stripe.base_url
        self.cloud = pubsub.cloud
        self.pubsub_environment = pubsub.environment
        self.database_url = database_url
        self.topic = self.cloud.topic()
        self.dead_letter_topic, self.dead_letter_subscription = self.cloud.topic_with_subscription()
        if max_delivery_attempts is not None:
            subscription_settings["dead_letter_policy"] = {
                "dead_letter_topic": self.dead_letter_topic,
                "max_delivery_attempts": max_delivery_attempts,
            }
        self.subscription = self.cloud.subscription(self.topic, **subscription_settings)
        self.environment = {
            **pubsub.environment,
            "DATABASE_URL": database_url,
            "STRIPE_API_KEY": "rk_test_hunter2",
            "STRIPE_API_BASE": stripe.base_url,
            "STRIPE_CONNECT_TIMEOUT_SECONDS": "1",
            "STRIPE_READ_TIMEOUT_SECONDS": "1",
            "STRIPE_MAX_ATTEMPTS": "1",
            "CHARGE_BUDGET_SECONDS": "3",
            "CLAIM_LEASE_SECONDS": "6",
            "PUBSUB_SUBSCRIPTION": self.subscription,
            "PUBSUB_DEAD_LETTER_TOPIC": self.dead_letter_topic,
            "PUBSUB_LEAVE_SECONDS": "2",
            "WORKER_CONCURRENCY": "4",
        }
        self.open_run(PERIOD)

    def open_run(self, period: str) -> None:
        """Let a period be charged."""
        self.execute(
            """
            INSERT INTO chargeonce.runs (billing_period, currency, expected_cents, cap_cents)
            VALUES (%s, 'usd', %s, %s)
            """,
            [period, CAP_CENTS, CAP_CENTS],
        )

    def customer(self, name: str, **fields: Any) -> bytes:
        """Make a Stripe customer who can pay, and return an event that charges it."""
        self.stripe.seed_customers(CustomerSeed(ids=[f"cus_{name}"], source="tok_visa"))
        return event_body(customer_id=name, stripe_customer_id=f"cus_{name}", **fields)

    def customers(self, count: int) -> dict[str, bytes]:
        """Make many, and return their events by name."""
        names = [f"customer-{number}" for number in range(count)]
        ids = [f"cus_{name}" for name in names]
        self.stripe.seed_customers(CustomerSeed(ids=ids, source="tok_visa"))
        return {
            name: event_body(customer_id=name, stripe_customer_id=f"cus_{name}") for name in names
        }

    def publish(self, body: bytes, ordering_key: str = "") -> str:
        """Publish a message and return its id."""
        return self.cloud.publish(self.topic, body, ordering_key)

    def fault(self, kind: FaultKind, path: str | None = None, **options: Any) -> None:
        """Put a fault of Stripe into force, once unless `count` says otherwise."""
        match = Match(
            method=options.pop("method", "POST"),
            path=path,
            customer=options.pop("customer", None),
            count=options.pop("count", 1),
        )
        self.stripe.add_fault(Fault(kind, match, **options))

    def charges(self) -> Counter[str]:
        """How often each Stripe customer was charged, by the ledger of money that really moved."""
        entries = self.stripe.ledger()
        return Counter(str(entry.customer) for entry in entries if entry.kind == "charge")

    def state(self, name: str) -> str | None:
        """The state of a customer's record."""
        rows = self.execute("SELECT state FROM chargeonce.records WHERE customer_id = %s", [name])
        return rows[0][0] if rows else None

    def charged_names(self) -> frozenset[str]:
        """The customers whose record says that they were charged."""
        rows = self.execute("SELECT customer_id FROM chargeonce.records WHERE state = 'charged'")
        return frozenset(row[0] for row in rows)

    def lapse_leases(self) -> None:
        """Let the leases run out that killed workers have left on records."""
        self.execute("UPDATE chargeonce.records SET lease_until = least(lease_until, now())")

    def noted(self, message_id: str, decision: str) -> list[float]:
        """When a message was decided upon like this, in seconds since the epoch."""
        rows = self.execute(
            """
            SELECT extract(epoch FROM noted_at)::float FROM chargeonce.attempts
            WHERE message_id = %s AND decision = %s ORDER BY id
            """,
            [message_id, decision],
        )
        return [row[0] for row in rows]

    def dead_letters(self, count: int) -> list[ReceivedMessage]:
        """Take so many messages off the dead-letter topic."""
        letters = self.cloud.pull(self.dead_letter_subscription, count)
        self.cloud.acknowledge(self.dead_letter_subscription, *letters)
        return letters

    def events(self, kind: EventKind, outcome: Outcome | None = None) -> Sequence[Event]:
        """What reached the subscription, by our own emulator's journal."""
        wanted = EventFilter(kind=kind, resource=self.subscription, outcome=outcome)
        return self.cloud.control.events(wanted)

    def acked_ids(self) -> frozenset[str]:
        """The messages of which an ack was carried out, by our own emulator's journal."""
        return frozenset(one.message_id for one in self.events(EventKind.ACK, Outcome.APPLIED))

    def is_drained(self) -> bool:
        """Whether our own emulator has nothing left to deliver."""
        return self.cloud.control.backlog(self.subscription).messages == 0

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Ask the database."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def subscriber(self) -> Iterator[SubscriberClient]:
        """Google's client while the block runs, which sees the emulator too."""
        with mock.patch.dict(os.environ, self.pubsub_environment), SubscriberClient() as client:
            yield client

    @contextmanager
    def worker(self, biller: Biller | None = None, /, **settings: str) -> Iterator[PullWorker]:
        """Run a worker over the real parts in a thread, while the block runs.

        Args:
            biller: in place of the real one.
            settings: other than those in `environment`.
        """
        read = read_pull_settings({**self.environment, **settings})
        parts = build_parts(read, read.worker_concurrency)
        with closing(parts.store), self.subscriber() as client:
            worker = PullWorker(
                client,
                read.pubsub.subscription_path,
                biller or parts.biller,
                PubsubDeadLetters(read.pubsub.dead_letter_path),
                read,
                SystemClock(),
            )
            thread = threading.Thread(target=worker.run)
            thread.start()
            try:
                yield worker
            finally:
                worker.stop()
                thread.join(SHUTDOWN_SECONDS)
                assert not thread.is_alive()

    def process(self, *command: str, **settings: str) -> "WorkerProcess":
        """A worker in a process of its own.

        Args:
            command: a module and its arguments; none for ours.
            settings: other than those in `environment`.
        """
        return WorkerProcess(command or (OURS,), {**self.environment, **settings})


class WorkerProcess:
    """A module that runs as a context manager; killed in the end if it still does.

    Args:
        command: the module and its arguments.
        environment: its settings; nothing else of the caller's environment is passed on.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = [sys.executable, "-m", *command]
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        self._environment = {**inherited, **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it."""
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Kill it."""
        assert self._process is not None
        assert self._log is not None
        self._process.kill()
        self._process.wait()
        self._log.close()

    def end(self, number: signal.Signals) -> tuple[int, float]:
        """Send a signal; return the exit status and after how many seconds it came."""
        assert self._process is not None
        started = time.monotonic()
        self._process.send_signal(number)
        return self.wait(), time.monotonic() - started

    def wait(self) -> int:
        """Wait until it ends; return the exit status."""
        assert self._process is not None
        return self._process.wait(PATIENCE_SECONDS)

    def log(self) -> str:
        """What it wrote so far, standard output and standard error together."""
        assert self._log is not None
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode()

    def decisions(self) -> list[dict[str, Any]]:
        """What it logged about deliveries; every line that it writes is JSON."""
        lines = [json.loads(line) for line in self.log().splitlines()]
        return [line for line in lines if "event" in line]
