"""host.json is held against the settings before any message is taken."""

import json
from typing import Any

import pytest

from azure_function.host_json import HOST_JSON, check_host_json, host_json_problems
from shared.settings import Settings, read_servicebus_settings

ENVIRONMENT = {
    "DATABASE_URL": "postgresql:///none",
    "STRIPE_API_KEY": "rk_test_hunter2",
    "ServiceBus": "Endpoint=sb://hunter2/",
    "BILLING_QUEUE": "billing",
    "PYTHON_THREADPOOL_THREAD_COUNT": "8",
}


@pytest.fixture
def settings() -> Settings:
    """The settings that everybody starts with."""
    return read_servicebus_settings(ENVIRONMENT)


def changed(path: str, value: Any) -> dict[str, Any]:
    """Our host.json with one value changed."""
    host: dict[str, Any] = json.loads(HOST_JSON.read_text("utf-8"))
    *folders, name = path.split(".")
    inner = host
    for folder in folders:
        inner = inner[folder]
    inner[name] = value
    return host


def test_ours_goes_with_the_usual_settings(settings: Settings) -> None:
    """Goal: what is shipped starts."""
    check_host_json(HOST_JSON, settings)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("extensions.serviceBus.autoCompleteMessages", True),
        ("extensions.serviceBus.prefetchCount", 20),
        ("extensions.serviceBus.maxAutoLockRenewalDuration", "00:02:35"),
        ("extensions.serviceBus.maxConcurrentCalls", 9),
        ("functionTimeout", "00:02:35"),
        ("functionTimeout", "soon"),
    ],
)
def test_what_would_lose_locks_or_cut_charges_off_is_refused(
    settings: Settings, path: str, value: Any
) -> None:
    """Goal: each rule is checked, and the message names what to change."""
    (problem,) = host_json_problems(changed(path, value), settings)
    assert path.rpartition(".")[2] in problem


def test_limits_that_are_just_long_enough_are_taken(settings: Settings) -> None:
    """Goal: the comparison is with the budget plus one attempt, 155 seconds."""
    for path in ("functionTimeout", "extensions.serviceBus.maxAutoLockRenewalDuration"):
        assert host_json_problems(changed(path, "00:02:36"), settings) == []
    assert host_json_problems(changed("functionTimeout", "-1"), settings) == []
    assert host_json_problems(changed("functionTimeout", "1.00:00:00"), settings) == []


def test_nothing_at_all_means_the_hosts_defaults(settings: Settings) -> None:
    """Goal: the host's own defaults are not safe, and are found out."""
    problems = host_json_problems({}, settings)
    assert ["autoCompleteMessages" in problems[0], "maxConcurrentCalls" in problems[1]] == [
        True
    ] * 2
    assert len(problems) == 2
