"""What `chargeonce doctor` shows to people."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ops.doctor.examination import Examination
from ops.doctor.rule import Finding, Severity

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow"}


def print_examination(console: Console, examination: Examination) -> None:
    """Every finding with its reason and its cure, then what is not known, then the count."""
    for finding in examination.findings:
        _print_finding(console, finding)
    for unread in examination.unread:
        console.print(Text(f"not read: {unread.what} ({unread.why})", style="dim"))
    errors, warnings = (examination.count(severity) for severity in Severity)
    console.print(f"looked at: {', '.join(examination.places)}")
    console.print(f"errors: {errors}, warnings: {warnings}")


def _print_finding(console: Console, finding: Finding) -> None:
    style = _STYLES[finding.severity]
    console.print(
        Text.assemble((str(finding.severity), style), f" {finding.rule} in {finding.place}")
    )
    console.print(Padding(Text(f"{finding.what.rstrip('.')}.\n{finding.why}"), (0, 0, 0, 2)))
    console.print(Padding(Text(f"mend: {finding.mend}"), (0, 0, 1, 2)))
