"""Goal: a fault strikes what it was told to strike, as often and as likely, and nothing else."""

import pytest

from local.servicebus_emulator.faults import (
    DELIVERY_FAULTS,
    MAXIMUM_FAULTS,
    RENEWAL_FAULTS,
    SETTLEMENT_FAULTS,
    Candidate,
    Fault,
    FaultKind,
    FaultPlan,
    FaultStatus,
    Match,
)
from tests.servicebus_emulator.support import DeskClock

RENEWAL = Candidate("billing", "renew-lock", "m-1")


@pytest.fixture
def clock() -> DeskClock:
    return DeskClock()


@pytest.fixture
def plan(clock: DeskClock) -> FaultPlan:
    return FaultPlan(7, clock)


def strikes(plan: FaultPlan, count: int, candidate: Candidate = RENEWAL) -> list[bool]:
    return [plan.choose(RENEWAL_FAULTS, candidate) is not None for _ in range(count)]


def test_no_fault_strikes_nothing(plan: FaultPlan) -> None:
    assert strikes(plan, 3) == [False] * 3


def test_nth_and_count(plan: FaultPlan) -> None:
    plan.add(Fault(FaultKind.RENEWAL_BUSY, Match(nth=2, count=2)))

    assert strikes(plan, 5) == [False, True, True, False, False]
    (status,) = plan.in_force()
    assert (status.matched, status.struck) == (5, 2)


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        (Match(), True),
        (Match(entity="BILLING"), True),
        (Match(entity="other"), False),
        (Match(operation="renew-lock"), True),
        (Match(operation="peek-message"), False),
        (Match(message_id="m-1"), True),
        (Match(message_id="m-2"), False),
    ],
)
def test_what_is_given_limits(plan: FaultPlan, match: Match, fits: bool) -> None:
    plan.add(Fault(FaultKind.RENEWAL_BUSY, match))

    assert strikes(plan, 1) == [fits]


def test_kinds_are_kept_apart(plan: FaultPlan) -> None:
    plan.add(Fault(FaultKind.RENEWAL_BUSY))

    assert plan.choose(SETTLEMENT_FAULTS | DELIVERY_FAULTS, RENEWAL) is None


def test_the_first_that_strikes_wins(plan: FaultPlan) -> None:
    plan.add(Fault(FaultKind.RENEWAL_BUSY, Match(count=1)))
    plan.add(Fault(FaultKind.MANAGEMENT_TIMEOUT))

    chosen = [plan.choose(RENEWAL_FAULTS, RENEWAL) for _ in range(2)]
    assert [fault.kind for fault in chosen if fault is not None] == [
        FaultKind.RENEWAL_BUSY,
        FaultKind.MANAGEMENT_TIMEOUT,
    ]


def test_chances_follow_the_seed(clock: DeskClock) -> None:
    def run(seed: int) -> list[bool]:
        plan = FaultPlan(seed, clock)
        plan.add(Fault(FaultKind.RENEWAL_BUSY, Match(probability=0.3)))
        return strikes(plan, 1000)

    assert run(1) == run(1) != run(2)
    assert 200 < sum(run(1)) < 400


def test_a_throttle_lets_so_many_through_a_second(plan: FaultPlan, clock: DeskClock) -> None:
    plan.add(Fault(FaultKind.RENEWAL_THROTTLE, per_second=3))

    assert strikes(plan, 5) == [False, False, False, True, True]
    clock.advance(0.5)
    assert strikes(plan, 2) == [False, True]
    clock.advance(60)
    assert strikes(plan, 4) == [False, False, False, True]


def test_a_slow_throttle_lets_one_through_now_and_then(plan: FaultPlan, clock: DeskClock) -> None:
    plan.add(Fault(FaultKind.RENEWAL_THROTTLE, per_second=0.1))

    assert strikes(plan, 2) == [False, True]
    clock.advance(9)
    assert strikes(plan, 1) == [True]
    clock.advance(1)
    assert strikes(plan, 2) == [False, True]


def test_a_throttle_can_let_nothing_through(plan: FaultPlan, clock: DeskClock) -> None:
    plan.add(Fault(FaultKind.RENEWAL_THROTTLE))
    clock.advance(1000)

    assert strikes(plan, 2) == [True, True]


def test_faults_come_and_go(plan: FaultPlan) -> None:
    first = plan.add(Fault(FaultKind.RENEWAL_BUSY))
    plan.add(Fault(FaultKind.DELIVERY_DROPPED))

    assert plan.remove(first)
    assert not plan.remove(first)
    assert [status.fault.kind for status in plan.in_force()] == [FaultKind.DELIVERY_DROPPED]
    plan.clear()
    assert plan.in_force() == []


def test_their_number_has_a_limit(plan: FaultPlan) -> None:
    for _ in range(MAXIMUM_FAULTS):
        plan.add(Fault(FaultKind.RENEWAL_BUSY))

    with pytest.raises(ValueError, match="at most"):
        plan.add(Fault(FaultKind.RENEWAL_BUSY))


@pytest.mark.parametrize(
    "fault",
    [
        Fault(FaultKind.RENEWAL_BUSY, Match(entity="billing", count=3, probability=0.5)),
        Fault(FaultKind.SETTLEMENT_LOST, Match(operation="complete"), acts=False, cuts=True),
        Fault(FaultKind.DELIVERY_DELAYED, seconds=2.5),
    ],
)
def test_faults_survive_json(fault: Fault) -> None:
    assert Fault.from_json(fault.to_json()) == fault
    status = FaultStatus("fault_1", fault, 3, 2)
    assert FaultStatus.from_json(status.to_json()) == status


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "not a valid FaultKind"),
        ({"kind": "earthquake"}, "not a valid FaultKind"),
        ({"kind": "renewal_busy", "colour": 1}, "colour"),
        ({"kind": "renewal_busy", "match": {"colour": 1}}, "colour"),
        ({"kind": "renewal_busy", "match": {"nth": 0}}, "start at 1"),
        ({"kind": "renewal_busy", "match": {"count": 0}}, "start at 1"),
        ({"kind": "renewal_busy", "match": {"probability": 2}}, "between 0 and 1"),
        ({"kind": "renewal_busy", "acts": False}, "acts says nothing"),
        ({"kind": "renewal_busy", "cuts": True}, "cuts says nothing"),
        ({"kind": "delivery_delayed", "seconds": -1}, "seconds lie"),
        ({"kind": "renewal_throttle", "per_second": -1}, "per_second lies"),
        ({"kind": "delivery_delayed", "seconds": "1"}, "not supported"),
    ],
)
def test_nonsense_is_refused(given: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Fault.from_json(given)
