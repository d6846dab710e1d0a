"""The simulator over HTTP, on the loopback interface only."""

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine

from local.stripe_simulator.clock import SettableClock
from local.stripe_simulator.control import PREFIX, Control
from local.stripe_simulator.http_parser import MalformedRequest, RequestParser, head_of
from local.stripe_simulator.model import Running, StripeModel
from local.stripe_simulator.wire import (
    WHOLE,
    Delivery,
    DeliveryKind,
    JsonObject,
    Request,
    Response,
    encode_json,
)

HOST = "127.0.0.1"
BACKLOG = 1024

# With this set, closing sends a reset instead of an orderly end.
_LINGER_RESET = struct.pack("ii", 1, 0)


class SimulatorServer:
    """Listens on a port, and serves a model and its control API."""

    def __init__(self, model: StripeModel, clock: SettableClock) -> None:
        """Prepare a server.

        Args:
            model: The simulated Stripe; its time must come from `clock`.
            clock: The clock that the control API moves.
        """
        self.model = model
        self.control = Control(model, clock, self)
        self.port = 0
        self._listener: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._accepted = 0
        self._reopening: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        """Where clients find it once it was started."""
        return f"http://{HOST}:{self.port}"

    async def start(self, port: int = 0) -> None:
        """Start to listen; port 0 takes a free one."""
        self.port = port
        await self._listen()

    async def stop(self) -> None:
        """Close the listener and every connection, and give up what is still being answered."""
        if self._reopening is not None:
            self._reopening.cancel()
        self._close_listener()
        for connection in list(self._connections):
            connection.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def refuse(self, seconds: float) -> None:
        """Refuse connections for a while, and close those that are open."""
        self._close_listener()
        self.close_connections()
        if self._reopening is not None:
            self._reopening.cancel()
        self._reopening = asyncio.get_running_loop().call_later(seconds, self._reopen)

    def close_connections(self) -> None:
        """Close every connection but those that carry control requests."""
        for connection in list(self._connections):
            if not connection.carries_control:
                connection.close()

    def statistics(self) -> JsonObject:
        """Return how many connections are open and were accepted."""
        return {"open": len(self._connections), "accepted": self._accepted}

    def run(self, task: asyncio.Task[None]) -> None:
        """Keep a task alive until it is done, and let it fail loudly."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def opened(self, connection: "Connection") -> None:
        """Count a new connection."""
        self._accepted += 1
        self._connections.add(connection)

    def closed(self, connection: "Connection") -> None:
        """Forget a connection that ended."""
        self._connections.discard(connection)

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: Connection(self), HOST, self.port, backlog=BACKLOG
        )
        self.port = self._listener.sockets[0].getsockname()[1]

    def _reopen(self) -> None:
        self._reopening = None
        self.run(asyncio.get_running_loop().create_task(self._listen()))

    def _close_listener(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None


class Connection(asyncio.Protocol):
    """One connection: requests one after the other, each answered as its delivery says."""

    def __init__(self, server: SimulatorServer) -> None:
        self._server = server
        self._parser = RequestParser()
        self._transport: asyncio.Transport | None = None
        self._busy = False
        self.carries_control = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve a client."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("the server listens on stream sockets only")
        self._transport = transport
        self._server.opened(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Note that the client is gone; a request that it sent runs on all the same."""
        self._transport = None
        self._server.closed(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes in, and serve what is complete."""
        try:
            self._parser.feed(data)
            self._serve_buffered()
        except MalformedRequest as malformed:
            self._refuse(malformed)

    def close(self) -> None:
        """End the connection in an orderly way, after what was already written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Drop the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _serve_buffered(self) -> None:
        while not self._busy and self._transport is not None:
            request = self._parser.next_request()
            if request is None:
                return
            self._serve(request)

    def _serve(self, request: Request) -> None:
        keep_alive = request.headers.get("connection", "").lower() != "close"
        if request.path.startswith(PREFIX):
            self.carries_control = True
            self._write(self._server.control.handle(request), keep_alive=keep_alive)
            return
        model = self._server.model
        running = model.begin(request)
        if not running.before_seconds and not running.after_seconds:
            response = model.complete(running)
            if response.delivery is WHOLE:
                self._write(response, keep_alive=keep_alive)
            else:
                self._start(self._deliver(response, keep_alive=keep_alive))
            return
        self._start(self._run_slowly(running, keep_alive=keep_alive))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        self._busy = True
        self._server.run(asyncio.get_running_loop().create_task(self._finish(work)))

    async def _finish(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except BaseException:
            self.abort()
            raise
        self._busy = False
        try:
            self._serve_buffered()
        except MalformedRequest as malformed:
            self._refuse(malformed)

    async def _run_slowly(self, running: Running, *, keep_alive: bool) -> None:
        await asyncio.sleep(running.before_seconds)
        self._server.model.act(running)
        await asyncio.sleep(running.after_seconds)
        await self._deliver(self._server.model.complete(running), keep_alive=keep_alive)

    async def _deliver(self, response: Response, *, keep_alive: bool) -> None:
        delivery = response.delivery
        await asyncio.sleep(delivery.wait_seconds)
        if delivery.kind is DeliveryKind.WHOLE:
            self._write(response, keep_alive=keep_alive)
        elif delivery.kind is DeliveryKind.RESET:
            self._reset()
        elif delivery.kind is DeliveryKind.CLOSE:
            self.close()
        elif delivery.kind is DeliveryKind.HANG:
            await self._hang(delivery)
        elif delivery.kind is DeliveryKind.TRUNCATED:
            self._write_bytes(head_of(response, keep_alive=False))
            self._write_bytes(response.body[: len(response.body) // 2])
            self.close()
        elif delivery.kind is DeliveryKind.DRIP_BODY:
            self._write_bytes(head_of(response, keep_alive=keep_alive))
            await self._drip(response.body, delivery)
        else:
            await self._drip(head_of(response, keep_alive=keep_alive) + response.body, delivery)

    async def _hang(self, delivery: Delivery) -> None:
        await asyncio.sleep(delivery.limit_seconds)
        self.close()

    async def _drip(self, data: bytes, delivery: Delivery) -> None:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + delivery.limit_seconds
        for byte in data:
            if self._transport is None:
                return
            if loop.time() >= ends_at:
                self.close()
                return
            self._write_bytes(bytes((byte,)))
            await asyncio.sleep(delivery.interval_seconds)

    def _write(self, response: Response, *, keep_alive: bool) -> None:
        self._write_bytes(head_of(response, keep_alive=keep_alive) + response.body)
        if not keep_alive:
            self.close()

    def _write_bytes(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _reset(self) -> None:
        if self._transport is not None:
            reset_socket = self._transport.get_extra_info("socket")
            reset_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
            self._transport.abort()

    def _refuse(self, malformed: MalformedRequest) -> None:
        body = encode_json({"error": {"message": str(malformed), "type": "invalid_request_error"}})
        headers = {"Content-Type": "application/json"}
        self._write(Response(malformed.status, headers, body), keep_alive=False)


async def run_server(
    server: SimulatorServer,
    port: int,
    ready: Callable[[str], None],
    stop: asyncio.Event,
) -> None:
    """Serve until `stop` is set.

    Args:
        server: What to serve.
        port: Where to listen; 0 takes a free port.
        ready: Called with the base URL once clients can connect.
        stop: Ends the serving.
    """
    await server.start(port)
    try:
        ready(server.base_url)
        await stop.wait()
    finally:
        await server.stop()
