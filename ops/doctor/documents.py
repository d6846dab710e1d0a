"""What `chargeonce doctor --json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from ops.doctor.examination import Examination
from ops.doctor.rule import Severity


def examination_document(examination: Examination) -> Mapping[str, object]:
    """Findings, worst first, and what is not known."""
    return {
        "places": list(examination.places),
        "errors": examination.count(Severity.ERROR),
        "warnings": examination.count(Severity.WARNING),
        "complete": examination.is_complete,
        "findings": [asdict(finding) for finding in examination.findings],
        "unread": [asdict(unread) for unread in examination.unread],
    }
