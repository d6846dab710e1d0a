"""Faults on demand: what goes wrong between subscribers and the broker, and how often."""

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, Self

from local.pubsub_emulator.journal import names_resource

MAXIMUM_FAULTS: Final = 1000
MAXIMUM_DELAY_SECONDS: Final = 600.0

_STATUSES: Final = frozenset(
    {
        "ABORTED",
        "DEADLINE_EXCEEDED",
        "FAILED_PRECONDITION",
        "INTERNAL",
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "UNAUTHENTICATED",
        "UNAVAILABLE",
        "UNKNOWN",
    }
)


class Target(StrEnum):
    """What a fault strikes."""

    PUBLISH = "publish"
    DELIVERY = "delivery"
    ACK = "ack"
    NACK = "nack"
    EXTENSION = "extension"


class Effect(StrEnum):
    """What a fault does to it.

    LOSE: nothing happens, and nobody is told. A lost delivery is out until its lease lapses.
    REFUSE: the answer is an error. A refused delivery ends the stream or the pull that it was for.
    DELAY: it happens later. The answer comes at once, except under exactly-once delivery, where
        it would be a promise.
    DUPLICATE: the message is delivered once more while the first delivery runs. Exactly-once
        subscriptions have none.
    """

    LOSE = "lose"
    REFUSE = "refuse"
    DELAY = "delay"
    DUPLICATE = "duplicate"


_EFFECTS: Final[Mapping[Target, frozenset[Effect]]] = {
    Target.PUBLISH: frozenset({Effect.REFUSE}),
    Target.DELIVERY: frozenset({Effect.LOSE, Effect.REFUSE, Effect.DUPLICATE}),
    Target.ACK: frozenset({Effect.LOSE, Effect.REFUSE, Effect.DELAY}),
    Target.NACK: frozenset({Effect.LOSE, Effect.REFUSE, Effect.DELAY}),
    Target.EXTENSION: frozenset({Effect.LOSE, Effect.REFUSE, Effect.DELAY}),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to go wrong. It strikes from the `nth` fitting occasion on.

    Attributes:
        target: What it strikes.
        effect: What it does to it.
        resource: Only on this subscription (for publishing: topic), by its full name or the last
            part of it.
        message_id: Only where this message is concerned; not for publishing.
        nth: The first fitting occasion that it strikes, from 1.
        count: How many it strikes, or None for all.
        probability: With which it strikes each of them.
        status: The gRPC status of a refusal. Google's client repeats a call that failed with
            UNAVAILABLE for a minute.
        acts: Whether what is refused happens all the same: the answer to it got lost. Only for
            publishing, acks, nacks and extensions.
        seconds: How long a delayed one takes, by the real clock.
    """

    target: Target
    effect: Effect
    resource: str | None = None
    message_id: str | None = None
    nth: int = 1
    count: int | None = None
    probability: float = 1.0
    status: str = "INTERNAL"
    acts: bool = False
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.effect not in _EFFECTS[self.target]:
            raise ValueError(f"{self.effect} does nothing to {self.target}")
        if self.nth < 1 or (self.count is not None and self.count < 1):
            raise ValueError("nth and count start at 1")
        if not 0.0 <= self.probability <= 1.0:
            raise ValueError("probability lies between 0 and 1")
        if self.status not in _STATUSES:
            raise ValueError(f"{self.status} is not the name of a gRPC error")
        if not 0.0 <= self.seconds <= MAXIMUM_DELAY_SECONDS:
            raise ValueError(f"seconds lie between 0 and {MAXIMUM_DELAY_SECONDS:.0f}")
        if self.acts and (self.effect is not Effect.REFUSE or self.target is Target.DELIVERY):
            raise ValueError("acts is for requests that are refused")
        if self.message_id is not None and self.target is Target.PUBLISH:
            raise ValueError("a message has no id before it is published")

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return the fault that a JSON object describes.

        Raises:
            ValueError: A field is missing, unknown, or makes no sense.
        """
        fields = dict(given)
        target, effect = Target(fields.pop("target", "")), Effect(fields.pop("effect", ""))
        try:
            return cls(target, effect, **fields)
        except TypeError as error:
            raise ValueError(str(error)) from error

    def to_json(self) -> dict[str, Any]:
        """Return the fault as a JSON object that `from_json` understands."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """A fault in force, with how many occasions fitted it and how many of them it struck."""

    fault_id: str
    fault: Fault
    fitted: int = 0
    struck: int = 0

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return what a JSON object describes."""
        fault = Fault.from_json(given["fault"])
        return cls(given["fault_id"], fault, given["fitted"], given["struck"])

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object that `from_json` understands."""
        return asdict(self)


class _Counted:
    def __init__(self, fault_id: str, fault: Fault) -> None:
        self.fault_id = fault_id
        self.fault = fault
        self.fitted = 0
        self.struck = 0

    def strikes(self, dice: random.Random) -> bool:
        self.fitted += 1
        fault = self.fault
        if self.fitted < fault.nth or (fault.count is not None and self.struck >= fault.count):
            return False
        if fault.probability < 1.0 and dice.random() >= fault.probability:
            return False
        self.struck += 1
        return True


class FaultPlan:
    """The faults in force, in the order in which they came. The first that strikes is the one."""

    def __init__(self, seed: int) -> None:
        """Start without faults; the seed decides whether improbable ones strike."""
        self._dice = random.Random(f"pubsub-faults:{seed}")
        self._counted: dict[str, _Counted] = {}
        self._injected = 0

    def inject(self, fault: Fault) -> str:
        """Put a fault into force and return its id.

        Raises:
            ValueError: There are too many already.
        """
        if len(self._counted) >= MAXIMUM_FAULTS:
            raise ValueError(f"at most {MAXIMUM_FAULTS} faults can be in force")
        self._injected += 1
        fault_id = f"fault-{self._injected}"
        self._counted[fault_id] = _Counted(fault_id, fault)
        return fault_id

    def remove(self, fault_id: str) -> bool:
        """Take a fault out of force; return whether there was one."""
        return self._counted.pop(fault_id, None) is not None

    def clear(self) -> None:
        """Take every fault out of force."""
        self._counted.clear()

    def injected(self) -> list[InjectedFault]:
        """Return the faults in force; a spent one stays until it is removed."""
        return [
            InjectedFault(one.fault_id, one.fault, one.fitted, one.struck)
            for one in self._counted.values()
        ]

    def strike(self, target: Target, resource: str, message_id: str | None = None) -> Fault | None:
        """Return the fault that strikes now, or None."""
        for one in self._counted.values():
            fault = one.fault
            fits = (
                fault.target is target
                and names_resource(fault.resource, resource)
                and fault.message_id in (None, message_id)
            )
            if fits and one.strikes(self._dice):
                return fault
        return None
