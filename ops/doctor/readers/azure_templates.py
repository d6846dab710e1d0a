"""infra/azure, as it would be deployed with one of its parameter files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ops.doctor.facts import Database, Facts, Queue
from ops.doctor.numbers import AZURE_CONNECTIONS, BICEP, HOST_JSON
from ops.doctor.readers.bicep_language import Scope, parse_bicep, read_parameters
from ops.doctor.readers.durations import seconds_of
from ops.doctor.readers.environment import read_environment
from ops.doctor.readers.template_secrets import hide_secrets

FOLDER = Path("infra", "azure")
PARAMETER_FILES = ("development.bicepparam", "production.bicepparam")
QUEUES = "Microsoft.ServiceBus/namespaces/queues"
SUBSCRIPTIONS = "Microsoft.ServiceBus/namespaces/topics/subscriptions"
SERVERS = "Microsoft.DBforPostgreSQL/flexibleServers"
CONFIGURATIONS = f"{SERVERS}/configurations"
SYNCHRONOUS_COMMIT = "synchronous_commit"


def read_azure_templates(root: Path) -> Iterator[Facts]:
    """What each parameter file comes to, and the numbers of the templates.

    Raises:
        PackageMissing: the parser is not installed.
    """
    host = json.loads((root / "host.json").read_text("utf-8"))
    main = parse_bicep(root / FOLDER / "main.bicep")
    for name in PARAMETER_FILES:
        parameters = read_parameters(root / FOLDER / name)
        yield _read_deployment(root / FOLDER, name, Scope(main, parameters), main, host)
    yield Facts(place="infra/azure and host.json", numbers=_numbers(Scope(main, {}), main, host))


def _read_deployment(
    folder: Path, name: str, scope: Scope, main: Mapping[str, Any], host: Mapping[str, Any]
) -> Facts:
    billing = _module(main, scope, "billing")
    live = "production" in name
    environment, plain = hide_secrets(billing["settings"], "Microsoft.KeyVault", live=live)
    facts = read_environment(f"infra/azure with {name}", environment)
    (capacity,) = facts.capacities
    server, commits = _database(folder, main, scope)
    concurrency = int(host["extensions"]["serviceBus"].get("maxConcurrentCalls", 16))
    return replace(
        facts,
        host=host,
        queue=_queue(folder, main, scope),
        plain_secrets=plain,
        database=Database(synchronous_commit=commits),
        capacities=(
            replace(
                capacity,
                instances=int(billing["maximumInstanceCount"]),
                concurrency=concurrency,
                database_connections=AZURE_CONNECTIONS.get(server["sku"]["name"]),
            ),
        ),
        highly_available=server["properties"]["highAvailability"]["mode"] == "ZoneRedundant"
        if live
        else None,
    )


def _module(main: Mapping[str, Any], scope: Scope, name: str) -> Mapping[str, Any]:
    """A module's parameters."""
    config = main["modules"][name]["config"]
    parameters: Mapping[str, Any] = scope.evaluate(config.get("config", config)["params"])
    return parameters


def _resources(
    folder: Path, file: str, parameters: Mapping[str, Any], kind: str
) -> Iterator[Mapping[str, Any]]:
    """The resources of a kind that a module's file makes with those parameters."""
    parsed = parse_bicep(folder / file)
    scope = Scope(parsed, parameters)
    for resource in parsed["resources"].values():
        config = resource["config"]
        if resource["type"] == kind and scope.evaluate(config.get("condition", True)):
            yield scope.evaluate(config.get("config", config))


def _queue(folder: Path, main: Mapping[str, Any], scope: Scope) -> Queue:
    parameters = _module(main, scope, "serviceBus")
    kind = SUBSCRIPTIONS if parameters["useTopic"] else QUEUES
    (found,) = _resources(folder, "service-bus.bicep", parameters, kind)
    properties = found["properties"]
    return Queue(
        name="the subscription" if parameters["useTopic"] else "the queue",
        lock_seconds=seconds_of(properties.get("lockDuration", "PT1M")),
        max_deliveries=int(properties.get("maxDeliveryCount", 10)),
        dead_letters_expired=properties.get("deadLetteringOnMessageExpiration") is True,
        detects_duplicates=parameters["requiresDuplicateDetection"] is True
        or properties.get("requiresDuplicateDetection") is True,
        requires_session=properties.get("requiresSession") is True,
    )


def _database(
    folder: Path, main: Mapping[str, Any], scope: Scope
) -> tuple[Mapping[str, Any], str | None]:
    """The server, and when it answers a commit."""
    parameters = _module(main, scope, "database")
    (server,) = _resources(folder, "database.bicep", parameters, SERVERS)
    settings = _resources(folder, "database.bicep", parameters, CONFIGURATIONS)
    commits = (
        each["properties"]["value"] for each in settings if each["name"] == SYNCHRONOUS_COMMIT
    )
    return server, next(commits, None)


def _numbers(
    scope: Scope, main: Mapping[str, Any], host: Mapping[str, Any]
) -> Mapping[tuple[str, str], float]:
    servicebus = host["extensions"]["serviceBus"]
    written = {
        (HOST_JSON, "functionTimeout"): host["functionTimeout"],
        (HOST_JSON, "maxAutoLockRenewalDuration"): servicebus["maxAutoLockRenewalDuration"],
        (HOST_JSON, "maxConcurrentCalls"): servicebus["maxConcurrentCalls"],
    }
    for name, parameter in main["parameters"].items():
        written[BICEP, name] = scope.evaluate(parameter["default"])
    return dict(_spans(written))


def _spans(written: Mapping[tuple[str, str], Any]) -> Iterator[tuple[tuple[str, str], float]]:
    for where, value in written.items():
        if isinstance(value, bool):
            continue
        try:
            yield where, seconds_of(value)
        except ValueError:
            continue
