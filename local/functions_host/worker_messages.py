"""The shapes of the messages between the host and its workers.

The generated classes are not published; the runtime looks at attributes only.
"""

from types import SimpleNamespace
from typing import Any, Final


class StatusResult(SimpleNamespace):
    """How a request went."""

    Failure: Final = 0
    Success: Final = 1


class BindingInfo(SimpleNamespace):
    """A binding; the numbers are those of the real enumerations."""

    out: Final = 1
    inout: Final = 2
    undefined: Final = 0


class OneOf(SimpleNamespace):
    """A message of which one field is set."""

    def WhichOneof(self, _group: str) -> str:  # noqa: N802 (the name that protobuf gives it)
        """Return the name of that field."""
        return next(name for name in vars(self) if name != "name")


PROTOS: Final = SimpleNamespace(
    BindingInfo=BindingInfo,
    FunctionLoadResponse=SimpleNamespace,
    FunctionMetadataResponse=SimpleNamespace,
    InvocationResponse=SimpleNamespace,
    ParameterBinding=SimpleNamespace,
    RpcException=SimpleNamespace,
    RpcFunctionMetadata=SimpleNamespace,
    RpcHttp=SimpleNamespace,
    RpcRetryOptions=SimpleNamespace,
    StatusResult=StatusResult,
    TypedData=SimpleNamespace,
    WorkerInitResponse=SimpleNamespace,
    WorkerMetadata=SimpleNamespace,
)


def wrap(kind: str, **fields: Any) -> SimpleNamespace:
    """Return a request of one kind, as the worker's dispatcher hands it to the runtime."""
    return SimpleNamespace(
        request=SimpleNamespace(**{kind: SimpleNamespace(**fields)}),
        properties={"host": "127.0.0.1", "protos": PROTOS},
    )


def input_data(name: str, kind: str, value: Any) -> OneOf:
    """Return one argument of an invocation."""
    return OneOf(name=name, data=OneOf(**{kind: value}))


def invocation(invocation_id: str, function_id: str, argument: OneOf) -> SimpleNamespace:
    """Return an invocation with one argument."""
    return wrap(
        "invocation_request",
        invocation_id=invocation_id,
        function_id=function_id,
        input_data=[argument],
        trigger_metadata={},
        trace_context=SimpleNamespace(trace_parent="", trace_state="", attributes={}),
        retry_context=SimpleNamespace(retry_count=0, max_retry_count=0, exception=None),
    )
