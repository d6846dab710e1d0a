"""Billing runs: how a cap comes from what is expected."""

from __future__ import annotations

from shared.errors import RunError


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
