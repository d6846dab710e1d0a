"""The Terraform as it is written: parsed, checked by checkov, and small enough to read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hcl2

from gcp_function.settlement import LEFT
from shared.decision_log import OVERDUE, DecisionEvent
from tests.infra.checkov import run_checkov
from tests.infra.planning import GCP, ROOT, Plan

LONGEST_FILE_LINES = 300


def _files() -> list[Path]:
    return sorted(GCP.rglob("*.tf"))


def _parse(file: Path) -> dict[str, Any]:
    with file.open(encoding="utf-8") as stream:
        parsed: dict[str, Any] = hcl2.load(stream)
    return parsed


def _resources() -> Iterator[tuple[str, str]]:
    """File and address of each resource."""
    for file in _files():
        for resource in _parse(file).get("resource", []):
            for kind, named in resource.items():
                for name in named:
                    if not name.startswith("__"):
                        address = f"{kind}.{name}".replace('"', "")
                        yield str(file.relative_to(GCP)), address


def test_checkov_finds_nothing_that_is_not_explained() -> None:
    report = run_checkov("terraform", GCP)
    assert report.unreadable == ()
    assert report.failed == ()
    # An exception that nothing needs any more would hide the next finding.
    assert {(each.check, each.file, each.said) for each in report.suppressed} == {
        (check, str(file.relative_to(GCP)), why)
        for file in _files()
        for check, why in re.findall(r"checkov:skip=(\w+): (.+)", file.read_text(encoding="utf-8"))
    }
    # It says nothing about what it does not know, but it knows these.
    seen = {(file, resource.split("[")[0]) for file, resource in report.seen}
    known = {
        each
        for each in _resources()
        if each[1].split(".")[0]
        in (
            "google_pubsub_topic",
            "google_cloudfunctions2_function",
            "google_sql_database_instance",
        )
    }
    assert len(known) == 5
    assert known <= seen


def test_each_file_can_be_read_in_one_go() -> None:
    lengths = {file.name: len(file.read_text().splitlines()) for file in _files()}
    assert {name for name, lines in lengths.items() if lines > LONGEST_FILE_LINES} == set()


def test_numbers_are_plain() -> None:
    """`chargeonce doctor --offline` reads them where they are written."""
    variables = {
        name.strip('"'): given
        for each in _parse(GCP / "variables.tf")["variable"]
        for name, given in each.items()
    }
    for name in ("ack_deadline_seconds", "function_timeout_seconds", "concurrency"):
        assert isinstance(variables[name]["default"], int)


# Service Bus has no metric for the age of a message, and so one alert more.
AZURE_ALONE = {"queue-does-not-drain"}


class TestAlerts:
    def test_both_clouds_tell_the_same(self, push_plan: Plan) -> None:
        """Under the same names, so that one runbook does for both."""
        azure = set(re.findall(r"name: '([a-z-]+)'", _alerts_of_azure()))
        assert len(azure) > 10
        assert _told(push_plan) == azure - AZURE_ALONE

    def test_they_wait_for_lines_that_the_program_writes(self, push_plan: Plan) -> None:
        filters = " ".join(
            matched["filter"]
            for policy in push_plan.of_type("monitoring_alert_policy")
            for matched in policy["conditions"][0]["condition_matched_log"]
        )
        wanted = re.findall(r"jsonPayload\.event=(\(.*?\)|\S+)", filters)
        events = {name for each in wanted for name in re.findall(r'"(\w+)"', each)}
        assert len(events) >= 8
        assert events <= {*map(str, DecisionEvent)}
        assert set(re.findall(r'jsonPayload\.code="(\w+)"', filters)) == {OVERDUE}

    def test_an_event_that_is_left_is_no_failure(self, push_plan: Plan) -> None:
        """Cloud Run calls a 503 an error in its own log; it is how `bill` leaves an event."""
        policy = push_plan.resources['google_monitoring_alert_policy.log["function-failed"]']
        (matched,) = policy["conditions"][0]["condition_matched_log"]
        assert f"NOT httpRequest.status={LEFT}" in matched["filter"]


def _told(plan: Plan) -> set[str]:
    policies = plan.of_type("monitoring_alert_policy")
    return {each["display_name"].removeprefix("chargeonce: ") for each in policies}


def _alerts_of_azure() -> str:
    """The lists of alerts, without the resources that are made of them."""
    text = (ROOT / "infra" / "azure" / "alerts.bicep").read_text(encoding="utf-8")
    return text.partition("var logAlerts")[2].partition("\nresource ")[0]
