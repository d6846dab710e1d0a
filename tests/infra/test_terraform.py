"""The Terraform in infra/gcp: what it would create, by Terraform's own plan.

Goal: a team that knows nothing of Pub/Sub's traps gets a deployment without them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from shared.settings import (
    read_pull_settings,
    read_push_settings,
    read_scheduled_settings,
    read_settings,
    read_vault_proxy_settings,
)
from tests.infra.conftest import NETWORK
from tests.infra.planning import GCP, Plan, PlanRefused, Terraform

DAYS_31 = "2678400s"
PUBSUB_ITSELF = "serviceAccount:service-google_project.number@gcp-sa-pubsub.iam.gserviceaccount.com"
SECRETS = {
    "DATABASE_URL": "postgresql://x",
    "STRIPE_API_KEY": "rk_test_x",
    "VAULT_ADMIN_TOKEN": "x" * 24,
    "VAULT_PROXY_API_KEY": "x" * 24,
    "VAULT_ENCRYPTION_KEY": "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHg=",
}


def test_it_is_formatted(requires_terraform: Path) -> None:
    done = subprocess.run(
        [requires_terraform, "fmt", "-check", "-recursive", "-diff", GCP],
        capture_output=True,
        text=True,
        env={**os.environ, "TF_CLI_CONFIG_FILE": os.devnull},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


class TestSubscriptions:
    def test_events_come_one_way_only(self, push_plan: Plan, pull_plan: Plan) -> None:
        """Two subscriptions on one topic would each get every event."""
        for plan, expected in ((push_plan, "push"), (pull_plan, "pull")):
            topic = plan.resources["google_pubsub_topic.events"]["id"]
            names = [
                each["name"]
                for each in plan.of_type("pubsub_subscription")
                if each["topic"] == topic
            ]
            assert names == [f"chargeonce-{expected}"]

    def test_none_expires_or_forgets_early(self, either_plan: Plan) -> None:
        subscriptions = list(either_plan.of_type("pubsub_subscription"))
        assert len(subscriptions) == 2
        for each in subscriptions:
            assert each["expiration_policy"] == [{"ttl": ""}]
            assert each["message_retention_duration"] == DAYS_31
            assert each["retry_policy"] == [{"minimum_backoff": "10s", "maximum_backoff": "600s"}]

    def test_the_two_ways_differ_in_nothing_else(self, push_plan: Plan, pull_plan: Plan) -> None:
        push = dict(push_plan.resources["google_pubsub_subscription.events"])
        pull = dict(pull_plan.resources["google_pubsub_subscription.events"])
        for each, own in ((push, {"push_config"}), (pull, {"enable_exactly_once_delivery"})):
            for name in own | {"name", "id", "push_config", "enable_exactly_once_delivery"}:
                each.pop(name, None)
        assert push == pull

    def test_the_push_authenticates_itself(self, push_plan: Plan) -> None:
        (push,) = push_plan.resources["google_pubsub_subscription.events"]["push_config"]
        address = "google_cloudfunctions2_function/chargeonce-bill.uri"
        account = "google_service_account/chargeonce-pusher.email"
        assert push["push_endpoint"] == address
        assert push["oidc_token"] == [{"service_account_email": account, "audience": address}]

    def test_a_delivery_lasts_longer_than_the_function(self, push_plan: Plan) -> None:
        subscription = push_plan.resources["google_pubsub_subscription.events"]
        (service,) = push_plan.resources['google_cloudfunctions2_function.this["bill"]'][
            "service_config"
        ]
        assert subscription["ack_deadline_seconds"] > service["timeout_seconds"]

    def test_dead_letters_are_kept(self, either_plan: Plan) -> None:
        """Pub/Sub moves nothing without its two grants, and a topic alone keeps nothing."""
        topic = either_plan.resources["google_pubsub_topic.dead_letters"]["id"]
        (events,) = (
            each for each in either_plan.of_type("pubsub_subscription") if each["topic"] != topic
        )
        assert events["dead_letter_policy"] == [
            {"dead_letter_topic": topic, "max_delivery_attempts": 100}
        ]
        assert any(each["topic"] == topic for each in either_plan.of_type("pubsub_subscription"))
        given = grants(either_plan)
        assert (PUBSUB_ITSELF, "roles/pubsub.publisher", topic) in given
        assert (PUBSUB_ITSELF, "roles/pubsub.subscriber", events["id"]) in given


def grants(plan: Plan) -> set[tuple[str, str, str]]:
    """Who has which role on what."""
    return {
        (
            str(values["member"]).removeprefix("google_service_account/chargeonce-"),
            values["role"],
            str(
                values.get("topic")
                or values.get("subscription")
                or values.get("secret_id")
                or values.get("name")
                or values.get("project")
            ),
        )
        for address, values in plan.resources.items()
        if "_iam_member." in address
    }


COMMON_GRANTS = {
    (PUBSUB_ITSELF, "roles/pubsub.publisher", "google_pubsub_topic/chargeonce-dead-letters.id"),
    ("builder.member", "roles/artifactregistry.writer", "a-project"),
    ("builder.member", "roles/logging.logWriter", "a-project"),
    ("builder.member", "roles/storage.objectViewer", "a-project"),
    ("scheduler.member", "roles/run.invoker", "chargeonce-reconcile"),
    ("scheduler.member", "roles/run.invoker", "chargeonce-mint"),
    ("biller.member", "roles/pubsub.publisher", "google_pubsub_topic/chargeonce-dead-letters.id"),
    ("operator.member", "roles/pubsub.publisher", "google_pubsub_topic/chargeonce-events.id"),
    (
        "operator.member",
        "roles/pubsub.subscriber",
        "google_pubsub_subscription/chargeonce-dead-letters.id",
    ),
    ("operator.member", "roles/pubsub.viewer", "google_pubsub_topic/chargeonce-events.id"),
    ("operator.member", "roles/pubsub.viewer", "google_pubsub_topic/chargeonce-dead-letters.id"),
    (
        "operator.member",
        "roles/pubsub.viewer",
        "google_pubsub_subscription/chargeonce-dead-letters.id",
    ),
    *(
        (f"{account}.member", "roles/secretmanager.secretAccessor", f"chargeonce-{secret}")
        for account in ("biller", "timers", "operator")
        for secret in ("database-url", "stripe-api-key")
    ),
}


class TestVariableFiles:
    @pytest.mark.parametrize("name", ["development", "production"])
    def test_it_is_accepted(self, request: pytest.FixtureRequest, name: str) -> None:
        """And with it Stripe's limit holds over all instances, 25 requests a second or 100."""
        plan: Plan = request.getfixturevalue(f"{name}_plan")
        (service,) = next(plan.of_type("cloudfunctions2_function"))["service_config"]
        settings = read_push_settings(
            function_environment(next(plan.of_type("cloudfunctions2_function")))
        )
        instances = service["max_instance_count"] + 1
        limit = {"development": 25, "production": 100}[name]
        assert instances * settings.rules.max_requests_per_second <= limit
        assert settings.run.expected_total_cents or settings.run.expected_total_sql


