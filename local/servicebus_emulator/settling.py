"""Settlements, whichever way they come: applied, recorded, and spoiled on demand."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from local.servicebus_emulator.clock import Clock
from local.servicebus_emulator.errors import BrokerError, LockLost, NotSupported, Refused
from local.servicebus_emulator.faults import (
    SETTLEMENT_FAULTS,
    Candidate,
    Fault,
    FaultKind,
    FaultPlan,
)
from local.servicebus_emulator.journal import (
    Journal,
    Route,
    SettlementKind,
    SettlementOutcome,
    SettlementRecord,
)
from local.servicebus_emulator.queues import Queue


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a consumer says about a message."""

    kind: SettlementKind
    reason: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the consumer is told about its settlement.

    Attributes:
        error: Why it was not applied, or None: it was.
        is_answered: Whether the consumer is told at all.
        cuts: Whether its connection is cut instead.
    """

    error: BrokerError | None = None
    is_answered: bool = True
    cuts: bool = False


_OUTCOMES: Final = {
    LockLost: SettlementOutcome.LOCK_LOST,
    NotSupported: SettlementOutcome.NOT_SUPPORTED,
}


class Settler:
    """Applies settlements.

    Args:
        journal: Where each is recorded.
        faults: What spoils them.
        clock: Tells the time.
    """

    def __init__(self, journal: Journal, faults: FaultPlan, clock: Clock) -> None:
        self._journal = journal
        self._faults = faults
        self._clock = clock

    def settle(
        self, queue: Queue, lock_token: UUID, settlement: Settlement, route: Route
    ) -> Verdict:
        """Apply a settlement and return what the consumer is told."""
        message_id = self._journal.message_id(lock_token)
        fault = None
        # Clients release what they did not ask for; that must not use up a fault.
        if settlement.kind is not SettlementKind.RELEASE:
            candidate = Candidate(queue.path, settlement.kind, message_id)
            fault = self._faults.choose(SETTLEMENT_FAULTS, candidate)
        outcome, verdict = _decide(queue, lock_token, settlement, fault)
        self._journal.settled(
            SettlementRecord(
                queue=queue.path,
                message_id=message_id,
                lock_token=lock_token,
                kind=settlement.kind,
                outcome=outcome,
                answered=verdict.is_answered,
                route=route,
                at=self._clock.now(),
            )
        )
        return verdict


def _decide(
    queue: Queue, lock_token: UUID, settlement: Settlement, fault: Fault | None
) -> tuple[SettlementOutcome, Verdict]:
    if fault is not None and fault.kind is FaultKind.SETTLEMENT_REFUSED:
        return SettlementOutcome.REFUSED, Verdict(Refused(fault.condition))
    if fault is not None and not fault.acts:
        return SettlementOutcome.LOST, Verdict(is_answered=False, cuts=fault.cuts)
    error = _apply(queue, lock_token, settlement)
    outcome = SettlementOutcome.APPLIED if error is None else _OUTCOMES[type(error)]
    if fault is not None:
        return outcome, Verdict(error, is_answered=False, cuts=fault.cuts)
    return outcome, Verdict(error)


def _apply(queue: Queue, lock_token: UUID, settlement: Settlement) -> BrokerError | None:
    try:
        match settlement.kind:
            case SettlementKind.COMPLETE:
                queue.complete(lock_token)
            case SettlementKind.ABANDON:
                queue.abandon(lock_token)
            case SettlementKind.RELEASE:
                queue.release(lock_token)
            case SettlementKind.DEAD_LETTER:
                queue.dead_letter(lock_token, settlement.reason, settlement.description)
            case SettlementKind.DEFER:
                raise NotSupported("deferral is not supported by this emulator")
    except BrokerError as error:
        return error
    return None
