"""One JSON line for each decision, in the shape that both clouds' logging reads.

Cloud Logging takes `severity`, `message` and `logging.googleapis.com/labels` from a JSON line on
standard output; Application Insights keeps the line as the trace's message, to be read with
`parse_json(message)`. Alerts, metrics and the runbook use the names in `DecisionEvent`.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

LOGGER_NAME = "chargeonce"
OVERDUE = "overdue"

_logger = logging.getLogger(LOGGER_NAME)


class DecisionEvent(StrEnum):
    """The names that alerts are built on."""

    CHARGED = "charged"
    DECLINED = "declined"
    REJECTED = "rejected"
    PARKED = "parked"
    PROCESSING = "processing"
    DUPLICATE_PREVENTED = "duplicate_prevented"
    IN_PROGRESS_ELSEWHERE = "in_progress_elsewhere"
    IN_DOUBT = "in_doubt"
    RESOLVED = "resolved"
    TRANSIENT = "transient"
    CONFLICT = "conflict"
    INVALID_EVENT = "invalid_event"
    BLOCKED_BY_CAP = "blocked_by_cap"
    SPEND_NEAR_CAP = "spend_near_cap"
    LOCK_LOST = "lock_lost"
    SETTLEMENT_FAILED = "settlement_failed"
    HANDED_OVER = "handed_over"
    BREAKER_OPEN = "breaker_open"
    STRIPE_AUTH_FAILED = "stripe_auth_failed"
    DOUBLE_CHARGE_DETECTED = "double_charge_detected"


_WARNINGS = frozenset(
    {
        DecisionEvent.IN_DOUBT,
        DecisionEvent.TRANSIENT,
        DecisionEvent.PARKED,
        DecisionEvent.REJECTED,
        DecisionEvent.BLOCKED_BY_CAP,
        DecisionEvent.SPEND_NEAR_CAP,
        DecisionEvent.LOCK_LOST,
        DecisionEvent.SETTLEMENT_FAILED,
        DecisionEvent.HANDED_OVER,
        DecisionEvent.BREAKER_OPEN,
        DecisionEvent.INVALID_EVENT,
    }
)
_ERRORS = frozenset({DecisionEvent.CONFLICT, DecisionEvent.STRIPE_AUTH_FAILED})

LogValue = str | int | float | bool | None


def log_decision(event: DecisionEvent, message: str, **fields: LogValue) -> None:
    """Write one line.

    Args:
        event: what happened.
        message: one sentence for people; never a body, key or secret.
        fields: `transport`, `key`, `period`, `attempt`, `delivery_count`, `outcome`, `seconds` and
            the like. None values are left out.
    """
    _write(_level(event), event, message, fields)


def log_overdue(event: DecisionEvent, message: str, **fields: LogValue) -> None:
    """Write one line about something that takes too long: an error, however usual its event.

    Args:
        event: what it comes to so far.
        message: as for `log_decision`.
        fields: as for `log_decision`; the code is `overdue`.
    """
    _write(max(_level(event), logging.ERROR), event, message, {"code": OVERDUE, **fields})


def _write(level: int, event: DecisionEvent, message: str, fields: Mapping[str, LogValue]) -> None:
    line: dict[str, object] = {
        "severity": logging.getLevelName(level),
        "message": f"{event}: {message}" if message else str(event),
        "event": str(event),
    }
    line.update({name: value for name, value in fields.items() if value is not None})
    line["logging.googleapis.com/labels"] = {"event": str(event)}
    _logger.log(level, "%s", json.dumps(line, ensure_ascii=True))


def log_to_stdout() -> None:
    """Send the lines to standard output bare, as Cloud Logging wants them. Safe to call again.

    Azure's worker has a handler of its own on the root logger, so it needs no call.
    """
    if _logger.handlers:
        return
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    _logger.addHandler(handler)
    _logger.setLevel(logging.INFO)
    _logger.propagate = False


def describe_defect(error: BaseException) -> str:
    """An unexpected error by type and place. Its text stays out: it may quote a secret."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"


def _level(event: DecisionEvent) -> int:
    if event is DecisionEvent.DOUBLE_CHARGE_DETECTED:
        return logging.CRITICAL
    if event in _ERRORS:
        return logging.ERROR
    return logging.WARNING if event in _WARNINGS else logging.INFO
