"""infra/gcp, as it would be deployed with one of its variable files."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ops.doctor.facts import Capacity, Database, Facts, Subscription
from ops.doctor.numbers import GCLOUD, TERRAFORM, TERRAFORM_DATABASE
from ops.doctor.readers.durations import seconds_of
from ops.doctor.readers.environment import read_environment
from ops.doctor.readers.hcl_language import evaluate, parse_file, parse_folder
from ops.doctor.readers.template_secrets import hide_secrets

FOLDER = Path("infra", "gcp")
VARIABLE_FILES = ("development.tfvars", "production.tfvars")
WAYS = ("push", "pull")
EVERYBODY = ("allUsers", "allAuthenticatedUsers")
USUAL_EXPIRATION_SECONDS = 31 * 86_400.0
SERVICE_AGENT = "gcp-sa-pubsub"
SYNCHRONOUS_COMMIT = "synchronous_commit"
SECRET = "<secret>"  # noqa: S105 - what stands in for one

_WRITTEN_NUMBER = re.compile(r"\b(\w+)=(\d+(?:\.\d+)?)(?=[,\"\n])")


def read_google_templates(root: Path) -> Iterator[Facts]:
    """What each variable file comes to with each way of delivery, and the numbers.

    Raises:
        PackageMissing: the parser is not installed.
    """
    blocks = parse_folder(root / FOLDER)
    server = parse_folder(root / FOLDER / "database")
    database = {**_defaults(server), SYNCHRONOUS_COMMIT: _commits(server)}
    for file in VARIABLE_FILES:
        given = evaluate(parse_file(root / FOLDER / file), str)
        for way in WAYS:
            template = _Template(blocks, {**given, "delivery": way})
            place = f"infra/gcp with {file}, {way}"
            yield _read_deployment(template, place, database, live="production" in file)
    yield Facts(place="infra/gcp", numbers=_numbers(root, blocks, database))


class _Template:
    """Resources and names, for one set of variables."""

    def __init__(self, blocks: Mapping[str, list[Any]], given: Mapping[str, Any]) -> None:
        self.variables = {**_defaults(blocks), **given}
        self._locals = {
            name: node for block in blocks.get("locals", ()) for name, node in block.items()
        }
        self._resources = blocks["resource"]
        self.each: Mapping[str, Any] = {}

    def find(self, name: str) -> Any:
        """What a name stands for; itself where nothing here says."""
        kind, _, rest = name.partition(".")
        if kind == "var" and rest in self.variables:
            return self.variables[rest]
        if kind == "local" and rest in self._locals:
            return self.value(self._locals[rest])
        if kind == "each" and rest.startswith("value."):
            return self.each.get(rest.removeprefix("value."), f"<{name}>")
        return f"<{name}>"

    def value(self, node: Any) -> Any:
        return evaluate(node, self.find)

    def of_type(self, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Name and attributes of each resource of a type that would be created."""
        for block in self._resources:
            for name, resource in block.get(kind, {}).items():
                if self.value(resource.get("count", 1)) != 0:
                    yield name, resource

    def kinds(self) -> set[str]:
        return {kind for block in self._resources for kind in block}


def _defaults(blocks: Mapping[str, list[Any]]) -> dict[str, Any]:
    return {
        name: evaluate(variable["default"], str)
        for block in blocks["variable"]
        for name, variable in block.items()
        if "default" in variable
    }


def _commits(server: Mapping[str, list[Any]]) -> str | None:
    """When the database answers a commit, where it is told."""
    for _, instance in _Template(server, {}).of_type("google_sql_database_instance"):
        for flag in evaluate(instance["settings"][0].get("database_flags", []), str):
            if flag["name"] == SYNCHRONOUS_COMMIT:
                return str(flag["value"])
    return None


def _read_deployment(
    template: _Template, place: str, database: Mapping[str, Any], *, live: bool
) -> Facts:
    pushes = template.variables["delivery"] == "push"
    settings, part = _push_function(template) if pushes else _pull_worker(template)
    secrets = {name.upper().replace("-", "_") for name in template.variables["secret_versions"]}
    environment, plain = hide_secrets(
        {**dict.fromkeys(secrets, SECRET), **settings}, SECRET, live=live
    )
    facts = read_environment(place, environment)
    (seen,) = facts.capacities
    part = replace(part, threads=seen.threads, pool_size=seen.pool_size)
    by_topic = _subscriptions(template)
    events = by_topic.get(_topic(settings["PUBSUB_TOPIC"]), ())
    return replace(
        facts,
        plain_secrets=plain,
        database=Database(synchronous_commit=database[SYNCHRONOUS_COMMIT]),
        subscription=next((each for each in events if each.pushes == pushes), None),
        event_subscriptions=tuple(each.name for each in events),
        dead_letter_subscriptions=by_topic.get(_topic(settings["PUBSUB_DEAD_LETTER_TOPIC"]), ()),
        open_functions=tuple(_open_functions(template)),
        capacities=(replace(part, database_connections=database["max_connections"]),),
        highly_available=database["availability"] == "REGIONAL" if live else None,
    )


