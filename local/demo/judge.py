"""The judge: holds the records against the ledger of money that really moved. No I/O."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from local.demo.observer import ParkedSeen, RecordSeen
from local.demo.plan import CURRENCY, ENDS_AS, PERIOD, Customer
from local.stripe_simulator import LedgerEntry
from shared.record import FINAL, State

INVALID_EVENT: Final = "InvalidEvent"
ENDED: Final = FINAL | {State.PARKED}


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that is known when the demo is over.

    Attributes:
        customers: Those who had a valid event published.
        invalid_events: How many messages were published that are no valid event.
        unsettled_messages: How many messages were not done with in time.
        records: What the database says, by customer.
        parked: The messages that the database keeps because they were dead-lettered.
        dead_letters: Ids of the messages that arrived in the dead-letter topic.
        ledger: The money that really moved, by the simulator.
        cap_cents: The run's cap.
        held_cents: What the run still holds.
        charged_cents: What the run says was charged.
        most_committed_cents: The most that was charged and held at any time it was looked at.
    """

    customers: Sequence[Customer]
    invalid_events: int
    unsettled_messages: int
    records: Mapping[str, RecordSeen]
    parked: Sequence[ParkedSeen]
    dead_letters: frozenset[str]
    ledger: Sequence[LedgerEntry]
    cap_cents: int
    held_cents: int
    charged_cents: int
    most_committed_cents: int

    @property
    def charges(self) -> Sequence[LedgerEntry]:
        """The movements of money that are charges."""
        return [entry for entry in self.ledger if entry.kind == "charge"]

    @property
    def moved_cents(self) -> int:
        """What was really charged."""
        return sum(entry.amount for entry in self.charges)

    @property
    def refused_customers(self) -> frozenset[str]:
        """Customers of whom a message was dead-lettered with a reason."""
        return frozenset(event.customer_id for event in self.parked if event.customer_id)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the judge found.

    Attributes:
        double_charges: Charges beyond the first of a customer and period, by the ledger.
        lost_events: Published events that came to no end.
        promises_broken: One sentence each; empty when all promises were kept.
    """

    double_charges: int
    lost_events: int
    promises_broken: Sequence[str]


def judge(evidence: Evidence) -> Judgement:
    """Check every promise against the ledger."""
    doubles = list(_double_charges(evidence.charges))
    lost = list(_lost_events(evidence))
    broken = [
        *(f"{payer} was charged {count} times" for payer, count in doubles),
        *lost,
        *_disagreements(evidence),
        *_wrong_endings(evidence),
        *_cap_violations(evidence),
        *_unsettled_messages(evidence),
    ]
    return Judgement(sum(count - 1 for _, count in doubles), len(lost), broken)


def _double_charges(charges: Sequence[LedgerEntry]) -> Iterator[tuple[str, int]]:
    """Whoever was charged more than once: by business identity, else by Stripe customer."""
    by_identity = Counter(_identity(entry) for entry in charges)
    doubled = {identity for identity, count in by_identity.items() if count > 1}
    yield from ((" in ".join(identity), by_identity[identity]) for identity in sorted(doubled))
    rest = Counter(str(entry.customer) for entry in charges if _identity(entry) not in doubled)
    yield from ((customer, count) for customer, count in sorted(rest.items()) if count > 1)


def _identity(entry: LedgerEntry) -> tuple[str, str]:
    metadata = entry.metadata
    return metadata.get("customer_id", ""), metadata.get("billing_period", "")


def _lost_events(evidence: Evidence) -> Iterator[str]:
    refused = evidence.refused_customers
    for customer in evidence.customers:
        record = evidence.records.get(customer.customer_id)
        if record is None:
            if customer.customer_id not in refused:
                yield f"the event of {customer.customer_id} left no trace"
        elif record.state not in ENDED:
            yield f"{customer.customer_id} is still {record.state}"
    kept = sum(parked.reason == INVALID_EVENT for parked in evidence.parked)
    yield from ["an invalid event was not kept"] * (evidence.invalid_events - kept)


def _disagreements(evidence: Evidence) -> Iterator[str]:
    """Records that say something else than the ledger, in both directions."""
    known = {customer.customer_id for customer in evidence.customers}
    charges: dict[str, list[LedgerEntry]] = {}
    for entry in evidence.charges:
        charges.setdefault(entry.metadata.get("customer_id", ""), []).append(entry)
    for customer_id in sorted(charges.keys() - evidence.records.keys()):
        yield f"{customer_id or 'somebody'} was charged and has no record"
    for customer_id in sorted(charges.keys() - known):
        yield f"{customer_id or 'somebody'} was charged and had no event"
    for customer_id, record in sorted(evidence.records.items()):
        if not _agrees(record, charges.get(customer_id, [])):
            yield f"the record of {customer_id} ({record.state}) contradicts the ledger"


def _agrees(record: RecordSeen, charges: Sequence[LedgerEntry]) -> bool:
    if record.state is not State.CHARGED:
        return not charges
    return len(charges) == 1 and all(
        (entry.amount, entry.currency, entry.payment_intent, entry.metadata.get("billing_period"))
        == (record.amount_cents, record.currency, record.payment_id, PERIOD)
        for entry in charges
    )


def _wrong_endings(evidence: Evidence) -> Iterator[str]:
    """Records that are final, but not as the customer's card and amount have it."""
    for customer in evidence.customers:
        expected = ENDS_AS[customer.kind]
        record = evidence.records.get(customer.customer_id)
        if record is None:
            if expected is not None and customer.customer_id in evidence.refused_customers:
                yield f"{customer.customer_id} was refused and should be {expected}"
        elif expected is None:
            yield f"{customer.customer_id} asked for more than the cap and was let through"
        elif record.state in ENDED and record.state is not expected:
            yield f"{customer.customer_id} should be {expected} and is {record.state}"
        elif (record.amount_cents, record.currency) != (customer.amount_cents, CURRENCY):
            yield f"the record of {customer.customer_id} has another amount than the event"


def _cap_violations(evidence: Evidence) -> Iterator[str]:
    if evidence.moved_cents > evidence.cap_cents:
        yield f"{evidence.moved_cents} cents moved, {evidence.cap_cents} were allowed"
    if evidence.most_committed_cents > evidence.cap_cents:
        yield "charged and held together passed the cap"
    if evidence.charged_cents != evidence.moved_cents:
        yield f"the run counts {evidence.charged_cents} cents, {evidence.moved_cents} moved"
    if evidence.held_cents != 0:
        yield f"{evidence.held_cents} cents are still held"


def _unsettled_messages(evidence: Evidence) -> Iterator[str]:
    if evidence.unsettled_messages:
        yield f"{evidence.unsettled_messages} messages were not settled in time"
    kept = {parked.message_id for parked in evidence.parked}
    missing = kept - evidence.dead_letters
    if missing:
        yield f"{len(missing)} refused messages are not in the dead-letter topic"
