"""A push function as Google Cloud runs it: functions-framework, gunicorn, PostgreSQL, Stripe."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

import psycopg

from local.google_function import HOST, GoogleFunction
from local.stripe_simulator import CustomerSeed, RunningSimulator
from tests.support.malformed_bodies import event_body
from tests.support.pubsub import PUSH_ACCOUNT, TOPIC, bearer, wrap

PERIOD = "2026-11"
CAP_CENTS = 100_000_000
THREADS = 4
REQUEST_SECONDS = 30


class Deployment:
    """The function `bill` with its settings, and a look into what it did.

    Args:
        database_url: a migrated database.
        stripe: the Stripe that it charges through.
        pubsub_host: where it publishes dead letters.
    """

    def __init__(self, database_url: str, stripe: RunningSimulator, pubsub_host: str) -> None:
        self.stripe = stripe.control
        self._database_url = database_url
        environment = {
            "DATABASE_URL": database_url,
            "STRIPE_API_KEY": "rk_test_hunter2",
            "STRIPE_API_BASE": stripe.base_url,
            "THREADS": str(THREADS),
            "PUBSUB_DEAD_LETTER_TOPIC": TOPIC,
            "PUBSUB_PUSH_SERVICE_ACCOUNT": PUSH_ACCOUNT,
            "PUBSUB_EMULATOR_HOST": pubsub_host,
        }
        self.environment: dict[str, str] = environment
        self.function = GoogleFunction("bill", environment)

    @contextmanager
    def running(self, **settings: str) -> Iterator[GoogleFunction]:
        """Run the function, with some settings changed, while the block runs."""
        self.open_run()
        before = self.function
        self.function = GoogleFunction("bill", {**self.environment, **settings})
        try:
            with self.function as function:
                yield function
        finally:
            self.function = before

    def open_run(self) -> None:
        """Open the run that the events belong to."""
        self.execute(
            """
            INSERT INTO chargeonce.runs (billing_period, currency, expected_cents, cap_cents)
            VALUES (%s, 'usd', %s, %s) ON CONFLICT DO NOTHING
            """,
            [PERIOD, CAP_CENTS, CAP_CENTS],
        )

    def send(self, body: bytes, headers: Mapping[str, str] | None = None) -> int:
        """Send a request to the function and return the status."""
        connection = HTTPConnection(HOST, self.function.port, timeout=REQUEST_SECONDS)
        try:
            connection.request("POST", "/", body, dict(bearer() if headers is None else headers))
            response = connection.getresponse()
            assert response.read() == b""
            return response.status
        finally:
            connection.close()

    def push(self, body: bytes, message_id: str = "1", **wrapper: Any) -> int:
        """Push a message to the function and return the status."""
        return self.send(wrap(body, message_id, **wrapper))

    def customer(self, name: str) -> bytes:
        """Make a Stripe customer who can pay, and return the event that charges it."""
        self.stripe.seed_customers(CustomerSeed(ids=[f"cus_{name}"]))
        return event_body(customer_id=name, stripe_customer_id=f"cus_{name}")

    def charged_cents(self, name: str) -> Sequence[int]:
        """What Stripe really took from a customer, charge by charge."""
        return [
            entry.amount
            for entry in self.stripe.ledger()
            if entry.customer == f"cus_{name}" and entry.kind == "charge"
        ]

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Ask the database."""
        with psycopg.connect(self._database_url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def parked(self, message_ids: str) -> dict[str, tuple[str, str, bytes]]:
        """Reason, description and body of parked events, by the message that led to them.

        Args:
            message_ids: a pattern as of SQL's LIKE; each message must be parked once.
        """
        rows = self.execute(
            """
            SELECT message_id, reason, description, body FROM chargeonce.parked_events
            WHERE message_id LIKE %s
            """,
            [message_ids],
        )
        found = {message_id: (reason, text, body) for message_id, reason, text, body in rows}
        assert len(found) == len(rows)
        return found

    def log_lines(self) -> list[dict[str, Any]]:
        """What the function logged; every line is JSON."""
        return [json.loads(line) for line in self.function.log().splitlines()]
