"""An Azure Service Bus for development and tests, speaking AMQP 1.0 to unmodified clients.

    options = EmulatorOptions(queues=[QueueOptions("billing")])
    with ServiceBusEmulator(options) as emulator:
        client = ServiceBusClient.from_connection_string(emulator.connection_string)
        ...
        assert emulator.settlements("billing") == []

`EmulatorProcess` is the same in a process of its own, `python -m local.servicebus_emulator` the
command. From bytes to behaviour: `decoding` and `encoding` know AMQP's types, `performatives`
and `frames` what travels, `connection`, `session`, `links`, `incoming` and `outgoing` the
protocol, `attaching`, `exchange`, `tokens` and `management` what clients can reach, `dispenser`
and `settling` what happens to messages on the way, `broker` and `queues` what happens to them at
rest. None of these does I/O; `server` and `control_server` have the sockets.
"""

from local.servicebus_emulator.control import ControlError, EmulatorControl
from local.servicebus_emulator.control_api import QueueStatus
from local.servicebus_emulator.emulator import ServiceBusEmulator
from local.servicebus_emulator.faults import Fault, FaultKind, FaultStatus, Match
from local.servicebus_emulator.journal import (
    DeliveryRecord,
    RenewalOutcome,
    RenewalRecord,
    Route,
    SettlementKind,
    SettlementOutcome,
    SettlementRecord,
)
from local.servicebus_emulator.options import (
    EmulatorOptions,
    QueueOptions,
    QueueSettings,
    SubscriptionOptions,
)
from local.servicebus_emulator.process import EmulatorProcess

__all__ = [
    "ControlError",
    "DeliveryRecord",
    "EmulatorControl",
    "EmulatorOptions",
    "EmulatorProcess",
    "Fault",
    "FaultKind",
    "FaultStatus",
    "Match",
    "QueueOptions",
    "QueueSettings",
    "QueueStatus",
    "RenewalOutcome",
    "RenewalRecord",
    "Route",
    "ServiceBusEmulator",
    "SettlementKind",
    "SettlementOutcome",
    "SettlementRecord",
    "SubscriptionOptions",
]
