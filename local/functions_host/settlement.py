"""The service that settlements of functions come to, and the messages that they may settle."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import grpc
from azure.servicebus.exceptions import MessageLockLostError
from azurefunctions.extensions.bindings.protos import settlement_pb2_grpc
from google.protobuf.empty_pb2 import Empty

from azure_function.renewal import LockRenewal

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver

_THREADS: Final = 32
# As the .NET SDK says it; the function sees nothing else of the broker's refusal.
_LOCK_LOST: Final = (
    "The lock supplied is invalid. Either the lock expired, or the message has already been "
    "removed from the queue. (MessageLockLost)"
)


class Held:
    """A message that a function has in hand.

    Args:
        receiver: Which received it.
        message: What is settled.
        renewal: Stopped before anybody else uses the receiver.
    """

    def __init__(
        self,
        receiver: "ServiceBusReceiver",
        message: "ServiceBusReceivedMessage",
        renewal: LockRenewal,
    ) -> None:
        self.receiver = receiver
        self.message = message
        self._renewal = renewal
        self._turn = threading.Lock()
        self._is_settled = False

    def settle(self, action: "Callable[[ServiceBusReceivedMessage], None]") -> None:
        """Settle it in some way; raises what the SDK raises."""
        with self._turn:
            self._renewal.stop()
            action(self.message)
            self._is_settled = True

    @property
    def is_settled(self) -> bool:
        """Whether it was settled."""
        with self._turn:
            return self._is_settled


class SettlementService(settlement_pb2_grpc.SettlementServicer):  # type: ignore[misc]
    """Implements the gRPC service `Settlement` for the messages that are held now."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}

    def hold(self, held: Held) -> None:
        """Let functions settle a message."""
        self._held[str(held.message.lock_token)] = held

    def drop(self, held: Held) -> None:
        """Its invocation has ended."""
        self._held = {token: each for token, each in self._held.items() if each is not held}

    def Complete(self, request: Any, context: Any) -> Empty:  # noqa: N802
        """Complete a message."""
        held = self._find(request, context)
        return _settle(held, held.receiver.complete_message, context)

    def Abandon(self, request: Any, context: Any) -> Empty:  # noqa: N802
        """Abandon a message."""
        held = self._find(request, context)
        return _settle(held, held.receiver.abandon_message, context)

    def Deadletter(self, request: Any, context: Any) -> Empty:  # noqa: N802
        """Dead-letter a message."""
        held = self._find(request, context)

        def dead_letter(message: "ServiceBusReceivedMessage") -> None:
            held.receiver.dead_letter_message(
                message,
                reason=request.deadletterReason.value,
                error_description=request.deadletterErrorDescription.value,
            )

        return _settle(held, dead_letter, context)

    def _find(self, request: Any, context: Any) -> Held:
        held = self._held.get(request.locktoken)
        if held is None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the invocation has ended")
        assert held is not None
        return held


def serve_settlement(service: SettlementService) -> tuple[grpc.Server, int]:
    """Serve on a free port; return the server and the port."""
    server = grpc.server(ThreadPoolExecutor(_THREADS))
    settlement_pb2_grpc.add_SettlementServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def _settle(
    held: Held, action: "Callable[[ServiceBusReceivedMessage], None]", context: Any
) -> Empty:
    try:
        held.settle(action)
    except MessageLockLostError:
        context.abort(grpc.StatusCode.UNKNOWN, _LOCK_LOST)
    except Exception as error:  # noqa: BLE001 (whatever it was, the function is told)
        context.abort(grpc.StatusCode.UNKNOWN, f"{type(error).__name__}: {error}")
    return Empty()