class TestDatabase:
    def test_it_keeps_what_it_committed(self, database_plan: Plan) -> None:
        instance = database_plan.only("sql_database_instance")
        (settings,) = instance["settings"]
        flags = {each["name"]: each["value"] for each in settings["database_flags"]}
        (backup,) = settings["backup_configuration"]
        assert settings["availability_type"] == "REGIONAL"
        assert flags["synchronous_commit"] == "on"
        assert backup["point_in_time_recovery_enabled"] is True
        assert instance["deletion_protection"] is settings["deletion_protection_enabled"] is True
        assert database_plan.only("sql_database")["deletion_policy"] == "ABANDON"

    def test_it_has_no_address_in_the_internet(self, database_plan: Plan) -> None:
        (address,) = database_plan.only("sql_database_instance")["settings"][0]["ip_configuration"]
        assert address["ipv4_enabled"] is False
        assert address["ssl_mode"] == "ENCRYPTED_ONLY"

    def test_it_allows_every_connection(self, database_plan: Plan, production_plan: Plan) -> None:
        """Push at its largest, both timers, and ten for people."""
        (settings,) = database_plan.only("sql_database_instance")["settings"]
        allowed = next(
            int(each["value"])
            for each in settings["database_flags"]
            if each["name"] == "max_connections"
        )
        needed = 0
        for function in production_plan.of_type("cloudfunctions2_function"):
            (service,) = function["service_config"]
            needed += service["max_instance_count"] * service["max_instance_request_concurrency"]
        assert needed + 10 <= allowed

    def test_its_network_is_what_the_consumers_take(
        self, database_plan: Plan, pull_plan: Plan
    ) -> None:
        assert database_plan.outputs["network"].keys() == NETWORK.keys()
        (pool,) = pull_plan.only("cloud_run_v2_worker_pool")["template"]
        ((command,),) = (
            each["template"] for each in pull_plan.only("cloud_run_v2_job")["template"]
        )
        for template in (pool, command):
            (access,) = template["vpc_access"]
            assert access["egress"] == "ALL_TRAFFIC"
            (interface,) = access["network_interfaces"]
            assert interface["network"] == NETWORK["network"]
            assert interface["subnetwork"] == NETWORK["subnetwork"]
        for function in pull_plan.of_type("cloudfunctions2_function"):
            (service,) = function["service_config"]
            assert service["vpc_connector"] == NETWORK["connector"]
            assert service["vpc_connector_egress_settings"] == "ALL_TRAFFIC"


