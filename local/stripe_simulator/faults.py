"""Faults on demand: which requests go wrong, and how."""

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from local.stripe_simulator.behaviours import (
    DECLINE_CODES,
    NEEDS_ACTION,
    PROCESSES,
    Behaviour,
    declines,
)
from local.stripe_simulator.errors import (
    StripeError,
    forbidden,
    idempotency_key_in_use,
    lock_timeout,
    rate_limited,
    unauthorized,
)
from local.stripe_simulator.wire import Delivery, DeliveryKind, JsonObject

MAXIMUM_SECONDS = 3600.0
MAXIMUM_FAULTS = 1000


class FaultKind(StrEnum):
    """What goes wrong."""

    DELAY = "delay"
    RESET = "reset"
    CLOSE = "close"
    HANG = "hang"
    TRUNCATED = "truncated"
    DRIP_BODY = "drip_body"
    DRIP_HEADERS = "drip_headers"
    HTML_502 = "html_502"
    NOT_JSON = "not_json"
    SERVER_ERROR = "server_error"
    RATE_LIMIT = "rate_limit"
    KEY_IN_USE = "key_in_use"
    LOCK_TIMEOUT = "lock_timeout"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    SPEND_CAP = "spend_cap"
    DECLINE = "decline"
    REQUIRES_ACTION = "requires_action"
    PROCESSING = "processing"


_REFUSALS = frozenset(
    {
        FaultKind.RATE_LIMIT,
        FaultKind.KEY_IN_USE,
        FaultKind.LOCK_TIMEOUT,
        FaultKind.UNAUTHORIZED,
        FaultKind.FORBIDDEN,
        FaultKind.SPEND_CAP,
    }
)
_PAYMENT_OUTCOMES = frozenset({FaultKind.DECLINE, FaultKind.REQUIRES_ACTION, FaultKind.PROCESSING})
_MAY_SKIP_ACTING = frozenset(
    {
        FaultKind.RESET,
        FaultKind.CLOSE,
        FaultKind.HANG,
        FaultKind.HTML_502,
        FaultKind.NOT_JSON,
        FaultKind.SERVER_ERROR,
    }
)
_DELIVERIES = {
    FaultKind.RESET: DeliveryKind.RESET,
    FaultKind.CLOSE: DeliveryKind.CLOSE,
    FaultKind.HANG: DeliveryKind.HANG,
    FaultKind.TRUNCATED: DeliveryKind.TRUNCATED,
    FaultKind.DRIP_BODY: DeliveryKind.DRIP_BODY,
    FaultKind.DRIP_HEADERS: DeliveryKind.DRIP_HEADERS,
}


