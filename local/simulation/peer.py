"""The usual recipe in the same world: the same seeds, the same faults, another consumer.

Its algorithm: look for a record, charge under a key of business fields, write the record, complete;
a decline is written too, and any other error leaves the message. Only Stripe's ledger judges it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from local.simulation.broker import Message
from local.simulation.judge import Invariant, Judge
from local.simulation.plan import Flows, Plan, draw_plan
from local.simulation.stage import Process, Stage
from local.simulation.world import World
from local.stripe_simulator import LedgerEntry, StripeModel
from shared.errors import RecordsUnavailable
from shared.outcome import Outcome
from shared.ports import Delivery, NoResponse, Payments, Settlement, StripeRequest
from shared.store.memory import MemoryStore

NAMESPACE = "billing"
KEY_LENGTH = 32
TIMEOUT_SECONDS = 30.0
CALM_SECONDS = 7 * 86_400.0
_DECLINED = 402
_OK = 200


class Cause(StrEnum):
    """What made the recipe charge twice, by what had become of its first charge."""

    RECORD_LOST = "it died before the record of its charge was written"
    ANSWER_LOST = "it never had the answer to its charge"


@dataclass(slots=True)
class PeerTable:
    """The recipe's own records, and which requests it has had an answer to."""

    statuses: dict[tuple[str, str], str] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class PeerReport:
    """What a schedule cost.

    Args:
        customers: how many were to be charged.
        double_charges: how many payments too many, by cause.
    """

    customers: int
    double_charges: Counter[Cause]


class RecipeConsumer:
    """The usual recipe as a consumer of the simulation.

    Args:
        process: where it runs, and dies.
        payments: Stripe.
        table: its records; they outlive it.
    """

    def __init__(self, process: Process, payments: Payments, table: PeerTable) -> None:
        self._process = process
        self._payments = payments
        self._table = table

    def handle(self, delivery: Delivery, settlement: Settlement) -> Outcome:
        """Handle one delivery; any error but a decline leaves the message."""
        try:
            self._bill(delivery)
        except (ValueError, KeyError, RecordsUnavailable, TimeoutError):
            settlement.leave()
            return Outcome.TRANSIENT
        settlement.complete()
        return Outcome.CHARGED

    def _bill(self, delivery: Delivery) -> None:
        event = json.loads(delivery.body)
        name = event["customer_id"], event["billing_period"]
        self._reach_database("find")
        if name in self._table.statuses:
            return
        status = self._charge(event)
        self._reach_database("write")
        self._table.statuses[name] = status
        self._process.cross("peer.write.after")

    def _charge(self, event: dict[str, str]) -> str:
        joined = f"{event['customer_id']}:{event['billing_period']}:{NAMESPACE}"
        request = StripeRequest(
            "post",
            "/v1/charges",
            {
                "amount": str(event["amount_cents"]),
                "currency": event["currency"],
                "customer": event["stripe_customer_id"],
                "description": f"Usage in {event['billing_period']}",
            },
            hashlib.sha256(joined.encode()).hexdigest()[:KEY_LENGTH],
        )
        answer = self._payments.send(request, TIMEOUT_SECONDS)
        if isinstance(answer, NoResponse) or answer.status not in (_OK, _DECLINED):
            raise TimeoutError
        self._table.answered.add(event["stripe_customer_id"])
        return "charged" if answer.status == _OK else "declined"

    def _reach_database(self, name: str) -> None:
        self._process.cross(f"peer.{name}.before")
        if self._process.stage.is_database_away:
            raise RecordsUnavailable("simulated")


class LedgerJudge(Judge):
    """Counts payments, and judges nothing else: the recipe promises less.

    Attributes:
        double_charges: payments too many, by cause.
        table: the recipe's records.
    """

    def __init__(self, stage: Stage, plan: Plan, store: MemoryStore, model: StripeModel) -> None:
        super().__init__(stage, plan, store, model)
        self.double_charges: Counter[Cause] = Counter()
        self.table = PeerTable()
        self._charged: list[LedgerEntry] = []

    def condemn(self, invariant: Invariant, detail: str) -> None:  # noqa: ARG002
        """See `Judge.condemn`: the recipe does not promise it. One that never rests is stopped."""
        if invariant is Invariant.COMES_TO_REST:
            self._stage.scheduler.stop()

    def look(self) -> None:
        """See `Judge.look`."""
        for entry in self._ledger.entries(len(self._charged)):
            if any(before.customer == entry.customer for before in self._charged):
                had_answer = entry.customer in self.table.answered
                cause = Cause.RECORD_LOST if had_answer else Cause.ANSWER_LOST
                self.double_charges[cause] += 1
            self._charged.append(entry)

    def judge_settlement(self, message: Message) -> None:
        """See `Judge.judge_settlement`."""

    def judge_end(self, messages: list[Message]) -> None:
        """See `Judge.judge_end`."""


def simulate_peer(seed: int) -> PeerReport:
    """Let the usual recipe live through a seed of the one-step flow.

    Args:
        seed: decides everything that is not the consumer's.
    """
    plan = draw_plan(seed, Flows.CHARGE)
    table = PeerTable()
    world = World(
        plan, LedgerJudge, lambda process, payments: RecipeConsumer(process, payments, table)
    )
    judge = world.judge
    assert isinstance(judge, LedgerJudge)
    judge.table = table
    # What it can never charge it leaves for ever.
    world.end_after(plan.chaos_seconds + CALM_SECONDS)
    world.run()
    return PeerReport(len(plan.customers), judge.double_charges)


@dataclass(slots=True)
class PeerSummary:
    """What many schedules cost; `culprits` are the seeds of those with a double charge."""

    schedules: int = 0
    customers: int = 0
    culprits: list[int] = field(default_factory=list)
    double_charges: Counter[Cause] = field(default_factory=Counter)

    def add(self, other: PeerSummary) -> None:
        """Count more schedules in."""
        self.schedules += other.schedules
        self.customers += other.customers
        self.culprits += other.culprits
        self.double_charges += other.double_charges


def run_peer(seeds: range) -> PeerSummary:
    """Let the usual recipe live through seeds, one after the other."""
    summary = PeerSummary()
    for seed in seeds:
        report = simulate_peer(seed)
        summary.schedules += 1
        summary.customers += report.customers
        summary.culprits += [seed] if report.double_charges else []
        summary.double_charges += report.double_charges
    return summary