class TestVault:
    def test_neither_part_holds_the_others_secret(self, vault_plan: Plan) -> None:
        held: dict[str, set[str]] = {"calls": set(), "admin": set(), "reconcile": set()}
        for member, role, secret in grants(vault_plan):
            if role == "roles/secretmanager.secretAccessor":
                held[member.removeprefix("vault-").removesuffix(".member")].add(secret)
        database = "chargeonce-vault-database-url"
        assert held == {
            "calls": {database, "chargeonce-vault-stripe-api-key"},
            "admin": {database, "chargeonce-vault-admin-token"},
            "reconcile": {database, "chargeonce-vault-stripe-api-key"},
        }

    def test_its_settings_are_complete(self, vault_plan: Plan) -> None:
        for part in ("calls", "admin"):
            function = vault_plan.resources[f'google_cloudfunctions2_function.part["{part}"]']
            settings = read_vault_proxy_settings(function_environment(function))
            (service,) = function["service_config"]
            assert (settings.serves_calls, settings.serves_admin) == (
                part == "calls",
                part == "admin",
            )
            assert settings.function.threads == service["max_instance_request_concurrency"]

    def test_its_timer_is_called_by_cloud_scheduler_alone(self, vault_plan: Plan) -> None:
        function = vault_plan.resources['google_cloudfunctions2_function.part["reconcile"]']
        settings = read_vault_proxy_settings(function_environment(function))
        target = vault_plan.only("cloud_scheduler_job")["http_target"][0]
        assert settings.serves_calls
        assert settings.scheduler.auth == "iam"
        assert (
            settings.scheduler.service_account == target["oidc_token"][0]["service_account_email"]
        )
        assert target["uri"] == f"{_address(function)}.uri"
        callers = {member for member, _, name in grants(vault_plan) if name == function["name"]}
        assert callers == {"vault-timer.member"}

    def test_only_the_network_inside_reaches_it(self, vault_plan: Plan) -> None:
        """Cloud Run lets everybody call it: the vault key is in the header that it would read."""
        for function in vault_plan.of_type("cloudfunctions2_function"):
            (service,) = function["service_config"]
            assert service["ingress_settings"] == "ALLOW_INTERNAL_ONLY"
        open_to_all = {name for member, _, name in grants(vault_plan) if member == "allUsers"}
        assert open_to_all == {"chargeonce-vault-calls", "chargeonce-vault-admin"}


class TestRights:
    def test_push(self, push_plan: Plan) -> None:
        """The whole list: a right more is a decision, not a slip."""
        subscription = "google_pubsub_subscription/chargeonce-push.id"
        assert grants(push_plan) == COMMON_GRANTS | {
            ("operator.member", "roles/pubsub.viewer", subscription),
            (PUBSUB_ITSELF, "roles/pubsub.subscriber", subscription),
            ("pusher.member", "roles/run.invoker", "chargeonce-bill"),
        }

    def test_pull(self, pull_plan: Plan) -> None:
        subscription = "google_pubsub_subscription/chargeonce-pull.id"
        assert grants(pull_plan) == COMMON_GRANTS | {
            ("operator.member", "roles/pubsub.viewer", subscription),
            (PUBSUB_ITSELF, "roles/pubsub.subscriber", subscription),
            ("biller.member", "roles/pubsub.subscriber", subscription),
        }

    def test_nothing_is_open_to_everybody(self, either_plan: Plan) -> None:
        assert "allUsers" not in str(either_plan)
        assert "allAuthenticatedUsers" not in str(either_plan)
        for function in either_plan.of_type("cloudfunctions2_function"):
            (service,) = function["service_config"]
            assert service["ingress_settings"] == "ALLOW_INTERNAL_ONLY"


class TestBehindTheProxy:
    def test_who_charges_can_mint_nothing(self, proxied_plan: Plan) -> None:
        """Goal: a consumer that is taken over spends what its run's key allows, and no more."""
        read: dict[str, set[str]] = {"biller": set(), "timers": set(), "operator": set()}
        for member, role, secret in grants(proxied_plan):
            if role == "roles/secretmanager.secretAccessor":
                read[member.removesuffix(".member")].add(secret.removeprefix("chargeonce-"))
        charging = {"database-url", "vault-encryption-key"}
        everything = charging | {"vault-proxy-api-key"}
        assert read == {"biller": charging, "timers": everything, "operator": everything}

    def test_its_settings_are_complete(self, proxied_plan: Plan) -> None:
        """Goal: calls go one way and minting the other, and nobody has Stripe's key."""
        timer = function_environment(
            proxied_plan.resources['google_cloudfunctions2_function.this["mint"]']
        )
        keys = read_scheduled_settings(timer).run_keys
        assert keys is not None
        assert keys.service_url == "https://admin.example.com"
        charging = read_settings(charging_environment(proxied_plan))
        assert charging.run_keys is not None
        assert charging.run_keys.service_key is None
        for settings in (charging, read_scheduled_settings(timer)):
            assert settings.stripe.api_base == "https://calls.example.com/stripe"
            assert settings.direct_stripe is None


def charging_environment(plan: Plan) -> dict[str, str]:
    """The settings of what charges, pushed or pulled."""
    bill = plan.resources.get('google_cloudfunctions2_function.this["bill"]')
    if bill is not None:
        return function_environment(bill)
    (pool,) = plan.only("cloud_run_v2_worker_pool")["template"]
    (container,) = pool["containers"]
    return _container_environment(container)


def function_environment(function: Mapping[str, Any]) -> dict[str, str]:
    (service,) = function["service_config"]
    secrets = {each["key"] for each in service["secret_environment_variables"]}
    return {**service["environment_variables"], **{name: SECRETS[name] for name in secrets}}


def _container_environment(container: Mapping[str, Any]) -> dict[str, str]:
    return {
        each["name"]: SECRETS[each["name"]] if each["value_source"] else each["value"]
        for each in container["env"]
    }


