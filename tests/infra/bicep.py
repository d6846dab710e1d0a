"""The Bicep templates, parsed, with nothing evaluated: where a value is chosen, all choices count.

pycep does not tell a literal from the name of a parameter: `Template.names` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pycep

from tests.infra.tools import ROOT

AZURE = ROOT / "infra" / "azure"

# What Bicep adds to each resource, and what is in its address and not in its body.
BICEP_NAMES = frozenset({"name", "parent", "scope", "dependsOn"})


@dataclass(frozen=True)
class Resource:
    """A resource of a template.

    Args:
        symbol: its name in the template.
        type: such as `Microsoft.ServiceBus/namespaces/queues`.
        api_version: a date.
        body: what is said about it.
    """

    symbol: str
    type: str
    api_version: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Template:
    """One Bicep file."""

    path: Path
    parsed: Mapping[str, Any]

    @property
    def names(self) -> frozenset[str]:
        """Of parameters and variables: a value that is one of them is no literal."""
        return frozenset(self.parsed.get("parameters", {})) | frozenset(
            self.parsed.get("variables", {})
        )

    @property
    def resources(self) -> list[Resource]:
        """What the file itself makes."""
        return [
            Resource(symbol, found["type"], found["api_version"], _body(found["config"]))
            for symbol, found in self.parsed.get("resources", {}).items()
            if not found["existing"]
        ]

    def resource(self, symbol: str) -> Resource:
        """The one of that name."""
        return next(found for found in self.resources if found.symbol == symbol)

    def default(self, parameter: str) -> Any:
        """A parameter's default."""
        return self.parsed["parameters"][parameter]["default"]

    def variable(self, name: str) -> Any:
        """A variable's value."""
        return self.parsed["variables"][name]["value"]

    @property
    def modules(self) -> dict[str, tuple[str, Mapping[str, Any]]]:
        """By symbol: the file, and what it is given."""
        return {
            symbol: (found["detail"]["path"], _body(found["config"])["params"])
            for symbol, found in self.parsed.get("modules", {}).items()
        }


@cache
def template(name: str) -> Template:
    """A file of infra/azure."""
    path = AZURE / name
    return Template(path, _parser().parse(text=path.read_text("utf-8")))


def template_names() -> list[str]:
    """All of them."""
    return sorted(path.name for path in AZURE.glob("*.bicep"))


def parameters_in(name: str) -> Mapping[str, Any]:
    """What a .bicepparam file says, by parameter. pycep reads it once it is made of variables."""
    text = (AZURE / name).read_text("utf-8")
    using = re.compile(r"^using 'main\.bicep'$", re.MULTILINE)
    assert using.search(text), "it must be about main.bicep"
    as_variables = re.sub(r"^param ", "var ", using.sub("", text), flags=re.MULTILINE)
    variables = _parser().parse(text=as_variables)["variables"]
    return {name: found["value"] for name, found in variables.items()}


def branches(value: Any) -> Iterator[Any]:
    """What a value can come to, as far as it is written there: choices, and elements of lists."""
    match value:
        case {"operator": {"type": "conditional", "operands": operands}}:
            yield from branches(operands["true_value"])
            yield from branches(operands["false_value"])
        case {"loop_type": _, "config": config}:
            yield from branches(config)
        case {"operator": {"type": _, "operands": _}} | {"function": {"type": _, "parameters": _}}:
            return
        case list():
            for element in value:
                yield from branches(element)
        case _:
            yield value


@cache
def _parser() -> pycep.BicepParser:
    """Making one takes longer than using it."""
    return pycep.BicepParser()


def _body(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without the loop or the condition around it."""
    while "config" in config and ("condition" in config or "loop_type" in config):
        config = config["config"]
    return config
