"""Which billing period a moment belongs to, and which one comes so many before or after it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

_DIRECTIVE = re.compile(r"%(.)")
_PERIOD = re.compile(r"[A-Za-z0-9._-]{1,64}")

FORMAT_EXPECTED = (
    "a format such as %Y-%m, %Y-%m-%d, %Y-%j, %G-W%V or %Y: it has to name each period once and "
    "for all, in letters, digits, dots, dashes or underscores"
)


def period_at(now: datetime, period_format: str, offset: int) -> str:
    """The name of a period.

    Args:
        now: a moment, in any time zone; periods begin and end in UTC.
        period_format: as for `strftime`, of those in `FORMAT_EXPECTED`; its finest unit is what
            `offset` counts.
        offset: 0 for the period of that moment, -1 for the one before it.

    Raises:
        ValueError: the format cannot name periods.
    """
    shift = _SHIFTS.get(frozenset(_DIRECTIVE.findall(period_format)))
    if shift is None:
        raise ValueError(f"BILLING_PERIOD_FORMAT must be {FORMAT_EXPECTED}")
    period = shift(now.astimezone(UTC), offset).strftime(period_format)
    if not _PERIOD.fullmatch(period):
        raise ValueError(f"BILLING_PERIOD_FORMAT must be {FORMAT_EXPECTED}")
    return period


def _years_later(moment: datetime, years: int) -> datetime:
    return moment.replace(year=moment.year + years, month=1, day=1)


def _months_later(moment: datetime, months: int) -> datetime:
    years, month = divmod(moment.month - 1 + months, 12)
    return moment.replace(year=moment.year + years, month=month + 1, day=1)


def _weeks_later(moment: datetime, weeks: int) -> datetime:
    return moment + timedelta(weeks=weeks)


def _days_later(moment: datetime, days: int) -> datetime:
    return moment + timedelta(days=days)


# %V without %G, and %U or %W with anything, would name parts of weeks around New Year.
_SHIFTS: dict[frozenset[str], Callable[[datetime, int], datetime]] = {
    frozenset("Y"): _years_later,
    frozenset("Ym"): _months_later,
    frozenset("GV"): _weeks_later,
    frozenset("Ymd"): _days_later,
    frozenset("Yj"): _days_later,
}