class TestSettings:
    """What is deployed is read by the program's own settings, without a problem or a warning."""

    def test_the_push_function(self, push_plan: Plan) -> None:
        function = push_plan.resources['google_cloudfunctions2_function.this["bill"]']
        settings = read_push_settings(function_environment(function))
        (service,) = function["service_config"]
        assert settings.warnings == ()
        assert settings.pubsub.push.auth == "iam"
        assert (
            settings.pubsub.push.service_account == "google_service_account/chargeonce-pusher.email"
        )
        assert settings.function.threads == service["max_instance_request_concurrency"]
        assert settings.function.timeout_seconds == service["timeout_seconds"]
        assert settings.database_pool_size == 0, "a connection for each thread"

    def test_the_timers(self, either_plan: Plan) -> None:
        jobs = {each["name"]: each for each in either_plan.of_type("cloud_scheduler_job")}
        for name in ("reconcile", "mint"):
            function = either_plan.resources[f'google_cloudfunctions2_function.this["{name}"]']
            settings = read_scheduled_settings(function_environment(function))
            job = jobs[f"chargeonce-{name}"]
            (target,) = job["http_target"]
            (token,) = target["oidc_token"]
            assert settings.warnings == ()
            assert settings.scheduler.service_account == token["service_account_email"]
            assert target["uri"] == token["audience"] == f"{_address(function)}.uri"
            assert (
                _seconds(job["attempt_deadline"]) > (settings.function.timeout_seconds or 0) >= 275
            )
            # Within a minute a second firing is taken for a double of the first.
            assert _seconds(job["retry_config"][0]["min_backoff_duration"]) >= 60

    def test_the_pull_worker(self, pull_plan: Plan) -> None:
        (template,) = pull_plan.only("cloud_run_v2_worker_pool")["template"]
        (container,) = template["containers"]
        settings = read_pull_settings(_container_environment(container))
        assert settings.warnings == ()
        assert settings.pubsub.subscription_path == (
            "projects/a-project/subscriptions/chargeonce-pull"
        )
        assert container["command"] == ["python", "-m", "gcp_function.pull"]

    def test_the_delivery_limit_is_one_number(self, either_plan: Plan) -> None:
        (template,) = either_plan.only("cloud_run_v2_job")["template"][0]["template"]
        (container,) = template["containers"]
        environment = _container_environment(container)
        policy = next(
            each["dead_letter_policy"][0]
            for each in either_plan.of_type("pubsub_subscription")
            if each["dead_letter_policy"]
        )
        assert int(environment["BILLING_MAX_DELIVERIES"]) == policy["max_delivery_attempts"]

    def test_the_entry_points_exist(self, push_plan: Plan) -> None:
        import main

        for function in push_plan.of_type("cloudfunctions2_function"):
            (build,) = function["build_config"]
            assert callable(getattr(main, build["entry_point"]))
            assert build["runtime"] == "python313"


def _address(function: Mapping[str, Any]) -> str:
    return f"google_cloudfunctions2_function/{function['name']}"


def _seconds(duration: str) -> int:
    return int(duration.removesuffix("s"))


# Terraform tells of all of them at once, except where one variable's check needs another variable
# that is wrong itself.
UNSAFE: tuple[tuple[Mapping[str, Any], tuple[str, ...]], ...] = (
    (
        {
            "ack_deadline_seconds": 300,
            "max_delivery_attempts": 3,
            "minimum_backoff_seconds": 0,
            "exactly_once_delivery": True,
            "secret_versions": {"database-url": "latest"},
            "settings": {"STRIPE_API_KEY": "rk_live_x"},
            "image": "example.com/chargeonce:latest",
            "oldest_message_hours": 800,
        },
        (
            "longer than function_timeout_seconds",
            "5 to 100",
            "delivers again at once",
            "pull subscriptions alone",
            "Name versions by their number",
            "belong into Secret Manager",
            "Name the image by its digest",
            "1 to 336 hours",
        ),
    ),
    (
        {
            "delivery": "pull",
            "ack_deadline_seconds": 180,
            "max_delivery_attempts": 101,
            "maximum_backoff_seconds": 601,
            "settings": {"PUBSUB_PUSH_AUTH": "none"},
        },
        (
            "longer than claim_lease_seconds",
            "5 to 100",
            "between 1 s and 600 s",
            "Leave the authentication at iam",
        ),
    ),
    (
        {"claim_lease_seconds": 155, "function_timeout_seconds": 155},
        ("lapses while Stripe is answering", "cut off half-way"),
    ),
    ({"delivery": "both"}, ("either push or pull",)),
)


@pytest.mark.parametrize(("variables", "complaints"), UNSAFE)
def test_what_would_be_unsafe_is_refused(
    terraform: Terraform, variables: Mapping[str, Any], complaints: tuple[str, ...]
) -> None:
    with pytest.raises(PlanRefused) as refused:
        terraform.plan(variables)
    missed = [each for each in complaints if each not in str(refused.value)]
    assert not missed, str(refused.value)
