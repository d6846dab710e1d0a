"""What is searched: every machine with all of its rules, and once without each of them."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from local.model import one_step, spend, two_step
from local.model.one_step import REPLAY_HOURS, WINDOW_HOURS, OneStep
from local.model.search import Broken, Step, search, stuck
from local.model.spend import Spend
from local.model.two_step import TwoStep

ONE_PAYMENT = "at most one payment succeeds"
NO_MONEY = "a record without money is right for ever"
RIGHTLY_PARKED = "only somebody else's cancel parks a record"
OWN_ACCOUNT = "money moves in our own account"
MOVED_WITHIN_CAP = "the money that moved stays within the cap"
BOOKED_WITHIN_CAP = "what is charged and held stays within the cap"


class Machine(Protocol):
    """What can be searched."""

    @property
    def start(self) -> Any:
        """Where it begins."""

    @property
    def invariants(self) -> dict[str, Callable[[Any], bool]]:
        """What must hold in every state."""

    def steps(self, world: Any) -> Iterator[Step[Any]]:
        """Everything that can happen in a state."""

    def is_at_rest(self, world: Any) -> bool:
        """Whether nothing remains to be done."""


@dataclass(frozen=True, slots=True)
class Check:
    """One search.

    Args:
        name: what may happen in it.
        machine: what is searched.
        breaks: the invariant that the search is to find broken; None: it is to find nothing.
        without: the rules that are left out, in the words of the design.
        is_long: it takes more than a few seconds.
    """

    name: str
    machine: Machine
    breaks: str | None = None
    without: tuple[StrEnum, ...] = ()
    is_long: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of a search.

    Args:
        check: which one.
        state_count: how many states can be reached.
        step_count: how many steps lead from one to another.
        judgment_count: how often an invariant was looked at.
        stuck_count: from how many states no way without further faults leads to rest.
        broken: the invariant that does not hold, with the shortest way there.
        seconds: how long it took.
    """

    check: Check
    state_count: int
    step_count: int
    judgment_count: int
    stuck_count: int
    broken: Broken | None
    seconds: float

    @property
    def is_as_expected(self) -> bool:
        """Whether it found what it was to find, and nothing where it was to find nothing."""
        if self.check.breaks is None:
            return self.broken is None and self.stuck_count == 0
        return self.broken is not None and self.broken.invariant == self.check.breaks


def run(check: Check) -> Checked:
    """Search, and where all must be well look for states that never come to rest, too."""
    started = time.monotonic()
    machine = check.machine
    invariants = machine.invariants
    if check.breaks is not None:
        invariants = {check.breaks: invariants[check.breaks]}
    searched = search(machine.start, machine.steps, invariants)
    is_whole = check.breaks is None and searched.broken is None
    stuck_count = len(stuck(searched, machine.steps, machine.is_at_rest)) if is_whole else 0
    return Checked(
        check,
        len(searched.worlds),
        searched.step_count,
        searched.judgment_count,
        stuck_count,
        searched.broken,
        time.monotonic() - started,
    )


def _two_step(name: str, *, is_long: bool = False, **scope: Any) -> Check:
    machine = TwoStep(two_step.Scope(**scope))
    return Check(f"two steps: {name}", machine, is_long=is_long)


WHOLE: Sequence[Check] = (
    _two_step("crashes, lost answers, a late request, forgotten keys"),
    _two_step("two late requests", late=2, is_long=True),
    _two_step("three consumers", workers=3, is_long=True),
    _two_step("a second attempt", attempts=2, is_long=True),
    _two_step("parked and delivered again", numbers=1, is_long=True),
    _two_step("others cancel PaymentIntents", outsiders=True, is_long=True),
    _two_step("an operator cancels", operator=True, is_long=True),
    _two_step("orphans are swept", sweeper=True, is_long=True),
    _two_step("a consumer of another account", foreign=True),
    _two_step("the flow is switched", switches=True, attempts=2, is_long=True),
    _two_step("the database loses commits", losses=1, is_long=True),
    Check("one step: no request is late", OneStep(one_step.Scope(latest_hours=0)), is_long=True),
    Check("spend: ledger and proxy", Spend(spend.Scope())),
    Check("spend: the ledger alone", Spend(spend.Scope(has_proxy=False))),
    Check("spend: the proxy alone", Spend(spend.Scope(has_ledger=False))),
)
"""Searches that must find nothing."""


