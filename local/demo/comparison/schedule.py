"""Whom the comparison charges, and what happens to each of them: all of it from the seed."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from local.demo.plan import CURRENCY, PERIOD

LEAST_AMOUNT_CENTS: Final = 100
MOST_AMOUNT_CENTS: Final = 25_000
GOOD_CARD: Final = "tok_visa"
BAD_CARD: Final = "tok_chargeCustomerFail"


class Mishap(StrEnum):
    """What is special about a customer's event."""

    NONE = "none"
    # Stripe charges, and its answer gets lost.
    ANSWER_IS_LOST = "answer_is_lost"
    # The publisher was not sure and published again, which gives another message id.
    IS_PUBLISHED_TWICE = "is_published_twice"
    CARD_DECLINES = "card_declines"


# Of twenty customers. As many answers are lost as two processes of ten places each can hold.
_SHARES: Final = {
    Mishap.ANSWER_IS_LOST: 5,
    Mishap.IS_PUBLISHED_TWICE: 2,
    Mishap.CARD_DECLINES: 1,
}
_RESENT_SHARE: Final = 0.2


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """What was asked for.

    Attributes:
        seed: Repeats the customers, their events and the mishaps.
        customers: How many are to be charged, by each contestant.
    """

    seed: int
    customers: int


@dataclass(frozen=True, slots=True)
class Subject:
    """A customer, what the period costs, and what goes wrong on the way."""

    customer_id: str
    stripe_customer_id: str
    amount_cents: int
    mishap: Mishap

    @property
    def card(self) -> str:
        """The test token behind the customer."""
        return BAD_CARD if self.mishap is Mishap.CARD_DECLINES else GOOD_CARD

    @property
    def event(self) -> bytes:
        """The usage event."""
        fields = {
            "customer_id": self.customer_id,
            "billing_period": PERIOD,
            "stripe_customer_id": self.stripe_customer_id,
            "amount_cents": self.amount_cents,
            "currency": CURRENCY,
        }
        return json.dumps(fields).encode()


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything that every contestant gets.

    Attributes:
        subjects: The customers.
        first_day: The events in the order in which they are published.
        next_day: Events that an operator sends again when Stripe has forgotten its keys.
    """

    subjects: Sequence[Subject]
    first_day: Sequence[bytes]
    next_day: Sequence[bytes]

    @property
    def expected_cents(self) -> int:
        """What the customers owe together."""
        return sum(subject.amount_cents for subject in self.subjects)


def write_schedule(plan: ComparisonPlan) -> Schedule:
    """Make up customers, events and mishaps."""
    chance = random.Random(f"comparison:{plan.seed}")
    subjects = [
        Subject(
            f"customer-{number:04d}",
            f"cus_comparison{number:04d}",
            chance.randint(LEAST_AMOUNT_CENTS, MOST_AMOUNT_CENTS),
            mishap,
        )
        for number, mishap in enumerate(_mishaps(chance, plan.customers))
    ]
    events = [subject.event for subject in subjects]
    again = [s.event for s in subjects if s.mishap is Mishap.IS_PUBLISHED_TWICE]
    first_day = chance.sample([*events, *again], len(events) + len(again))
    next_day = chance.sample(events, int(len(events) * _RESENT_SHARE))
    return Schedule(subjects, first_day, next_day)


def _mishaps(chance: random.Random, count: int) -> Sequence[Mishap]:
    mishaps = [mishap for mishap, share in _SHARES.items() for _ in range(count * share // 20)]
    mishaps += [Mishap.NONE] * (count - len(mishaps))
    chance.shuffle(mishaps)
    return mishaps
