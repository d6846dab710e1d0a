"""Which billing period is due: the mint timers of both clouds go by it."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from shared.errors import SettingsError
from shared.periods import period_at
from shared.settings import read_run_settings


@pytest.mark.parametrize(
    ("period_format", "offset", "expected"),
    [
        ("%Y-%m", 0, "2027-01"),
        ("%Y-%m", -1, "2026-12"),
        ("%Y-%m", -13, "2025-12"),
        ("%Y-%m", 12, "2028-01"),
        ("%Y", -1, "2026"),
        ("%Y-%m-%d", -1, "2026-12-31"),
        ("%Y-%j", -1, "2026-365"),
        ("usage.%Y_%m", -1, "usage.2026_12"),
        # New Year's day of 2027 is in the last week of 2026.
        ("%G-W%V", 0, "2026-W53"),
        ("%G-W%V", 1, "2027-W01"),
        ("%G-W%V", -1, "2026-W52"),
    ],
)
def test_offset_counts_the_finest_unit(period_format: str, offset: int, expected: str) -> None:
    """Goal: the period before this one, across the ends of months and years."""
    assert period_at(datetime(2027, 1, 1, tzinfo=UTC), period_format, offset) == expected


def test_last_day_of_a_long_month_has_a_month_before_it() -> None:
    """Goal: there is no 31st of February to trip over."""
    assert period_at(datetime(2027, 3, 31, tzinfo=UTC), "%Y-%m", -1) == "2027-02"


def test_periods_begin_in_utc() -> None:
    """Goal: a clock in another zone opens the same run."""
    new_year = datetime(2027, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    assert period_at(new_year, "%Y-%m", 0) == "2026-12"


@pytest.mark.parametrize(
    "period_format",
    [
        "%m",
        "%d",
        "2026",
        "%Y-%V",
        "%G-%m",
        "%Y-W%W",
        "%Y-%m-%d-%H",
        "%Y:%m",
        "%Y %m",
        "%%",
        "%Y-%m%",
    ],
)
def test_format_that_cannot_name_periods_is_refused_at_start(period_format: str) -> None:
    """Goal: a name that comes again would leave everybody unbilled; a colon would break keys."""
    with pytest.raises(ValueError, match="BILLING_PERIOD_FORMAT"):
        period_at(datetime(2027, 1, 1, tzinfo=UTC), period_format, 0)
    with pytest.raises(SettingsError, match="BILLING_PERIOD_FORMAT"):
        read_run_settings({"BILLING_PERIOD_FORMAT": period_format})
