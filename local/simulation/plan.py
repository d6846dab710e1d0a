"""The plan of one simulation, all from its seed: who is billed by whom, and what befalls them."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from local.simulation.hazards import SECONDS_PER_DAY, SECONDS_PER_HOUR, Hazard, draw_rates
from shared.record import Flow

PERIOD = "2026-11"
CURRENCY = "usd"
KEY_NAMESPACE = "usage-billing"
LEASE_SECONDS = 180.0
SHORT_LEASE_SECONDS = 10.0
LATEST_SEND_SECONDS = 90.0
CLOUDS = ("servicebus", "pubsub-push", "pubsub-pull")


def _sides(port: str, *methods: str) -> tuple[str, ...]:
    return tuple(f"{port}.{method}.{side}" for method in methods for side in ("before", "after"))


_COMMON_PLACES = (
    *_sides("records", "claim", "finish", "identify", "park", "release", "resume"),
    *_sides("records", "drop_kept", "keep", "take_due", "take_kept"),
    *_sides("stripe", "read_account"),
    *_sides("settlement", "complete", "dead_letter"),
    "settlement.leave.before",
    "clock.sleep.before",
)
_INTENT_PLACES = (
    *_sides("records", "store_payment", "store_verdict"),
    *_sides("stripe", "cancel", "confirm", "create", "read", "read_customer"),
)
_CHARGE_PLACES = _sides("stripe", "charge", "list_charges", "read_charge")

PLACES = (*_COMMON_PLACES, *_INTENT_PLACES, *_CHARGE_PLACES)
"""Every place where a process leaves the code under test, and can die or freeze."""

STALE_PLACES = (
    "records.claim.after",
    "stripe.create.after",
    "records.store_payment.before",
    "records.store_payment.after",
    "stripe.confirm.after",
    "records.store_verdict.after",
    "stripe.cancel.after",
    "stripe.charge.after",
    *("records.finish.before",) * 4,
    "records.release.before",
)
"""Where a process that stands still comes back with old news: between an answer and what it leads
to."""

CHAOS_SECONDS = (
    2 * SECONDS_PER_HOUR,
    26 * SECONDS_PER_HOUR,
    3 * SECONDS_PER_DAY,
    10 * SECONDS_PER_DAY,
    40 * SECONDS_PER_DAY,
)


class Flows(StrEnum):
    """Which flows the processes of a simulation are set to."""

    PAYMENT_INTENT = "payment_intent"
    CHARGE = "charge"
    MIXED = "mixed"


class Funding(StrEnum):
    """How a customer can pay."""

    CARD = "card"
    FICKLE_CARD = "fickle_card"
    DECLINING_CARD = "declining_card"
    CARD_WITH_AUTHENTICATION = "card_with_authentication"
    BANK_DEBIT = "bank_debit"
    FAILING_BANK_DEBIT = "failing_bank_debit"
    NOTHING = "nothing"
    DELETED = "deleted"
    UNKNOWN = "unknown"


_FUNDING_WEIGHTS: Mapping[Funding, int] = {
    Funding.CARD: 10,
    Funding.FICKLE_CARD: 12,
    Funding.DECLINING_CARD: 1,
    Funding.CARD_WITH_AUTHENTICATION: 1,
    Funding.BANK_DEBIT: 3,
    Funding.FAILING_BANK_DEBIT: 3,
    Funding.NOTHING: 1,
    Funding.DELETED: 1,
    Funding.UNKNOWN: 1,
}


@dataclass(frozen=True, slots=True)
class PlannedCustomer:
    """One customer to be billed once.

    Args:
        customer_id: as the events name it.
        funding: how it can pay at first.
        amount_cents: what it owes.
        names_method: its events name the payment method.
    """

    customer_id: str
    funding: Funding
    amount_cents: int
    names_method: bool


class EventKind(StrEnum):
    """What is published."""

    PLAIN = "plain"
    OTHER_DESCRIPTION = "other_description"
    OTHER_AMOUNT = "other_amount"
    INVALID = "invalid"


_EVENT_KIND_WEIGHTS: Mapping[EventKind, int] = {
    EventKind.PLAIN: 20,
    EventKind.OTHER_DESCRIPTION: 3,
    EventKind.OTHER_AMOUNT: 1,
    EventKind.INVALID: 3,
}


@dataclass(frozen=True, slots=True)
class Publication:
    """An event that is published."""

    at_seconds: float
    customer: int
    attempt: int
    kind: EventKind
    cloud: str


class InterventionKind(StrEnum):
    """What people, other systems and fate do from outside."""

    OPEN_RUN = "open_run"
    CLOSE_RUN = "close_run"
    RAISE_CAP = "raise_cap"
    MEND_CARD = "mend_card"
    BREAK_CARD = "break_card"
    DELETE_CUSTOMER = "delete_customer"
    CANCEL_INTENT = "cancel_intent"
    ASK_CUSTOMER = "ask_customer"
    STRIPE_AWAY = "stripe_away"
    DATABASE_AWAY = "database_away"
    SWITCH_FLOW = "switch_flow"


_INTERVENTION_WEIGHTS: Mapping[InterventionKind, int] = {
    InterventionKind.CLOSE_RUN: 1,
    InterventionKind.RAISE_CAP: 3,
    InterventionKind.MEND_CARD: 4,
    InterventionKind.BREAK_CARD: 2,
    InterventionKind.DELETE_CUSTOMER: 1,
    InterventionKind.CANCEL_INTENT: 4,
    InterventionKind.ASK_CUSTOMER: 4,
    InterventionKind.STRIPE_AWAY: 2,
    InterventionKind.DATABASE_AWAY: 2,
    InterventionKind.SWITCH_FLOW: 2,
}


@dataclass(frozen=True, slots=True)
class Intervention:
    """Something that happens from outside; `subject` picks the customer or process."""

    at_seconds: float
    kind: InterventionKind
    subject: int


@dataclass(frozen=True, slots=True)
class PlannedProcess:
    """One instance: a consumer of one cloud, or a reconciler when `cloud` is None.

    Args:
        name: in the trace.
        cloud: the transport that it consumes.
        worker_count: tasks that share it.
        flow: its setting, for new attempts.
        is_foreign: it holds the key of another Stripe account, and must charge nobody.
    """

    name: str
    cloud: str | None
    worker_count: int
    flow: Flow
    is_foreign: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a seed decides before the first step."""

    seed: int
    flows: Flows
    customers: Sequence[PlannedCustomer]
    publications: Sequence[Publication]
    interventions: Sequence[Intervention]
    processes: Sequence[PlannedProcess]
    rates: Mapping[Hazard, float]
    sore_spot: tuple[Hazard, str] | None
    chaos_seconds: float
    cap_cents: int
    require_run: bool
    lease_seconds: float
    reconcile_pauses_seconds: tuple[float, float]
    lock_seconds: float
    max_deliveries: int
    settlement_seconds: float
    late_charge_seconds: float
    requests_per_second: float
    has_idempotency: bool