def _without(
    rule: two_step.Rule, breaks: str, *more: two_step.Rule, is_long: bool = False, **scope: Any
) -> Check:
    rules = (rule, *more)
    machine = TwoStep(two_step.Scope(**scope, without=frozenset(rules)))
    return Check("two steps", machine, breaks, rules, is_long)


def _without_in_one_step(rule: one_step.Rule, breaks: str, *, is_long: bool = False) -> Check:
    machine = OneStep(one_step.Scope(latest_hours=0, without=frozenset({rule})))
    return Check("one step", machine, breaks, (rule,), is_long)


def _without_in_spend(rule: spend.Rule, breaks: str, *, by_ledger: bool) -> Check:
    scope = spend.Scope(has_ledger=by_ledger, has_proxy=not by_ledger, without=frozenset({rule}))
    return Check("spend", Spend(scope), breaks, (rule,))


_R = two_step.Rule

BROKEN: Sequence[Check] = (
    _without(_R.CANCEL_BEFORE_ENDING, NO_MONEY),
    _without(_R.CONFIRM_STORED, ONE_PAYMENT),
    _without(_R.STORE_ONCE, ONE_PAYMENT, _R.FENCE_STORE),
    _without(_R.FENCE_ENDINGS, NO_MONEY),
    _without(_R.FENCE_STORE, NO_MONEY),
    _without(_R.STORE_VERDICT, RIGHTLY_PARKED),
    _without(_R.RECORD_FIRST, NO_MONEY),
    _without(_R.MISSING_IS_DOUBT, NO_MONEY, _R.CHECK_ACCOUNT, foreign=True),
    _without(_R.CHECK_ACCOUNT, OWN_ACCOUNT, foreign=True),
    _without(_R.ROW_DECIDES_FLOW, ONE_PAYMENT, switches=True),
    _without(_R.SWEEP_DECIDED, RIGHTLY_PARKED, sweeper=True),
    _without(_R.SUSPEND_AFTER_LOSS, ONE_PAYMENT, is_long=True, losses=1),
    _without(_R.REBUILD_WHEN_QUIET, ONE_PAYMENT, is_long=True, losses=1),
    _without(_R.NEW_CREATE_KEY, RIGHTLY_PARKED, is_long=True, numbers=1),
    _without_in_one_step(one_step.Rule.LIST_WHEN_OLD, ONE_PAYMENT, is_long=True),
    _without_in_one_step(one_step.Rule.WAIT_UNTIL_QUIET, NO_MONEY),
    _without_in_one_step(one_step.Rule.SAME_KEY, ONE_PAYMENT),
    _without_in_one_step(one_step.Rule.LIST_NOT_SEARCH, ONE_PAYMENT, is_long=True),
    Check(
        "one step: STRIPE_REPLAY_HOURS beyond Stripe's window",
        OneStep(one_step.Scope(latest_hours=0, replay_hours=WINDOW_HOURS + 1)),
        ONE_PAYMENT,
        is_long=True,
    ),
    Check(
        "one step: a request that is late by more than 24 h less STRIPE_REPLAY_HOURS",
        OneStep(one_step.Scope(latest_hours=WINDOW_HOURS - REPLAY_HOURS + 1)),
        ONE_PAYMENT,
        is_long=True,
    ),
    Check(
        "one step: a request that is late by more than two leases",
        OneStep(one_step.Scope(latest_hours=1)),
        NO_MONEY,
    ),
    _without_in_spend(spend.Rule.HOLD_AND_CHECK, BOOKED_WITHIN_CAP, by_ledger=True),
    _without_in_spend(spend.Rule.END_BY_CANCEL, MOVED_WITHIN_CAP, by_ledger=True),
    _without_in_spend(spend.Rule.RESERVE_AND_CHECK, MOVED_WITHIN_CAP, by_ledger=False),
    _without_in_spend(spend.Rule.KEEP_DOUBTFUL, MOVED_WITHIN_CAP, by_ledger=False),
    _without_in_spend(spend.Rule.REVOKE_FIRST, MOVED_WITHIN_CAP, by_ledger=False),
    _without_in_spend(spend.Rule.COUNT_HELD, MOVED_WITHIN_CAP, by_ledger=False),
)
"""Searches that must find what goes wrong: a rule is left out, or the world is worse than said."""
