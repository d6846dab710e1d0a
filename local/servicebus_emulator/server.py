"""The AMQP server: sockets and timers around the connections."""

import asyncio
from typing import Final, cast

from local.servicebus_emulator.clock import MovableClock
from local.servicebus_emulator.connection import Connection
from local.servicebus_emulator.hub import Hub
from local.servicebus_emulator.options import EmulatorOptions

MAXIMUM_CONNECTIONS: Final = 1000
WRITE_BUFFER_BYTES: Final = 1024 * 1024
GATHERED_BYTES: Final = 64 * 1024


class AmqpServer:
    """Listens for AMQP clients, and calls the broker when something is due.

    Must be made and used on the thread of a running event loop.

    Args:
        options: What the emulator is started with.
    """

    def __init__(self, options: EmulatorOptions) -> None:
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._clients: set[_Client] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._refuses_until = 0.0
        self.clock = MovableClock()
        self.hub = Hub(options, self.clock, self._loop)
        self.hub.broker.on_due(self._wake_at)

    @property
    def port(self) -> int:
        """The port on which it listens."""
        assert self._server is not None, "the server was not started"
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def connection_count(self) -> int:
        """How many clients are connected."""
        return len(self._clients)

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            OSError: The address cannot be had.
        """
        self._server = await self._loop.create_server(
            lambda: _Client(self), self._options.host, self._options.port
        )

    async def stop(self) -> None:
        """Listen no more, and cut every connection."""
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            self._server.close()
            self.cut_connections()
            await self._server.wait_closed()

    def cut_connections(self) -> int:
        """Cut every connection; return how many there were."""
        clients = list(self._clients)
        for client in clients:
            client.cut()
        return len(clients)

    def refuse_connections(self, seconds: float) -> None:
        """Cut off whoever connects within the next seconds."""
        self._refuses_until = self._loop.time() + seconds

    def advance_clock(self, seconds: float) -> None:
        """Move the broker's clock forward, and do what has become due.

        Raises:
            ValueError: `seconds` is negative.
        """
        self.clock.advance(seconds)
        self._run_due()

    def admit(self, client: "_Client") -> bool:
        """Keep account of a new client; return False when it has to go."""
        is_refused = self._loop.time() < self._refuses_until
        if is_refused or len(self._clients) >= MAXIMUM_CONNECTIONS:
            return False
        self._clients.add(client)
        return True

    def forget(self, client: "_Client") -> None:
        """Keep account of a client no longer."""
        self._clients.discard(client)

    def _wake_at(self, due_at: float) -> None:
        delay_seconds = max(due_at - self.clock.now(), 0.0)
        at = self._loop.time() + delay_seconds
        if self._timer is None or self._timer.cancelled() or at < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(at, self._run_due)

    def _run_due(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.hub.broker.run_due()
        due_at = self.hub.broker.next_due()
        if due_at is not None:
            self._wake_at(due_at)


class _Client(asyncio.Protocol):
    """The socket of one client. Gathers what is written at once, for each send costs."""

    def __init__(self, server: AmqpServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._connection: Connection | None = None
        self._gathered = bytearray()

    # What asyncio tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # What a TCP server makes is never anything else.
        self._transport = cast(asyncio.Transport, transport)
        if not self._server.admit(self):
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._connection = Connection(self._server.hub, self)

    def data_received(self, data: bytes) -> None:
        if self._connection is not None:
            self._connection.receive(data)

    def pause_writing(self) -> None:
        # A client that does not read its answers is not asked for more work.
        if self._transport is not None and self._connection is not None:
            self._transport.pause_reading()
            self._connection.pause()

    def resume_writing(self) -> None:
        if self._transport is not None and self._connection is not None:
            self._transport.resume_reading()
            self._connection.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._server.forget(self)
        if self._connection is not None:
            self._connection.lost()

    # What the connection asks for.

    def write(self, data: bytes) -> None:
        """Send bytes, soon."""
        if not self._gathered:
            self._loop.call_soon(self._flush)
        self._gathered += data
        if len(self._gathered) >= GATHERED_BYTES:
            self._flush()

    def close(self) -> None:
        """Close once everything is sent."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Cut, at once; what was written before is sent if the socket takes it."""
        self._flush()
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        if self._gathered and self._transport is not None:
            self._transport.write(bytes(self._gathered))
        self._gathered.clear()

    def cut(self) -> None:
        """Cut the connection."""
        if self._connection is not None:
            self._connection.cut()
