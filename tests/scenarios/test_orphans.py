"""The sweep of orphaned PaymentIntents: what a lost create left behind, and nothing else."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from local.stripe_simulator import Fault, FaultKind, Match
from shared.orphans import SweepReport, sweep_orphans
from shared.outcome import Outcome
from shared.ports import NoResponse, StripeRequest, StripeResponse
from shared.reconcile import keep_up
from shared.record import State
from shared.stripe_requests import read_intent
from shared.upkeep import build_upkeep
from tests.support.bench import (
    RULES,
    Bench,
    ImpatientClock,
    Killed,
    TappedPayments,
    kill_before,
)

CREATES = "/v1/payment_intents"
CONFIRMS = "/v1/payment_intents/*/confirm"
CANCELS = "/v1/payment_intents/*/cancel"

Tap = Callable[[StripeRequest], StripeResponse | NoResponse | None]


def sweep(bench: Bench, before: Tap | None = None, **options: Any) -> SweepReport:
    """Sweep once, everything being long ago for the database."""
    payments = TappedPayments(bench.payments, before=before)
    clock = ImpatientClock()
    rules = replace(RULES, max_attempts=1)
    return sweep_orphans(build_upkeep(bench.store, payments, clock, rules), **options)


def make_intent(bench: Bench, **changes: str) -> str:
    """What a create whose answer was lost leaves: a PaymentIntent for the usual event."""
    parameters = {**bench.record().create_parameters, **changes}
    request = StripeRequest("post", CREATES, parameters, f"lost {len(made(bench))}")
    response = bench.payments.send(request, 20)
    assert isinstance(response, StripeResponse)
    created = json.loads(response.body)
    assert created["status"] == "requires_payment_method"
    return str(created["id"])


def made(bench: Bench) -> list[Any]:
    """All PaymentIntents."""
    response = bench.payments.send(StripeRequest("get", CREATES, {"limit": "100"}), 20)
    assert isinstance(response, StripeResponse)
    return list(json.loads(response.body)["data"])


def status(bench: Bench, payment_id: str) -> str:
    """What Stripe says of a PaymentIntent."""
    response = bench.payments.send(read_intent(payment_id), 20)
    assert isinstance(response, StripeResponse)
    return str(json.loads(response.body)["status"])


def mark(bench: Bench) -> None:
    """Note that a create was in doubt."""
    bench.execute("UPDATE chargeonce.records SET create_in_doubt = true")


def is_marked(bench: Bench) -> bool:
    """Whether the record's create is still in doubt."""
    return bench.record().create_in_doubt


@pytest.fixture(autouse=True)
def two_hours_ago(bench: Bench) -> Iterator[None]:
    """Stripe's clock shows what it showed two hours ago, so that what is made now is old."""
    bench.stripe.set_clock(time.time() - 7200)
    yield
    bench.stripe.set_clock(time.time())


def make_old(bench: Bench) -> None:
    """Make the records two hours older, as their PaymentIntents are."""
    bench.execute(
        """
        UPDATE chargeonce.records
        SET created_at = created_at - interval '2 hours',
            attempt_started_at = attempt_started_at - interval '2 hours',
            updated_at = updated_at - interval '2 hours'
        """
    )


@pytest.fixture
def charged(bench: Bench) -> Bench:
    """A charged record and an orphan beside it, both old; the create was in doubt."""
    bench.customer()
    assert bench.deliver() is Outcome.CHARGED
    make_intent(bench)
    mark(bench)
    make_old(bench)
    return bench


def orphan_of(bench: Bench) -> str:
    """The PaymentIntent that the record does not name."""
    (orphan,) = [each["id"] for each in made(bench) if each["id"] != bench.record().payment_id]
    return str(orphan)


def test_an_orphan_is_canceled_and_the_doubt_is_over(charged: Bench) -> None:
    orphan = orphan_of(charged)
    assert sweep(charged) == SweepReport(looked_at=1, canceled=1, cleared=1)
    assert status(charged, orphan) == "canceled"
    charged.assert_charged_once()
    assert not is_marked(charged)
    assert sweep(charged) == SweepReport()


