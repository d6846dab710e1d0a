"""Service Bus, Stripe and PostgreSQL on the desk, and both ways to bill from a queue."""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusSender,
    ServiceBusSubQueue,
)

from azure_function.client import make_client
from azure_function.consumer import Consumer
from local.servicebus_emulator import (
    DeliveryRecord,
    EmulatorOptions,
    QueueOptions,
    QueueSettings,
    ServiceBusEmulator,
    SettlementKind,
    SettlementOutcome,
)
from local.stripe_simulator import CustomerSeed, Fault, FaultKind, Match, RunningSimulator
from shared.clock import SystemClock
from shared.decision_log import LOGGER_NAME
from shared.reconcile import reconcile
from shared.settings import read_servicebus_settings
from shared.wiring import Parts, build_parts
from tests.support.malformed_bodies import event_body

if TYPE_CHECKING:
    # Only where the Functions runtime exists can this be imported.
    from local.functions_host.host import FunctionsHost

PERIOD = "2026-11"
CAP_CENTS = 100_000_000
PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.05
LOCK_SECONDS = 60.0

_REPOSITORY = FilePath(__file__).resolve().parents[2]

COMPLETED = (SettlementKind.COMPLETE, SettlementOutcome.APPLIED)
DEAD_LETTERED = (SettlementKind.DEAD_LETTER, SettlementOutcome.APPLIED)


