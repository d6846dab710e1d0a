"""A process dies anywhere on the way: whoever comes next ends it, with one charge and no human."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import pytest

from local.stripe_simulator import FaultKind
from shared.outcome import Outcome
from shared.record import Flow, State
from tests.support.bench import (
    CREATE_PATHS,
    MONEY_PATHS,
    Bench,
    Killed,
    RecordedSettlement,
    TappedPayments,
    kill_after,
)

CONFIRM = MONEY_PATHS[Flow.PAYMENT_INTENT]
CANCEL = "/v1/payment_intents/*/cancel"


@dataclass(frozen=True, slots=True)
class Death:
    """Where a process dies.

    Args:
        call: after this call of the store was committed.
        path: after the answer to a request to this path.
        is_declined: the payment is declined, so that the place is come by.
        is_settling: it dies as it is about to settle.
    """

    call: str | None = None
    path: str | None = None
    is_declined: bool = False
    is_settling: bool = False

    def befall(self, bench: Bench, flow: Flow) -> None:
        """Deliver the event to a process that dies here."""
        if self.is_declined:
            bench.fault(FaultKind.DECLINE, CONFIRM, code="lost_card")
        after = None if self.path is None else kill_after(self.path)
        payments = TappedPayments(bench.payments, after=after)
        records = bench.dying_store(self.call, commits=True) if self.call else None
        biller = bench.biller(payments, records, flow=flow)
        settlement = DyingSettlement() if self.is_settling else RecordedSettlement()
        bench.deliver_and_die(biller, settlement=settlement)


class DyingSettlement(RecordedSettlement):
    """Dies before the broker hears of it."""

    def _settle(self, *call: str) -> NoReturn:
        raise Killed


_EITHER_FLOW = {
    "claim": Death(call="claim"),
    "record": Death(call="finish"),
    "settling": Death(is_settling=True),
}
_DEATHS = {
    Flow.PAYMENT_INTENT: {
        **_EITHER_FLOW,
        "create": Death(path=CREATE_PATHS[Flow.PAYMENT_INTENT]),
        "store": Death(call="store_payment"),
        "confirm": Death(path=CONFIRM),
        "verdict": Death(call="store_verdict", is_declined=True),
        "cancel": Death(path=CANCEL, is_declined=True),
        "decline's record": Death(call="finish", is_declined=True),
    },
    Flow.CHARGE: {**_EITHER_FLOW, "charge": Death(path=CREATE_PATHS[Flow.CHARGE])},
}


def reconcile_alone(bench: Bench, **rules: Any) -> None:
    """The message does not come again before all is over; then it needs Stripe no more."""
    found = bench.reconcile(bench.biller(**rules))
    assert all(outcome.disposition == "complete" for outcome in found)
    payments = TappedPayments(bench.payments)
    assert bench.record().state in (State.CHARGED, State.DECLINED)
    redelivery_alone(bench, payments=payments, **rules)
    assert payments.sent == []


def redelivery_alone(bench: Bench, payments: TappedPayments | None = None, **rules: Any) -> None:
    """The broker delivers it again, and lets it go for good."""
    bench.lapse_leases()
    settlement = RecordedSettlement()
    biller = bench.biller(payments, **rules)
    bench.deliver(biller, delivery_count=2, settlement=settlement)
    assert settlement.calls == [("complete",)]


@pytest.mark.parametrize("finish", [reconcile_alone, redelivery_alone])
@pytest.mark.parametrize(
    ("flow", "death"),
    [
        pytest.param(flow, death, id=f"{flow} after {place}")
        for flow, deaths in _DEATHS.items()
        for place, death in deaths.items()
    ],
)
def test_killed_anywhere_ends_with_one_charge(
    bench: Bench, flow: Flow, death: Death, finish: Callable[..., None]
) -> None:
    """Goal: reconcile alone ends it, and redelivery alone ends it; the message is gone for good.

    Method: the process dies; the other one goes on; Stripe's ledger is looked at. A decline is
    followed by the attempt that its customer's new card allows. In the end nothing is due, and
    what comes once more charges nobody.
    """
    bench.customer()
    death.befall(bench, flow)
    finish(bench, flow=flow)
    if death.is_declined:
        assert bench.record().state is State.DECLINED
        assert bench.record().code == "lost_card"
        bench.assert_nothing_charged()
        assert bench.deliver(bench.biller(flow=flow), attempt=2) is Outcome.CHARGED
    bench.assert_charged_once()
    assert bench.reconcile() == {}
    assert bench.deliver(message_id="once more", attempt=2) is Outcome.CHARGED
    bench.assert_charged_once()
    assert (bench.kept_count(), bench.parked_reasons()) == (0, [])
