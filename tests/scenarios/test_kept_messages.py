"""Messages that their broker was about to give up on: kept, and ended without a human."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from local.stripe_simulator import FaultKind
from shared.biller import Biller
from shared.errors import RecordsUnavailable
from shared.outcome import Outcome
from shared.ports import NoResponse, StripeRequest
from shared.reconcile import reconcile
from shared.record import Flow, RecordId, State
from tests.support.bench import (
    MONEY_PATHS,
    PERIOD,
    Bench,
    RecordedSettlement,
    TappedPayments,
    at_once,
    kill_after,
    kill_before,
    matches,
)

MAX_DELIVERIES = 10
LATE_PERIOD = "2027-01"
CONFIRM = MONEY_PATHS[Flow.PAYMENT_INTENT]


def hand_over(bench: Bench, biller: Biller | None = None, **fields: Any) -> None:
    """Deliver as often as the broker would before it gives up; only the last one settles."""
    for count in range(1, MAX_DELIVERIES):
        settlement = RecordedSettlement()
        outcome = bench.deliver(biller, delivery_count=count, settlement=settlement, **fields)
        is_last = count == MAX_DELIVERIES - 1
        assert settlement.calls == [("complete",) if is_last else ("leave",)]
        assert (outcome is Outcome.HANDED_OVER) is is_last


def test_event_before_its_run_is_charged_once_the_run_opens(bench: Bench, flow: Flow) -> None:
    """Goal: published days before the run, and beyond all deliveries: charged with no human.

    Method: the message is delivered up to the broker's limit; reconcile tries in vain for a day;
    the run opens, and the next reconcile charges it at once, however long the pause had become.
    """
    bench.customer()
    biller = bench.biller(flow=flow)
    hand_over(bench, biller, billing_period=LATE_PERIOD)
    assert bench.kept_count() == 1
    for _ in range(40):
        assert bench.reconcile(biller) == {Outcome.RUN_MISSING: 1}
    bench.let_hours_pass(1)
    assert reconcile(biller, bench.store) == {}
    bench.store.open_run(LATE_PERIOD, "usd", 5000, 5000)
    assert reconcile(biller, bench.store) == {Outcome.CHARGED: 1}
    (entry,) = bench.charges()
    assert entry.metadata["billing_period"] == LATE_PERIOD
    assert bench.kept_count() == 0
    assert bench.parked_reasons() == []


def test_kept_message_that_can_never_be_charged_is_parked_whole(bench: Bench) -> None:
    """Goal: what a delivery dead-letters, reconcile leaves among the parked events, and only there.

    Method: one run each that is closed, too small and in another currency, and a customer whom
    Stripe does not know; one more event contradicts its record.
    """
    bench.customer()
    events: dict[str, dict[str, Any]] = {
        "RunClosed": {"billing_period": "2027-02"},
        "CapReached": {"billing_period": "2027-03"},
        "WrongCurrency": {"billing_period": "2027-04"},
        "Rejected": {"billing_period": "2027-05", "stripe_customer_id": "cus_unknown"},
        "Conflict": {"billing_period": "2027-05", "amount_cents": 1},
    }
    for reason, fields in events.items():
        hand_over(bench, message_id=reason, **fields)
    bench.store.open_run("2027-02", "usd", 9000, 9000)
    bench.store.close_run("2027-02", "done")
    bench.store.open_run("2027-03", "usd", 4999, 4999)
    bench.store.open_run("2027-04", "eur", 9000, 9000)
    bench.store.open_run("2027-05", "usd", 9000, 9000)
    outcomes = bench.reconcile()
    assert {outcome.reason for outcome in outcomes} == set(events)
    assert bench.kept_count() == 0
    assert bench.charges() == []
    rows = bench.query("SELECT reason, message_id, transport, body FROM chargeonce.parked_events")
    assert {reason: (message_id, transport) for reason, message_id, transport, _ in rows} == {
        reason: (reason, "pubsub-push") for reason in events
    }
    bodies = {reason: json.loads(body) for reason, _, _, body in rows}
    assert bodies["Conflict"]["amount_cents"] == 1


def test_kept_message_of_a_record_that_reconcile_rejects_is_parked(bench: Bench) -> None:
    """Goal: a record that ends badly without its message leaves a copy of the message all the same.

    Method: Stripe is away up to the limit, and the customer is unknown when it is back.
    """
    away = TappedPayments(bench.payments, before=lambda _: NoResponse(False, "connection_refused"))
    hand_over(bench, bench.biller(away))
    assert bench.reconcile() == {Outcome.REJECTED: 2}
    assert bench.record().state is State.REJECTED
    assert bench.parked_reasons() == ["Rejected"]
    assert bench.kept_count() == 0


def test_higher_attempt_that_must_wait_is_kept_and_tried(bench: Bench) -> None:
    """Goal: an attempt that came before the earlier one had failed is not lost at the limit."""
    bench.customer()
    killer = bench.biller(TappedPayments(bench.payments, before=kill_before(CONFIRM)))
    bench.deliver_and_die(killer)
    bench.lapse_leases()
    bench.fault(FaultKind.DECLINE, CONFIRM)
    settlement = RecordedSettlement()
    outcome = bench.deliver(
        attempt=2, delivery_count=MAX_DELIVERIES - 1, message_id="second", settlement=settlement
    )
    assert (outcome, settlement.calls) == (Outcome.HANDED_OVER, [("complete",)])
    assert bench.record().state is State.DECLINED
    assert bench.reconcile() == {Outcome.CHARGED: 1}
    assert bench.record().attempt == 2
    bench.assert_charged_once()
    assert bench.kept_count() == 0


def test_message_is_left_where_it_cannot_be_kept(bench: Bench) -> None:
    """Goal: nothing is settled on the strength of a copy that nobody has."""

    class Unkept:
        def __getattr__(self, name: str) -> Any:
            if name == "keep":
                raise RecordsUnavailable("away")
            return getattr(bench.store, name)

    records: Any = Unkept()
    settlement = RecordedSettlement()
    outcome = bench.deliver(
        bench.biller(records=records),
        billing_period=LATE_PERIOD,
        delivery_count=MAX_DELIVERIES - 1,
        settlement=settlement,
    )
    assert (outcome, settlement.calls) == (Outcome.RUN_MISSING, [("leave",)])


@pytest.mark.parametrize("place", ["before money", "after money", "before it is dropped"])
def test_reconciler_that_dies_over_a_kept_message_loses_nothing(
    bench: Bench, flow: Flow, place: str
) -> None:
    """Goal: killed anywhere on the way, the next reconcile ends it with one charge."""
    bench.customer()
    hand_over(bench, bench.biller(flow=flow), billing_period=LATE_PERIOD)
    bench.store.open_run(LATE_PERIOD, "usd", 5000, 5000)
    path = MONEY_PATHS[flow]
    dying: dict[str, Callable[[], Biller]] = {
        "before money": lambda: bench.biller(
            TappedPayments(bench.payments, before=kill_before(path)), flow=flow
        ),
        "after money": lambda: bench.biller(
            TappedPayments(bench.payments, after=kill_after(path)), flow=flow
        ),
        "before it is dropped": lambda: bench.biller(flow=flow),
    }
    records = bench.dying_store("drop_kept") if place == "before it is dropped" else bench.store
    bench.die(lambda: reconcile(dying[place](), records))
    assert bench.kept_count() == 1
    assert bench.reconcile(bench.biller(flow=flow)).keys() == {Outcome.CHARGED}
    assert bench.kept_count() == 0
    assert len(bench.charges()) == 1
    record = bench.store.get_record(RecordId("customer-1", LATE_PERIOD))
    assert record is not None
    assert record.state is State.CHARGED


def test_reconcilers_share_the_work_without_meeting(bench: Bench) -> None:
    """Goal: four at once finish all of it, and none looks at what another has.

    Method: twelve records whose holders died and twelve kept messages; every look is counted.
    """
    bench.customer()
    killer = bench.biller(TappedPayments(bench.payments, before=kill_before(CONFIRM)))
    for number in range(12):
        bench.deliver_and_die(killer, customer_id=f"died-{number}")
        bench.deliver(
            customer_id=f"early-{number}",
            message_id=f"early-{number}",
            billing_period=LATE_PERIOD,
            delivery_count=MAX_DELIVERIES - 1,
        )
    bench.store.open_run(LATE_PERIOD, "usd", 60_000, 60_000)
    bench.lapse_leases()
    outcomes: list[dict[Outcome, int]] = []

    def run() -> None:
        outcomes.append(dict(reconcile(bench.biller(), bench.store)))

    at_once(*[run] * 4)
    assert sum(found.get(Outcome.CHARGED, 0) for found in outcomes) == 24
    assert {outcome for found in outcomes for outcome in found} == {Outcome.CHARGED}
    assert len(bench.charges()) == 24
    assert bench.kept_count() == 0


def test_what_takes_too_long_is_loud(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Goal: a record and a message that are unfinished after a day are errors, with their age."""
    bench.customer()

    def before(request: StripeRequest) -> NoResponse | None:
        return NoResponse(True, "read_timeout") if matches(request, CONFIRM) else None

    stuck = bench.biller(TappedPayments(bench.payments, before=before))
    bench.deliver(stuck)
    hand_over(bench, billing_period=LATE_PERIOD, message_id="early")
    bench.let_hours_pass(23)
    bench.reconcile(stuck)
    assert '"code": "overdue"' not in caplog.text
    bench.let_hours_pass(2)
    caplog.clear()
    bench.reconcile(stuck)
    found = [json.loads(line.getMessage()) for line in caplog.records]
    record, message = [line for line in found if line.get("code") == "overdue"]
    assert (record["event"], record["severity"], record["period"]) == ("in_doubt", "ERROR", PERIOD)
    assert record["key"] == bench.record().key
    assert (message["event"], message["severity"]) == ("handed_over", "ERROR")
    assert (message["message_id"], message["period"]) == ("early", LATE_PERIOD)
    day_seconds = timedelta(hours=25).total_seconds()
    for line in (record, message):
        assert day_seconds <= line["age_seconds"] < day_seconds + 60
