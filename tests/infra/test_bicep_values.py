"""The Bicep templates ask for what keeps charges single and messages alive; values Azure takes.

What Azure takes stands in azure_facts.json, each with the page that says it.
"""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shared.decision_log import OVERDUE, DecisionEvent
from shared.settings import read_servicebus_settings, read_vault_proxy_settings
from tests.infra.bicep import branches, parameters_in, template, template_names
from tests.infra.tools import ROOT

FACTS = json.loads((Path(__file__).parent / "azure_facts.json").read_text())
PARAMETER_FILES = ["development.bicepparam", "production.bicepparam"]
MAIN = template("main.bicep")
HOST = json.loads((ROOT / "host.json").read_text())


def seconds(duration: str) -> float:
    """An ISO 8601 duration of days, hours and minutes."""
    match = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?)?", duration)
    assert match is not None, duration
    days, hours, minutes = (int(part or 0) for part in match.groups())
    return timedelta(days=days, hours=hours, minutes=minutes).total_seconds()


def assert_within(value: float, fact: str) -> None:
    least, most, _ = FACTS["ranges"][fact]
    assert least <= value <= most, fact


class TestTheQueue:
    """What an event waits in."""

    @pytest.mark.parametrize("symbol", ["queue", "topicSubscription"])
    def test_it_loses_nothing(self, symbol: str) -> None:
        """Goal: what expires is kept, and nothing swallows a dead letter that is sent again."""
        properties = template("service-bus.bicep").resource(symbol).body["properties"]
        assert properties["deadLetteringOnMessageExpiration"] is True
        assert properties["requiresSession"] is False
        assert properties["lockDuration"] == "lockDuration"
        assert properties["maxDeliveryCount"] == "maxDeliveryCount"
        assert MAIN.default("requiresDuplicateDetection") is False

    def test_the_lock_is_the_longest_and_outlives_the_lease(self) -> None:
        """Goal: a message that is left does not come back while its record is still held."""
        lock_seconds = seconds(MAIN.default("lockDuration"))
        assert lock_seconds == FACTS["ranges"]["lock_seconds"][1]
        assert lock_seconds > MAIN.default("claimLeaseSeconds")

    def test_deliveries_outlast_a_night_without_a_database(self) -> None:
        """Goal: nothing is dead-lettered because the database was away."""
        deliveries = MAIN.default("maxDeliveryCount")
        assert_within(deliveries, "delivery_count")
        waited = deliveries * seconds(MAIN.default("lockDuration"))
        assert timedelta(seconds=waited) >= timedelta(hours=8)
        assert waited < seconds(MAIN.default("messageTimeToLive"))

    def test_keys_open_nothing(self) -> None:
        """Goal: identities with a role alone get in."""
        namespace = template("service-bus.bicep").resource("namespace").body["properties"]
        assert namespace["disableLocalAuth"] is True
        storage = template("function-app.bicep").resource("storage").body["properties"]
        assert storage["allowSharedKeyAccess"] is False
        component = template("monitoring.bicep").resource("component").body["properties"]
        assert component["DisableLocalAuth"] is True
        assert component["SamplingPercentage"] == 100


