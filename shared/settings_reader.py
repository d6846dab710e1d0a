"""Reads settings from an environment, one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from shared.errors import SettingsError
from shared.periods import FORMAT_EXPECTED, period_at

Value = TypeVar("Value")


class SettingsReader:
    """Reads one setting after the other, and collects what is wrong with them.

    Args:
        environment: the settings, by name.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def refuse_problems(self) -> None:
        """Raise `SettingsError` if there are any."""
        if self.problems:
            raise SettingsError(self.problems)

    def text(self, name: str) -> str | None:
        """A setting as it stands; None when it is not set."""
        value = self._environment.get(name, "").strip()
        return value or None

    def required(self, name: str) -> str:
        """A setting that must be there."""
        value = self.text(name)
        if value is None:
            self.problems.append(f"{name} is missing")
        return value or ""

    def parsed(
        self, name: str, default: Value, parse: Callable[[str], Value], expected: str
    ) -> Value:
        """A setting that has a default.

        Args:
            name: the setting.
            default: what holds where it is not set, or is wrong.
            parse: reads it, or raises `ValueError`.
            expected: what it should have been, for people.
        """
        value = self.text(name)
        if value is None:
            return default
        try:
            return parse(value)
        except ValueError:
            self.problems.append(f"{name} must be {expected}")
            return default

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        """One of some words, in any case."""

        def parse(value: str) -> str:
            if value.lower() not in choices:
                raise ValueError
            return value.lower()

        return self.parsed(name, default, parse, f"one of {', '.join(choices)}")

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""

        def parse(value: str) -> bool:
            _refuse_unless(value.lower() in ("true", "1", "false", "0"))
            return value.lower() in ("true", "1")

        return self.parsed(name, default, parse, "true or false")

    def number(self, name: str, default: float, *, least: float, most: float) -> float:
        """A number within bounds."""

        def parse(value: str) -> float:
            number = float(value)
            _refuse_unless(least <= number <= most)
            return number

        return self.parsed(name, default, parse, f"a number from {least:g} to {most:g}")

    def whole(self, name: str, default: int, *, least: int, most: int) -> int:
        """A whole number within bounds."""

        def parse(value: str) -> int:
            number = int(value)
            _refuse_unless(least <= number <= most)
            return number

        return self.parsed(name, default, parse, f"a whole number from {least} to {most}")

    def matching(self, name: str, default: str, pattern: re.Pattern[str], expected: str) -> str:
        """A text of some form."""

        def parse(value: str) -> str:
            _refuse_unless(pattern.fullmatch(value) is not None)
            return value

        return self.parsed(name, default, parse, expected)

    def period_format(self, name: str, default: str) -> str:
        """The format that makes a period of a date."""

        def parse(value: str) -> str:
            period_at(datetime.now(UTC), value, 0)
            return value

        return self.parsed(name, default, parse, FORMAT_EXPECTED)


def _refuse_unless(condition: bool) -> None:
    if not condition:
        raise ValueError