def customer_id_of(number: int) -> str:
    """The id of a planned customer, by its place in the plan."""
    return f"customer-{number + 1}"


def draw_plan(seed: int, flows: Flows | None = None) -> Plan:
    """Choose everything that can be chosen beforehand.

    Args:
        seed: decides it.
        flows: which flows to use; None lets the seed choose.
    """
    chance = random.Random(f"plan:{seed}")
    drawn_flows = _weighted(chance, {Flows.PAYMENT_INTENT: 5, Flows.CHARGE: 2, Flows.MIXED: 3})
    flows = flows or drawn_flows
    chaos_seconds = chance.choice(CHAOS_SECONDS)
    processes = _draw_processes(chance, flows)
    customer_count = chance.choice((1, 1, 2, 3, 5))
    customers = [_draw_customer(chance, number) for number in range(customer_count)]
    clouds = [process.cloud for process in processes if process.cloud is not None]
    requires_run = chance.random() < 0.9
    rates = draw_rates(chance)
    return Plan(
        seed=seed,
        flows=flows,
        customers=customers,
        publications=_draw_publications(chance, len(customers), clouds, chaos_seconds),
        interventions=_draw_interventions(chance, chaos_seconds, requires_run),
        processes=processes,
        rates=rates,
        sore_spot=_draw_sore_spot(chance, flows),
        chaos_seconds=chaos_seconds,
        cap_cents=_draw_cap_cents(chance, [customer.amount_cents for customer in customers]),
        require_run=requires_run,
        lease_seconds=_draw_lease_seconds(chance, flows),
        reconcile_pauses_seconds=_draw_reconcile_pauses_seconds(chance, chaos_seconds),
        lock_seconds=chance.choice((20.0, 60.0, 300.0)),
        max_deliveries=chance.choice((3, 5, 10)),
        settlement_seconds=chance.choice((SECONDS_PER_HOUR, 4 * SECONDS_PER_DAY)),
        late_charge_seconds=_late_charge_seconds(rates),
        requests_per_second=chance.choice((0.0, 0.0, 0.0, 2.0)),
        has_idempotency=flows is not Flows.PAYMENT_INTENT or chance.random() < 0.5,
    )


def _draw_processes(chance: random.Random, flows: Flows) -> Sequence[PlannedProcess]:
    def flow() -> Flow:
        return chance.choice(list(Flow)) if flows is Flows.MIXED else Flow(flows)

    count = chance.randint(2, 5)
    consumers = [
        PlannedProcess(
            name=f"consumer-{number}",
            cloud=chance.choice(CLOUDS),
            worker_count=chance.choice((1, 1, 1, 2)),
            flow=flow(),
            is_foreign=number == count and chance.random() < 0.05,
        )
        for number in range(1, count + 1)
    ]
    reconcilers = [
        PlannedProcess(f"reconciler-{number}", None, 1, flow(), is_foreign=False)
        for number in range(1, chance.choice((1, 1, 2)) + 1)
    ]
    return [*consumers, *reconcilers]


