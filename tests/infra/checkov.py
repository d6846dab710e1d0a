"""Running checkov over templates, and what it says.

It says nothing about a file that it cannot parse, and passes one that it finds no resource in: a
test also has to look at what was `seen`.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.infra.tools import infra_program

TIMEOUT_SECONDS = 100


@dataclass(frozen=True, order=True)
class Finding:
    """One check of one resource.

    Args:
        check: its id, `CKV_...`.
        resource: as checkov names it.
        file: relative to the directory that was checked.
        said: what the check is about, or why it is suppressed.
    """

    check: str
    resource: str
    file: str
    said: str


@dataclass(frozen=True)
class Report:
    """What checkov says about a directory."""

    passed: tuple[Finding, ...]
    failed: tuple[Finding, ...]
    suppressed: tuple[Finding, ...]
    unreadable: tuple[str, ...]

    @property
    def seen(self) -> frozenset[tuple[str, str]]:
        """File and resource of everything that a check looked at."""
        findings = (*self.passed, *self.failed, *self.suppressed)
        return frozenset((finding.file, finding.resource) for finding in findings)


def run_checkov(framework: str, directory: Path) -> Report:
    """Check every template below a directory, without the network.

    Args:
        framework: `bicep`, `terraform`, ...
        directory: is searched for templates.
    """
    command = [str(infra_program("checkov")), "--directory", str(directory)]
    command += ["--framework", framework, "--skip-download", "--output", "json"]
    # Else its two thousand modules are compiled anew for each run.
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    # 1 says that a check failed.
    assert done.returncode in (0, 1), done.stderr
    results = json.loads(done.stdout).get("results", {})
    return Report(
        passed=_findings(results.get("passed_checks", [])),
        failed=_findings(results.get("failed_checks", [])),
        suppressed=_findings(results.get("skipped_checks", [])),
        unreadable=tuple(results.get("parsing_errors", [])),
    )


def _findings(records: list[dict[str, Any]]) -> tuple[Finding, ...]:
    return tuple(sorted(map(_finding, records)))


def _finding(record: dict[str, Any]) -> Finding:
    return Finding(
        check=record["check_id"],
        resource=record["resource"],
        file=record["file_path"].lstrip("/"),
        said=(record["check_result"].get("suppress_comment") or record["check_name"]).strip(),
    )
