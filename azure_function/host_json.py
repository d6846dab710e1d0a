"""Holding host.json against the settings: what they have to agree on is checked at start."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared.errors import SettingsError
from shared.settings import Settings

HOST_JSON = Path(__file__).resolve().parents[1] / "host.json"

_DURATION = re.compile(r"(?:(\d+)\.)?(\d{1,2}):(\d{2}):(\d{2})")


def check_host_json(path: Path, settings: Settings) -> None:
    """Check what decides whether a charge is cut off or a lock runs out under it.

    Args:
        path: where host.json is.
        settings: checked.

    Raises:
        SettingsError: lists all problems at once.
    """
    problems = host_json_problems(json.loads(path.read_text("utf-8")), settings)
    if problems:
        raise SettingsError(problems)


def host_json_problems(host: Mapping[str, Any], settings: Settings) -> list[str]:
    """What in host.json does not go with the settings, a sentence each."""
    servicebus = host.get("extensions", {}).get("serviceBus", {})
    longest_seconds = settings.rules.budget_seconds + settings.rules.attempt_seconds
    budget = f"CHARGE_BUDGET_SECONDS plus one attempt ({longest_seconds:g} seconds)"
    problems = []
    if servicebus.get("autoCompleteMessages") is not False:
        problems.append("host.json: autoCompleteMessages must be false")
    if servicebus.get("prefetchCount", 0) != 0:
        problems.append("host.json: prefetchCount must be 0: locks run out in the buffer")
    if _seconds(servicebus.get("maxAutoLockRenewalDuration", "00:05:00")) <= longest_seconds:
        problems.append(f"host.json: maxAutoLockRenewalDuration must be longer than {budget}")
    if _seconds(host.get("functionTimeout", "00:05:00")) <= longest_seconds:
        problems.append(f"host.json: functionTimeout must be longer than {budget}")
    if servicebus.get("maxConcurrentCalls", 16) > settings.servicebus.threads:
        problems.append(
            "host.json: maxConcurrentCalls must not be larger than PYTHON_THREADPOOL_THREAD_COUNT "
            f"({settings.servicebus.threads}): a message that waits for a thread loses its lock"
        )
    return problems


def _seconds(duration: object) -> float:
    """A .NET time span in seconds; -1, which stands for no limit, is no limit."""
    if duration in (-1, "-1"):
        return float("inf")
    match = _DURATION.fullmatch(str(duration))
    if match is None:
        return 0.0
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds
