"""The settings: checked in one place, all problems at once, never a value in a message."""

import os
import re
from pathlib import Path

import pytest

from local.scripts.settings_page import GROUPS, Observer
from shared.errors import SettingsError
from shared.record import Flow
from shared.settings import (
    ask_for_everything,
    read_push_settings,
    read_servicebus_settings,
    read_settings,
)

ROOT = Path(__file__).resolve().parents[2]

MINIMAL = {"DATABASE_URL": "postgresql://user:hunter2@host/db", "STRIPE_API_KEY": "rk_test_hunter2"}


def problems_of(**changes: str) -> list[str]:
    """The problems that some settings have on top of a minimal, valid environment."""
    with pytest.raises(SettingsError) as caught:
        read_settings({**MINIMAL, **changes})
    return caught.value.problems


def test_minimal_environment_gives_the_documented_defaults() -> None:
    """Goal: a database and a key are enough, and the rest is as documented."""
    settings = read_settings(MINIMAL)
    rules = settings.rules
    assert (rules.flow, rules.key_namespace, rules.currency) == (
        Flow.PAYMENT_INTENT,
        "usage-billing",
        "usd",
    )
    assert (rules.budget_seconds, rules.lease_seconds, rules.attempt_seconds) == (120, 180, 35)
    assert (rules.max_attempts, rules.replay_hours, rules.max_deliveries) == (2, 23, 10)
    assert rules.require_run
    assert rules.key_livemode is False
    assert settings.stripe.api_base == "https://api.stripe.com"
    assert (settings.run.cap_percent, settings.run.period_format) == (110, "%Y-%m")
    assert settings.run.period_offset == -1
    assert settings.pubsub.push.auth == "iam"
    assert settings.warnings == ()


def test_all_problems_are_listed_at_once() -> None:
    """Goal: nobody has to deploy once per mistake."""
    with pytest.raises(SettingsError) as caught:
        read_settings({"STRIPE_FLOW": "checkout", "BILLING_REQUIRE_RUN": "maybe"})
    assert [problem.split()[0] for problem in caught.value.problems] == [
        "DATABASE_URL",
        "STRIPE_FLOW",
        "BILLING_REQUIRE_RUN",
        "STRIPE_API_KEY",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STRIPE_API_KEY", "pk_test_hunter2"),
        ("STRIPE_API_BASE", "hunter2"),
        ("STRIPE_FLOW", "hunter2"),
        ("STRIPE_MAX_ATTEMPTS", "hunter2"),
        ("STRIPE_MAX_ATTEMPTS", "0"),
        ("STRIPE_REPLAY_HOURS", "24"),
        ("STRIPE_READ_TIMEOUT_SECONDS", "nan"),
        ("STRIPE_ACCOUNT", "acct_hunter2"),
        ("STRIPE_LOG", "debug-hunter2"),
        ("BILLING_CURRENCY", "hunter2"),
        ("BILLING_KEY_NAMESPACE", "hunter2:colon"),
        ("BILLING_CAP_PERCENT", "99"),
        ("BILLING_EXPECTED_TOTAL_CENTS", "-1"),
        ("BILLING_MAX_DELIVERIES", "1"),
        ("PUBSUB_PUSH_AUTH", "hunter2"),
        ("PUBSUB_PUSH_AUTH", "oidc"),
        ("WORKER_CONCURRENCY", "1.5"),
        ("CLAIM_LEASE_SECONDS", "155"),
        ("CHARGE_BUDGET_SECONDS", "30"),
    ],
)
def test_wrong_value_is_named_and_not_quoted(name: str, value: str) -> None:
    """Goal: the message says which setting, never what it holds."""
    problems = problems_of(**{name: value})
    assert any(name in problem for problem in problems)
    assert "hunter2" not in str(SettingsError(problems))


def test_lease_must_outlive_budget_and_one_attempt() -> None:
    """Goal: no lease lapses while Stripe is still answering."""
    assert read_settings({**MINIMAL, "CLAIM_LEASE_SECONDS": "156"}).rules.lease_seconds == 156
    assert "CLAIM_LEASE_SECONDS" in problems_of(CLAIM_LEASE_SECONDS="155")[0]


def test_secret_key_is_accepted_with_a_warning() -> None:
    """Goal: a secret key works, and somebody is told that less would do."""
    settings = read_settings({**MINIMAL, "STRIPE_API_KEY": "sk_live_hunter2"})
    assert settings.rules.key_livemode is True
    assert "restricted key" in settings.warnings[0]


def test_secrets_stay_out_of_repr() -> None:
    """Goal: settings that are printed by accident show no secret."""
    assert "hunter2" not in repr(read_settings(MINIMAL))


PUSH = {
    **MINIMAL,
    "PUBSUB_DEAD_LETTER_TOPIC": "projects/p/topics/dead",
    "PUBSUB_PUSH_SERVICE_ACCOUNT": "push@p.iam.gserviceaccount.com",
}


def push_problems_of(environment: dict[str, str]) -> list[str]:
    """The problems of the push endpoint's settings."""
    with pytest.raises(SettingsError) as caught:
        read_push_settings(environment)
    return caught.value.problems


def test_push_needs_a_dead_letter_topic_and_an_account() -> None:
    """Goal: the push endpoint does not start where it could lose events or let anybody in."""
    assert [problem.split()[0] for problem in push_problems_of({})] == [
        "DATABASE_URL",
        "STRIPE_API_KEY",
        "PUBSUB_DEAD_LETTER_TOPIC",
        "PUBSUB_PUSH_AUTH=iam",
    ]
    assert read_push_settings(PUSH).warnings == ()


def test_push_that_lets_everybody_in_is_warned_about() -> None:
    """Goal: the mode for a desk does not go to production unnoticed."""
    (warning,) = read_push_settings({**PUSH, "PUBSUB_PUSH_AUTH": "none"}).warnings
    assert "PUBSUB_PUSH_AUTH" in warning


@pytest.mark.parametrize(
    ("topic", "path"),
    [("dead", "projects/mine/topics/dead"), ("projects/p/topics/dead", "projects/p/topics/dead")],
)
def test_dead_letter_topic_is_completed_with_the_project(topic: str, path: str) -> None:
    """Goal: the short and the full name of a topic mean the same."""
    environment = {**PUSH, "PUBSUB_DEAD_LETTER_TOPIC": topic, "GOOGLE_CLOUD_PROJECT": "mine"}
    assert read_push_settings(environment).pubsub.dead_letter_path == path


@pytest.mark.parametrize("topic", ["dead", "projects/p/subscriptions/dead", "p/dead", "dead/"])
def test_dead_letter_topic_that_leads_nowhere_is_refused(topic: str) -> None:
    """Goal: a topic without its project, or something else than a topic, is found at start."""
    (problem,) = push_problems_of({**PUSH, "PUBSUB_DEAD_LETTER_TOPIC": topic})
    assert "PUBSUB_DEAD_LETTER_TOPIC" in problem


def test_threads_are_those_of_functions_framework() -> None:
    """Goal: there is a database connection for each thread that really runs."""
    assert read_push_settings(PUSH).function.threads == 4 * (os.cpu_count() or 1)
    assert read_push_settings({**PUSH, "THREADS": "7"}).function.threads == 7


def test_function_that_is_cut_off_before_its_budget_ends_is_refused() -> None:
    """Goal: the function's timeout outlasts everything that a delivery may do at Stripe."""
    (problem,) = push_problems_of({**PUSH, "CLOUD_RUN_TIMEOUT_SECONDS": "155"})
    assert "CLOUD_RUN_TIMEOUT_SECONDS" in problem
    read_push_settings({**PUSH, "CLOUD_RUN_TIMEOUT_SECONDS": "156"})


SERVICEBUS = {**MINIMAL, "ServiceBus": "Endpoint=sb://hunter2/", "BILLING_QUEUE": "billing"}


def test_service_bus_settings_name_one_connection_and_one_source() -> None:
    """Goal: a connection string or an identity; a queue or a topic's subscription."""
    by_string = read_servicebus_settings(SERVICEBUS).servicebus
    assert (by_string.queue, by_string.namespace) == ("billing", None)
    assert "hunter2" not in repr(by_string)
    by_identity = read_servicebus_settings(
        {
            **MINIMAL,
            "ServiceBus__fullyQualifiedNamespace": "example.servicebus.windows.net",
            "BILLING_TOPIC": "usage",
            "BILLING_SUBSCRIPTION": "billing",
            "MINT_SCHEDULE": "0 30 3 1 * *",
        }
    ).servicebus
    assert (by_identity.topic, by_identity.subscription) == ("usage", "billing")
    assert (by_identity.mint_schedule, by_identity.reconcile_schedule) == ("0 30 3 1 * *", None)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"ServiceBus": ""}, "ServiceBus__fullyQualifiedNamespace"),
        ({"ServiceBus__fullyQualifiedNamespace": "hunter2"}, "ServiceBus__fullyQualifiedNamespace"),
        ({"BILLING_QUEUE": ""}, "BILLING_QUEUE"),
        ({"BILLING_QUEUE": "", "BILLING_TOPIC": "hunter2"}, "BILLING_SUBSCRIPTION"),
        ({"BILLING_TOPIC": "hunter2", "BILLING_SUBSCRIPTION": "hunter2"}, "BILLING_QUEUE"),
        ({"BILLING_SUBSCRIPTION": "hunter2"}, "BILLING_TOPIC"),
        ({"MINT_SCHEDULE": "0 3 1 * *"}, "MINT_SCHEDULE"),
        ({"RECONCILE_SCHEDULE": "hunter2"}, "RECONCILE_SCHEDULE"),
        ({"PYTHON_THREADPOOL_THREAD_COUNT": "0"}, "PYTHON_THREADPOOL_THREAD_COUNT"),
    ],
)
def test_service_bus_problems_are_named(changes: dict[str, str], named: str) -> None:
    """Goal: half a topic, two sources or none are found before any message is taken."""
    with pytest.raises(SettingsError, match=named) as caught:
        read_servicebus_settings({**SERVICEBUS, **changes})
    assert "hunter2" not in str(caught.value)


def test_every_setting_is_in_the_reference() -> None:
    """Goal: none is read that the page does not explain, and none explained that nobody reads."""
    observer = Observer()
    ask_for_everything(observer)
    explained = {name for group in GROUPS.values() for name in group}
    assert explained == observer.asked.keys()
    source = (ROOT / "shared" / "settings.py").read_text()
    named = set(re.findall(r'reader\.\w+\(\s*"(\w+)"', source))
    assert named <= explained