class TestTheApp:
    """What the function app is told."""

    def test_its_settings_pass_our_own_checks(self) -> None:
        """Goal: a deployment of the defaults starts."""
        settings = read_servicebus_settings(app_settings("queueSettings"))
        assert settings.servicebus.threads == HOST["extensions"]["serviceBus"]["maxConcurrentCalls"]
        assert settings.rules.max_deliveries == MAIN.default("maxDeliveryCount")
        assert settings.warnings == ()
        assert read_servicebus_settings(app_settings("topicSettings")).servicebus.topic is not None

    @pytest.mark.parametrize(
        ("variable", "serves_calls"), [("proxySettings", True), ("proxyAdminSettings", False)]
    )
    def test_the_settings_of_the_proxy_do_too(self, variable: str, serves_calls: bool) -> None:
        """Goal: the two apps of the proxy start, each with its own half."""
        settings = read_vault_proxy_settings(resolved(MAIN.variable(variable)))
        assert settings.serves_calls is serves_calls
        assert settings.serves_admin is not serves_calls

    def test_its_settings_behind_the_proxy_do_too(self) -> None:
        """Goal: it calls one of the two apps and mints at the other, without a key of Stripe."""
        settings = read_servicebus_settings(app_settings("queueSettings", "throughProxySettings"))
        assert settings.warnings == ()
        assert settings.run_keys is not None
        assert settings.run_keys.service_key is not None
        names = [MAIN.variable(name) for name in ("proxyCallsName", "proxyAdminName")]
        apps = [MAIN.modules[name][1]["name"] for name in ("vaultProxyCalls", "vaultProxyAdmin")]
        assert apps == ["proxyCallsName", "proxyAdminName"]
        assert names == ["${prefix}-vault-${token}", "${prefix}-vaultadmin-${token}"]

    def test_who_may_read_which_secret(self) -> None:
        """Goal: who mints keys for the proxy has no key of Stripe, and the others cannot mint."""
        secrets = {
            symbol: parameters["secretNames"]
            for symbol, (_, parameters) in MAIN.modules.items()
            if "secretNames" in parameters
        }
        billing = secrets.pop("billing")["operator"]["operands"]
        assert (billing["true_value"], billing["false_value"]) == (
            "throughProxySecrets",
            "directSecrets",
        )
        assert MAIN.variable("directSecrets") == ["databaseSecret", "stripeSecret"]
        assert "stripeSecret" not in MAIN.variable("throughProxySecrets")
        assert "STRIPE_API_KEY" not in MAIN.variable("throughProxySettings")
        assert "STRIPE_API_KEY" not in MAIN.variable("chargingSettings")
        assert secrets == {
            "vaultProxyCalls": ["databaseSecret", "stripeSecret"],
            "vaultProxyAdmin": ["databaseSecret", "adminSecret"],
        }

    def test_its_identity_may_do_nothing_else(self) -> None:
        """Goal: least privilege: four roles, each on the one thing that it is for."""
        app = template("function-app.bicep")
        known = {name: role for name, (role, _) in FACTS["roles"].items()}
        assert app.variable("roles") == known
        scopes = {
            found.symbol: found.body["scope"]
            for name in template_names()
            for found in template(name).resources
            if found.type == "Microsoft.Authorization/roleAssignments"
        }
        each_secret = scopes.pop("mayReadItsSecrets")
        assert each_secret["operator"]["operands"]["operand_1"] == "secrets"
        assert scopes == {
            "mayKeepItsFiles": "storage",
            "mayLog": "monitoring",
            "mayReceive": "serviceBus",
        }

    def test_python_is_the_one_that_settles(self) -> None:
        """Goal: the settlement extension works with Python 3.13 alone."""
        config = template("function-app.bicep").resource("app").body["properties"]
        assert config["functionAppConfig"]["runtime"] == {"name": "python", "version": "3.13"}
        assert template("function-app.bicep").resource("plan").body["sku"]["name"] == "FC1"

    @pytest.mark.parametrize("file", PARAMETER_FILES)
    def test_instances_fit_the_database_and_stripe(self, file: str) -> None:
        """Goal: scaled out, it runs into neither limit."""
        given = parameters_in(file)
        instances = given["maximumInstanceCount"]
        assert_within(instances, "flex_instances")
        assert MAIN.default("instanceMemoryMB") in FACTS["words"]["flex_memory_mb"][0]
        sizes = template("database.bicep").resource("server").body["sku"]["operator"]["operands"]
        size = sizes["true_value" if given["production"] else "false_value"]["name"]
        assert instances * MAIN.default("workerThreads") < FACTS["connections"][size][0]
        rate = instances * float(given["stripeMaxRequestsPerSecond"])
        assert rate <= FACTS["stripe_requests_per_second"][file][0]


