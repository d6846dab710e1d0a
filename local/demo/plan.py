"""What a demo is about: its customers, their events and what is sent more than once.

Everything here follows from the seed; how the processes race each other does not.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from shared.record import State

PERIOD: Final = "2026-11"
CURRENCY: Final = "usd"
CAP_PERCENT: Final = 110

LEAST_AMOUNT_CENTS: Final = 100
MOST_AMOUNT_CENTS: Final = 25_000
MOST_EXTRA_COPIES: Final = 3
RUNAWAYS: Final = 2
# Of a hundred customers, how many have their events on which cloud; the rest on both at once.
PUBSUB_PERCENT: Final = 40
SERVICE_BUS_PERCENT: Final = 40
# One of so many is charged so slowly that the lock on its message runs out.
CUSTOMERS_PER_SLOW_ONE: Final = 40

_GOOD_CARDS: Final = ("pm_card_visa", "pm_card_mastercard", "pm_card_amex", "pm_card_visa_debit")
_BAD_CARDS: Final = (
    "pm_card_chargeCustomerFail",
    "pm_card_chargeDeclinedInsufficientFunds",
    "pm_card_chargeDeclinedExpiredCard",
    "pm_card_chargeDeclinedLostCard",
    "pm_card_authenticationRequired",
)


class Cloud(StrEnum):
    """What carries a message."""

    PUBSUB = "pubsub"
    SERVICE_BUS = "service_bus"


class Kind(StrEnum):
    """What is special about a customer."""

    PAYS = "pays"
    DECLINES = "declines"
    HAS_NO_CARD = "has_no_card"
    IS_UNKNOWN_TO_STRIPE = "is_unknown_to_stripe"
    RUNS_AWAY = "runs_away"


ENDS_AS: Final = {
    Kind.PAYS: State.CHARGED,
    Kind.DECLINES: State.DECLINED,
    Kind.HAS_NO_CARD: State.DECLINED,
    Kind.IS_UNKNOWN_TO_STRIPE: State.REJECTED,
    Kind.RUNS_AWAY: None,
}
"""The state in which a customer's record must end; None where the cap allows no record."""


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """What was asked for.

    Attributes:
        seed: Repeats the customers, their events and the faults.
        customers: How many are to be charged.
        delivery: `own` for our emulator, `gcloud` for Google's, `pusher` for push alone.
    """

    seed: int
    customers: int
    delivery: str = "own"


@dataclass(frozen=True, slots=True)
class Customer:
    """One customer of the demo, what the period costs them, and which clouds say so."""

    customer_id: str
    stripe_customer_id: str
    kind: Kind
    card: str | None
    amount_cents: int
    clouds: Sequence[Cloud]


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it is published, on each of these clouds."""

    body: bytes
    attributes: Mapping[str, str]
    clouds: Sequence[Cloud]


@dataclass(frozen=True, slots=True)
class Script:
    """Everything that will be published, and for whom.

    Attributes:
        customers: All of them, each with a valid event.
        messages: The first publication, in its order: a third of the customers more than once.
        invalid_events: How many of the messages can never become a charge.
        expected_cents: What the events add up to, without the runaways.
        slow_customers: Those whose charges Stripe answers late, all of them on Service Bus.
    """

    customers: Sequence[Customer]
    messages: Sequence[Message]
    invalid_events: int
    expected_cents: int
    slow_customers: Sequence[Customer]


def write_script(plan: DemoPlan) -> Script:
    """Make up customers and events."""
    chance = random.Random(f"demo:{plan.seed}")
    ordinary = _ordinary_customers(chance, plan.customers - RUNAWAYS)
    expected_cents = sum(customer.amount_cents for customer in ordinary)
    # Each asks for more than the whole cap, so none of it can be theirs, whatever comes first.
    amount_cents = 2 * expected_cents
    runaways = [
        Customer(
            f"runaway-{number}",
            f"cus_runaway{number}",
            Kind.RUNS_AWAY,
            _GOOD_CARDS[0],
            amount_cents,
            tuple(Cloud),
        )
        for number in range(RUNAWAYS)
    ]
    customers = [*ordinary, *runaways]
    messages = [message for customer in customers for message in _copies(chance, customer)]
    invalid = [_message(chance, body, [cloud]) for body in _invalid_bodies() for cloud in Cloud]
    messages += invalid
    chance.shuffle(messages)
    return Script(customers, messages, len(invalid), expected_cents, _slow_ones(customers))


def resend(plan: DemoPlan, customers: Sequence[Customer], count: int) -> Sequence[Message]:
    """The same events again, for a sample of customers, on clouds that did not bring them."""
    chance = random.Random(f"resend:{plan.seed}")
    chosen = chance.sample(list(customers), min(count, len(customers)))
    return [_message(chance, event_body(customer), _other_clouds(customer)) for customer in chosen]


def resubmit(plan: DemoPlan, bodies: Sequence[bytes], cloud: Cloud) -> Sequence[Message]:
    """Dead letters of a cloud again, as operators send them: only the envelopes are new."""
    chance = random.Random(f"resubmit:{plan.seed}:{cloud}")
    return [_message(chance, body, [cloud]) for body in bodies]


def event_body(customer: Customer) -> bytes:
    """The customer's usage event."""
    event = {
        "customer_id": customer.customer_id,
        "billing_period": PERIOD,
        "stripe_customer_id": customer.stripe_customer_id,
        "amount_cents": customer.amount_cents,
        "currency": CURRENCY,
        "description": f"Usage in {PERIOD}",
    }
    return json.dumps(event).encode()


