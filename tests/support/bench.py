"""A whole billing system on the desk: real PostgreSQL, real SDK, simulated Stripe over HTTP."""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import psycopg

from local.stripe_simulator import ControlClient, CustomerSeed, Fault, FaultKind, Match
from local.stripe_simulator.ledger import LedgerEntry
from shared.biller import Biller, BillingRules
from shared.breaker import Breaker
from shared.clock import SystemClock
from shared.errors import SettlementFailed
from shared.outcome import Outcome
from shared.ports import (
    Delivery,
    Envelope,
    NoResponse,
    Payments,
    Records,
    StripeRequest,
    StripeResponse,
)
from shared.reconcile import reconcile
from shared.record import Flow, Record, RecordId
from shared.store.postgres import PostgresStore
from shared.stripe_payments import StripePayments

PERIOD = "2026-11"
API_KEY = "rk_test_bench"
CAP_CENTS = 1_000_000
HOUR_SECONDS = 3600.0

CREATE_PATHS = {Flow.PAYMENT_INTENT: "/v1/payment_intents", Flow.CHARGE: "/v1/charges"}
MONEY_PATHS = {Flow.PAYMENT_INTENT: "/v1/payment_intents/*/confirm", Flow.CHARGE: "/v1/charges"}

# Patient, so that a busy machine is not taken for a silent Stripe.
PATIENCE_SECONDS = 20.0

RULES = BillingRules(
    budget_seconds=100,
    lease_seconds=150,
    attempt_seconds=PATIENCE_SECONDS,
    max_attempts=1,
    key_livemode=False,
)


class Killed(BaseException):
    """Stands in for the death of a process: nothing catches it, nothing is cleaned up."""


class ImpatientClock(SystemClock):
    """Real time, but pauses between attempts are skipped."""

    def sleep(self, seconds: float) -> None:
        """Do not wait."""


class RecordedSettlement:
    """Remembers how the message was settled.

    Args:
        failure: raised by whatever settlement is asked for.
    """

    def __init__(self, failure: SettlementFailed | None = None) -> None:
        self._failure = failure
        self.calls: list[tuple[str, ...]] = []

    def complete(self) -> None:
        """See `Settlement.complete`."""
        self._settle("complete")

    def dead_letter(self, reason: str, description: str) -> None:
        """See `Settlement.dead_letter`."""
        self._settle("dead_letter", reason, description)

    def leave(self) -> None:
        """See `Settlement.leave`."""
        self._settle("leave")

    def _settle(self, *call: str) -> None:
        self.calls.append(call)
        if self._failure is not None:
            raise self._failure


class DyingStore:
    """The store, seen by a process that dies at one call; see `Bench.dying_store`."""

    def __init__(self, store: PostgresStore, method: str, *, commits: bool) -> None:
        self._store = store
        self._method = method
        self._commits = commits

    def __getattr__(self, name: str) -> Any:
        actual = getattr(self._store, name)
        if name != self._method:
            return actual

        def die(*arguments: Any) -> None:
            if self._commits:
                actual(*arguments)
            raise Killed

        return die


Before = Callable[[StripeRequest], StripeResponse | NoResponse | None]
After = Callable[[StripeRequest, StripeResponse | NoResponse], StripeResponse | NoResponse]


class TappedPayments:
    """The real adapter with taps on both sides of each request.

    Args:
        payments: the adapter.
        before: may answer in Stripe's place, or raise `Killed`.
        after: sees the answer and may replace it, or raise `Killed`.
    """

    def __init__(
        self, payments: Payments, before: Before | None = None, after: After | None = None
    ) -> None:
        self._payments = payments
        self._before = before
        self._after = after
        self.sent: list[StripeRequest] = []

    def send(
        self, request: StripeRequest, timeout_seconds: float, vault_key: str | None = None
    ) -> StripeResponse | NoResponse:
        """See `Payments.send`."""
        instead = self._before(request) if self._before else None
        if instead is not None:
            return instead
        self.sent.append(request)
        response = self._payments.send(request, timeout_seconds, vault_key)
        return self._after(request, response) if self._after else response


