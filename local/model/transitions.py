"""Who may move a record from which state to which: the table of the docs and of the model check."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from shared.record import State

SAME = "same"


class Cause(StrEnum):
    """What moves a record, in the words of the docs."""

    CLAIMED = "claim, and the run has room"
    REFUSED = "claim refused: no run, closed, full, other currency"
    TAKEN_OVER = "the lease ran out; another delivery, reconcile or an operator claims"
    NOT_ACTED = "Stripe did not act for certain (never sent, 429, 409)"
    ANSWER_LOST = "the answer about money was lost"
    SUCCEEDED = "the payment succeeded"
    ON_ITS_WAY = "the payment is `processing`"
    DECLINED = "declined: verdict stored, then canceled at Stripe"
    REJECTED = "refused before any PaymentIntent was stored, or refused and canceled"
    PARKED = "found canceled without a verdict; blocked by a spend-cap proxy and canceled"
    ASKED_AGAIN = "an event with a higher `attempt`, and the run has room"
    DELIVERED_AGAIN = "any later delivery, and the run has room"
    CANCELED = "an operator cancels: verdict stored, then canceled at Stripe"
    CLOSED = "an operator cancels"
    PROVEN = "proof of a charge, from whatever fence"


_CLAIMABLE = (State.IN_PROGRESS, State.IN_DOUBT)
_UNFINISHED = (*_CLAIMABLE, State.PROCESSING)
_REFUSED = (State.DECLINED, State.REJECTED)


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table.

    Args:
        sources: the states that it starts from; None is no row at all.
        cause: what happened.
        target: where it ends; None is no row, `SAME` leaves the state as it was.
        remark: what else changes.
    """

    sources: tuple[State | None, ...]
    cause: Cause
    target: State | str | None
    remark: str = ""


TRANSITIONS = (
    Transition((None,), Cause.CLAIMED, State.IN_PROGRESS),
    Transition((None,), Cause.REFUSED, None),
    Transition(_UNFINISHED, Cause.TAKEN_OVER, SAME, "higher fence"),
    Transition(_UNFINISHED, Cause.NOT_ACTED, SAME, "lease ended"),
    Transition((State.IN_PROGRESS,), Cause.ANSWER_LOST, State.IN_DOUBT, "lease ended"),
    Transition((State.IN_DOUBT, State.PROCESSING), Cause.ANSWER_LOST, SAME, "lease ended"),
    Transition(_UNFINISHED, Cause.SUCCEEDED, State.CHARGED),
    Transition(_UNFINISHED, Cause.ON_ITS_WAY, State.PROCESSING),
    Transition(_UNFINISHED, Cause.DECLINED, State.DECLINED),
    Transition(_UNFINISHED, Cause.REJECTED, State.REJECTED),
    Transition(_UNFINISHED, Cause.PARKED, State.PARKED),
    Transition(_REFUSED, Cause.ASKED_AGAIN, State.IN_PROGRESS, "new attempt"),
    Transition((State.PARKED,), Cause.DELIVERED_AGAIN, State.IN_PROGRESS, "next create key"),
    Transition(_UNFINISHED, Cause.CANCELED, State.CANCELED),
    Transition((*_REFUSED, State.PARKED), Cause.CLOSED, State.CANCELED),
    Transition(
        (None, *_UNFINISHED, *_REFUSED, State.PARKED, State.CANCELED), Cause.PROVEN, State.CHARGED
    ),
)
"""All that may befall a record. `charged` is left by nothing."""

_TARGETS = {
    (source, transition.cause): source if transition.target == SAME else transition.target
    for transition in TRANSITIONS
    for source in transition.sources
}


def after(source: State | None, cause: Cause) -> State | None:
    """Where a record is when something has happened to it.

    Raises:
        KeyError: the table does not allow it.
    """
    target = _TARGETS[source, cause]
    assert target is None or isinstance(target, State)
    return target


def allowed_moves() -> frozenset[tuple[State | None, State | None]]:
    """Every pair of states that the table lets follow each other."""
    return frozenset((source, after(source, cause)) for source, cause in _TARGETS)


def markdown() -> Iterator[str]:
    """The lines of the table, as the docs show it."""
    yield "| from | what happened | to |"
    yield "|---|---|---|"
    for transition in TRANSITIONS:
        sources = ", ".join(_shown(source) for source in transition.sources)
        target = "the same" if transition.target == SAME else _shown(transition.target)
        shown = ", ".join(filter(None, (target, transition.remark)))
        yield f"| {sources} | {transition.cause} | {shown} |"


def _shown(state: State | str | None) -> str:
    return "(no row)" if state is None else f"`{state}`"
