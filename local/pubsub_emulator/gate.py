"""The way to the broker and back: faults strike here, and what passes is written down.

Like the broker it knows no threads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from local.pubsub_emulator.backlog import Demand
from local.pubsub_emulator.broker import Broker
from local.pubsub_emulator.clock import Clock
from local.pubsub_emulator.errors import (
    InvalidAckIds,
    InvalidArgument,
    NotFound,
    Refused,
    ResourceExhausted,
)
from local.pubsub_emulator.faults import Effect, Fault, FaultPlan, Target
from local.pubsub_emulator.journal import EventKind, Journal, Outcome, Path
from local.pubsub_emulator.messages import Delivery, Draft
from local.pubsub_emulator.timetable import Timetable

MAXIMUM_DELAYED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a subscriber wants done with a delivery: an ack, a nack, or some more seconds."""

    target: Target
    ack_id: str
    seconds: float = 0.0

    @property
    def message_id(self) -> str:
        """The message that the ack id was for."""
        return self.ack_id.rpartition(":")[2].partition("-")[0]


@dataclass(frozen=True, slots=True)
class Request:
    """Settlements that arrive together, each with the fault that strikes it."""

    subscription: str
    settlements: Sequence[Settlement]
    faults: Sequence[Fault | None]
    path: Path
    exactly_once: bool

    @property
    def hold_seconds(self) -> float:
        """How long to hold the request back before it is carried out, by the real clock.

        With exactly-once delivery the answer is a promise, so it cannot come before the deed.
        """
        if not self.exactly_once:
            return 0.0
        delays = [one.seconds for one in self.faults if one and one.effect is Effect.DELAY]
        return max(delays, default=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Delayed:
    subscription: str
    settlement: Settlement
    path: Path


class Gate:
    """Everything that publishers and subscribers do goes through here."""

    def __init__(self, broker: Broker, faults: FaultPlan, journal: Journal, clock: Clock) -> None:
        """Stand before a broker.

        Args:
            broker: What lies behind.
            faults: What goes wrong.
            journal: Where requests and deliveries are written down.
            clock: Tells the broker's time.
        """
        self._broker = broker
        self._faults = faults
        self._journal = journal
        self._clock = clock
        self._delayed: Timetable[_Delayed] = Timetable()

    def publish(self, topic: str, drafts: Sequence[Draft]) -> list[str]:
        """Take messages in and return their ids.

        Raises:
            BrokerError: The broker, or a fault, refuses.
        """
        fault = self._faults.strike(Target.PUBLISH, topic)
        if fault is not None and not fault.acts:
            raise Refused(fault.status)
        message_ids = self._broker.publish(topic, drafts)
        if fault is not None:
            raise Refused(fault.status)
        return message_ids

    def take(self, subscription: str, demand: Demand, path: Path) -> list[Delivery]:
        """Hand out messages that are waiting; none is a possible answer.

        Raises:
            BrokerError: The broker, or a fault, refuses. What was handed out then is lost on the
                way, until its leases lapse.
        """
        taken = self._broker.take(subscription, demand)
        faults = [
            self._faults.strike(Target.DELIVERY, subscription, delivery.message.message_id)
            for delivery in taken
        ]
        refusal = _first_refusal(faults)
        sent: list[Delivery] = []
        for delivery, fault in zip(taken, faults, strict=True):
            outcome = Outcome.APPLIED if refusal is None else Outcome.REFUSED
            if _effect_of(fault) is Effect.LOSE:
                outcome = Outcome.LOST
            if _effect_of(fault) is Effect.DUPLICATE:
                self._broker.duplicate(subscription, delivery.ack_id)
            if outcome is Outcome.APPLIED:
                sent.append(delivery)
            self._record_delivery(subscription, delivery, path, outcome)
        if refusal is not None:
            raise Refused(refusal.status)
        return sent

    def receive(self, subscription: str, settlements: Sequence[Settlement], path: Path) -> Request:
        """Let a request in, and decide which faults strike it.

        Raises:
            NotFound: There is no such subscription.
            InvalidArgument: An ack id was never one of its.
        """
        exactly_once = self._broker.subscription(subscription).exactly_once
        _check_ack_ids(subscription, settlements)
        faults = [
            self._faults.strike(one.target, subscription, one.message_id) for one in settlements
        ]
        return Request(subscription, settlements, faults, path, exactly_once)

    def carry_out(self, request: Request) -> None:
        """Acknowledge, give back or extend deliveries.

        Raises:
            InvalidAckIds: With exactly-once delivery, some came too late; the others were settled.
            BrokerError: The broker, or a fault, refuses all of them.
        """
        refusal = _first_refusal(request.faults)
        if refusal is not None and not refusal.acts:
            for settlement in request.settlements:
                self._record(request.subscription, settlement, request.path, Outcome.REFUSED)
            raise Refused(refusal.status)
        stale = [
            settlement.ack_id
            for settlement, fault in zip(request.settlements, request.faults, strict=True)
            if not self._carry_out_one(request, settlement, fault)
        ]
        if refusal is not None:
            raise Refused(refusal.status)
        if stale and request.exactly_once:
            raise InvalidAckIds(stale)

    def advance(self) -> bool:
        """Let everything happen that is due; return whether anything was."""
        happened = self._broker.advance()
        while (delayed := self._delayed.pop_due(self._clock.now())) is not None:
            happened = True
            self._apply_delayed(delayed)
        return happened

    def next_at(self) -> float | None:
        """Return when `advance` will have something to do, or None when nothing is planned."""
        planned = (self._broker.next_at(), self._delayed.next_at())
        return min((at for at in planned if at is not None), default=None)

    def _carry_out_one(self, request: Request, settlement: Settlement, fault: Fault | None) -> bool:
        """Return whether the ack id could still settle something, as far as one is told."""
        effect = _effect_of(fault)
        if effect is Effect.LOSE:
            self._record(request.subscription, settlement, request.path, Outcome.LOST)
            return True
        if fault is not None and effect is Effect.DELAY and not request.exactly_once:
            self._delay(_Delayed(request.subscription, settlement, request.path), fault.seconds)
            return True
        return self._apply(request.subscription, settlement, request.path)

    def _delay(self, delayed: _Delayed, seconds: float) -> None:
        if len(self._delayed) >= MAXIMUM_DELAYED:
            raise ResourceExhausted(f"At most {MAXIMUM_DELAYED} settlements can be delayed")
        self._record(delayed.subscription, delayed.settlement, delayed.path, Outcome.DELAYED)
        self._delayed.put(delayed, self._clock.now() + self._clock.from_real(seconds))

    def _apply_delayed(self, delayed: _Delayed) -> None:
        try:
            self._apply(delayed.subscription, delayed.settlement, delayed.path)
        except NotFound:
            # The subscription was deleted meanwhile, and nobody waits for an answer.
            self._record(delayed.subscription, delayed.settlement, delayed.path, Outcome.STALE)

    def _apply(self, subscription: str, settlement: Settlement, path: Path) -> bool:
        ack_id = settlement.ack_id
        if settlement.target is Target.ACK:
            applied = self._broker.acknowledge(subscription, ack_id)
        elif settlement.target is Target.NACK:
            applied = self._broker.give_back(subscription, ack_id)
        else:
            applied = self._broker.extend(subscription, ack_id, settlement.seconds)
        outcome = Outcome.APPLIED if applied else Outcome.STALE
        self._record(subscription, settlement, path, outcome)
        return applied

    def _record(
        self, subscription: str, settlement: Settlement, path: Path, outcome: Outcome
    ) -> None:
        self._journal.record(
            EventKind(settlement.target.value),
            subscription,
            message_id=settlement.message_id,
            ack_id=settlement.ack_id,
            seconds=settlement.seconds,
            path=path,
            outcome=outcome,
        )

    def _record_delivery(
        self, subscription: str, delivery: Delivery, path: Path, outcome: Outcome
    ) -> None:
        self._journal.record(
            EventKind.DELIVERED,
            subscription,
            message_id=delivery.message.message_id,
            ack_id=delivery.ack_id,
            attempt=delivery.attempt,
            path=path,
            outcome=outcome,
        )


def _effect_of(fault: Fault | None) -> Effect | None:
    return None if fault is None else fault.effect


def _first_refusal(faults: Sequence[Fault | None]) -> Fault | None:
    return next((one for one in faults if one is not None and one.effect is Effect.REFUSE), None)


def _check_ack_ids(subscription: str, settlements: Sequence[Settlement]) -> None:
    for settlement in settlements:
        owner, _, numbers = settlement.ack_id.rpartition(":")
        if owner != subscription or not numbers.replace("-", "").isdigit():
            raise InvalidArgument(f"Invalid ack id (ack_id={settlement.ack_id})")
