"""One simulation, from its first step to its verdict."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from local.simulation.broker import DELIVERIES_EXHAUSTED, Broker, Message, MessageState
from local.simulation.customers import body_of, make_customers
from local.simulation.fleet import Fleet, MakeConsumer
from local.simulation.hazards import SECONDS_PER_DAY, SECONDS_PER_HOUR, Chance
from local.simulation.interventions import Interventions
from local.simulation.judge import Invariant, Judge, Violation
from local.simulation.plan import (
    EventKind,
    Flows,
    Intervention,
    InterventionKind,
    Plan,
    Publication,
    draw_plan,
)
from local.simulation.stage import STARTED_AT, Process, Stage
from local.simulation.stripe_side import StripeSide
from local.simulation.tasks import Scheduler, TooManySteps
from local.simulation.trace import Trace
from local.stripe_simulator import Options, StripeModel
from local.stripe_simulator.keyring import DEFAULT_ACCOUNT
from shared.decision_log import LOGGER_NAME, DecisionEvent
from shared.record import FINAL, Record, State
from shared.store.memory import MemoryStore

MAX_STEPS = 40_000
MAX_RESUBMISSIONS = 2
MAX_ATTEMPTS = 5
REST_CHECK_SECONDS = 6 * SECONDS_PER_HOUR
MAX_REST_CHECKS = 80


@dataclass(frozen=True, slots=True)
class Report:
    """What became of one seed.

    Args:
        plan: what was meant to happen.
        violation: the first invariant that did not hold, or None.
        coverage: how often each thing happened.
        trace: what happened.
    """

    plan: Plan
    violation: Violation | None
    coverage: Mapping[str, int]
    trace: Trace


def simulate(seed: int, flows: Flows | None = None, *, without_idempotency: bool = False) -> Report:
    """Run one simulation.

    Args:
        seed: decides everything.
        flows: which flows the processes are set to; None lets the seed choose.
        without_idempotency: Stripe knows no idempotency keys, which the two-step flow must stand.
    """
    plan = draw_plan(seed, flows)
    if without_idempotency:
        plan = replace(plan, has_idempotency=False)
    return World(plan).run()


class World:
    """All parts of one simulation, put together.

    Args:
        plan: what the seed decided.
        make_judge: in place of the judge of our own promises.
        make_consumer: in place of our own consumers, and of reconcile.
    """

    def __init__(
        self,
        plan: Plan,
        make_judge: type[Judge] = Judge,
        make_consumer: MakeConsumer | None = None,
    ) -> None:
        self._plan = plan
        chance = Chance(plan.seed, plan.rates, plan.sore_spot)
        self._stage = stage = Stage(plan.seed, Scheduler(MAX_STEPS), chance)
        self._store = MemoryStore(Process(stage, "database"))
        self._store.identify(DEFAULT_ACCOUNT, livemode=False)
        options = Options(
            idempotency=plan.has_idempotency, settlement_seconds=plan.settlement_seconds
        )
        model = StripeModel(plan.seed, lambda: STARTED_AT.timestamp() + stage.now_seconds, options)
        self._judge = make_judge(stage, plan, self._store, model)
        self._judge.on_refused = self._consider_another_attempt
        self._stripe = StripeSide(stage, model, self._judge, plan.late_charge_seconds)
        self._broker = Broker(stage, plan.lock_seconds, plan.max_deliveries)
        self._broker.on_dead = self._consider_resubmission
        self._customers = make_customers(plan, self._stripe, self._judge)
        self._fleet = Fleet(
            stage, plan, self._store, self._stripe, self._broker, self._judge, make_consumer
        )
        self._interventions = Interventions(
            stage,
            plan,
            self._store,
            self._stripe,
            self._judge,
            self._customers,
            self._fleet.switch_flow,
        )
        self._resubmissions: Counter[bytes] = Counter()
        self._pending_resubmissions = 0
        self._rest_checks = 0

    def end_after(self, seconds: float) -> None:
        """End then, at rest or not.

        Args:
            seconds: of virtual time, from the start.
        """
        self._stage.scheduler.call_after(seconds, self._stage.scheduler.stop)

    @property
    def judge(self) -> Judge:
        """Who looks on."""
        return self._judge

    def run(self) -> Report:
        """Let faults rage, let them stop, wait for rest, and judge."""
        with _decisions_heard(self._hear):
            try:
                self._rage()
                self._calm_down()
            except TooManySteps as error:
                self._judge.condemn(Invariant.COMES_TO_REST, str(error))
            finally:
                self._stage.scheduler.close()
        if self._judge.violation is None:
            self._stripe.model.settle(self._stripe.scope)
            self._judge.look()
            self._judge.judge_end(self._broker.messages)
        return Report(self._plan, self._judge.violation, self._stage.coverage, self._stage.trace)

    def _rage(self) -> None:
        scheduler = self._stage.scheduler
        for publication in self._plan.publications:
            scheduler.call_after(publication.at_seconds, partial(self._publish, publication))
        for intervention in self._plan.interventions:
            scheduler.call_after(
                intervention.at_seconds, partial(self._interventions.carry_out, intervention)
            )
        self._fleet.start_all()
        scheduler.call_after(self._plan.chaos_seconds, scheduler.stop)
        scheduler.run()

    def _calm_down(self) -> None:
        if self._judge.violation is not None:
            return
        self._stage.tell("world", "calm")
        self._stage.chance.is_calm = True
        self._interventions.end()
        self._fleet.start_all()
        for message in list(self._broker.messages):
            if message.state is MessageState.DEAD and not message.is_resubmitted:
                exhausted = message.dead_letter_reason == DELIVERIES_EXHAUSTED
                if exhausted or self._stage.chance.choose((True, False)):
                    self._broker.resubmit(message)
        self._stage.scheduler.call_after(REST_CHECK_SECONDS, self._check_rest)
        self._stage.scheduler.run()

    def _publish(self, publication: Publication) -> None:
        body = body_of(publication, self._customers[publication.customer])
        self._broker.publish(publication.cloud, body, publication)

    def _consider_another_attempt(self, record: Record) -> None:
        """Ask for another try soon after a refusal, as a dunning service does."""
        chance = self._stage.chance
        if record.attempt >= MAX_ATTEMPTS or not chance.happens(0.8):
            return
        customer_ids = [customer.customer_id for customer in self._plan.customers]
        number = customer_ids.index(record.customer_id)
        cloud = chance.choose([process.cloud for process in self._plan.processes if process.cloud])
        publication = Publication(0.0, number, record.attempt + 1, EventKind.PLAIN, cloud)
        delay_seconds = chance.log_uniform(0.1, 600.0)
        self._stage.scheduler.call_after(delay_seconds, partial(self._publish, publication))
        if chance.happens(0.5):
            mend = Intervention(0.0, InterventionKind.MEND_CARD, number)
            self._stage.scheduler.call_after(0.0, partial(self._interventions.carry_out, mend))

    def _consider_resubmission(self, message: Message) -> None:
        chance = self._stage.chance
        if chance.is_calm:
            # Whatever the broker gave up on has no end yet.
            resubmits = message.dead_letter_reason == DELIVERIES_EXHAUSTED
            delay_seconds = SECONDS_PER_DAY
        else:
            is_tired = self._resubmissions[message.body] >= MAX_RESUBMISSIONS
            resubmits = not is_tired and chance.happens(0.6)
            delay_seconds = chance.log_uniform(SECONDS_PER_HOUR, self._plan.chaos_seconds)
        if resubmits:
            message.is_resubmitted = True
            self._resubmissions[message.body] += 1
            self._pending_resubmissions += 1
            self._stage.scheduler.call_after(delay_seconds, partial(self._resubmit, message))

    def _resubmit(self, message: Message) -> None:
        self._pending_resubmissions -= 1
        self._broker.resubmit(message)

    def _check_rest(self) -> None:
        # Any request lets the simulated Stripe settle the bank debits that are due.
        self._stripe.handle("GET", "/v1/account")
        if self._is_at_rest():
            self._stage.scheduler.stop()
            return
        if self._pending_resubmissions == 0:
            self._rest_checks += 1
        if self._rest_checks > MAX_REST_CHECKS:
            self._judge.condemn(Invariant.COMES_TO_REST, self._describe_unrest())
            return
        self._stage.scheduler.call_after(REST_CHECK_SECONDS, self._check_rest)

    def _is_at_rest(self) -> bool:
        return (
            self._pending_resubmissions == 0
            and self._stripe.in_flight == 0
            and not self._broker.unsettled()
            and not self._store.kept_messages
            and all(_has_ended(record.state) for record in self._store.records())
        )

    def _describe_unrest(self) -> str:
        records = [
            f"{record.customer_id} {record.state} {record.code}"
            for record in self._store.records()
            if not _has_ended(record.state)
        ]
        messages = [message.message_id for message in self._broker.unsettled()]
        messages += [f"kept {line.envelope.message_id}" for line in self._store.kept_messages]
        return ", ".join(records + messages)

    def _hear(self, line: Mapping[str, object]) -> None:
        """Take note of what the code under test logs: decisions, and alarms about itself."""
        event, code = line.get("event"), line.get("code")
        if event is None:
            self._judge.condemn(Invariant.NO_DEFECT, str(line["message"]))
            return
        self._stage.cover(f"decision {event}")
        if code == "unexpected_error" or event == DecisionEvent.DOUBLE_CHARGE_DETECTED:
            self._judge.condemn(Invariant.NO_DEFECT, f"{event} {code}")


def _has_ended(state: State) -> bool:
    return state in FINAL or state is State.PARKED


class _Ear(logging.Handler):
    def __init__(self, hear: Callable[[Mapping[str, object]], None]) -> None:
        super().__init__()
        self._hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        self._hear(json.loads(record.getMessage()))


@contextmanager
def _decisions_heard(hear: Callable[[Mapping[str, object]], None]) -> Iterator[None]:
    logger = logging.getLogger(LOGGER_NAME)
    ear = _Ear(hear)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(ear)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(ear)
        logger.setLevel(level)
        logger.propagate = propagate
