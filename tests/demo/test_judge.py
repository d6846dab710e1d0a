"""The judge of the demo: each promise, broken in a fabricated ledger or database, is noticed."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from local.demo.judge import Evidence, judge
from local.demo.observer import ParkedSeen, RecordSeen
from local.demo.plan import CURRENCY, PERIOD, Cloud, Customer, Kind
from local.stripe_simulator import LedgerEntry
from shared.record import State


def owes(name: str, kind: Kind, card: str | None, amount_cents: int) -> Customer:
    return Customer(name, f"cus_{name}", kind, card, amount_cents, tuple(Cloud))


PAYS = owes("pays", Kind.PAYS, "pm_card_visa", 1000)
DECLINES = owes("declines", Kind.DECLINES, "pm_card_chargeCustomerFail", 500)
UNKNOWN = owes("unknown", Kind.IS_UNKNOWN_TO_STRIPE, None, 500)
RUNAWAY = owes("runaway", Kind.RUNS_AWAY, "pm_card_visa", 9999)


def record(customer: Customer, state: State) -> RecordSeen:
    payment_id = f"pi_{customer.customer_id}" if state is State.CHARGED else None
    return RecordSeen(
        customer.customer_id, state, customer.amount_cents, CURRENCY, payment_id, doubts=0
    )


def charge(customer: Customer, number: int = 1) -> LedgerEntry:
    return LedgerEntry(
        moved_at=0.0,
        kind="charge",
        amount=customer.amount_cents,
        currency=CURRENCY,
        customer=customer.stripe_customer_id,
        payment_intent=f"pi_{customer.customer_id}",
        charge=f"ch_{customer.customer_id}_{number}",
        description=None,
        metadata={"customer_id": customer.customer_id, "billing_period": PERIOD},
        account="acct_1",
        livemode=False,
        idempotency_key=None,
        request_id=None,
    )


HONEST = Evidence(
    customers=[PAYS, DECLINES, UNKNOWN, RUNAWAY],
    invalid_events=1,
    unsettled_messages=0,
    records={
        "pays": record(PAYS, State.CHARGED),
        "declines": record(DECLINES, State.DECLINED),
        "unknown": record(UNKNOWN, State.REJECTED),
    },
    parked=[
        ParkedSeen("pubsub-push", "message-1", "InvalidEvent", None),
        ParkedSeen("servicebus", "message-2", "Rejected", "unknown"),
        ParkedSeen("pubsub-pull", "message-3", "CapReached", "runaway"),
    ],
    dead_letters=frozenset({"message-1", "message-2", "message-3"}),
    ledger=[charge(PAYS)],
    cap_cents=1100,
    held_cents=0,
    charged_cents=1000,
    most_committed_cents=1100,
)


def with_record(seen: RecordSeen) -> Evidence:
    return replace(HONEST, records={**HONEST.records, seen.customer_id: seen})


def without_record(customer_id: str) -> Evidence:
    records = {name: seen for name, seen in HONEST.records.items() if name != customer_id}
    return replace(HONEST, records=records)


def with_charge(entry: LedgerEntry) -> Evidence:
    return replace(HONEST, ledger=[*HONEST.ledger, entry])


def test_kept_promises() -> None:
    judgement = judge(HONEST)
    assert judgement.promises_broken == []
    assert (judgement.double_charges, judgement.lost_events) == (0, 0)


def test_a_double_charge() -> None:
    judgement = judge(with_charge(charge(PAYS, 2)))
    assert judgement.double_charges == 1
    assert "pays in 2026-11 was charged 2 times" in judgement.promises_broken


def test_a_double_charge_under_another_identity() -> None:
    """Two periods, or metadata gone wrong, do not hide that one Stripe customer paid twice."""
    other = replace(charge(PAYS, 2), metadata={"customer_id": "pays", "billing_period": "2026-12"})
    judgement = judge(with_charge(other))
    assert judgement.double_charges == 1
    assert "cus_pays was charged 2 times" in judgement.promises_broken


def test_a_refund_is_not_a_charge() -> None:
    refund = replace(charge(PAYS), kind="refund")
    assert judge(with_charge(refund)).double_charges == 0


def test_an_event_without_a_trace() -> None:
    judgement = judge(replace(without_record("pays"), ledger=[], charged_cents=0))
    assert judgement.lost_events == 1
    assert judgement.promises_broken == ["the event of pays left no trace"]


@pytest.mark.parametrize("state", [State.IN_PROGRESS, State.IN_DOUBT, State.PROCESSING])
def test_an_event_without_an_end(state: State) -> None:
    judgement = judge(with_record(record(DECLINES, state)))
    assert judgement.lost_events == 1
    assert judgement.promises_broken == [f"declines is still {state}"]


def test_an_invalid_event_that_was_dropped() -> None:
    judgement = judge(replace(HONEST, invalid_events=2))
    assert judgement.lost_events == 1
    assert judgement.promises_broken == ["an invalid event was not kept"]


Break = Callable[[], Evidence]

BROKEN: dict[str, Break] = {
    "the record of declines (declined) contradicts the ledger": lambda: with_charge(
        charge(DECLINES)
    ),
    "the record of pays (charged) contradicts the ledger": lambda: replace(HONEST, ledger=[]),
    "stranger was charged and has no record": lambda: with_charge(
        charge(replace(PAYS, customer_id="stranger", stripe_customer_id="cus_stranger"))
    ),
    "stranger was charged and had no event": lambda: with_charge(
        charge(replace(PAYS, customer_id="stranger", stripe_customer_id="cus_stranger"))
    ),
    "pays should be charged and is declined": lambda: with_record(record(PAYS, State.DECLINED)),
    "pays should be charged and is parked": lambda: with_record(record(PAYS, State.PARKED)),
    "unknown was refused and should be rejected": lambda: without_record("unknown"),
    "runaway asked for more than the cap and was let through": lambda: with_record(
        record(RUNAWAY, State.DECLINED)
    ),
    "the record of declines has another amount than the event": lambda: with_record(
        replace(record(DECLINES, State.DECLINED), amount_cents=499)
    ),
    "1000 cents moved, 999 were allowed": lambda: replace(HONEST, cap_cents=999),
    "charged and held together passed the cap": lambda: replace(HONEST, most_committed_cents=1101),
    "the run counts 999 cents, 1000 moved": lambda: replace(HONEST, charged_cents=999),
    "1 cents are still held": lambda: replace(HONEST, held_cents=1),
    "2 messages were not settled in time": lambda: replace(HONEST, unsettled_messages=2),
    "1 refused messages are not in the dead-letter topic": lambda: replace(
        HONEST, dead_letters=frozenset({"message-1", "message-2"})
    ),
}


@pytest.mark.parametrize("sentence", BROKEN)
def test_a_broken_promise(sentence: str) -> None:
    assert sentence in judge(BROKEN[sentence]()).promises_broken


@pytest.mark.parametrize(
    "change",
    [
        {"amount": 999},
        {"currency": "eur"},
        {"payment_intent": "pi_another"},
        {"metadata": {"customer_id": "pays", "billing_period": "2026-10"}},
    ],
)
def test_a_charge_other_than_recorded(change: dict[str, object]) -> None:
    entry = replace(charge(PAYS), **change)  # type: ignore[arg-type]
    evidence = replace(HONEST, ledger=[entry])
    sentence = "the record of pays (charged) contradicts the ledger"
    assert sentence in judge(evidence).promises_broken
