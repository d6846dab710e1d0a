"""Spans of time as templates write them."""

from __future__ import annotations

import re

_ISO = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)S)?)?"
)
_CLOCK = re.compile(r"(?P<hours>\d{1,2}):(?P<minutes>\d{2}):(?P<seconds>\d{2})")
_SECONDS = re.compile(r"(?P<seconds>\d+(?:\.\d+)?)s?")
_SECONDS_OF = {"days": 86_400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0}


def seconds_of(written: object) -> float:
    """A span in seconds: `PT5M`, `00:05:00`, `300s` or 300.

    Raises:
        ValueError: it is none.
    """
    text = str(written)
    for pattern in (_ISO, _CLOCK, _SECONDS):
        match = pattern.fullmatch(text)
        if match is not None and any(match.groupdict().values()):
            parts = match.groupdict()
            return sum(float(parts[name] or 0) * _SECONDS_OF[name] for name in parts)
    raise ValueError(f"{text!r} is no span of time")
