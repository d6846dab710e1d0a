"""Faults on demand: what goes wrong, and when."""

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

from local.servicebus_emulator.clock import Clock
from local.servicebus_emulator.errors import SERVER_BUSY
from local.servicebus_emulator.journal import JsonObject

MAXIMUM_SECONDS: Final = 3600.0
MAXIMUM_PER_SECOND: Final = 1_000_000.0
MAXIMUM_FAULTS: Final = 1000


class FaultKind(StrEnum):
    """What goes wrong.

    `RENEWAL_BUSY` answers a renewal with server-busy; `RENEWAL_THROTTLE` answers those so that
    are more than `per_second`. `MANAGEMENT_TIMEOUT` answers a management request with a timeout.
    `SETTLEMENT_LOST` gives a settlement no answer, `SETTLEMENT_REFUSED` a bad one.
    `DELIVERY_DROPPED` locks a message and sends nothing, `DELIVERY_DELAYED` sends it later,
    `DELIVERY_DUPLICATED` hands out a second copy, `DELIVERY_CUT` sends it and cuts the
    connection. `SEND_REFUSED` takes no message in. `TOKEN_REFUSED` denies a client its access.
    """

    RENEWAL_BUSY = "renewal_busy"
    RENEWAL_THROTTLE = "renewal_throttle"
    MANAGEMENT_TIMEOUT = "management_timeout"
    SETTLEMENT_LOST = "settlement_lost"
    SETTLEMENT_REFUSED = "settlement_refused"
    DELIVERY_DROPPED = "delivery_dropped"
    DELIVERY_DELAYED = "delivery_delayed"
    DELIVERY_DUPLICATED = "delivery_duplicated"
    DELIVERY_CUT = "delivery_cut"
    SEND_REFUSED = "send_refused"
    TOKEN_REFUSED = "token_refused"


RENEWAL_FAULTS: Final = frozenset(
    {FaultKind.RENEWAL_BUSY, FaultKind.RENEWAL_THROTTLE, FaultKind.MANAGEMENT_TIMEOUT}
)
MANAGEMENT_FAULTS: Final = frozenset({FaultKind.MANAGEMENT_TIMEOUT})
SETTLEMENT_FAULTS: Final = frozenset({FaultKind.SETTLEMENT_LOST, FaultKind.SETTLEMENT_REFUSED})
DELIVERY_FAULTS: Final = frozenset(
    {
        FaultKind.DELIVERY_DROPPED,
        FaultKind.DELIVERY_DELAYED,
        FaultKind.DELIVERY_DUPLICATED,
        FaultKind.DELIVERY_CUT,
    }
)
SEND_FAULTS: Final = frozenset({FaultKind.SEND_REFUSED})
TOKEN_FAULTS: Final = frozenset({FaultKind.TOKEN_REFUSED})

_MAY_SKIP_ACTING: Final = frozenset({FaultKind.SETTLEMENT_LOST, FaultKind.MANAGEMENT_TIMEOUT})


