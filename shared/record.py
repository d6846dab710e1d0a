"""The record: one row per customer and period, and everything that decides its charge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from shared.event import Fingerprint


class State(StrEnum):
    """Where a record stands. The docs hold the transition table."""

    IN_PROGRESS = "in_progress"
    IN_DOUBT = "in_doubt"
    PROCESSING = "processing"
    CHARGED = "charged"
    DECLINED = "declined"
    REJECTED = "rejected"
    PARKED = "parked"
    CANCELED = "canceled"


UNFINISHED = frozenset({State.IN_PROGRESS, State.IN_DOUBT, State.PROCESSING})
"""States in which money may still move, so the record holds its amount against the cap."""

FINAL = frozenset({State.CHARGED, State.DECLINED, State.REJECTED, State.CANCELED})
"""States that no redelivery changes (declined and rejected end with a higher attempt)."""


class Flow(StrEnum):
    """How a record is charged. Fixed by the first claim of each attempt."""

    PAYMENT_INTENT = "payment_intent"
    CHARGE = "charge"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a PaymentIntent is about to be canceled; stored before the cancel is sent."""

    state: State
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class RecordId:
    """The primary key of a record."""

    customer_id: str
    billing_period: str


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to act on a record until somebody takes it over; every write names its fence."""

    record_id: RecordId
    fence: int


@dataclass(frozen=True, slots=True)
class Record:
    """One customer's charge for one period, as the database knows it."""

    customer_id: str
    billing_period: str
    key: str
    fingerprint: Fingerprint
    attempt: int
    state: State
    fence: int
    attempt_fence: int
    flow: Flow
    create_parameters: Mapping[str, str]
    create_number: int
    payment_method_id: str | None
    payment_id: str | None
    verdict: Verdict | None
    code: str | None
    held_cents: int
    doubts: int
    create_in_doubt: bool
    attempt_started_at: datetime
    lease_until: datetime
    updated_at: datetime
    previous_claim_at: datetime | None = None

    @property
    def record_id(self) -> RecordId:
        """The record's primary key."""
        return RecordId(self.customer_id, self.billing_period)

    @property
    def is_takeover(self) -> bool:
        """Whether an earlier holder of this attempt may have sent requests to Stripe."""
        return self.fence > self.attempt_fence

    @property
    def lease(self) -> Lease:
        """The lease under its present fence."""
        return Lease(self.record_id, self.fence)
