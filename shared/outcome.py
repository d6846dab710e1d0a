"""What a delivery comes to, and how the broker is told: the one table of both."""

from __future__ import annotations

from enum import StrEnum

from shared.record import State


class Disposition(StrEnum):
    """What happens to the message."""

    COMPLETE = "complete"
    DEAD_LETTER = "dead_letter"
    LEAVE = "leave"


class Outcome(StrEnum):
    """What a delivery came to."""

    CHARGED = "charged"
    DECLINED = "declined"
    CANCELED = "canceled"
    PROCESSING = "processing"
    HANDED_OVER = "handed_over"
    INVALID_EVENT = "invalid_event"
    CONFLICT = "conflict"
    REJECTED = "rejected"
    PARKED = "parked"
    CAP_REACHED = "cap_reached"
    RUN_CLOSED = "run_closed"
    WRONG_CURRENCY = "wrong_currency"
    IN_PROGRESS_ELSEWHERE = "in_progress_elsewhere"
    IN_DOUBT = "in_doubt"
    TRANSIENT = "transient"
    RUN_MISSING = "run_missing"

    @property
    def disposition(self) -> Disposition:
        """How the message is settled."""
        return _DISPOSITIONS[self]

    @property
    def reason(self) -> str:
        """The dead-letter reason, in the brokers' own style (`RunClosed`)."""
        return "".join(word.capitalize() for word in self.value.split("_"))


_DISPOSITIONS = {
    Outcome.CHARGED: Disposition.COMPLETE,
    Outcome.DECLINED: Disposition.COMPLETE,
    Outcome.CANCELED: Disposition.COMPLETE,
    Outcome.PROCESSING: Disposition.COMPLETE,
    Outcome.HANDED_OVER: Disposition.COMPLETE,
    Outcome.INVALID_EVENT: Disposition.DEAD_LETTER,
    Outcome.CONFLICT: Disposition.DEAD_LETTER,
    Outcome.REJECTED: Disposition.DEAD_LETTER,
    Outcome.PARKED: Disposition.DEAD_LETTER,
    Outcome.CAP_REACHED: Disposition.DEAD_LETTER,
    Outcome.RUN_CLOSED: Disposition.DEAD_LETTER,
    Outcome.WRONG_CURRENCY: Disposition.DEAD_LETTER,
    Outcome.IN_PROGRESS_ELSEWHERE: Disposition.LEAVE,
    Outcome.IN_DOUBT: Disposition.LEAVE,
    Outcome.TRANSIENT: Disposition.LEAVE,
    Outcome.RUN_MISSING: Disposition.LEAVE,
}

OUTCOME_OF_STATE = {
    State.IN_PROGRESS: Outcome.IN_PROGRESS_ELSEWHERE,
    State.IN_DOUBT: Outcome.IN_DOUBT,
    State.PROCESSING: Outcome.PROCESSING,
    State.CHARGED: Outcome.CHARGED,
    State.DECLINED: Outcome.DECLINED,
    State.REJECTED: Outcome.REJECTED,
    State.PARKED: Outcome.PARKED,
    State.CANCELED: Outcome.CANCELED,
}
"""What a delivery comes to that finds its record in this state."""
