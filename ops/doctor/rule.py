"""What a rule is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from ops.doctor.facts import Facts


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found.

    Args:
        rule: its name, which stays the same from version to version.
        severity: an error can charge twice, lose an event or stop billing.
        place: where.
        what: is so, with its values.
        why: that is bad.
        mend: it like this.
    """

    rule: str
    severity: Severity
    place: str
    what: str
    why: str
    mend: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A pure function over facts, with what never changes of its findings.

    Args:
        name: the function's.
        severity: of all that it finds.
        why: what it finds is bad.
        mend: what it finds, like this.
        find: says what is so, a sentence each.
    """

    name: str
    severity: Severity
    why: str
    mend: str
    find: Callable[[Facts], Iterable[str]]

    def judge(self, facts: Facts) -> list[Finding]:
        """Everything that it finds in one place."""
        return [
            Finding(self.name, self.severity, facts.place, what, self.why, self.mend)
            for what in self.find(facts)
        ]


def _rule(
    severity: Severity, why: str, mend: str
) -> Callable[[Callable[[Facts], Iterable[str]]], Rule]:
    def make(find: Callable[[Facts], Iterable[str]]) -> Rule:
        return Rule(find.__name__, severity, why, mend, find)

    return make


def error(why: str, mend: str) -> Callable[[Callable[[Facts], Iterable[str]]], Rule]:
    """Make a rule of a function: what it finds can charge twice, lose an event or stop billing."""
    return _rule(Severity.ERROR, why, mend)


def warning(why: str, mend: str) -> Callable[[Callable[[Facts], Iterable[str]]], Rule]:
    """Make a rule of a function: what it finds wants a look, and may be meant so."""
    return _rule(Severity.WARNING, why, mend)