def test_what_a_create_in_doubt_leaves_is_swept(bench: Bench) -> None:
    """Goal: from the lost answer to the sweep by the timer, nothing is made by hand.

    Method: Stripe stores a 500 under the create's key although it acted, so a numbered key follows.
    """
    bench.customer()
    bench.fault(FaultKind.SERVER_ERROR, CREATES, acts=True)
    assert bench.deliver() is Outcome.IN_DOUBT
    assert is_marked(bench)
    assert bench.reconcile() == {Outcome.CHARGED: 1}
    assert len(made(bench)) == 2
    make_old(bench)
    orphan = orphan_of(bench)
    clock = ImpatientClock()
    keep_up(bench.biller(), build_upkeep(bench.store, bench.payments, clock, RULES))
    assert status(bench, orphan) == "canceled"
    assert not is_marked(bench)
    bench.assert_charged_once()


def test_only_where_a_create_was_in_doubt(charged: Bench) -> None:
    """Goal: no list is read for the many records that cannot have left anything."""
    charged.execute("UPDATE chargeonce.records SET create_in_doubt = false")
    assert sweep(charged) == SweepReport()
    assert status(charged, orphan_of(charged)) == "requires_payment_method"


def test_not_while_a_request_may_be_running(charged: Bench) -> None:
    """Goal: a create that is still on its way is not missed by clearing the doubt too soon."""
    charged.execute("UPDATE chargeonce.records SET updated_at = now()")
    assert sweep(charged) == SweepReport()
    assert is_marked(charged)


def test_not_in_a_database_that_may_have_lost_commits(charged: Bench) -> None:
    """Goal: what names no PaymentIntent now may have named one."""
    charged.execute("UPDATE chargeonce.cluster SET timeline = 'FFFFFFFF'")
    assert sweep(charged) == SweepReport()


def test_a_young_one_is_left(charged: Bench) -> None:
    """Goal: its creator may be about to store it."""
    charged.stripe.set_clock(time.time())
    young = make_intent(charged)
    assert sweep(charged) == SweepReport(looked_at=1, canceled=1)
    assert status(charged, young) == "requires_payment_method"
    assert is_marked(charged)


def test_the_stored_one_is_left(bench: Bench) -> None:
    """Goal: the PaymentIntent that the record names is not an orphan; it is to be confirmed."""
    bench.customer()
    bench.deliver_and_die(bench.biller(TappedPayments(bench.payments, kill_before(CONFIRMS))))
    mark(bench)
    make_old(bench)
    stored = bench.record().payment_id
    assert stored is not None
    assert sweep(bench) == SweepReport(looked_at=1, cleared=1)
    assert status(bench, stored) == "requires_payment_method"


def test_one_that_was_stored_meanwhile_is_left(charged: Bench) -> None:
    """Goal: the row is read after the list, not before."""
    orphan = orphan_of(charged)

    def store_it(request: StripeRequest) -> None:
        if request.path == CREATES and request.method == "get":
            charged.execute(
                f"UPDATE chargeonce.records SET payment_id = '{orphan}', state = 'in_progress',"
                " updated_at = now()"
            )

    sweep(charged, store_it)
    assert status(charged, orphan) == "requires_payment_method"


@pytest.mark.parametrize("state", ["in_progress", "in_doubt", "parked"])
def test_without_a_stored_one_or_an_end_it_is_left(charged: Bench, state: str) -> None:
    """Goal: the next holder's create may bring it back and store it."""
    charged.execute(
        f"UPDATE chargeonce.records SET payment_id = NULL, state = '{state}',"
        " due_at = now() + interval '1 hour'"
    )
    assert sweep(charged) == SweepReport(looked_at=1)
    for intent in made(charged):
        assert status(charged, intent["id"]) in ("requires_payment_method", "succeeded")


