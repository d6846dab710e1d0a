"""Names and tables that users rely on: keys, outcomes, log lines."""

import json
import logging

import pytest

from shared.decision_log import DecisionEvent, describe_defect, log_decision
from shared.key import idempotency_key
from shared.outcome import OUTCOME_OF_STATE, Disposition, Outcome
from shared.record import State


def test_key_is_the_documented_hash() -> None:
    """Goal: the key is a contract; another formula would charge everybody again."""
    assert idempotency_key("customer-1", "2026-11", "usage-billing") == (
        "fae4e47b106876ca3ffa52a6c6108e5b"
    )


@pytest.mark.parametrize(
    "other",
    [
        ("customer-2", "2026-11", "n"),
        ("customer-1", "2026-12", "n"),
        ("customer-1", "2026-11", "m"),
    ],
)
def test_key_differs_with_each_part(other: tuple[str, str, str]) -> None:
    """Goal: customer, period and namespace all count."""
    assert idempotency_key(*other) != idempotency_key("customer-1", "2026-11", "n")


def test_every_outcome_has_one_disposition() -> None:
    """Goal: the settlement table is complete, and unknown outcomes are never settled away."""
    assert {outcome.disposition for outcome in Outcome} == set(Disposition)
    left = {outcome for outcome in Outcome if outcome.disposition is Disposition.LEAVE}
    assert left == {
        Outcome.IN_PROGRESS_ELSEWHERE,
        Outcome.IN_DOUBT,
        Outcome.TRANSIENT,
        Outcome.RUN_MISSING,
    }
    assert set(OUTCOME_OF_STATE) == set(State)


def test_reason_reads_like_the_brokers_own() -> None:
    """Goal: what stands in the dead letters is a stable word."""
    assert Outcome.INVALID_EVENT.reason == "InvalidEvent"
    assert Outcome.CAP_REACHED.reason == "CapReached"


def test_log_line_is_json_with_both_clouds_names(caplog: pytest.LogCaptureFixture) -> None:
    """Goal: Cloud Logging finds severity, message and label; anybody can parse the line."""
    with caplog.at_level(logging.INFO, logger="chargeonce"):
        log_decision(DecisionEvent.IN_DOUBT, "no answer", transport="pubsub-push", code=None)
    line = json.loads(caplog.messages[0])
    assert line == {
        "severity": "WARNING",
        "message": "in_doubt: no answer",
        "event": "in_doubt",
        "transport": "pubsub-push",
        "logging.googleapis.com/labels": {"event": "in_doubt"},
    }


def test_defect_is_named_without_its_text() -> None:
    """Goal: an unexpected error can be found in the code, and quotes no secret."""
    with pytest.raises(ValueError, match="hunter2") as caught:
        int("postgresql://user:hunter2@host/db")
    described = describe_defect(caught.value)
    assert described.startswith("ValueError at test_names.py:")
    assert "hunter2" not in described
