"""Stands in for Terraform's google provider: the schema is the real one, and nothing is created.

Terraform itself evaluates the configuration and plans, as far as a plan goes without Google: types,
references, conditions and the validation of variables are its own. It takes a provider that runs
already (`TF_REATTACH_PROVIDERS`), so nothing is downloaded. The protocol is Terraform's plugin
protocol 6: https://developer.hashicorp.com/terraform/plugin/terraform-plugin-protocol
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import grpc
import msgpack
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.infra.provider_schema import Block

ADDRESS: Final = "registry.terraform.io/hashicorp/google"
_PACKAGE: Final = "tfplugin6"
_NESTED_LIST, _NESTED_SINGLE = 2, 1

_TYPES: Final = {"string": 9, "bytes": 12, "int": 3, "bool": 8}
# Of each message the fields that are used here: name, number in the protocol, type. A type in
# brackets is repeated.
_MESSAGES: Final[Mapping[str, tuple[tuple[str, int, str], ...]]] = {
    "Empty": (),
    "Value": (("msgpack", 1, "bytes"),),
    "Attribute": (
        ("name", 1, "string"),
        ("type", 2, "bytes"),
        ("required", 4, "bool"),
        ("optional", 5, "bool"),
        ("computed", 6, "bool"),
    ),
    "NestedBlock": (
        ("type_name", 1, "string"),
        ("block", 2, "Block"),
        ("nesting", 3, "int"),
        ("min_items", 4, "int"),
        ("max_items", 5, "int"),
    ),
    "Block": (("attributes", 2, "[Attribute]"), ("block_types", 3, "[NestedBlock]")),
    "Schema": (("block", 2, "Block"),),
    "SchemaEntry": (("key", 1, "string"), ("value", 2, "Schema")),
    "Schemas": (
        ("provider", 1, "Schema"),
        ("resource_schemas", 2, "[SchemaEntry]"),
        ("data_source_schemas", 3, "[SchemaEntry]"),
    ),
    "PlanRequest": (("type_name", 1, "string"), ("proposed_new_state", 3, "Value")),
    # `legacy_type_system`: as the real provider, which is of an older kind, says too.
    "PlanResponse": (("planned_state", 1, "Value"), ("legacy_type_system", 5, "bool")),
    "ReadRequest": (("type_name", 1, "string"), ("config", 2, "Value")),
    "ReadResponse": (("state", 1, "Value"),),
}


def _make_messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="stand_in.proto", package=_PACKAGE)
    file.syntax = "proto3"
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            field = message.field.add(name=field_name, number=number)
            field.label = field.LABEL_REPEATED if kind[0] == "[" else field.LABEL_OPTIONAL
            bare = kind.strip("[]")
            field.type = _TYPES.get(bare, field.TYPE_MESSAGE)
            if bare not in _TYPES:
                field.type_name = f".{_PACKAGE}.{bare}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


_message: Final = _make_messages()


class StandInProvider:
    """Answers Terraform's calls.

    Args:
        schema: what `load_schema` returns.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema

    def handlers(self) -> grpc.GenericRpcHandler:
        """The calls by name; whatever else Terraform calls is not implemented."""
        calls: Mapping[str, tuple[Callable[[Any], Any], str]] = {
            "GetProviderSchema": (self._schemas, "Empty"),
            "ValidateProviderConfig": (_nothing, "Empty"),
            "ValidateResourceConfig": (_nothing, "Empty"),
            "ValidateDataResourceConfig": (_nothing, "Empty"),
            "ConfigureProvider": (_nothing, "Empty"),
            "PlanResourceChange": (self._plan, "PlanRequest"),
            "ReadDataSource": (self._read, "ReadRequest"),
            "StopProvider": (_nothing, "Empty"),
        }
        methods = {
            name: grpc.unary_unary_rpc_method_handler(
                # Bound now: each has its own.
                lambda request, _context, answer=answer: answer(request),
                request_deserializer=_message[request].FromString,
                response_serializer=lambda response: response.SerializeToString(),
            )
            for name, (answer, request) in calls.items()
        }
        return grpc.method_handlers_generic_handler(f"{_PACKAGE}.Provider", methods)

    def _schemas(self, _: Any) -> Any:
        return _message["Schemas"](
            provider=_schema(self._schema["provider"]),
            resource_schemas=[
                _message["SchemaEntry"](key=name, value=_schema(block))
                for name, block in self._schema["resources"].items()
            ],
            data_source_schemas=[
                _message["SchemaEntry"](key=name, value=_schema(block))
                for name, block in self._schema["data_sources"].items()
            ],
        )

    def _plan(self, request: Any) -> Any:
        proposed = msgpack.unpackb(request.proposed_new_state.msgpack)
        if proposed is not None:
            name = _name_of(request.type_name, proposed)
            _fill(self._schema["resources"][request.type_name], proposed, name)
        planned = _message["Value"](msgpack=msgpack.packb(proposed))
        return _message["PlanResponse"](planned_state=planned, legacy_type_system=True)

    def _read(self, request: Any) -> Any:
        found = msgpack.unpackb(request.config.msgpack)
        _fill(self._schema["data_sources"][request.type_name], found, request.type_name)
        return _message["ReadResponse"](state=_message["Value"](msgpack=msgpack.packb(found)))


