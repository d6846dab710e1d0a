"""Goal: the page about the audit names every finding and the numbers that it ends with."""

import re
from pathlib import Path

from ops.audit.findings import FindingKind
from ops.exit_codes import ExitCode

PAGE = (Path(__file__).resolve().parents[2] / "docs/audit.md").read_text("utf-8")


def test_every_finding_is_in_the_table() -> None:
    assert re.findall(r"^\| `([a-z_]+)` \|", PAGE, re.MULTILINE) == [*FindingKind]


def test_the_exit_codes_are_named() -> None:
    told = {int(number) for number in re.findall(r"\*\*([0-9]+)\*\*", PAGE)}
    assert told == {ExitCode.OK, ExitCode.FINDINGS, ExitCode.STRIPE, ExitCode.DATABASE}