@dataclass(frozen=True, slots=True)
class Match:
    """What a fault strikes. What is not given does not limit it.

    `entity` is the path of a queue, subscription, dead-letter queue or topic. `operation` is
    `complete`, `abandon`, `dead-letter` or `defer` for settlements, `send` for messages, and for
    requests what follows `com.microsoft:`, as in `renew-lock`. The fault starts with the `nth`
    match, strikes `count` of them, each with `probability`.
    """

    entity: str | None = None
    operation: str | None = None
    message_id: str | None = None
    nth: int = 1
    count: int | None = None
    probability: float = 1.0

    def __post_init__(self) -> None:
        if self.nth < 1 or (self.count is not None and self.count < 1):
            raise ValueError("nth and count start at 1")
        if not 0.0 <= self.probability <= 1.0:
            raise ValueError("probability lies between 0 and 1")


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to go wrong.

    Attributes:
        kind: What goes wrong.
        match: What it strikes.
        acts: Whether the broker does what was asked all the same, where the answer is lost or
            says timeout.
        cuts: Whether the connection is cut where an answer is lost; else the client waits.
        seconds: How long a delivery is delayed.
        per_second: How many renewals are answered well.
        condition: The error condition of a refused settlement or message.
    """

    kind: FaultKind
    match: Match = field(default_factory=Match)
    acts: bool = True
    cuts: bool = False
    seconds: float = 0.0
    per_second: float = 0.0
    condition: str = SERVER_BUSY

    def __post_init__(self) -> None:
        if not 0.0 <= self.seconds <= MAXIMUM_SECONDS:
            raise ValueError(f"seconds lie between 0 and {MAXIMUM_SECONDS:.0f}")
        if not 0.0 <= self.per_second <= MAXIMUM_PER_SECOND:
            raise ValueError(f"per_second lies between 0 and {MAXIMUM_PER_SECOND:.0f}")
        if not self.acts and self.kind not in _MAY_SKIP_ACTING:
            raise ValueError(f"acts says nothing about a {self.kind} fault")
        if self.cuts and self.kind is not FaultKind.SETTLEMENT_LOST:
            raise ValueError(f"cuts says nothing about a {self.kind} fault")

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Fault":
        """Return the fault that a JSON object describes.

        Raises:
            ValueError: A field is unknown or its value makes no sense.
        """
        fields = dict(given)
        try:
            kind = FaultKind(fields.pop("kind", ""))
            match = Match(**fields.pop("match", {}))
            return cls(kind=kind, match=match, **fields)
        except TypeError as error:
            raise ValueError(str(error)) from error

    def to_json(self) -> JsonObject:
        """Return the fault as a JSON object that `from_json` understands."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Candidate:
    """What the plan knows of what happens when it looks for a fault."""

    entity: str
    operation: str | None = None
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class FaultStatus:
    """A fault with its count of matches and of those that it struck."""

    fault_id: str
    fault: Fault
    matched: int
    struck: int

    def to_json(self) -> JsonObject:
        """Return the fault and its counts as a JSON object."""
        return {
            "id": self.fault_id,
            "matched": self.matched,
            "struck": self.struck,
            "fault": self.fault.to_json(),
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "FaultStatus":
        """Return the status that a JSON object describes."""
        fault = Fault.from_json(given["fault"])
        return cls(given["id"], fault, given["matched"], given["struck"])


class _Allowance:
    """What a throttle still lets through; refills steadily, up to one second's worth."""

    def __init__(self, per_second: float, clock: Clock) -> None:
        self._per_second = per_second
        # Less than one would let nothing through, however slowly it is to let something.
        self._most = max(per_second, 1.0) if per_second > 0.0 else 0.0
        self._clock = clock
        self._left = self._most
        self._filled_at = clock.now()

    def take(self) -> bool:
        """Take one, if there is one."""
        now = self._clock.now()
        refill = (now - self._filled_at) * self._per_second
        self._left = min(self._most, self._left + refill)
        self._filled_at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class _PlannedFault:
    def __init__(self, fault_id: str, fault: Fault, clock: Clock) -> None:
        self.fault_id = fault_id
        self.fault = fault
        self.matched = 0
        self.struck = 0
        self.allowance = _Allowance(fault.per_second, clock)

    def status(self) -> FaultStatus:
        return FaultStatus(self.fault_id, self.fault, self.matched, self.struck)

    def strikes(self, chance: random.Random) -> bool:
        """Count a match, and return whether the fault strikes it."""
        self.matched += 1
        match = self.fault.match
        if self.matched < match.nth or (match.count is not None and self.struck >= match.count):
            return False
        if match.probability < 1.0 and chance.random() >= match.probability:
            return False
        if self.fault.kind is FaultKind.RENEWAL_THROTTLE and self.allowance.take():
            return False
        self.struck += 1
        return True


class FaultPlan:
    """The faults in force, in the order in which they were added. The first that fits strikes.

    Args:
        seed: What chances follow.
        clock: Tells the time to throttles.
    """

    def __init__(self, seed: int, clock: Clock) -> None:
        self._random = random.Random(f"faults:{seed}")
        self._clock = clock
        self._planned: dict[str, _PlannedFault] = {}
        self._added = 0

    def add(self, fault: Fault) -> str:
        """Put a fault into force and return its id.

        Raises:
            ValueError: There are too many already.
        """
        if len(self._planned) >= MAXIMUM_FAULTS:
            raise ValueError(f"at most {MAXIMUM_FAULTS} faults can be in force")
        self._added += 1
        fault_id = f"fault_{self._added}"
        self._planned[fault_id] = _PlannedFault(fault_id, fault, self._clock)
        return fault_id

    def remove(self, fault_id: str) -> bool:
        """Take a fault out of force; return whether there was one."""
        return self._planned.pop(fault_id, None) is not None

    def clear(self) -> None:
        """Take every fault out of force."""
        self._planned.clear()

    def in_force(self) -> list[FaultStatus]:
        """Return the faults with their counts; a spent one stays until it is removed."""
        return [planned.status() for planned in self._planned.values()]

    def choose(self, kinds: frozenset[FaultKind], candidate: Candidate) -> Fault | None:
        """Return the fault of one of these kinds that strikes, or None."""
        for planned in self._planned.values():
            fault = planned.fault
            if (
                fault.kind in kinds
                and _fits(fault.match, candidate)
                and planned.strikes(self._random)
            ):
                return fault
        return None


def _fits(match: Match, candidate: Candidate) -> bool:
    return (
        (match.entity is None or match.entity.lower() == candidate.entity.lower())
        and match.operation in (None, candidate.operation)
        and match.message_id in (None, candidate.message_id)
    )
