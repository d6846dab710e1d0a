"""An emulator from its start to its end, whether in a thread or as a command."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from local.servicebus_emulator.control_api import ControlApi
from local.servicebus_emulator.control_server import ControlServer
from local.servicebus_emulator.options import LOOPBACK, EmulatorOptions
from local.servicebus_emulator.server import AmqpServer

# What Microsoft's own emulator takes; this one takes any.
_KEY_NAME: Final = "RootManageSharedAccessKey"
_KEY: Final = "SAS_KEY_VALUE"
_EVERY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})


@dataclass(frozen=True, slots=True)
class Running:
    """An emulator that is ready for clients.

    Attributes:
        connection_string: What clients connect with.
        control_url: Where the control API is, or None: it is not served.
        api: Answers control requests, on the emulator's own thread.
    """

    connection_string: str
    control_url: str | None
    api: ControlApi


async def run_emulator(
    options: EmulatorOptions, on_ready: Callable[[Running], None], stop: asyncio.Event
) -> None:
    """Run an emulator until `stop` is set.

    Args:
        options: What it is started with.
        on_ready: Called when clients can connect.
        stop: Ends it.

    Raises:
        OSError: An address cannot be had.
    """
    server = AmqpServer(options)
    api = ControlApi(server)
    control: ControlServer | None = None
    try:
        await server.start()
        if options.control_port is not None:
            control = ControlServer(api, options.host, options.control_port)
            await control.start()
        host = _host_for_clients(options.host)
        control_url = None if control is None else f"http://{host}:{control.port}"
        on_ready(Running(_connection_string(host, server.port), control_url, api))
        await stop.wait()
    finally:
        if control is not None:
            control.stop()
        await server.stop()


def _host_for_clients(host: str) -> str:
    if host in _EVERY_ADDRESS:
        return LOOPBACK
    return f"[{host}]" if ":" in host else host


def _connection_string(host: str, port: int) -> str:
    # Clients leave TLS out only if the last word is exactly this one.
    return (
        f"Endpoint=sb://{host}:{port};SharedAccessKeyName={_KEY_NAME};"
        f"SharedAccessKey={_KEY};UseDevelopmentEmulator=true;"
    )
