"""Billing runs: how a cap comes from what is expected, and what may not be done to a run."""

from __future__ import annotations

from shared.errors import RunError
from shared.ports import Run

CLOSED_OVER_CAP = "over_cap"
"""The reason of a run that closed itself because proof of money passed its cap."""


def cap_from_expected(expected_cents: int, cap_percent: int) -> int:
    """The cap of a run, rounded up to the smallest unit.

    Args:
        expected_cents: what the period's events should add up to.
        cap_percent: how much of it may be spent, e.g. 110.

    Raises:
        RunError: nothing is expected, so any cap would be a guess.
    """
    if expected_cents <= 0:
        raise RunError(
            "the expected total is zero or missing: a run without one would have no meaningful cap"
        )
    return -(-expected_cents * cap_percent // 100)


def cap_would_fall(run: Run, cap_cents: int) -> RunError:
    """The error of somebody who asks for a cap that is lower, and may have been passed already."""
    return RunError(
        f"the cap of run {run.billing_period} is {run.cap_cents}; {cap_cents} would lower it"
    )


def closed_over_cap(run: Run) -> RunError:
    """The error of somebody who would reopen a run that passed its cap."""
    return RunError(
        f"run {run.billing_period} closed because its cap of {run.cap_cents} was passed: "
        "raise the cap, which reopens it"
    )