class TestTheDatabase:
    """What the promise rests on."""

    def test_production_loses_no_commit(self) -> None:
        """Goal: a synchronous standby in another zone, and backups for as long as there are."""
        assert parameters_in("production.bicepparam")["production"] is True
        server = template("database.bicep").resource("server").body["properties"]
        assert list(branches(server["highAvailability"]["mode"])) == ["ZoneRedundant", "Disabled"]
        for days in branches(server["backup"]["backupRetentionDays"]):
            assert_within(days, "backup_days")
        setting = template("database.bicep").resource("synchronousCommit").body
        assert (setting["name"], setting["properties"]["value"]) == ("synchronous_commit", "on")

    def test_production_is_not_deleted_in_passing(self) -> None:
        """Goal: without its records customers could be charged twice."""
        lock = template("database.bicep").resource("lock").body
        assert (lock["scope"], lock["properties"]["level"]) == ("server", "CanNotDelete")

    def test_secrets_are_no_plain_parameters(self) -> None:
        """Goal: whoever may read deployments reads no secret."""
        for name in template_names():
            for parameter, found in template(name).parsed.get("parameters", {}).items():
                is_secret = re.search(
                    r"password|(api|encryption)key|admintoken|databaseurl|^value$",
                    parameter,
                    re.IGNORECASE,
                )
                secure = {"type": "secure"} in found["decorators"]
                assert secure is (is_secret is not None), f"{name}: {parameter}"
        for name in template_names():
            outputs = str(template(name).parsed.get("outputs", {})).lower()
            assert not re.search(r"password|apikey|token|databaseurl", outputs)


class TestTheAlerts:
    """What pages somebody."""

    def test_they_look_for_names_that_are_written(self) -> None:
        """Goal: an alert on a misspelt name would never fire."""
        written = {str(event) for event in DecisionEvent} | {OVERDUE, "ERROR", "CRITICAL"}
        for alert in template("alerts.bicep").variable("logAlerts"):
            quoted = set(re.findall(r'"([A-Za-z_]+)"', alert["query"].replace("${appName}", "")))
            assert quoted <= written | {"reconcile"}, alert["name"]

    def test_what_a_person_must_know_of_has_one(self) -> None:
        """Goal: every kind of trouble that queue metrics do not show."""
        queries = " ".join(
            alert["query"] for alert in template("alerts.bicep").variable("logAlerts")
        )
        for event in (
            DecisionEvent.DOUBLE_CHARGE_DETECTED,
            DecisionEvent.CONFLICT,
            DecisionEvent.BLOCKED_BY_CAP,
            DecisionEvent.SPEND_NEAR_CAP,
            DecisionEvent.STRIPE_AUTH_FAILED,
            DecisionEvent.BREAKER_OPEN,
            DecisionEvent.LOCK_LOST,
            DecisionEvent.SETTLEMENT_FAILED,
        ):
            assert f'"{event}"' in queries
        assert f'line.code) == "{OVERDUE}"' in queries
        metrics = {one["metric"] for one in template("alerts.bicep").variable("metricAlerts")}
        assert metrics == {"DeadletteredMessages", "ActiveMessages"}

    def test_azure_takes_their_windows_and_metrics(self) -> None:
        """Goal: the deployment does not fail at its last step."""
        words = {name: allowed for name, (allowed, _) in FACTS["words"].items()}
        for alert in template("alerts.bicep").variable("logAlerts"):
            assert alert["window"] in words["log_window"]
        for alert in template("alerts.bicep").variable("metricAlerts"):
            assert alert["window"] in words["metric_window"]
            assert alert["frequency"] in words["metric_frequency"]
            assert alert["metric"] in words["service_bus_metrics"]