class Bench:
    """One system under test.

    Args:
        database_url: a migrated database; it is emptied.
        stripe: the simulator's control.
        base_url: where the simulator serves.
    """

    def __init__(self, database_url: str, stripe: ControlClient, base_url: str) -> None:
        self.stripe = stripe
        self.base_url = base_url
        self.store = PostgresStore(database_url, pool_size=8)
        self.payments = self.new_payments()
        self._connection = psycopg.connect(database_url, autocommit=True)
        self._connection.execute(
            """
            DELETE FROM chargeonce.records;
            DELETE FROM chargeonce.runs;
            DELETE FROM chargeonce.attempts;
            DELETE FROM chargeonce.parked_events;
            DELETE FROM chargeonce.kept_messages;
            DELETE FROM chargeonce.rebuilds;
            DELETE FROM chargeonce.adopted_payments;
            UPDATE chargeonce.cluster
            SET account_id = NULL,
                livemode = NULL,
                fence_base = 0,
                timeline = chargeonce.present_timeline()
            """
        )
        self.store.open_run(PERIOD, "usd", CAP_CENTS, CAP_CENTS)

    def close(self) -> None:
        """Close every connection."""
        self.payments.close()
        self.store.close()
        self._connection.close()

    def new_payments(
        self, api_key: str = API_KEY, read_timeout_seconds: float = PATIENCE_SECONDS
    ) -> StripePayments:
        """An adapter for a key."""
        return StripePayments(api_key, self.base_url, PATIENCE_SECONDS, read_timeout_seconds)

    def biller(
        self,
        payments: Payments | None = None,
        records: Records | None = None,
        **rules: Any,
    ) -> Biller:
        """One deployment. Its breaker stays out of the way of tests about other things."""
        clock = ImpatientClock()
        return Biller(
            records or self.store,
            payments or self.payments,
            clock,
            replace(RULES, **rules),
            Breaker(clock, threshold=1_000_000),
        )

    def customer(self, customer_id: str = "cus_1", **seed: Any) -> str:
        """Make a Stripe customer who pays with a good card, new or legacy."""
        seed.setdefault("source", "tok_visa")
        self.stripe.seed_customers(CustomerSeed(ids=[customer_id], **seed))
        return customer_id

    def deliver(
        self,
        biller: Biller | None = None,
        *,
        message_id: str = "message-1",
        delivery_count: int | None = 1,
        settlement: RecordedSettlement | None = None,
        **fields: Any,
    ) -> Outcome:
        """Deliver the usual event, with some fields changed; None leaves a field out."""
        event = {
            "customer_id": "customer-1",
            "billing_period": PERIOD,
            "stripe_customer_id": "cus_1",
            "amount_cents": 5000,
            **fields,
        }
        body = json.dumps({name: value for name, value in event.items() if value is not None})
        envelope = Envelope("pubsub-push", message_id, delivery_count)
        return (biller or self.biller()).handle(
            Delivery(body.encode(), envelope), settlement or RecordedSettlement()
        )

    def deliver_and_die(self, biller: Biller, **fields: Any) -> None:
        """Deliver to a process that dies on the way; its lease stays behind."""
        self.die(lambda: self.deliver(biller, **fields))

    def die(self, action: Callable[[], object]) -> None:
        """Do something in a process that dies over it."""
        try:
            action()
        except Killed:
            return
        raise AssertionError("the process was meant to die")

    def dying_store(self, method: str, *, commits: bool = False) -> Any:
        """The store, seen by a process that dies at one call.

        Args:
            method: the call.
            commits: whether it dies after the call was committed, or before it is made.
        """
        return DyingStore(self.store, method, commits=commits)

    def record(self, customer_id: str = "customer-1") -> Record:
        """The record, which must be there."""
        record = self.store.get_record(RecordId(customer_id, PERIOD))
        assert record is not None
        return record

    def charges(self) -> Sequence[LedgerEntry]:
        """The money that really moved."""
        return [entry for entry in self.stripe.ledger() if entry.kind == "charge"]

    def assert_charged_once(self, amount: int = 5000) -> None:
        """The ledger holds one charge, and record and run agree with it."""
        (entry,) = self.charges()
        record = self.record()
        assert record.state == "charged"
        assert entry.amount == amount
        assert record.payment_id in (entry.payment_intent, entry.charge)
        self.assert_run(held=0, charged=amount)

    def assert_nothing_charged(self, held: int = 0) -> None:
        """The ledger is empty and the run says so."""
        assert self.charges() == []
        self.assert_run(held=held, charged=0)

    def assert_run(self, held: int, charged: int) -> None:
        """What the run holds and has charged, in cents."""
        run = self.store.get_run(PERIOD)
        assert run is not None
        assert (run.held_cents, run.charged_cents) == (held, charged)

    def fault(self, kind: FaultKind, path: str | None = None, **options: Any) -> None:
        """Put a fault into force, once unless `count` says otherwise."""
        match = Match(method="POST", path=path, count=options.pop("count", 1))
        self.stripe.add_fault(Fault(kind, match, **options))

    def lapse_leases(self) -> None:
        """Let every lease run out, and every pause of reconcile with it."""
        self._connection.execute(
            """
            UPDATE chargeonce.records
            SET lease_until = least(lease_until, now()),
                due_at = CASE WHEN due_at > now() THEN now() ELSE due_at END
            """
        )
        self._connection.execute("UPDATE chargeonce.kept_messages SET due_at = now()")

    def let_hours_pass(self, hours: float) -> None:
        """Move the database's and Stripe's time on, leases and keys with it."""
        self._connection.execute(
            """
            UPDATE chargeonce.records
            SET attempt_started_at = attempt_started_at - make_interval(secs => %(seconds)s),
                claimed_at = claimed_at - make_interval(secs => %(seconds)s),
                previous_claim_at = previous_claim_at - make_interval(secs => %(seconds)s),
                lease_until = lease_until - make_interval(secs => %(seconds)s),
                due_at = due_at - make_interval(secs => %(seconds)s)
            """,
            {"seconds": hours * HOUR_SECONDS},
        )
        self._connection.execute(
            """
            UPDATE chargeonce.kept_messages
            SET kept_at = kept_at - make_interval(secs => %(seconds)s),
                due_at = due_at - make_interval(secs => %(seconds)s)
            """,
            {"seconds": hours * HOUR_SECONDS},
        )
        self.stripe.advance_clock(hours * HOUR_SECONDS)

    def reconcile(self, biller: Biller | None = None) -> dict[Outcome, int]:
        """One round of reconcile, everything being due."""
        self.lapse_leases()
        return dict(reconcile(biller or self.biller(), self.store))

    def kept_count(self) -> int:
        """How many messages are kept."""
        ((count,),) = self.query("SELECT count(*) FROM chargeonce.kept_messages")
        return int(count)

    def parked_reasons(self) -> list[str]:
        """The reasons of the parked events, oldest first."""
        rows = self._connection.execute(
            "SELECT reason FROM chargeonce.parked_events ORDER BY id"
        ).fetchall()
        return [row[0] for row in rows]

    def execute(self, statement: str) -> None:
        """Do something to the database by hand."""
        self._connection.execute(statement.encode())

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Ask the database by hand."""
        return self._connection.execute(statement.encode()).fetchall()


def matches(request: StripeRequest, path: str) -> bool:
    """Whether a POST goes to a path; `*` stands for one segment."""
    wanted, found = path.split("/"), request.path.split("/")
    return (
        request.method == "post"
        and len(wanted) == len(found)
        and all(mine in ("*", theirs) for mine, theirs in zip(wanted, found, strict=True))
    )


def lose_looks(request: StripeRequest) -> NoResponse | None:
    """Keep a consumer from finding out at once what became of its request: for `before`."""
    looks = ("/v1/payment_intents", "/v1/charges")
    if request.method == "get" and request.path.startswith(looks):
        return NoResponse(sent=True, problem="read_timeout")
    return None


def kill_before(path: str) -> Before:
    """Die before a request to the path leaves."""

    def before(request: StripeRequest) -> None:
        if matches(request, path):
            raise Killed

    return before


def kill_after(path: str) -> After:
    """Die after the answer to a request to the path has come."""

    def after(
        request: StripeRequest, response: StripeResponse | NoResponse
    ) -> StripeResponse | NoResponse:
        if matches(request, path):
            raise Killed
        return response

    return after


def at_once(*actions: Callable[[], object]) -> None:
    """Run actions in threads that start at the same instant; fails if one raises."""
    barrier = threading.Barrier(len(actions))
    failures: list[BaseException] = []

    def run(action: Callable[[], object]) -> None:
        try:
            barrier.wait(timeout=10)
            action()
        except BaseException as error:  # noqa: BLE001 (handed to the test)
            failures.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