def _nothing(_: Any) -> Any:
    return _message["Empty"]()


def _schema(block: Block) -> Any:
    return _message["Schema"](block=_block(block))


def _block(block: Block) -> Any:
    attributes = [
        _message["Attribute"](
            name=name,
            type=json.dumps(each["type"]).encode(),
            required=each.get("required", False),
            # A resource may always be told its id's place in the state, never its value.
            optional=not (each.get("required") or each.get("computed")),
            computed=each.get("computed", False),
        )
        for name, each in block["attributes"].items()
    ]
    nested = [
        _message["NestedBlock"](
            type_name=name,
            block=_block(each["block"]),
            nesting=_NESTED_SINGLE if name == "timeouts" else _NESTED_LIST,
            min_items=1 if each["required"] else 0,
            max_items=0 if each["many"] or name == "timeouts" else 1,
        )
        for name, each in block["blocks"].items()
    ]
    return _message["Block"](attributes=attributes, block_types=nested)


def _name_of(type_name: str, value: Mapping[str, Any]) -> str:
    """What stands for a resource in the plan: its kind, and its name if that is known by now."""
    name = value.get("name") or value.get("account_id")
    return f"{type_name}/{name}" if isinstance(name, str) else type_name


def _fill(block: Block, value: dict[str, Any], name: str) -> None:
    """Let what Google would compute be a text that says where it is from: `NAME.ATTRIBUTE`."""
    for attribute, each in block["attributes"].items():
        if each.get("computed") and value.get(attribute) is None and each["type"] == "string":
            value[attribute] = f"{name}.{attribute}"
    for nested_name, nested in block["blocks"].items():
        for each in value.get(nested_name) or () if nested_name != "timeouts" else ():
            _fill(nested["block"], each, name)


@contextmanager
def running(schema: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Run the provider in this process; gives the environment that leads Terraform to it."""
    server = grpc.server(ThreadPoolExecutor(4, thread_name_prefix="provider"))
    server.add_generic_rpc_handlers((StandInProvider(schema).handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    attached = {
        ADDRESS: {
            "Protocol": "grpc",
            "ProtocolVersion": 6,
            "Pid": os.getpid(),
            # Terraform does not end what it did not start.
            "Test": True,
            "Addr": {"Network": "tcp", "String": f"127.0.0.1:{port}"},
        }
    }
    try:
        yield {"TF_REATTACH_PROVIDERS": json.dumps(attached)}
    finally:
        server.stop(None).wait()