def _ordinary_customers(chance: random.Random, count: int) -> list[Customer]:
    # A few of each special kind, one at least; everybody else simply pays.
    kinds = [
        *[Kind.DECLINES] * max(1, count // 16),
        *[Kind.HAS_NO_CARD] * max(1, count // 100),
        *[Kind.IS_UNKNOWN_TO_STRIPE] * max(1, count // 100),
    ]
    kinds += [Kind.PAYS] * (count - len(kinds))
    chance.shuffle(kinds)
    return [_customer(chance, number, kind) for number, kind in enumerate(kinds)]


def _customer(chance: random.Random, number: int, kind: Kind) -> Customer:
    card = None
    if kind is Kind.PAYS:
        card = chance.choice(_GOOD_CARDS)
    elif kind is Kind.DECLINES:
        card = chance.choice(_BAD_CARDS)
    amount_cents = chance.randint(LEAST_AMOUNT_CENTS, MOST_AMOUNT_CENTS)
    return Customer(
        f"customer-{number:04d}",
        f"cus_demo{number:04d}",
        kind,
        card,
        amount_cents,
        _clouds(chance.randrange(100)),
    )


def _clouds(percent: int) -> Sequence[Cloud]:
    if percent < PUBSUB_PERCENT:
        return (Cloud.PUBSUB,)
    if percent < PUBSUB_PERCENT + SERVICE_BUS_PERCENT:
        return (Cloud.SERVICE_BUS,)
    return tuple(Cloud)


def _other_clouds(customer: Customer) -> Sequence[Cloud]:
    return [cloud for cloud in Cloud if cloud not in customer.clouds] or customer.clouds


def _slow_ones(customers: Sequence[Customer]) -> Sequence[Customer]:
    able = [
        customer
        for customer in customers
        if customer.kind is Kind.PAYS and customer.clouds == (Cloud.SERVICE_BUS,)
    ]
    return able[: 1 + len(customers) // CUSTOMERS_PER_SLOW_ONE]


def _copies(chance: random.Random, customer: Customer) -> list[Message]:
    """A customer's event; a third of the customers have it published more than once."""
    copies = 1 + (chance.randint(1, MOST_EXTRA_COPIES) if chance.random() < 1 / 3 else 0)
    return [_message(chance, event_body(customer), customer.clouds) for _ in range(copies)]


def _message(chance: random.Random, body: bytes, clouds: Sequence[Cloud]) -> Message:
    source = chance.choice(("meter", "replay", "backfill"))
    attributes = {"source": source, "trace": f"{chance.getrandbits(64):016x}"}
    return Message(body, attributes, clouds)


def _invalid_bodies() -> Sequence[bytes]:
    event = {
        "customer_id": "nobody",
        "billing_period": PERIOD,
        "stripe_customer_id": "cus_nobody",
        "amount_cents": 500,
    }
    changes: Sequence[dict[str, object]] = (
        {"amount_cents": -500},
        {"amount_cents": 5.0},
        {"amount_cents": "500"},
        {"billing_period": "2026:11"},
        {"stripe_customer_id": None},
    )
    bodies = [json.dumps({**event, **change}).encode() for change in changes]
    return [*bodies, b"usage: 500 cents"]
