"""What host.json says, with the defaults of the Service Bus extension."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What the host goes by.

    Attributes:
        completes: Whether it completes a message when the function has returned.
        renewal_seconds: How long it renews a lock at most.
        concurrent_calls: How many messages it has in hand at most.
        prefetch_count: How many it fetches ahead.
        timeout_seconds: When it gives a function up, and with it the worker.
    """

    completes: bool = True
    renewal_seconds: float = 300.0
    concurrent_calls: int = 16
    prefetch_count: int = 0
    timeout_seconds: float = 300.0

    @classmethod
    def read(cls, path: Path) -> "HostSettings":
        """Return what a host.json says."""
        content: dict[str, Any] = json.loads(path.read_text("utf-8"))
        servicebus = content.get("extensions", {}).get("serviceBus", {})
        return cls(
            completes=servicebus.get("autoCompleteMessages", True),
            renewal_seconds=_seconds(servicebus.get("maxAutoLockRenewalDuration", "00:05:00")),
            concurrent_calls=servicebus.get("maxConcurrentCalls", 16),
            prefetch_count=servicebus.get("prefetchCount", 0),
            timeout_seconds=_seconds(content.get("functionTimeout", "00:05:00")),
        )


def _seconds(duration: str) -> float:
    hours, minutes, seconds = (int(part) for part in duration.split(":"))
    return ((hours * 60 + minutes) * 60) + float(seconds)
