"""Controlling a running emulator: faults, the record of what happened, and cutting streams.

GET    /                    what there is
GET    /events              what happened; limit it with kind, resource, message_id, outcome,
                            after, and wait with at_least and wait_seconds
GET    /faults              the faults in force
POST   /faults              put one into force: {"target": "extension", "effect": "lose"}
DELETE /faults[?id=ID]      take one, or all, out of force
POST   /streams/cut         end pull streams with UNAVAILABLE: {"subscription": NAME} or {}
GET    /backlog?subscription=NAME   how many messages it holds
"""

import time
from typing import Protocol

from local.pubsub_emulator.backlog import BacklogSummary
from local.pubsub_emulator.exchange import Exchange
from local.pubsub_emulator.faults import Fault, InjectedFault
from local.pubsub_emulator.journal import Event, EventFilter


class Control(Protocol):
    """What can be done to an emulator, in this process or in another."""

    def inject(self, fault: Fault) -> str:
        """Put a fault into force and return its id.

        Raises:
            ValueError: There are too many already.
        """
        ...

    def faults(self) -> list[InjectedFault]:
        """Return the faults in force with their counts; a spent one stays until removed."""
        ...

    def remove_fault(self, fault_id: str) -> bool:
        """Take a fault out of force; return whether there was one."""
        ...

    def clear_faults(self) -> None:
        """Take every fault out of force."""
        ...

    def events(self, wanted: EventFilter | None = None) -> list[Event]:
        """Return what happened, in order.

        Raises:
            JournalOverflow: Events that might fit are gone.
        """
        ...

    def wait_for_events(
        self, wanted: EventFilter, at_least: int = 1, wait_seconds: float = 10.0
    ) -> list[Event]:
        """Wait until so many events fit, and return those that do.

        Raises:
            TimeoutError: There are still fewer after the wait.
        """
        ...

    def cut_streams(self, subscription: str | None = None) -> int:
        """End the pull streams of a subscription, or all, with UNAVAILABLE; return how many."""
        ...

    def backlog(self, subscription: str) -> BacklogSummary:
        """Return how many messages a subscription holds.

        Raises:
            NotFound: There is no such subscription.
        """
        ...


class LocalControl:
    """Controls an emulator that runs in this process; see `Control`."""

    def __init__(self, exchange: Exchange) -> None:
        """Control what happens in the exchange."""
        self._exchange = exchange

    def inject(self, fault: Fault) -> str:
        """Put a fault into force; see `Control`."""
        with self._exchange.plan_faults() as plan:
            return plan.inject(fault)

    def faults(self) -> list[InjectedFault]:
        """Return the faults in force; see `Control`."""
        with self._exchange.plan_faults() as plan:
            return plan.injected()

    def remove_fault(self, fault_id: str) -> bool:
        """Take a fault out of force; see `Control`."""
        with self._exchange.plan_faults() as plan:
            return plan.remove(fault_id)

    def clear_faults(self) -> None:
        """Take every fault out of force."""
        with self._exchange.plan_faults() as plan:
            plan.clear()

    def events(self, wanted: EventFilter | None = None) -> list[Event]:
        """Return what happened; see `Control`."""
        return self._exchange.events(wanted or EventFilter())

    def wait_for_events(
        self, wanted: EventFilter, at_least: int = 1, wait_seconds: float = 10.0
    ) -> list[Event]:
        """Wait until so many events fit; see `Control`."""
        give_up = time.monotonic() + wait_seconds
        while True:
            version = self._exchange.version
            found = self.events(wanted)
            if len(found) >= at_least:
                return found
            remaining_seconds = give_up - time.monotonic()
            if remaining_seconds <= 0 or self._exchange.is_closed:
                raise TimeoutError(f"{len(found)} events instead of {at_least}: {wanted}")
            self._exchange.wait(version, remaining_seconds)

    def cut_streams(self, subscription: str | None = None) -> int:
        """End pull streams; see `Control`."""
        return self._exchange.cut_streams(subscription)

    def backlog(self, subscription: str) -> BacklogSummary:
        """Return how many messages a subscription holds; see `Control`."""
        with self._exchange.look() as broker:
            return broker.summary(subscription)
