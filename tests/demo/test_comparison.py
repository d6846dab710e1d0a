"""The comparison: its schedule follows from the seed, its scores from the ledger alone."""

import json
from collections import Counter
from pathlib import Path
from typing import Literal

import pytest

from local.demo.comparison import ComparisonPlan
from local.demo.comparison.schedule import Mishap, Schedule, write_schedule
from local.demo.comparison.score import score
from local.demo.plan import CURRENCY
from local.stripe_simulator import LedgerEntry
from shared.event import parse_event
from tests.demo.test_demo import finish, start_demo

PLAN = ComparisonPlan(seed=7, customers=100)
SCHEDULE = write_schedule(PLAN)
FIVE_SEEDS = (1, 2, 3, 4, 5)


def charge(
    schedule: Schedule, number: int, kind: Literal["charge", "refund"] = "charge"
) -> LedgerEntry:
    """A movement of money that concerns one of the customers."""
    subject = schedule.subjects[number]
    return LedgerEntry(
        moved_at=0.0,
        kind=kind,
        amount=subject.amount_cents,
        currency=CURRENCY,
        customer=subject.stripe_customer_id,
        payment_intent=None,
        charge=f"ch_{number}",
        description=None,
        metadata={},
        account="acct_1",
        livemode=False,
        idempotency_key=None,
        request_id=None,
    )


def owing(schedule: Schedule) -> list[int]:
    """The customers whose card works."""
    return [
        number
        for number, subject in enumerate(schedule.subjects)
        if subject.mishap is not Mishap.CARD_DECLINES
    ]


def test_a_seed_repeats_the_schedule() -> None:
    assert write_schedule(PLAN) == SCHEDULE
    assert write_schedule(ComparisonPlan(seed=8, customers=100)) != SCHEDULE


@pytest.mark.parametrize("customers", [20, 100])
def test_every_mishap_happens_to_somebody(customers: int) -> None:
    schedule = write_schedule(ComparisonPlan(seed=1, customers=customers))
    mishaps = Counter(subject.mishap for subject in schedule.subjects)
    assert set(mishaps) == set(Mishap)
    twice = mishaps[Mishap.IS_PUBLISHED_TWICE]
    assert len(schedule.first_day) == customers + twice
    assert set(schedule.next_day) < set(schedule.first_day)
    events = {parse_event(body, CURRENCY).customer_id for body in schedule.first_day}
    assert events == {subject.customer_id for subject in schedule.subjects}


def test_a_clean_score() -> None:
    ledger = [charge(SCHEDULE, number) for number in owing(SCHEDULE)]
    result = score(SCHEDULE, ledger, workers_stuck=0, messages_stuck=0)
    assert result.is_clean
    assert result.charges == len(owing(SCHEDULE))


def test_a_score_counts_harm() -> None:
    """Three charges of one customer are two too many; a refund is none; one was forgotten."""
    hit, forgotten, *others = owing(SCHEDULE)
    ledger = [charge(SCHEDULE, number) for number in (hit, hit, hit, *others)]
    ledger.append(charge(SCHEDULE, others[0], kind="refund"))
    result = score(SCHEDULE, ledger, workers_stuck=2, messages_stuck=20)
    assert (result.double_charges, result.customers_hit, result.events_lost) == (2, 1, 1)
    assert result.overcharged_cents == 2 * SCHEDULE.subjects[hit].amount_cents
    assert not result.is_clean
    assert forgotten != hit


@pytest.mark.prove
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", FIVE_SEEDS)
def test_only_ours_is_clean(tmp_path: Path, seed: int) -> None:
    """Goal: both others charge somebody twice, ours nobody and never stands still."""
    demo = start_demo(tmp_path, "--naive", "--seed", str(seed), "--json")
    stdout, stderr = finish(demo, within_seconds=380)
    assert (demo.returncode, stderr) == (0, "")
    scores = json.loads(stdout)["scores"]
    assert scores["unsafe"]["double_charges"] > 0
    assert scores["safe"]["double_charges"] > 0
    assert scores["safe"]["messages_stuck"] > 0
    harm = ("double_charges", "overcharged_cents", "events_lost", "workers_stuck", "messages_stuck")
    assert {scores["ours"][name] for name in harm} == {0}
    assert list(tmp_path.iterdir()) == []
