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
from tests.infra.planning import GCP, Plan

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
    assert all(len(each.said) > 20 for each in report.suppressed)
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


class TestAlerts:
    def test_what_must_be_told_is(self, push_plan: Plan) -> None:
        told = {
            each["display_name"].removeprefix("chargeonce: ")
            for each in push_plan.of_type("monitoring_alert_policy")
        }
        assert told >= {
            "dead_letters",
            "double_charge_detected",
            "function_failed",
            "lock_lost",
            "oldest_message",
            "overdue",
            "spend_near_cap",
            "stripe_auth_failed",
            "timer_failed",
        }

    def test_they_wait_for_lines_that_the_program_writes(self, push_plan: Plan) -> None:
        known = {*map(str, DecisionEvent)}
        for policy in push_plan.of_type("monitoring_alert_policy"):
            for matched in policy["conditions"][0]["condition_matched_log"]:
                assert set(re.findall(r'jsonPayload\.event="(\w+)"', matched["filter"])) <= known
                codes = set(re.findall(r'jsonPayload\.code="(\w+)"', matched["filter"]))
                assert codes <= {OVERDUE}

    def test_an_event_that_is_left_is_no_failure(self, push_plan: Plan) -> None:
        """Cloud Run calls a 503 an error in its own log; it is how `bill` leaves an event."""
        policy = push_plan.resources['google_monitoring_alert_policy.log["function_failed"]']
        (matched,) = policy["conditions"][0]["condition_matched_log"]
        assert f"NOT httpRequest.status={LEFT}" in matched["filter"]