def _push_function(template: _Template) -> tuple[Mapping[str, Any], Capacity]:
    """The settings of `bill`, and how much of it there may be."""
    functions = template.find("local.functions")
    template.each = functions["bill"]
    ((_, function),) = template.of_type("google_cloudfunctions2_function")
    (service,) = function["service_config"]
    settings = template.value(service["environment_variables"])
    capacity = Capacity(
        what="the push function",
        instances=template.value(service["max_instance_count"]),
        concurrency=template.value(service["max_instance_request_concurrency"]),
        threads=0,
        pool_size=0,
        other_connections=2,
        other_callers=1,
    )
    return settings, capacity


def _pull_worker(template: _Template) -> tuple[Mapping[str, Any], Capacity]:
    """The settings of the pull worker, and how much of it there is."""
    ((_, pool),) = template.of_type("google_cloud_run_v2_worker_pool")
    settings = template.find("local.worker_settings")
    capacity = Capacity(
        what="the pull worker",
        instances=template.value(pool["scaling"][0]["manual_instance_count"]),
        concurrency=int(settings["WORKER_CONCURRENCY"]),
        threads=0,
        pool_size=0,
        other_connections=2,
        other_callers=1,
    )
    return settings, capacity


def _topic(reference: object) -> str:
    """A topic, whichever of its attributes is meant."""
    return str(reference).strip("<>").rpartition(".")[0]


def _subscriptions(template: _Template) -> Mapping[str, tuple[Subscription, ...]]:
    """All subscriptions, by the topic they are of."""
    found: dict[str, tuple[Subscription, ...]] = {}
    for name, resource in template.of_type("google_pubsub_subscription"):
        topic = _topic(template.value(resource["topic"]))
        found[topic] = (*found.get(topic, ()), _subscription(template, name, resource))
    return found


def _subscription(template: _Template, name: str, resource: Mapping[str, Any]) -> Subscription:
    values = template.value(resource)
    policy, retry = _block(values, "dead_letter_policy"), _block(values, "retry_policy")
    expiration = _block(values, "expiration_policy")
    push = _block(values, "push_config") or _dynamic(template, resource, "push_config")
    return Subscription(
        name=f"google_pubsub_subscription.{name}",
        ack_deadline_seconds=values.get("ack_deadline_seconds", 10),
        pushes=push is not None,
        push_has_token=push is not None and "oidc_token" in push,
        delivers_exactly_once=values.get("enable_exactly_once_delivery") is True,
        expires_after_seconds=_expiration_seconds(expiration),
        backoff_seconds=None
        if retry is None
        else (
            seconds_of(retry.get("minimum_backoff", "10s")),
            seconds_of(retry.get("maximum_backoff", "600s")),
        ),
        max_deliveries=None if policy is None else policy.get("max_delivery_attempts", 5),
        service_agent_may_forward=None
        if policy is None
        else _may_forward(template, name, _topic(policy["dead_letter_topic"])),
        retention_seconds=seconds_of(values.get("message_retention_duration", "604800s")),
    )


def _block(values: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    blocks = values.get(name) or [None]
    block: Mapping[str, Any] | None = blocks[0]
    return block


def _dynamic(template: _Template, resource: Mapping[str, Any], name: str) -> Any:
    """A block that is there under a condition; None where it is not."""
    for block in resource.get("dynamic", ()):
        if name in block and template.value(block[name]["for_each"]):
            return block[name]["content"][0]
    return None


def _expiration_seconds(policy: Mapping[str, Any] | None) -> float:
    if policy is None:
        return USUAL_EXPIRATION_SECONDS
    return seconds_of(policy["ttl"]) if policy["ttl"] else math.inf


def _may_forward(template: _Template, subscription: str, topic: str) -> bool:
    """Whether Pub/Sub's own account has both grants."""
    publishes = any(
        _topic(template.value(grant["topic"])) == topic
        for grant in _grants(template, "google_pubsub_topic_iam_member", "roles/pubsub.publisher")
    )
    of_subscription = f"google_pubsub_subscription.{subscription}"
    takes = any(
        _topic(template.value(grant["subscription"])) == of_subscription
        for grant in _grants(
            template, "google_pubsub_subscription_iam_member", "roles/pubsub.subscriber"
        )
    )
    return publishes and takes


def _grants(template: _Template, kind: str, role: str) -> Iterator[Mapping[str, Any]]:
    for _, grant in template.of_type(kind):
        if template.value(grant["role"]) == role and SERVICE_AGENT in template.value(
            grant["member"]
        ):
            yield grant


def _open_functions(template: _Template) -> Iterator[str]:
    """Grants that let everybody in."""
    for kind in sorted(template.kinds()):
        if not kind.startswith(("google_cloud_run", "google_cloudfunctions")):
            continue
        for name, resource in template.of_type(kind):
            members = template.value([resource.get("member"), resource.get("members")])
            if any(everybody in str(members) for everybody in EVERYBODY):
                yield f"{kind}.{name}"


def _numbers(
    root: Path, blocks: Mapping[str, list[Any]], database: Mapping[str, Any]
) -> Mapping[tuple[str, str], float]:
    numbers = {(TERRAFORM, name): value for name, value in _defaults(blocks).items()}
    numbers |= {(TERRAFORM_DATABASE, name): value for name, value in database.items()}
    text = (root / GCLOUD).read_text("utf-8")
    numbers |= {(GCLOUD, name): float(value) for name, value in _WRITTEN_NUMBER.findall(text)}
    return {
        where: float(value)
        for where, value in numbers.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
