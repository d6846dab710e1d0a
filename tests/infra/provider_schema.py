"""What Terraform's google provider accepts, taken from a schema that is not ours.

The bindings `cdktf-cdktf-provider-google` are generated from the provider's own schema. What our
configuration uses of it lies beside this module in `google_schema.json`, so that the tests need not
fetch 49 MB; a proof extracts it anew and compares. After adding a kind of resource:

    python -m tests.infra.provider_schema

The bindings are read, never imported: they need Node.js.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

DISTRIBUTION: Final = "cdktf-cdktf-provider-google==16.12.1"
PROVIDER_VERSION: Final = "6.50.0"
SCHEMA_FILE: Final = Path(__file__).with_name("google_schema.json")

RESOURCES: Final = (
    "cloud_run_v2_job",
    "cloud_run_v2_service_iam_member",
    "cloud_run_v2_worker_pool",
    "cloud_scheduler_job",
    "cloudfunctions2_function",
    "compute_firewall",
    "compute_global_address",
    "compute_network",
    "compute_subnetwork",
    "logging_metric",
    "monitoring_alert_policy",
    "project_iam_member",
    "pubsub_subscription",
    "pubsub_subscription_iam_member",
    "pubsub_topic",
    "pubsub_topic_iam_member",
    "secret_manager_secret_iam_member",
    "service_account",
    "service_networking_connection",
    "sql_database",
    "sql_database_instance",
    "storage_bucket",
    "storage_bucket_object",
    "vpc_access_connector",
)
DATA_SOURCES: Final = ("cloud_run_v2_service_iam_policy", "project")

# What every Terraform resource has: Terraform's own business, not the provider's.
_META_ARGUMENTS: Final = frozenset(
    {
        "connection",
        "count",
        "depends_on",
        "for_each",
        "lifecycle",
        "provider",
        "provisioners",
    }
)
_PRIMITIVES: Final = {"str": "string", "Number": "number", "bool": "bool"}

Block: TypeAlias = dict[str, Any]
"""`attributes` (name to cty type and whether required or computed) and `blocks` by name."""


def load_schema() -> dict[str, Any]:
    """What was extracted: `provider_version`, `resources`, `data_sources`, `provider`."""
    schema: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return schema


def download(folder: Path) -> Path:
    """Fetch the bindings into a folder and return the wheel."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    subprocess.run([*command, str(folder), DISTRIBUTION], check=True)
    return next(folder.glob("*.whl"))


def extract(wheel: Path) -> dict[str, Any]:
    """Read from the bindings what `load_schema` returns."""
    with zipfile.ZipFile(wheel) as bindings:
        return {
            "distribution": DISTRIBUTION,
            "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
            "provider_version": PROVIDER_VERSION,
            "provider": _Bindings(bindings, "provider").block("GoogleProvider"),
            "resources": {f"google_{name}": _top_block(bindings, name) for name in RESOURCES},
            "data_sources": {
                f"google_{name}": _top_block(bindings, f"data_google_{name}")
                for name in DATA_SOURCES
            },
        }


def _top_block(bindings: zipfile.ZipFile, module: str) -> Block:
    name = "".join(word.capitalize() for word in module.split("_"))
    return _Bindings(bindings, module).block(name)


class _Bindings:
    """One module of the bindings: a resource, with a class for each block in it."""

    def __init__(self, bindings: zipfile.ZipFile, module: str) -> None:
        source = bindings.read(f"cdktf_cdktf_provider_google/{module}/__init__.py").decode()
        assert f"/{PROVIDER_VERSION}/" in source, f"{module} is not of {PROVIDER_VERSION}"
        tree = ast.parse(source)
        self._classes = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}

    def block(self, name: str) -> Block:
        """The block that a resource is, by the name of its class."""
        block = self._read(f"{name}Config", skipped=_META_ARGUMENTS)
        self._add_computed(block, name)
        # Terraform itself computes it everywhere; nothing says so in the bindings.
        block["attributes"]["id"] = {"type": "string", "computed": True}
        return block

    def _read(self, name: str, skipped: frozenset[str] = frozenset()) -> Block:
        block: Block = {"attributes": {}, "blocks": {}}
        for argument, annotation, is_required in self._arguments(name):
            if argument not in skipped:
                self._add(block, argument, annotation, is_required=is_required)
        return block

    def _add(self, block: Block, name: str, annotation: ast.expr, *, is_required: bool) -> None:
        nested = self._nested_class(annotation)
        if nested is None:
            attribute: dict[str, Any] = {"type": _cty_type(annotation)}
            block["attributes"][name] = attribute | ({"required": True} if is_required else {})
            return
        inner = self._read(nested)
        self._add_computed(inner, f"{nested}OutputReference")
        many = _mentions(annotation, "Sequence")
        block["blocks"][name] = {"many": many, "required": is_required, "block": inner}

    def _arguments(self, name: str) -> Iterator[tuple[str, ast.expr, bool]]:
        for statement in self._classes[name].body:
            if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
                given = statement.args
                for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
                    assert argument.annotation is not None
                    yield argument.arg.rstrip("_"), argument.annotation, default is None

    def _nested_class(self, annotation: ast.expr) -> str | None:
        for node in ast.walk(annotation):
            # A class that is defined further down is named in quotes.
            name = node.value if isinstance(node, ast.Constant) else getattr(node, "id", None)
            if name in self._classes:
                return str(name)
        return None

    def _add_computed(self, block: Block, name: str) -> None:
        for statement in self._classes[name].body if name in self._classes else ():
            if not isinstance(statement, ast.FunctionDef) or statement.returns is None:
                continue
            is_property = any(_mentions(each, "property") for each in statement.decorator_list)
            known = {*block["attributes"], *block["blocks"]}
            if is_property and _is_computed(statement.name, known, statement.returns):
                block["attributes"][statement.name] = {
                    "type": _cty_type(statement.returns),
                    "computed": True,
                }


def _is_computed(name: str, known: set[str], returns: ast.expr) -> bool:
    if name in known or name.endswith("_input") or name in ("internal_value", "fqn"):
        return False
    # Lists of objects, and Terraform's own objects, are of no use to us.
    return ast.unparse(returns) in (
        "builtins.str",
        "jsii.Number",
        "_cdktf_9a9027ec.IResolvable",
        "typing.List[builtins.str]",
    )


def _mentions(node: ast.AST, name: str) -> bool:
    return any(getattr(each, "attr", getattr(each, "id", None)) == name for each in ast.walk(node))


def _cty_type(annotation: ast.expr) -> Any:
    """The type as Terraform writes it."""
    primitive = next(
        (kind for name, kind in _PRIMITIVES.items() if _mentions(annotation, name)), "bool"
    )
    if _mentions(annotation, "Mapping"):
        # Both the key and the value are named.
        return ["map", "string"]
    if _mentions(annotation, "Sequence") or _mentions(annotation, "List"):
        return ["list", primitive]
    return primitive


def dumped(schema: Mapping[str, Any]) -> str:
    """The text of `google_schema.json`: a line for each kind of resource."""
    text = json.dumps(schema, sort_keys=True)
    return re.sub(r'(\{|, )("google_)', r"\1\n  \2", text) + "\n"


def main() -> None:
    """Write `google_schema.json` anew."""
    with tempfile.TemporaryDirectory() as folder:
        SCHEMA_FILE.write_text(dumped(extract(download(Path(folder)))), encoding="utf-8")


if __name__ == "__main__":
    main()