def wait_until(
    condition: Callable[[], object],
    seconds: float = PATIENCE_SECONDS,
    poll_seconds: float = POLL_SECONDS,
) -> None:
    """Wait for something that happens by itself; fails if it does not."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(poll_seconds)


class Desk:
    """Everything that a consumer of one queue talks to, and a look into all of it.

    Args:
        database_url: a migrated database.
        stripe: the Stripe that is charged.
        emulator: has the queue.
        queue: its name; locks last `LOCK_SECONDS` by the emulator's clock.
    """

    def __init__(
        self,
        database_url: str,
        stripe: RunningSimulator,
        emulator: ServiceBusEmulator,
        queue: str,
    ) -> None:
        self.stripe = stripe.control
        self._stripe = stripe
        self.emulator = emulator
        self.queue = queue
        self._database_url = database_url
        self._client = ServiceBusClient.from_connection_string(emulator.connection_string)
        self._sender: ServiceBusSender | None = None
        self.environment = {
            "DATABASE_URL": database_url,
            "STRIPE_API_KEY": "rk_test_hunter2",
            "STRIPE_API_BASE": stripe.base_url,
            "STRIPE_CONNECT_TIMEOUT_SECONDS": "1",
            "STRIPE_READ_TIMEOUT_SECONDS": "8",
            "STRIPE_MAX_ATTEMPTS": "1",
            "CHARGE_BUDGET_SECONDS": "20",
            "CLAIM_LEASE_SECONDS": "30",
            "BILLING_MAX_DELIVERIES": "4",
            "BILLING_EXPECTED_TOTAL_CENTS": "1000000",
            "ServiceBus": emulator.connection_string,
            "BILLING_QUEUE": queue,
            "PYTHON_THREADPOOL_THREAD_COUNT": "8",
            "WORKER_CONCURRENCY": "4",
        }
        self.execute(
            """
            INSERT INTO chargeonce.runs (billing_period, currency, expected_cents, cap_cents)
            VALUES (%s, 'usd', %s, %s) ON CONFLICT DO NOTHING
            """,
            [PERIOD, CAP_CENTS, CAP_CENTS],
        )

    @contextmanager
    def in_another_namespace(self) -> Iterator["Desk"]:
        """A desk over the same database and Stripe, whose queue is in a namespace of its own."""
        queue = QueueOptions(self.queue, QueueSettings(lock_seconds=LOCK_SECONDS))
        with ServiceBusEmulator(EmulatorOptions(queues=[queue])) as emulator:
            other = Desk(self._database_url, self._stripe, emulator, self.queue)
            yield other
            other.close()

    def close(self) -> None:
        """Close the connections."""
        if self._sender is not None:
            self._sender.close()
        self._client.close()

    def forget(self) -> None:
        """Leave the desk as it was found: no fault, no message, no record of the broker's."""
        self.emulator.clear_faults()
        self.stripe.clear_faults()
        self.emulator.purge_queue(self.queue)
        self.emulator.forget_records()
        self.set_lock(LOCK_SECONDS)

    def set_lock(self, lock_seconds: float, max_delivery_count: int = 10) -> None:
        """Let locks of the queue last so long from the next one on."""
        self.emulator.configure_queue(
            self.queue, QueueSettings(lock_seconds, max_delivery_count=max_delivery_count)
        )

    def lapse_locks(self) -> None:
        """Let every lock run out."""
        self.emulator.advance_clock(LOCK_SECONDS + 1)

    def customer(self, name: str, **seed: Any) -> bytes:
        """Make a Stripe customer who can pay, and return the event that charges it."""
        self.stripe.seed_customers(
            CustomerSeed(ids=[f"cus_{name}"], **{"source": "tok_visa", **seed})
        )
        return event_body(customer_id=name, stripe_customer_id=f"cus_{name}")

    def fault(self, name: str, kind: FaultKind, path: str, **options: Any) -> None:
        """Put a fault of Stripe for one customer into force, once unless `count` says otherwise."""
        method = options.pop("method", "POST")
        match = Match(
            method=method, path=path, customer=f"cus_{name}", count=options.pop("count", 1)
        )
        self.stripe.add_fault(Fault(kind, match, **options))

    def send(
        self, body: bytes, message_id: str, properties: Mapping[str | bytes, Any] | None = None
    ) -> None:
        """Send a message to the queue."""
        if self._sender is None:
            self._sender = self._client.get_queue_sender(self.queue).__enter__()
        message = ServiceBusMessage(body, message_id=message_id)
        message.application_properties = dict(properties or {})
        self._sender.send_messages(message)

    def charged_cents(self, name: str) -> Sequence[int]:
        """What Stripe really took from a customer, charge by charge."""
        return [
            entry.amount
            for entry in self.stripe.ledger()
            if entry.customer == f"cus_{name}" and entry.kind == "charge"
        ]

    def settlements(self, message_id: str) -> list[tuple[SettlementKind, SettlementOutcome]]:
        """How a message was settled, try by try."""
        return [
            (record.kind, record.outcome)
            for record in self.emulator.settlements(self.queue)
            if record.message_id == message_id
        ]

    def deliveries(self, message_id: str) -> list[DeliveryRecord]:
        """The deliveries of a message."""
        return [
            record
            for record in self.emulator.deliveries(self.queue)
            if record.message_id == message_id
        ]

    def renewal_count(self, message_id: str) -> int:
        """How many renewals of a message's lock reached the broker."""
        renewals = self.emulator.renewals(self.queue)
        return sum(record.message_id == message_id for record in renewals)

    def wait_for(
        self, message_id: str, settlement: tuple[SettlementKind, SettlementOutcome]
    ) -> None:
        """Wait until a message is settled in some way."""
        wait_until(lambda: settlement in self.settlements(message_id))

    def dead_letters(self) -> dict[str, ServiceBusReceivedMessage]:
        """The dead letters, by message id. They stay."""
        with self._client.get_queue_receiver(
            self.queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER
        ) as receiver:
            letters = receiver.peek_messages(1000, sequence_number=1)
        return {str(letter.message_id): letter for letter in letters}

    def state(self, name: str) -> str | None:
        """The state of a customer's record."""
        rows = self.execute(
            "SELECT state FROM chargeonce.records WHERE customer_id = %s AND billing_period = %s",
            [name, PERIOD],
        )
        return rows[0][0] if rows else None

    def lapse_lease(self, name: str) -> None:
        """Let a record's lease run out, and reconcile's pause with it."""
        self.execute(
            """
            UPDATE chargeonce.records SET lease_until = now(), due_at = now()
            WHERE customer_id = %s
            """,
            [name],
        )

    def execute(
        self, statement: str, parameters: Sequence[object] | Mapping[str, object] = ()
    ) -> list[tuple[Any, ...]]:
        """Ask the database."""
        with psycopg.connect(self._database_url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []


class Path(Protocol):
    """One way to bill from a queue."""

    def log(self) -> str:
        """What it logged so far."""

    def failures(self) -> list[str]:
        """What went wrong in a way that nothing that happens to an event may cause."""

    def reconcile(self) -> None:
        """Let its reconcile run."""


def decisions(path: Path, message_id: str) -> list[str]:
    """The names of what was logged about a message."""
    lines = [json.loads(line) for line in path.log().splitlines() if line.startswith("{")]
    return [line["event"] for line in lines if line.get("message_id") == message_id]


class LogLines(logging.Handler):
    """Keeps what is logged while it is installed."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self.lines.append(record.getMessage())

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Keep what our logger writes, while the block runs."""
        logger = logging.getLogger(LOGGER_NAME)
        level_before = logger.level
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.setLevel(level_before)


class ConsumerPath:
    """The peek-lock consumer, in threads of this process."""

    def __init__(self, parts: Parts, consumer: Consumer, lines: LogLines) -> None:
        self.consumer = consumer
        self._parts = parts
        self._lines = lines

    def log(self) -> str:
        """See `Path`."""
        return "\n".join(self._lines.lines)

    def failures(self) -> list[str]:
        """See `Path`."""
        return [line for line in self._lines.lines if "unexpected_error" in line]

    def reconcile(self) -> None:
        """See `Path`."""
        reconcile(self._parts.biller, self._parts.store)


@contextmanager
def running_consumer(
    environment: Mapping[str, str], retries: int | None = None
) -> Iterator[ConsumerPath]:
    """Run a consumer over the real parts, while the block runs.

    Args:
        environment: its settings.
        retries: how often the SDK repeats a request to the broker, if not as often as it likes.
    """
    settings = read_servicebus_settings(environment)
    parts = build_parts(settings, settings.worker_concurrency)

    def client() -> ServiceBusClient:
        if retries is None:
            return make_client(settings.servicebus)
        return ServiceBusClient.from_connection_string(
            environment["ServiceBus"], retry_total=retries
        )

    consumer = Consumer(client, parts.biller, settings, SystemClock())
    lines = LogLines()
    with closing(parts), lines.installed():
        consumer.start()
        try:
            yield ConsumerPath(parts, consumer, lines)
        finally:
            assert consumer.stop(PATIENCE_SECONDS)


@contextmanager
def consumer_process(
    environment: Mapping[str, str], shutdown_seconds: float | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run `python -m azure_function.consumer` while the block runs; it ends by SIGKILL.

    Args:
        environment: its settings.
        shutdown_seconds: how long it waits for what is in hand, in place of the usual.
    """
    command = ["-m", "azure_function.consumer"]
    if shutdown_seconds is not None:
        program = "import azure_function.consumer as c; c.run_process({})"
        command = ["-c", program.format(shutdown_seconds)]
    process = subprocess.Popen(
        [sys.executable, *command],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=_REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


class FunctionsPath:
    """The function app under the host."""

    def __init__(self, host: "FunctionsHost", desk: Desk) -> None:
        self.host = host
        self._desk = desk

    def log(self) -> str:
        """See `Path`."""
        return self.host.log()

    def failures(self) -> list[str]:
        """See `Path`."""
        return [*self.host.failures, *(["unexpected_error"] * ("unexpected_error" in self.log()))]

    def reconcile(self) -> None:
        """See `Path`. Timers fire at most once within their lease."""
        self._desk.execute("DELETE FROM chargeonce.timers")
        assert self.host.fire("reconcile") is None