@pytest.mark.parametrize("state", ["declined", "rejected", "canceled"])
def test_where_the_attempt_is_over_it_is_canceled(charged: Bench, state: str) -> None:
    orphan = orphan_of(charged)
    charged.execute(f"UPDATE chargeonce.records SET payment_id = NULL, state = '{state}'")
    sweep(charged)
    assert status(charged, orphan) == "canceled"


def test_one_of_a_later_attempt_is_left(charged: Bench) -> None:
    """Goal: a row that is behind says nothing about it."""
    later = make_intent(charged, **{"metadata[attempt]": "2"})
    assert sweep(charged) == SweepReport(looked_at=1, canceled=1)
    assert status(charged, later) == "requires_payment_method"
    assert is_marked(charged)


def test_one_of_an_earlier_attempt_is_canceled(charged: Bench) -> None:
    orphan = orphan_of(charged)
    charged.execute("UPDATE chargeonce.records SET attempt = 2")
    sweep(charged)
    assert status(charged, orphan) == "canceled"


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata[billing_period]": "2026-12"},
        {"metadata[customer_id]": "customer-2"},
        {"metadata[chargeonce_key]": "0" * 32},
        {"metadata[chargeonce_key]": ""},
    ],
)
def test_another_records_are_left(charged: Bench, changes: dict[str, str]) -> None:
    """Goal: one Stripe customer may have payments of other periods, customers and makers."""
    other = make_intent(charged, **changes)
    sweep(charged)
    assert status(charged, other) == "requires_payment_method"


def test_a_neighbour_without_doubt_is_left(charged: Bench) -> None:
    """Goal: two customers may be one at Stripe; only the one whose create was in doubt is swept."""
    charged.deliver(customer_id="customer-2")
    make_old(charged)
    charged.execute(
        "UPDATE chargeonce.records SET create_in_doubt = false WHERE customer_id = 'customer-2'"
    )
    parameters = charged.record("customer-2").create_parameters
    neighbour = make_intent(charged, **parameters)
    assert sweep(charged) == SweepReport(looked_at=1, canceled=1, cleared=1)
    assert status(charged, neighbour) == "requires_payment_method"


