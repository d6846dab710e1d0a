"""What all connections share."""

from collections.abc import Callable
from typing import Protocol

from local.servicebus_emulator.broker import Broker
from local.servicebus_emulator.clock import MovableClock
from local.servicebus_emulator.dispenser import Dispenser
from local.servicebus_emulator.faults import FaultPlan
from local.servicebus_emulator.journal import Journal
from local.servicebus_emulator.options import EmulatorOptions
from local.servicebus_emulator.queues import Queue
from local.servicebus_emulator.settling import Settler


class Appointment(Protocol):
    """Something that will be called later."""

    def cancel(self) -> None:
        """Do not call it."""
        ...


class Scheduler(Protocol):
    """Calls later."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> Appointment:
        """Call `callback` after `delay` seconds."""
        ...


class Hub:
    """The broker, what watches and disturbs it, and what brings its messages to consumers.

    Args:
        options: What the emulator is started with.
        clock: Tells the time.
        scheduler: Calls later.
    """

    def __init__(self, options: EmulatorOptions, clock: MovableClock, scheduler: Scheduler) -> None:
        self.clock = clock
        self.scheduler = scheduler
        self.broker = Broker(options, clock)
        self.journal = Journal()
        self.faults = FaultPlan(options.seed, clock)
        self.settler = Settler(self.journal, self.faults, clock)
        self._dispensers = {queue.path: Dispenser(queue) for queue in self.broker.sources()}

    def dispenser(self, queue: Queue) -> Dispenser:
        """Return what hands out the messages of a queue."""
        return self._dispensers[queue.path]