class TestTheTemplates:
    """The files themselves."""

    @pytest.mark.parametrize("name", template_names())
    def test_api_versions_exist(self, name: str) -> None:
        """Goal: each version is one that Azure's own reference lists."""
        for resource in template(name).resources:
            top = "/".join(resource.type.split("/")[:2])
            assert resource.api_version == FACTS["api_versions"][top][0], resource.symbol

    @pytest.mark.parametrize("name", ["main.bicep", "key-vault.bicep"])
    def test_modules_are_given_what_they_ask_for(self, name: str) -> None:
        """Goal: no parameter is missing or misspelt."""
        for file, given in template(name).modules.values():
            asked = template(file).parsed["parameters"]
            needed = {name for name, found in asked.items() if found["default"] is None}
            assert needed <= set(given) <= set(asked), file

    @pytest.mark.parametrize("file", PARAMETER_FILES)
    def test_parameter_files_name_parameters(self, file: str) -> None:
        """Goal: what they set is something, and no secret stands in them."""
        given = parameters_in(file)
        assert set(given) <= set(MAIN.parsed["parameters"])
        for name, found in MAIN.parsed["parameters"].items():
            if {"type": "secure"} in found["decorators"] and name in given:
                assert given[name]["function"]["type"] == "readEnvironmentVariable"

    def test_the_parameters_of_azd_name_parameters(self) -> None:
        """Goal: `azd up` sets what there is, from its environment."""
        given = json.loads((ROOT / "infra/azure/main.parameters.json").read_text())["parameters"]
        assert set(given) <= set(MAIN.parsed["parameters"])
        assert all(re.fullmatch(r"\$\{[A-Z_]+\}", one["value"]) for one in given.values())

    def test_azd_finds_template_and_app(self) -> None:
        """Goal: `azd up` deploys main.bicep, and the code to the app that carries the tag."""
        project = (ROOT / "azure.yaml").read_text()
        said = dict(
            re.findall(r"^ +(path|module|project|language|host): (.+)$", project, re.MULTILINE)
        )
        assert said == {
            "path": "infra/azure",
            "module": "main",
            "project": ".",
            "language": "python",
            "host": "function",
        }
        (service,) = re.findall(r"^services:\n  (\w+):$", project, re.MULTILINE)
        assert MAIN.variable("billingTags") == {"'azd-service-name'": service}

    def test_names_are_short_enough(self) -> None:
        """Goal: the longest name that the defaults make is one that Azure takes."""
        token = "x" * 13
        longest_app = max(("billing", "vault", "vaultadmin"), key=len)
        prefix = MAIN.default("prefix")
        assert re.fullmatch("[a-z0-9]+", prefix)
        assert_within(len(f"{prefix}-{longest_app}-{token}"), "site_name_characters")
        assert_within(len(prefix), "action_group_short_name_characters")
        # Cut off, they would still differ: the three storage accounts of one group.
        begun = {f"{prefix}{part}{token}"[:24] for part in ("bill", "vlt", "adm")}
        assert len(begun) == 3
        for name in begun:
            assert_within(len(name), "storage_name_characters")


def app_settings(source: str, way: str = "directSettings") -> dict[str, str]:
    """The billing app's settings with everything resolved, as the app would read them."""
    parts = ["chargingSettings", way, "receivingSettings", source]
    return {name: value for part in parts for name, value in resolved(MAIN.variable(part)).items()}


def resolved(settings: dict[str, Any]) -> dict[str, str]:
    """Values in place of what Azure would put there."""
    secrets = {
        "databaseReference": "postgresql://database",
        "stripeReference": "rk_test_key",
        "adminReference": "a" * 32,
        "proxyKeyReference": "a" * 32,
        "encryptionReference": "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHg=",
    }
    return {name: secrets.get(str(value)) or _resolve(value) for name, value in settings.items()}


def _resolve(value: Any) -> str:
    match value:
        case {"function": {"type": "string", "parameters": parameters}}:
            (name,) = parameters.values()
            return str(MAIN.default(name))
        case {"operator": {"operands": {"true_value": chosen}}}:
            return _resolve(chosen)
        case {"operator": {"type": "property_accessor"}}:
            return "usage"
        case str() if value in MAIN.names:
            return str(MAIN.default(value))
    return re.sub(r"\$\{[^}]*\}", "name", str(value))
