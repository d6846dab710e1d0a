"""From a plain function to a gRPC method, and from the broker's errors to gRPC's."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import grpc
from google.rpc.error_details_pb2 import ErrorInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from local.pubsub_emulator.errors import BrokerError, InvalidAckIds, InvalidArgument

DEFAULT_PAGE_SIZE: Final = 100
MAXIMUM_PAGE_SIZE: Final = 1000

_DETAILS: Final = "grpc-status-details-bin"
_ERROR_DOMAIN: Final = "pubsub.googleapis.com"
_INVALID_ACK_ID_REASON: Final = "EXACTLY_ONCE_ACKID_FAILURE"
_INVALID_ACK_ID: Final = "PERMANENT_FAILURE_INVALID_ACK_ID"

# Neither grpcio nor the classes that proto-plus makes of protocol messages have useful types.
Context = Any
WireType = Any
Item = TypeVar("Item")


def unary(
    method: Callable[[Any, Context], Any], request: WireType, answer: WireType | None = None
) -> grpc.RpcMethodHandler:
    """Make a gRPC method of a function that answers once.

    Args:
        method: Gets the request and gRPC's context; may raise `BrokerError`.
        request: What it is called with.
        answer: What it returns; None when it returns nothing.
    """

    def answered(given: Any, context: Context) -> Any:
        try:
            return method(given, context)
        except BrokerError as error:
            return _abort(context, error)

    return grpc.unary_unary_rpc_method_handler(
        answered,
        request_deserializer=request.deserialize,
        response_serializer=_serialize_nothing if answer is None else answer.serialize,
    )


def streaming(
    method: Callable[[Iterator[Any], Context], Iterator[Any]], request: WireType, answer: WireType
) -> grpc.RpcMethodHandler:
    """Make a gRPC method of a function that answers a stream of requests with another."""

    def answered(given: Iterator[Any], context: Context) -> Iterator[Any]:
        try:
            yield from method(given, context)
        except BrokerError as error:
            _abort(context, error)

    return grpc.stream_stream_rpc_method_handler(
        answered,
        request_deserializer=request.deserialize,
        response_serializer=answer.serialize,
    )


def service(name: str, methods: Mapping[str, grpc.RpcMethodHandler]) -> grpc.GenericRpcHandler:
    """Make a gRPC service of its methods."""
    return grpc.method_handlers_generic_handler(name, dict(methods))


def page_of(
    items: Sequence[Item], name_of: Callable[[Item], str], size: int, token: str
) -> tuple[Sequence[Item], str]:
    """Return one page of a sorted list, and the token that leads to the next; empty at the end.

    Raises:
        InvalidArgument: The size is negative.
    """
    if size < 0:
        raise InvalidArgument("page_size must not be negative")
    remaining = [item for item in items if name_of(item) > token]
    page = remaining[: min(size or DEFAULT_PAGE_SIZE, MAXIMUM_PAGE_SIZE)]
    return page, name_of(page[-1]) if len(page) < len(remaining) else ""


def _abort(context: Context, error: BrokerError) -> None:
    code = grpc.StatusCode[error.code]
    status = Status(code=code.value[0], message=str(error))
    if isinstance(error, InvalidAckIds):
        status.details.add().Pack(_invalid_ack_ids(error.ack_ids))
    # Google's client takes an error without these details, under exactly-once, for a success.
    context.set_trailing_metadata(((_DETAILS, status.SerializeToString()),))
    context.abort(code, str(error))


def _invalid_ack_ids(ack_ids: Sequence[str]) -> ErrorInfo:
    return ErrorInfo(
        reason=_INVALID_ACK_ID_REASON,
        domain=_ERROR_DOMAIN,
        metadata=dict.fromkeys(ack_ids, _INVALID_ACK_ID),
    )


def _serialize_nothing(_: None) -> bytes:
    return b""