@dataclass(frozen=True, slots=True)
class Match:
    """Which requests a fault strikes. What is not given does not limit it.

    `path` may hold `*` for one segment: `/v1/payment_intents/*/confirm`. `customer` and
    `metadata` are looked for in the request and in the object that its path names. The fault
    starts with the `nth` matching request, strikes `count` of them, each with `probability`.
    """

    method: str | None = None
    path: str | None = None
    customer: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
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
        match: Which requests it strikes.
        acts: Whether Stripe does the work all the same. Refusals never act; a fault that spoils
            a real answer always does.
        stored: Whether the outcome stays under the idempotency key.
        before_seconds: Passes before Stripe acts, with the key in use and the object locked.
        after_seconds: Passes after it acted, with the key still in use and the object locked.
        answer_seconds: Passes while the answer is on its way; for Stripe it is all over.
        hang_seconds: How long a hang or a dripping answer lasts before the connection is closed.
        interval_seconds: The pause between two bytes of a dripping answer.
        code: The decline code of a decline.
        reason: The `Stripe-Rate-Limited-Reason` of a rate limit.
        spent_today_usd: What a spend-cap proxy says was spent; its message names the cap.
    """

    kind: FaultKind
    match: Match = field(default_factory=Match)
    acts: bool = True
    stored: bool = True
    before_seconds: float = 0.0
    after_seconds: float = 0.0
    answer_seconds: float = 0.0
    hang_seconds: float = 60.0
    interval_seconds: float = 1.0
    code: str = "generic_decline"
    reason: str = "global-rate"
    spent_today_usd: float = 50.0

    def __post_init__(self) -> None:
        seconds = (
            self.before_seconds,
            self.after_seconds,
            self.answer_seconds,
            self.hang_seconds,
            self.interval_seconds,
        )
        if not all(0.0 <= value <= MAXIMUM_SECONDS for value in seconds):
            raise ValueError(f"seconds lie between 0 and {MAXIMUM_SECONDS:.0f}")
        if not self.acts and self.kind not in _MAY_SKIP_ACTING | _REFUSALS:
            raise ValueError(f"a {self.kind} fault always acts")
        if self.code not in DECLINE_CODES:
            raise ValueError(f"{self.code} is not a decline code")

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

    @property
    def is_payment_outcome(self) -> bool:
        """Whether it decides how a payment ends, and so strikes only requests that pay."""
        return self.kind in _PAYMENT_OUTCOMES

    @property
    def executes(self) -> bool:
        """Whether Stripe does the work in spite of the fault."""
        return self.acts and self.kind not in _REFUSALS

    def forced_behaviour(self) -> Behaviour | None:
        """Return how every payment method answers under this fault, or None: as usual."""
        return {
            FaultKind.DECLINE: declines(self.code),
            FaultKind.REQUIRES_ACTION: NEEDS_ACTION,
            FaultKind.PROCESSING: PROCESSES,
        }.get(self.kind)

    def refusal(self, idempotency_key: str | None) -> StripeError | None:
        """Return the error that Stripe answers before it looks at the request, or None."""
        if self.kind is FaultKind.RATE_LIMIT:
            return rate_limited(self.reason)
        if self.kind is FaultKind.KEY_IN_USE:
            return idempotency_key_in_use(idempotency_key or "")
        if self.kind is FaultKind.LOCK_TIMEOUT:
            return lock_timeout()
        if self.kind is FaultKind.UNAUTHORIZED:
            return unauthorized("Invalid API Key provided: ********")
        if self.kind is FaultKind.FORBIDDEN:
            return forbidden("The provided key does not have the required permissions.")
        return None

    def delivery(self) -> Delivery:
        """Return how the answer travels."""
        kind = _DELIVERIES.get(self.kind, DeliveryKind.WHOLE)
        return Delivery(kind, self.answer_seconds, self.interval_seconds, self.hang_seconds)


@dataclass(frozen=True, slots=True)
class Candidate:
    """What the plan knows of a request when it looks for a fault."""

    method: str
    path: str
    customer: str | None
    metadata: Mapping[str, str]
    pays: bool


@dataclass(slots=True)
class PlannedFault:
    """A fault with its count of matching requests and of those that it struck."""

    fault_id: str
    fault: Fault
    matched: int = 0
    struck: int = 0

    def to_json(self) -> JsonObject:
        """Return the fault and its counts as a JSON object."""
        return {
            "id": self.fault_id,
            "matched": self.matched,
            "struck": self.struck,
            **self.fault.to_json(),
        }


class FaultPlan:
    """The faults in force, in the order in which they were added. The first that fits strikes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"faults:{seed}")
        self._planned: dict[str, PlannedFault] = {}
        self._added = 0

    def __bool__(self) -> bool:
        return bool(self._planned)

    def add(self, fault: Fault) -> str:
        """Put a fault into force and return its id.

        Raises:
            ValueError: There are too many already.
        """
        if len(self._planned) >= MAXIMUM_FAULTS:
            raise ValueError(f"at most {MAXIMUM_FAULTS} faults can be in force")
        self._added += 1
        fault_id = f"fault_{self._added}"
        self._planned[fault_id] = PlannedFault(fault_id, fault)
        return fault_id

    def remove(self, fault_id: str) -> bool:
        """Take a fault out of force; return whether there was one."""
        return self._planned.pop(fault_id, None) is not None

    def clear(self) -> None:
        """Take every fault out of force."""
        self._planned.clear()

    def planned(self) -> list[PlannedFault]:
        """Return the faults in force with their counts; a spent one stays until removed."""
        return list(self._planned.values())

    def choose(self, candidate: Candidate) -> Fault | None:
        """Return the fault that strikes this request, or None."""
        for planned in self._planned.values():
            if _fits(planned.fault, candidate):
                planned.matched += 1
                if self._strikes(planned):
                    planned.struck += 1
                    return planned.fault
        return None

    def _strikes(self, planned: PlannedFault) -> bool:
        match = planned.fault.match
        if planned.matched < match.nth:
            return False
        if match.count is not None and planned.struck >= match.count:
            return False
        return match.probability >= 1.0 or self._random.random() < match.probability


def _fits(fault: Fault, candidate: Candidate) -> bool:
    match = fault.match
    return (
        match.method in (None, candidate.method)
        and (match.path is None or _path_fits(match.path, candidate.path))
        and match.customer in (None, candidate.customer)
        and all(candidate.metadata.get(key) == value for key, value in match.metadata.items())
        and (candidate.pays or not fault.is_payment_outcome)
    )


def _path_fits(pattern: str, path: str) -> bool:
    wanted, found = pattern.split("/"), path.split("/")
    return len(wanted) == len(found) and all(
        mine in ("*", theirs) for mine, theirs in zip(wanted, found, strict=True)
    )
