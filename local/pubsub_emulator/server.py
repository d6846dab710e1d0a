"""The gRPC server around the two services."""

from concurrent import futures
from typing import Any, Final

import grpc

from local.pubsub_emulator.exchange import Exchange
from local.pubsub_emulator.publisher_service import PublisherService
from local.pubsub_emulator.subscriber_service import MAXIMUM_WAITING, SubscriberService

# Enough for every stream and pull that waits, and for the short calls beside them.
_THREADS: Final = MAXIMUM_WAITING + 32
_STOP_SECONDS: Final = 2.0
_MAXIMUM_REQUEST_BYTES: Final = 20 * 1024 * 1024


class GrpcServer:
    """Serves an exchange on an address."""

    def __init__(self, exchange: Exchange, host: str, port: int) -> None:
        """Take the address; nothing is served before `start`.

        Args:
            exchange: What is served.
            host: The address to listen on.
            port: The port; 0 takes a free one.

        Raises:
            OSError: The address cannot be had.
        """
        self._threads = futures.ThreadPoolExecutor(
            _THREADS, thread_name_prefix="pubsub-emulator-grpc"
        )
        self._server: Any = grpc.server(
            self._threads,
            options=[
                # Otherwise a second emulator on the same port would get half of the connections.
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", _MAXIMUM_REQUEST_BYTES),
            ],
        )
        self._server.add_generic_rpc_handlers(
            (PublisherService(exchange).handler(), SubscriberService(exchange).handler())
        )
        self.port = self._bind(host, port)

    def start(self) -> None:
        """Serve."""
        self._server.start()

    def stop(self) -> None:
        """Stop serving, and wait until every call has ended. The exchange is closed before."""
        self._server.stop(_STOP_SECONDS).wait()
        self._threads.shutdown()

    def _bind(self, host: str, port: int) -> int:
        try:
            return int(self._server.add_insecure_port(f"{host}:{port}"))
        except RuntimeError as error:
            self._threads.shutdown()
            raise OSError(f"cannot listen on {host}:{port}: {error}") from error
