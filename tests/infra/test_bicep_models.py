"""The Bicep templates say nothing that Azure's own models do not know."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.infra.arm_models import MODELS, Node, model_of
from tests.infra.bicep import BICEP_NAMES, Resource, branches, template, template_names


def mistakes(
    value: Any, model: Node, names: frozenset[str] = frozenset(), path: str = ""
) -> Iterator[str]:
    """What the model does not know: names, and words where only some are allowed."""
    for branch in branches(value):
        if isinstance(branch, dict):
            for quoted_name, inner in branch.items():
                name = quoted_name.strip("'")
                if name in model.names:
                    yield from mistakes(inner, model.names[name], names, f"{path}/{name}")
                elif model.names:
                    yield f"{path}/{name} is unknown"
        elif isinstance(branch, str) and model.values and branch not in model.values | names:
            yield f"{path} is {branch}, not one of {', '.join(sorted(model.values))}"


def mistakes_of(resource: Resource, names: frozenset[str]) -> list[str]:
    body = {name: value for name, value in resource.body.items() if name not in BICEP_NAMES}
    return list(mistakes(body, model_of(resource.type), names, resource.symbol))


@pytest.mark.parametrize("name", template_names())
def test_names_and_words_are_known(name: str) -> None:
    """Goal: a misspelt property would be ignored, and its safe value with it."""
    read = template(name)
    for resource in read.resources:
        assert mistakes_of(resource, read.names) == []


def test_the_models_are_really_read() -> None:
    """Goal: a model that could not be read would know no names, and so forbid none."""
    for resource_type in MODELS:
        assert model_of(resource_type).names, resource_type
    queue = model_of("Microsoft.ServiceBus/namespaces/queues").names["properties"]
    assert {"lockDuration", "maxDeliveryCount"} <= set(queue.names)
    rule = model_of("Microsoft.Insights/metricAlerts").names["properties"]
    assert "metricName" in rule.names["criteria"].names["allOf"].names
    server = model_of("Microsoft.DBforPostgreSQL/flexibleServers").names["properties"]
    assert "ZoneRedundant" in server.names["highAvailability"].names["mode"].values
    config = model_of("Microsoft.Web/sites").names["properties"].names["functionAppConfig"]
    assert "instanceMemoryMB" in config.names["scaleAndConcurrency"].names


@pytest.mark.parametrize(
    ("file", "symbol", "change", "mistake"),
    [
        (
            "service-bus.bicep",
            "queue",
            {"deadLetterOnMessageExpiration": True},
            "queue/properties/deadLetterOnMessageExpiration is unknown",
        ),
        (
            "database.bicep",
            "server",
            {"highAvailability": {"mode": "ZoneRedundent"}},
            "server/properties/highAvailability/mode is ZoneRedundent",
        ),
        (
            "function-app.bicep",
            "app",
            {"functionAppConfig": {"runtime": {"name": "python3"}}},
            "app/properties/functionAppConfig/runtime/name is python3",
        ),
    ],
)
def test_a_planted_mistake_is_found(
    file: str, symbol: str, change: dict[str, Any], mistake: str
) -> None:
    """Goal: the check does see what it is there for."""
    resource = template(file).resource(symbol)
    planted = {**resource.body, "properties": {**resource.body["properties"], **change}}
    found = mistakes_of(
        Resource(resource.symbol, resource.type, resource.api_version, planted), frozenset()
    )
    assert [one for one in found if one.startswith(mistake)]
