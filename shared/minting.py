"""Opening the run of the period that is due: what the mint timers of both clouds do."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from shared.errors import RunError
from shared.periods import period_at
from shared.ports import Run, Runs
from shared.runs import cap_from_expected
from shared.settings import RunSettings

EXPECTED_TOTAL_SECONDS = 30.0


class ExpectedTotals(Protocol):
    """Where `BILLING_EXPECTED_TOTAL_SQL` is asked."""

    def expected_total_cents(
        self, statement: str, billing_period: str, limit_seconds: float
    ) -> int | None:
        """Run the statement, which gets the period as `$1` and can change nothing.

        Returns:
            Its one value; None when it is null.

        Raises:
            RunError: it failed, took too long, or gave anything but one whole number.
            RecordsUnavailable: the database is away.
        """


def open_due_run(
    runs: Runs, totals: ExpectedTotals, settings: RunSettings, currency: str, now: datetime
) -> tuple[Run, bool]:
    """Open the run of the period that is due, unless it was opened before.

    Args:
        runs: the runs.
        totals: asked for the expected total where the settings name a statement.
        settings: which period is due, what is expected of it, and how large its cap is.
        currency: the run's.
        now: the present moment.

    Returns:
        The run, and whether this call opened it.

    Raises:
        RunError: the expected total is zero, missing or unreadable, so no run was opened.
        RecordsUnavailable: the database is away.
    """
    billing_period = period_at(now, settings.period_format, settings.period_offset)
    existing = runs.get_run(billing_period)
    if existing is not None:
        return existing, False
    expected_cents = _expected_cents(totals, settings, billing_period)
    if expected_cents <= 0:
        raise RunError(
            f"no run was opened for {billing_period}: its expected total is zero or missing. Its "
            "events wait. See BILLING_EXPECTED_TOTAL_CENTS and BILLING_EXPECTED_TOTAL_SQL, or "
            "open it with `chargeonce run open`"
        )
    cap_cents = cap_from_expected(expected_cents, settings.cap_percent)
    return runs.open_run(billing_period, currency, expected_cents, cap_cents)


def _expected_cents(totals: ExpectedTotals, settings: RunSettings, billing_period: str) -> int:
    if settings.expected_total_sql is None:
        return settings.expected_total_cents or 0
    found = totals.expected_total_cents(
        settings.expected_total_sql, billing_period, EXPECTED_TOTAL_SECONDS
    )
    return found or 0