def test_money_beside_the_record_is_loud(charged: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Goal: an orphan that somebody confirmed after all is a second payment."""
    orphan = orphan_of(charged)
    confirm(charged, orphan)
    sweep(charged)
    assert "double_charge_detected" in caplog.text
    assert charged.record().payment_id != orphan
    charged.assert_run(held=0, charged=5000)


def test_a_cancel_that_finds_it_paid_is_proof(
    charged: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal: a confirm that comes between the list and the cancel is not overlooked."""
    orphan = orphan_of(charged)

    def pay_first(request: StripeRequest) -> None:
        if request.path.endswith("/cancel"):
            confirm(charged, orphan)

    assert sweep(charged, pay_first).canceled == 0
    assert "double_charge_detected" in caplog.text


def test_an_answer_about_another_is_no_proof(charged: Bench) -> None:
    """Goal: only Stripe's word about this very PaymentIntent ends the doubt."""
    other = make_intent(charged, **{"metadata[customer_id]": "customer-2"})
    cancel = StripeRequest("post", f"/v1/payment_intents/{other}/cancel", {}, "another")

    def answer_for_another(request: StripeRequest) -> StripeResponse | NoResponse | None:
        is_cancel = request.path.endswith("/cancel")
        return charged.payments.send(cancel, 20) if is_cancel else None

    assert sweep(charged, answer_for_another) == SweepReport(looked_at=1)
    assert is_marked(charged)


def test_money_that_is_on_its_way_beside_is_loud_and_left_alone(
    charged: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal: a bank debit is followed until it ends; Stripe may even be able to cancel it."""
    confirm(charged, orphan_of(charged), "pm_usBankAccount_success")
    canceled: list[str] = []

    def watch(request: StripeRequest) -> None:
        if request.path.endswith("/cancel"):
            canceled.append(request.path)

    assert sweep(charged, watch) == SweepReport(looked_at=1)
    assert canceled == []
    assert "may yet succeed" in caplog.text
    assert is_marked(charged)


def test_money_of_a_later_attempt_is_recorded_too(
    charged: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    confirm(charged, make_intent(charged, **{"metadata[attempt]": "2"}))
    sweep(charged)
    assert "double_charge_detected" in caplog.text


def test_a_first_payment_that_turns_up_so_is_recorded(charged: Bench) -> None:
    """Goal: proof is proof: a declined record whose orphan was paid is charged."""
    orphan = orphan_of(charged)
    charged.execute("UPDATE chargeonce.records SET state = 'declined', payment_id = 'pi_none'")
    confirm(charged, orphan)
    sweep(charged)
    assert charged.record().state is State.CHARGED


def confirm(bench: Bench, payment_id: str, method_id: str = "pm_card_visa") -> None:
    """Confirm a PaymentIntent, as nobody ever should."""
    parameters = {"off_session": "true", "payment_method": method_id}
    path = f"/v1/payment_intents/{payment_id}/confirm"
    response = bench.payments.send(StripeRequest("post", path, parameters, payment_id), 20)
    assert isinstance(response, StripeResponse)
    assert response.status == 200


@pytest.mark.parametrize("kind", [FaultKind.SERVER_ERROR, FaultKind.RATE_LIMIT])
def test_a_cancel_without_an_answer_is_sent_again_later(charged: Bench, kind: FaultKind) -> None:
    charged.fault(kind, CANCELS, **({"acts": False} if kind is FaultKind.SERVER_ERROR else {}))
    assert sweep(charged) == SweepReport(looked_at=1)
    assert is_marked(charged)
    charged.let_hours_pass(25)
    assert sweep(charged) == SweepReport(looked_at=1, canceled=1, cleared=1)


def test_a_list_without_an_end_clears_nothing(charged: Bench) -> None:
    charged.stripe.add_fault(
        Fault(FaultKind.SERVER_ERROR, Match(method="GET", path=CREATES, count=1000), acts=False)
    )
    assert sweep(charged) == SweepReport(looked_at=1)
    assert is_marked(charged)


def test_a_doubt_that_comes_meanwhile_stays(charged: Bench) -> None:
    """Goal: the sweep clears the doubt that it looked into, not the next one."""

    def doubt_again(request: StripeRequest) -> None:
        if request.path.endswith("/cancel"):
            charged.execute("UPDATE chargeonce.records SET updated_at = now()")

    assert sweep(charged, doubt_again) == SweepReport(looked_at=1, canceled=1)
    assert is_marked(charged)


def test_so_many_and_no_more(bench: Bench) -> None:
    """Goal: bounded, by number and by time; the rest has its turn another time."""
    bench.customer()
    for number in range(3):
        bench.deliver(customer_id=f"customer-{number}")
    mark(bench)
    make_old(bench)
    assert sweep(bench, is_time_up=lambda: True) == SweepReport()
    assert sweep(bench, limit=2) == SweepReport(looked_at=2, cleared=2)
    assert sweep(bench, limit=2) == SweepReport(looked_at=1, cleared=1)


def test_a_sweep_that_dies_is_done_again(charged: Bench) -> None:
    orphan = orphan_of(charged)
    with pytest.raises(Killed):
        sweep(charged, kill_before(CANCELS))
    assert is_marked(charged)
    assert sweep(charged) == SweepReport(looked_at=1, canceled=1, cleared=1)
    assert status(charged, orphan) == "canceled"


def test_another_accounts_empty_list_proves_nothing(charged: Bench) -> None:
    """Goal: a key of another account sees no orphan, and clears no doubt."""
    orphan = orphan_of(charged)
    charged.stripe.register_key("rk_test_other", account="acct_other")
    foreign = charged.new_payments("rk_test_other")
    upkeep = build_upkeep(charged.store, foreign, ImpatientClock(), RULES)
    assert sweep_orphans(upkeep) == SweepReport()
    foreign.close()
    assert is_marked(charged)
    assert status(charged, orphan) == "requires_payment_method"