def _draw_cap_cents(chance: random.Random, amounts_cents: Sequence[int]) -> int:
    """Enough for all twice, just enough, or too little for all at once."""
    owed_cents = sum(amounts_cents)
    if len(amounts_cents) == 1:
        return chance.choice((2 * owed_cents, owed_cents))
    return chance.choice((2 * owed_cents, owed_cents, owed_cents - min(amounts_cents)))


def _draw_sore_spot(chance: random.Random, flows: Flows) -> tuple[Hazard, str] | None:
    drawn = chance.random()
    unreached = {Flows.PAYMENT_INTENT: _CHARGE_PLACES, Flows.CHARGE: _INTENT_PLACES}.get(flows, ())
    if drawn < 0.45:
        return Hazard.CRASH, chance.choice([place for place in PLACES if place not in unreached])
    if drawn < 0.85:
        stale = [place for place in STALE_PLACES if place not in unreached]
        return Hazard.FREEZE, chance.choice(stale)
    return None


def _draw_lease_seconds(chance: random.Random, flows: Flows) -> float:
    # Clocks differ and machines stand still, so a lease may lapse while its holder still has a
    # budget. The two-step flow does not rest on leases at all; the one-step flow does.
    is_short = flows is Flows.PAYMENT_INTENT and chance.random() < 0.5
    return SHORT_LEASE_SECONDS if is_short else LEASE_SECONDS


def _late_charge_seconds(rates: Mapping[Hazard, float]) -> float:
    """How late a one-step charge may come: beyond it lies the residual risk of that flow.

    Less than what Stripe's 24 hours leave beyond the 23 in which it is sent again. And where a
    refusal may be followed by a yes, not after the two leases that make a refusal count.
    """
    if Hazard.SPEND_CAP in rates:
        return 2 * LEASE_SECONDS - LATEST_SEND_SECONDS
    return 3000.0


def _draw_reconcile_pauses_seconds(
    chance: random.Random, chaos_seconds: float
) -> tuple[float, float]:
    """The shortest and the longest pause; now and then nobody reconciles for days."""
    shortest = 300.0 if chance.random() < 0.7 else min(26 * SECONDS_PER_HOUR, chaos_seconds / 3)
    return shortest, max(2 * shortest, chaos_seconds / 3)


def _draw_customer(chance: random.Random, number: int) -> PlannedCustomer:
    return PlannedCustomer(
        customer_id=customer_id_of(number),
        funding=_weighted(chance, _FUNDING_WEIGHTS),
        amount_cents=10 if chance.random() < 0.03 else chance.randint(100, 5000),
        names_method=chance.random() < 0.2,
    )


def _draw_publications(
    chance: random.Random, customer_count: int, clouds: Sequence[str], chaos_seconds: float
) -> Sequence[Publication]:
    publications: list[Publication] = []

    def publish(at_seconds: float, customer: int, attempt: int, kind: EventKind) -> None:
        publications.append(Publication(at_seconds, customer, attempt, kind, chance.choice(clouds)))

    for customer in range(customer_count):
        publish(30.0 * chance.random(), customer, 1, EventKind.PLAIN)
        for _ in range(chance.randint(0, 4)):
            # Half of the duplicates race with the first message, half come when all seems done.
            latest_seconds = 60.0 if chance.random() < 0.5 else chaos_seconds
            kind = _weighted(chance, _EVENT_KIND_WEIGHTS)
            publish(latest_seconds * chance.random(), customer, 1, kind)
        for attempt in range(2, chance.choice((1, 1, 2, 3)) + 1):
            latest_seconds = 1200.0 if chance.random() < 0.5 else chaos_seconds
            publish(latest_seconds * chance.random(), customer, attempt, EventKind.PLAIN)
    return publications


def _draw_interventions(
    chance: random.Random, chaos_seconds: float, requires_run: bool
) -> Sequence[Intervention]:
    interventions = []
    if requires_run:
        opened_at_seconds = 0.0 if chance.random() < 0.8 else 1200.0 * chance.random()
        interventions.append(Intervention(opened_at_seconds, InterventionKind.OPEN_RUN, 0))
    for _ in range(chance.choice((0, 0, 1, 2, 4))):
        latest_seconds = 120.0 if chance.random() < 0.7 else chaos_seconds
        kind = _weighted(chance, _INTERVENTION_WEIGHTS)
        at_seconds = latest_seconds * chance.random()
        interventions.append(Intervention(at_seconds, kind, chance.randrange(60)))
    return interventions


_Kind = TypeVar("_Kind", bound=StrEnum)


def _weighted(chance: random.Random, weights: Mapping[_Kind, int]) -> _Kind:
    return chance.choices(list(weights), list(weights.values()))[0]
