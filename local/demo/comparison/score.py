"""What a contestant did to its customers, by Stripe's ledger. No I/O."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from local.demo.comparison.schedule import Mishap, Schedule
from local.stripe_simulator import LedgerEntry


@dataclass(frozen=True, slots=True)
class Score:
    """What it came to.

    Attributes:
        charges: Movements of money.
        double_charges: Those beyond the first of a customer.
        customers_hit: Customers who were charged more than once.
        overcharged_cents: What they paid too much.
        events_lost: Customers who owe and were never charged.
        workers_stuck: Processes that waited for nothing at the end of the first day, while events
            waited for them.
        messages_stuck: What they held then.
    """

    charges: int
    double_charges: int
    customers_hit: int
    overcharged_cents: int
    events_lost: int
    workers_stuck: int
    messages_stuck: int

    @property
    def is_clean(self) -> bool:
        """Whether everybody who owes was charged once."""
        harm = (self.double_charges, self.events_lost, self.workers_stuck, self.messages_stuck)
        return not any(harm)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How all of them did.

    Attributes:
        seed: Repeats it.
        customers: How many each had.
        expected_cents: What they owed together.
        scores: By contestant.
        seconds: How long it took.
    """

    seed: int
    customers: int
    expected_cents: int
    scores: Mapping[str, Score]
    seconds: float

    def document(self) -> dict[str, object]:
        """What `--json` prints."""
        return asdict(self)


def score(
    schedule: Schedule, ledger: Sequence[LedgerEntry], workers_stuck: int, messages_stuck: int
) -> Score:
    """Count what happened to the customers."""
    charges = [entry for entry in ledger if entry.kind == "charge"]
    counts = Counter(str(entry.customer) for entry in charges)
    amounts = {subject.stripe_customer_id: subject.amount_cents for subject in schedule.subjects}
    extra = {customer: count - 1 for customer, count in counts.items() if count > 1}
    owing = [s for s in schedule.subjects if s.mishap is not Mishap.CARD_DECLINES]
    return Score(
        charges=len(charges),
        double_charges=sum(extra.values()),
        customers_hit=len(extra),
        overcharged_cents=sum(amounts[customer] * count for customer, count in extra.items()),
        events_lost=sum(subject.stripe_customer_id not in counts for subject in owing),
        workers_stuck=workers_stuck,
        messages_stuck=messages_stuck,
    )
