"""What Azure accepts, read from its own management packages for Python; they are never imported.

Each model is a class that says how its attributes are called in the JSON of Azure Resource Manager.
There are two generations: in one each attribute is a `rest_field`, in the other a table maps the
attributes to paths such as `properties.lockDuration`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.infra.tools import infra_packages

# Resource type: the package's folder and the class.
MODELS = {
    "Microsoft.Authorization/locks": ("resource/locks", "ManagementLockObject"),
    "Microsoft.Authorization/roleAssignments": (
        "authorization/v2022_04_01",
        "RoleAssignmentCreateParameters",
    ),
    "Microsoft.DBforPostgreSQL/flexibleServers": ("postgresqlflexibleservers", "Server"),
    "Microsoft.DBforPostgreSQL/flexibleServers/configurations": (
        "postgresqlflexibleservers",
        "Configuration",
    ),
    "Microsoft.DBforPostgreSQL/flexibleServers/databases": (
        "postgresqlflexibleservers",
        "Database",
    ),
    "Microsoft.DBforPostgreSQL/flexibleServers/firewallRules": (
        "postgresqlflexibleservers",
        "FirewallRule",
    ),
    "Microsoft.Insights/actionGroups": ("monitor/v2023_01_01", "ActionGroupResource"),
    "Microsoft.Insights/components": (
        "applicationinsights/v2020_02_02",
        "ApplicationInsightsComponent",
    ),
    "Microsoft.Insights/diagnosticSettings": (
        "monitor/v2021_05_01_preview",
        "DiagnosticSettingsResource",
    ),
    "Microsoft.Insights/metricAlerts": ("monitor/v2018_03_01", "MetricAlertResource"),
    "Microsoft.Insights/scheduledQueryRules": (
        "monitor/v2022_08_01_preview",
        "ScheduledQueryRuleResource",
    ),
    "Microsoft.KeyVault/vaults": ("keyvault", "VaultCreateOrUpdateParameters"),
    "Microsoft.KeyVault/vaults/secrets": ("keyvault", "SecretCreateOrUpdateParameters"),
    "Microsoft.ManagedIdentity/userAssignedIdentities": ("msi/v2024_11_30", "Identity"),
    "Microsoft.Network/privateDnsZones": ("privatedns", "PrivateZone"),
    "Microsoft.Network/privateDnsZones/virtualNetworkLinks": ("privatedns", "VirtualNetworkLink"),
    "Microsoft.Network/virtualNetworks": ("network", "VirtualNetwork"),
    "Microsoft.Network/virtualNetworks/subnets": ("network", "Subnet"),
    "Microsoft.OperationalInsights/workspaces": ("loganalytics", "Workspace"),
    "Microsoft.ServiceBus/namespaces": ("servicebus", "SBNamespace"),
    "Microsoft.ServiceBus/namespaces/queues": ("servicebus", "SBQueue"),
    "Microsoft.ServiceBus/namespaces/topics": ("servicebus", "SBTopic"),
    "Microsoft.ServiceBus/namespaces/topics/subscriptions": ("servicebus", "SBSubscription"),
    "Microsoft.Storage/storageAccounts": ("storage", "StorageAccountCreateParameters"),
    "Microsoft.Storage/storageAccounts/blobServices": ("storage", "BlobServiceProperties"),
    "Microsoft.Storage/storageAccounts/blobServices/containers": ("storage", "BlobContainer"),
    "Microsoft.Web/serverfarms": ("web", "AppServicePlan"),
    "Microsoft.Web/sites": ("web", "Site"),
    "Microsoft.Web/sites/basicPublishingCredentialsPolicies": (
        "web",
        "CsmPublishingCredentialsPoliciesEntity",
    ),
    "Microsoft.Web/sites/config": ("web", "StringDictionary"),
}

# The model of a criterion depends on its `odata.type`, of which we use one.
_CHOSEN = {"MetricAlertCriteria": "MetricAlertSingleResourceMultipleMetricCriteria"}


class Node:
    """A JSON object, or a value that has no names below it.

    Args:
        read_names: gives what is allowed below, by name; read when it is first asked for, because
            models refer to each other without an end.
        values: the words that it may be; empty where others are allowed.
    """

    def __init__(
        self,
        read_names: Callable[[], dict[str, Node]] = dict,
        values: frozenset[str] = frozenset(),
    ) -> None:
        self._read_names = read_names
        self.values = values

    @cached_property
    def names(self) -> dict[str, Node]:
        """What is allowed below; empty where anything is, or nothing can be."""
        return self._read_names()


def model_of(resource_type: str) -> Node:
    """What may be said about a resource of the type."""
    folder, name = MODELS[resource_type]
    return _node(infra_packages() / "azure" / "mgmt" / folder / "models", name)


@cache
def _node(folder: Path, name: str) -> Node:
    return Node(lambda: _names(folder, _CHOSEN.get(name, name)))


def _names(folder: Path, name: str) -> dict[str, Node]:
    root = Node()
    for class_ in _classes(folder, name):
        for attribute in _attributes(class_):
            node = root
            for step in attribute.path[:-1]:
                node = node.names.setdefault(step, Node())
            node.names[attribute.path[-1]] = _value(folder, attribute.type_name)
    return root.names


def _value(folder: Path, type_name: str) -> Node:
    if type_name in _models(folder):
        return _node(folder, type_name)
    words = re.findall(r'^    \w+ = "(.*)"$', _enums(folder).get(type_name, ""), re.MULTILINE)
    return Node(values=frozenset(words))


@dataclass(frozen=True)
class _Attribute:
    path: tuple[str, ...]
    type_name: str


def _classes(folder: Path, name: str) -> Iterator[ast.ClassDef]:
    """The class and those that it derives from, as far as they are models of the same package."""
    text = _models(folder).get(name)
    if text is None:
        return
    (class_,) = ast.parse(text).body
    assert isinstance(class_, ast.ClassDef)
    yield class_
    for base in class_.bases:
        yield from _classes(folder, ast.unparse(base).rpartition(".")[2])


def _attributes(class_: ast.ClassDef) -> Iterator[_Attribute]:
    for statement in class_.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as call):
                keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
                if keywords.get("visibility") != "['read']":
                    json_name = ast.literal_eval(keywords.get("name", repr(name)))
                    yield _Attribute((json_name,), _type_in(ast.unparse(statement.annotation)))
            case ast.Assign(targets=[ast.Name(id="_attribute_map")]):
                for entry in ast.literal_eval(statement.value).values():
                    path = re.split(r"(?<!\\)\.", entry["key"])
                    steps = tuple(step.replace("\\.", ".") for step in path)
                    yield _Attribute(steps, entry["type"].strip("[]{}"))


def _type_in(annotation: str) -> str:
    """The model or the enumeration in `Optional[list["_models.Subnet"]]` and the like."""
    found = re.search(r"_models\.(\w+)", annotation)
    return found[1] if found and "dict[" not in annotation else ""


@cache
def _models(folder: Path) -> dict[str, str]:
    files = [folder / "_models.py", folder / "_models_py3.py"]
    return _split(next(file.read_text() for file in files if file.exists()))


@cache
def _enums(folder: Path) -> dict[str, str]:
    return _split("".join(file.read_text() for file in folder.glob("_*enums.py")))


def _split(text: str) -> dict[str, str]:
    """The classes of a file: each one's text by its name. A whole file takes seconds to parse."""
    starts = [*re.finditer(r"^class (\w+)\(", text, re.MULTILINE)]
    ends = [start.start() for start in starts[1:]] + [len(text)]
    return {start[1]: text[start.start() : end] for start, end in zip(starts, ends, strict=True)}
