"""A Google Cloud Pub/Sub on the desk, without gcloud or Java, that goes wrong on demand.

with PubsubEmulator() as emulator:
    os.environ |= emulator.environment
    emulator.control.inject(Fault(Target.EXTENSION, Effect.LOSE))
    ...
    assert not emulator.control.events(EventFilter(kind=EventKind.NACK))
"""

from local.pubsub_emulator.backlog import BacklogSummary
from local.pubsub_emulator.client import ControlClient
from local.pubsub_emulator.control import Control
from local.pubsub_emulator.emulator import PubsubEmulator
from local.pubsub_emulator.errors import BrokerError, NotFound
from local.pubsub_emulator.faults import Effect, Fault, InjectedFault, Target
from local.pubsub_emulator.journal import (
    Event,
    EventFilter,
    EventKind,
    JournalOverflow,
    Outcome,
    Path,
)
from local.pubsub_emulator.process import EmulatorProcess, EmulatorUnavailable
from local.pubsub_emulator.settings import Limits

__all__ = [
    "BacklogSummary",
    "BrokerError",
    "Control",
    "ControlClient",
    "Effect",
    "EmulatorProcess",
    "EmulatorUnavailable",
    "Event",
    "EventFilter",
    "EventKind",
    "Fault",
    "InjectedFault",
    "JournalOverflow",
    "Limits",
    "NotFound",
    "Outcome",
    "Path",
    "PubsubEmulator",
    "Target",
]
