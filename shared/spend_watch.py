"""Saying that a run's cap is nearly used up, before it blocks a charge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from shared.decision_log import DecisionEvent, log_decision
from shared.ports import Run

NEAR_CAP_PERCENT = 90


class RunsNearCap(Protocol):
    """Runs whose cap is nearly used up. May raise `RecordsUnavailable`."""

    def take_runs_near_cap(self, percent: int) -> Sequence[Run]:
        """Open runs that hold and charged so much of their cap; each cap is returned once.

        Args:
            percent: how much of the cap.
        """


def warn_of_runs_near_cap(runs: RunsNearCap) -> None:
    """Write one line for each run that reached `NEAR_CAP_PERCENT` of its cap since the last time.

    A cap that is raised is another cap.

    Args:
        runs: the runs.

    Raises:
        RecordsUnavailable: the database is away; the next time tells.
    """
    for run in runs.take_runs_near_cap(NEAR_CAP_PERCENT):
        used_cents = run.held_cents + run.charged_cents
        log_decision(
            DecisionEvent.SPEND_NEAR_CAP,
            f"run {run.billing_period} has used {used_cents} of its cap of {run.cap_cents} "
            f"{run.currency} (smallest unit)",
            period=run.billing_period,
            used_cents=used_cents,
            cap_cents=run.cap_cents,
        )
