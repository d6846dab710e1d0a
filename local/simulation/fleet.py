"""The processes of a simulation: started, killed, started again, set to the other flow."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeAlias

from local.simulation.broker import Broker, SimulatedSettlement
from local.simulation.hazards import SECONDS_PER_HOUR
from local.simulation.judge import Invariant, Judge
from local.simulation.plan import KEY_NAMESPACE, Flows, Plan, PlannedProcess
from local.simulation.records_port import SimulatedRecords
from local.simulation.stage import Process, Stage
from local.simulation.stripe_side import API_KEY, FOREIGN_API_KEY, SimulatedPayments, StripeSide
from shared.biller import Biller, BillingRules
from shared.decision_log import describe_defect
from shared.errors import RecordsUnavailable
from shared.outcome import Outcome
from shared.ports import Delivery, Envelope, Settlement
from shared.reconcile import reconcile
from shared.record import Flow
from shared.store.memory import MemoryStore

CALM_PAUSES_SECONDS = (2 * SECONDS_PER_HOUR, 12 * SECONDS_PER_HOUR)
RESTART_SECONDS_AT_MOST = 2 * SECONDS_PER_HOUR


class Consumer(Protocol):
    """What handles a message."""

    def handle(self, delivery: Delivery, settlement: Settlement) -> Outcome:
        """See `Biller.handle`."""


MakeConsumer: TypeAlias = Callable[[Process, SimulatedPayments], Consumer]


class Fleet:
    """Every process that bills, by its number in the plan.

    Args:
        stage: time, chance and the trace.
        plan: which processes there are.
        store: the database.
        stripe: what they charge through.
        broker: what they consume.
        judge: looks on.
        make_consumer: in place of our own consumers; then nothing reconciles.
    """

    def __init__(
        self,
        stage: Stage,
        plan: Plan,
        store: MemoryStore,
        stripe: StripeSide,
        broker: Broker,
        judge: Judge,
        make_consumer: MakeConsumer | None = None,
    ) -> None:
        self._make_consumer = make_consumer
        self._stage = stage
        self._plan = plan
        self._store = store
        self._stripe = stripe
        self._broker = broker
        self._judge = judge
        self._planned = list(plan.processes)
        self._starts: Counter[int] = Counter()
        self._alive: dict[int, Process] = {}

    def start_all(self) -> None:
        """Start whatever does not run, and mend whatever holds a foreign key."""
        for number, planned in enumerate(self._planned):
            if planned.is_foreign and self._stage.chance.is_calm:
                self._planned[number] = replace(planned, is_foreign=False)
                self._kill(number)
            self._start(number)

    def switch_flow(self, subject: int) -> None:
        """Deploy one process anew with the other flow, where the plan mixes them."""
        if self._plan.flows is not Flows.MIXED:
            return
        number = subject % len(self._planned)
        planned = self._planned[number]
        other = Flow.CHARGE if planned.flow is Flow.PAYMENT_INTENT else Flow.PAYMENT_INTENT
        self._planned[number] = replace(planned, flow=other)
        self._kill(number)
        self._start(number)

    def _kill(self, number: int) -> None:
        process = self._alive.pop(number, None)
        if process is not None:
            process.kill()

    def _start(self, number: int) -> None:
        if number in self._alive:
            return
        planned = self._planned[number]
        self._starts[number] += 1
        process = Process(self._stage, planned.name, self._starts[number])
        process.on_crash = partial(self._crashed, number)
        api_key = FOREIGN_API_KEY if planned.is_foreign else API_KEY
        process.tell("start", f"{planned.flow} {api_key}")
        self._alive[number] = process
        records = SimulatedRecords(process, self._store, self._judge)
        payments = SimulatedPayments(process, self._stripe, api_key)
        biller = Biller(records, payments, process, self._rules(planned))
        consumer: Consumer = biller
        if self._make_consumer is not None:
            consumer = self._make_consumer(process, payments)
        for _ in range(planned.worker_count):
            if planned.cloud is None and self._make_consumer is not None:
                continue
            if planned.cloud is None:
                process.spawn(partial(self._reconcile, process, biller, records))
            else:
                process.spawn(partial(self._consume, process, consumer, planned.cloud))

    def _crashed(self, number: int) -> None:
        self._alive.pop(number, None)
        restart_seconds = self._stage.chance.log_uniform(1.0, RESTART_SECONDS_AT_MOST)
        self._stage.scheduler.call_after(restart_seconds, partial(self._start, number))

    def _rules(self, planned: PlannedProcess) -> BillingRules:
        return BillingRules(
            flow=planned.flow,
            key_namespace=KEY_NAMESPACE,
            require_run=self._plan.require_run,
            lease_seconds=self._plan.lease_seconds,
            max_deliveries=self._plan.max_deliveries,
            max_requests_per_second=self._plan.requests_per_second,
            key_livemode=False,
        )

    def _consume(self, process: Process, consumer: Consumer, cloud: str) -> None:
        while True:
            message = self._broker.receive(process, cloud)
            settlement = SimulatedSettlement(
                self._broker, process, message, self._judge.judge_settlement
            )
            envelope = Envelope(cloud, message.message_id, message.delivery_count)
            try:
                outcome = consumer.handle(Delivery(message.body, envelope), settlement)
            except Exception as error:  # noqa: BLE001 - the core promises that none comes
                self._judge.condemn(Invariant.NO_DEFECT, describe_defect(error))
                return
            process.tell("outcome", f"{message.message_id} {outcome}")
            self._stage.cover(f"outcome {outcome}")

    def _reconcile(self, process: Process, biller: Biller, records: SimulatedRecords) -> None:
        while True:
            self._stage.scheduler.pause(self._reconcile_pause_seconds())
            # Rounds that would find nothing are left out: they are most of them.
            if not self._store.due(1):
                continue
            try:
                reconcile(biller, records)
            except RecordsUnavailable:
                process.tell("reconcile", "database away")
            except Exception as error:  # noqa: BLE001 - a defect of the core, whatever it is
                self._judge.condemn(Invariant.NO_DEFECT, describe_defect(error))
                return

    def _reconcile_pause_seconds(self) -> float:
        shortest, longest = CALM_PAUSES_SECONDS
        if not self._stage.chance.is_calm:
            shortest, longest = self._plan.reconcile_pauses_seconds
        return self._stage.chance.log_uniform(shortest, longest)
