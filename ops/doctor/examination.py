"""Everything that doctor looked at, and what it came to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ops.doctor.facts import Facts
from ops.doctor.rule import Finding, Severity
from ops.doctor.rules import RULES


@dataclass(frozen=True, slots=True)
class Unread:
    """What could not be read, so that nothing is known of it.

    Args:
        what: could not be read.
        why: it could not.
        matters: whether that leaves the examination incomplete; an emulator is not.
    """

    what: str
    why: str
    matters: bool = True


@dataclass(frozen=True, slots=True)
class Examination:
    """The result.

    Args:
        places: that were looked at.
        findings: worst first.
        unread: what is not known.
    """

    places: Sequence[str]
    findings: Sequence[Finding]
    unread: Sequence[Unread]

    def count(self, severity: Severity) -> int:
        """How many findings there are of one kind."""
        return sum(finding.severity is severity for finding in self.findings)

    @property
    def is_complete(self) -> bool:
        """Whether all was read that could be."""
        return not any(unread.matters for unread in self.unread)


def examine(places: Iterable[Facts], unread: Sequence[Unread] = ()) -> Examination:
    """Judge every place by every rule."""
    seen = list(places)
    findings = [finding for rule in RULES for facts in seen for finding in rule.judge(facts)]
    findings.sort(key=lambda finding: finding.severity is not Severity.ERROR)
    return Examination([facts.place for facts in seen], findings, list(unread))
