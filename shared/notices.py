"""Log lines for operators that are about no delivery, in the shape of the decision log."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable

from shared.decision_log import LOGGER_NAME

_logger = logging.getLogger(LOGGER_NAME)


def inform(message: str) -> None:
    """Something that went well and is worth a line."""
    _write(logging.INFO, message)


def warn(message: str) -> None:
    """Something that an operator should know of; never a value, token or body."""
    _write(logging.WARNING, message)


def warn_each(messages: Iterable[str]) -> None:
    """The same for each of them, such as what settings bring with them."""
    for message in messages:
        warn(message)


def alarm(message: str) -> None:
    """Something that an operator must mend; never a value, token or body."""
    _write(logging.ERROR, message)


def _write(level: int, message: str) -> None:
    line = {"severity": logging.getLevelName(level), "message": message}
    _logger.log(level, "%s", json.dumps(line, ensure_ascii=True))
