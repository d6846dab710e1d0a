"""What is charged in the crash matrix, and what may come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from local.stripe_simulator import FaultKind
from shared.record import Flow, State

MONEY = "money"
"""Stands for the request that moves money: confirm, or the charge."""

CHARGED = frozenset({State.CHARGED})
BOTH = frozenset(Flow)
TWO_STEPS = frozenset({Flow.PAYMENT_INTENT})


@dataclass(frozen=True, slots=True)
class Scenario:
    """A customer and what befalls its charge.

    Args:
        name: in words.
        ends: the states that its record may end in; the ledger holds one charge when it is
            `charged`, and none otherwise.
        source: how the customer pays through the older API; None for not at all.
        method: the same through the newer one.
        lost: which requests' answers are lost once, and whether Stripe acted on them.
        faults: what Stripe answers once in place of doing as asked.
        mends: the card is mended, and an event asks for a second attempt.
        cancels: an operator cancels after the first delivery.
        flows: in which it makes sense.
    """

    name: str
    ends: frozenset[State] = CHARGED
    source: str | None = "tok_visa"
    method: str | None = "pm_card_visa"
    lost: Mapping[str, bool] = field(default_factory=dict)
    faults: Mapping[str, FaultKind] = field(default_factory=dict)
    mends: bool = False
    cancels: bool = False
    flows: frozenset[Flow] = BOTH


_FAILING_SOURCE, _FAILING_METHOD = "tok_chargeCustomerFail", "pm_card_chargeCustomerFail"
_PARKED_OR_CHARGED = frozenset({State.PARKED, State.CHARGED})
_CANCELED_OR_CHARGED = frozenset({State.CANCELED, State.CHARGED})

SCENARIOS = (
    Scenario("charged at once"),
    Scenario("declined", frozenset({State.DECLINED}), _FAILING_SOURCE, _FAILING_METHOD),
    Scenario("no payment method", frozenset({State.DECLINED}), source=None, method=None),
    Scenario("the answer about money is lost", lost={MONEY: True}),
    Scenario("the request for money is lost", lost={MONEY: False}),
    Scenario("the answer to create is lost", lost={"create": True}, flows=TWO_STEPS),
    Scenario("Stripe fails after acting", faults={MONEY: FaultKind.SERVER_ERROR}),
    Scenario("a bank debit", method="pm_usBankAccount_success", flows=TWO_STEPS),
    Scenario(
        "a bank debit that fails",
        frozenset({State.DECLINED}),
        method="pm_usBankAccount_insufficientFunds",
        flows=TWO_STEPS,
    ),
    Scenario("blocked by the proxy's cap", _PARKED_OR_CHARGED, faults={MONEY: FaultKind.SPEND_CAP}),
    Scenario(
        "a second attempt after a decline",
        CHARGED,
        _FAILING_SOURCE,
        _FAILING_METHOD,
        mends=True,
    ),
    Scenario("canceled by an operator", _CANCELED_OR_CHARGED, lost={MONEY: False}, cancels=True),
)
