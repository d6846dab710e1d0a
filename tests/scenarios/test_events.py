"""What differs between deliveries, and what Stripe refuses: the row decides, and money is safe."""

import json
from typing import Any

import pytest

from local.stripe_simulator import FaultKind, Permission
from shared.outcome import Outcome
from shared.ports import NoResponse, StripeRequest, StripeResponse
from shared.record import Flow, State
from tests.support.bench import (
    MONEY_PATHS,
    PERIOD,
    Bench,
    RecordedSettlement,
    TappedPayments,
    kill_before,
    lose_looks,
    matches,
)

CONFIRM = MONEY_PATHS[Flow.PAYMENT_INTENT]


@pytest.mark.parametrize(
    "changed",
    [{"amount_cents": 5001}, {"currency": "eur"}, {"stripe_customer_id": "cus_2"}],
    ids=lambda changed: next(iter(changed)),
)
@pytest.mark.parametrize("first_ends", [True, False])
def test_fingerprint_changed(
    bench: Bench, flow: Flow, changed: dict[str, Any], first_ends: bool
) -> None:
    """Goal: another amount, currency or customer for the same period is shown, never charged."""
    bench.customer()
    bench.customer("cus_2")
    if not first_ends:
        bench.fault(FaultKind.RATE_LIMIT, MONEY_PATHS[flow])
    bench.deliver(bench.biller(flow=flow))
    settlement = RecordedSettlement()
    outcome = bench.deliver(bench.biller(flow=flow), settlement=settlement, **changed)
    assert outcome is Outcome.CONFLICT
    assert settlement.calls[0][:2] == ("dead_letter", "Conflict")
    assert bench.parked_reasons() == ["Conflict"]
    assert bench.deliver(bench.biller(flow=flow)) is Outcome.CHARGED
    bench.assert_charged_once()


def test_description_changed_between_deliveries(bench: Bench, flow: Flow) -> None:
    """Goal: the request of an attempt is the row's, so its idempotency key still fits."""
    bench.customer()
    bench.fault(FaultKind.SERVER_ERROR, MONEY_PATHS[flow], acts=False, stored=False)
    first = bench.deliver(bench.biller(flow=flow), description="as first said")
    assert first is Outcome.IN_DOUBT
    assert bench.deliver(bench.biller(flow=flow), description="reworded") is Outcome.CHARGED
    bench.assert_charged_once()
    assert bench.charges()[0].description == "as first said"


def test_default_payment_method_changed_between_deliveries(bench: Bench) -> None:
    """Goal: a new default card is used for the same PaymentIntent; it still succeeds once."""
    bench.customer()
    bench.fault(FaultKind.CLOSE, CONFIRM, acts=False)
    assert bench.deliver() is Outcome.IN_DOUBT
    attached = bench.payments.send(
        StripeRequest(
            "post", "/v1/payment_methods/pm_card_mastercard/attach", {"customer": "cus_1"}, "a"
        ),
        5,
    )
    assert not isinstance(attached, NoResponse)
    assert attached.status == 200
    new_id = attached.body.decode().split('"id":"')[1].split('"')[0]
    default = {"invoice_settings[default_payment_method]": new_id}
    bench.payments.send(StripeRequest("post", "/v1/customers/cus_1", default, "b"), 5)
    assert bench.deliver() is Outcome.CHARGED
    bench.assert_charged_once()


@pytest.mark.parametrize("other", list(Flow))
def test_flow_setting_switched_between_deliveries(bench: Bench, flow: Flow, other: Flow) -> None:
    """Goal: a deployment with another flow setting follows the row's flow to its end."""
    bench.customer()
    bench.fault(FaultKind.CLOSE, MONEY_PATHS[flow])
    silent = TappedPayments(bench.payments, before=lose_looks)
    assert bench.deliver(bench.biller(silent, flow=flow)) is Outcome.IN_DOUBT
    assert bench.deliver(bench.biller(flow=other), message_id="elsewhere") is Outcome.CHARGED
    assert bench.record().flow is flow
    bench.assert_charged_once()


def test_declined_then_the_same_event_then_a_higher_attempt(bench: Bench, flow: Flow) -> None:
    """Goal: a decline is final for its attempt; only a higher number asks again, and only once."""
    bench.customer(
        payment_method="pm_card_simulated_insufficient_funds",
        source="tok_simulated_insufficient_funds",
    )
    assert bench.deliver(bench.biller(flow=flow)) is Outcome.DECLINED
    assert bench.record().code == "insufficient_funds"
    payments = TappedPayments(bench.payments)
    assert bench.deliver(bench.biller(payments, flow=flow), message_id="again") is Outcome.DECLINED
    assert payments.sent == []
    bench.assert_nothing_charged()
    good = "pm_card_visa" if flow is Flow.PAYMENT_INTENT else None
    if flow is Flow.CHARGE:
        card = {"source": "tok_visa"}
        bench.payments.send(StripeRequest("post", "/v1/customers/cus_1", card, "new card"), 5)
    for message_id in ("dunning", "dunning again"):
        outcome = bench.deliver(
            bench.biller(flow=flow), message_id=message_id, attempt=2, payment_method_id=good
        )
        assert outcome is Outcome.CHARGED
    assert bench.record().attempt == 2
    bench.assert_charged_once()
    assert bench.charges()[0].metadata["attempt"] == "2"


@pytest.mark.parametrize(
    ("customer", "fields", "outcome", "code"),
    [
        pytest.param(
            {"payment_method": None, "source": None},
            {},
            Outcome.DECLINED,
            "no_payment_method",
            id="no payment method",
        ),
        pytest.param(
            {}, {"amount_cents": 49}, Outcome.REJECTED, "amount_too_small", id="too small"
        ),
        pytest.param(
            {},
            {"stripe_customer_id": "cus_none"},
            Outcome.REJECTED,
            "resource_missing",
            id="nobody",
        ),
        pytest.param(
            {},
            {"payment_method_id": "pm_none"},
            Outcome.REJECTED,
            "resource_missing",
            id="no such payment method",
        ),
        pytest.param(
            {"payment_method": "pm_card_authenticationRequired"},
            {},
            Outcome.DECLINED,
            "authentication_required",
            id="bank wants the customer",
        ),
        pytest.param(
            {"payment_method": "pm_card_simulated_lost_card"},
            {},
            Outcome.DECLINED,
            "lost_card",
            id="card declined",
        ),
    ],
)
def test_what_stripe_refuses(
    bench: Bench, customer: dict[str, Any], fields: dict[str, Any], outcome: Outcome, code: str
) -> None:
    """Goal: a refusal is final, holds nothing, and is not asked again."""
    bench.customer(**customer)
    assert bench.deliver(**fields) is outcome
    record = bench.record()
    assert (record.code, record.held_cents) == (code, 0)
    payments = TappedPayments(bench.payments)
    assert bench.deliver(bench.biller(payments), **fields) is outcome
    assert payments.sent == []
    bench.assert_nothing_charged()


def test_legacy_customer_without_a_source_is_declined(bench: Bench) -> None:
    """Goal: the one-step flow leaves the missing card to Stripe and records what it says."""
    bench.customer(payment_method=None, source=None)
    assert bench.deliver(bench.biller(flow=Flow.CHARGE)) is Outcome.DECLINED
    bench.assert_nothing_charged()


def test_deleted_customer_is_rejected(bench: Bench, flow: Flow) -> None:
    """Goal: a deleted customer, a 200 at Stripe, is not taken for a customer without a card."""
    bench.customer()
    bench.payments.send(_delete_customer(), 5)
    assert bench.deliver(bench.biller(flow=flow)) is Outcome.REJECTED
    bench.assert_nothing_charged()
    assert bench.parked_reasons() == ["Rejected"]


def _delete_customer() -> Any:
    return StripeRequest("delete", "/v1/customers/cus_1")  # type: ignore[arg-type]


def test_redirecting_methods_need_no_return_url(bench: Bench) -> None:
    """Goal: on an account whose Dashboard has redirecting methods, a saved card still works.

    Method: the simulator demands a return_url from any PaymentIntent that does not forbid
    redirects, as Stripe does.
    """
    bench.customer()
    assert bench.deliver() is Outcome.CHARGED
    parameters = bench.record().create_parameters
    assert parameters["automatic_payment_methods[allow_redirects]"] == "never"
    bench.assert_charged_once()


def test_zero_decimal_currency_is_not_multiplied(bench: Bench, flow: Flow) -> None:
    """Goal: 500 yen are 500, and the run of their period is in yen."""
    bench.customer()
    period = "2026-11-jp"
    bench.store.open_run(period, "jpy", 1000, 1000)
    outcome = bench.deliver(
        bench.biller(flow=flow), billing_period=period, currency="JPY", amount_cents=500
    )
    assert outcome is Outcome.CHARGED
    (entry,) = bench.charges()
    assert (entry.amount, entry.currency) == (500, "jpy")


def test_bank_debit_is_settled_now_and_finished_later(bench: Bench) -> None:
    """Goal: processing completes the message, keeps the hold, and reconcile finishes it."""
    bench.customer(payment_method="pm_usBankAccount_success", source=None)
    settlement = RecordedSettlement()
    assert bench.deliver(settlement=settlement) is Outcome.PROCESSING
    assert settlement.calls == [("complete",)]
    assert bench.deliver(message_id="again") is Outcome.PROCESSING
    bench.assert_nothing_charged(held=5000)
    assert bench.reconcile() == {Outcome.PROCESSING: 1}
    bench.stripe.settle()
    assert bench.reconcile() == {Outcome.CHARGED: 1}
    bench.assert_charged_once()


def test_bank_debit_that_fails_later_is_declined(bench: Bench) -> None:
    """Goal: a debit that bounces ends declined, with its PaymentIntent canceled."""
    bench.customer(payment_method="pm_usBankAccount_success", source=None)
    assert bench.deliver() is Outcome.PROCESSING
    bench.stripe.settle(decline_code="account_closed")
    assert bench.reconcile() == {Outcome.DECLINED: 1}
    bench.assert_nothing_charged()


def test_another_accounts_key_charges_nobody(bench: Bench, flow: Flow) -> None:
    """Goal: one database serves one account; a key of another one leaves every message."""
    bench.customer()
    bench.deliver(bench.biller(flow=flow))
    other_key = "rk_test_of_another_account"
    bench.stripe.register_key(other_key, account="acct_other")
    other = bench.new_payments(other_key)
    settlement = RecordedSettlement()
    outcome = bench.deliver(
        bench.biller(other, flow=flow), customer_id="customer-2", settlement=settlement
    )
    other.close()
    assert outcome is Outcome.TRANSIENT
    assert settlement.calls == [("leave",)]
    assert bench.record("customer-2").state is State.IN_PROGRESS
    assert len(bench.charges()) == 1


def test_live_key_on_test_records_charges_nobody(bench: Bench, flow: Flow) -> None:
    """Goal: the mode is stored at first use, and a key of the other mode is not used."""
    bench.customer()
    bench.deliver(bench.biller(flow=flow))
    live = bench.new_payments("rk_live_bench")
    biller = bench.biller(live, flow=flow, key_livemode=True)
    assert bench.deliver(biller, customer_id="customer-2") is Outcome.TRANSIENT
    live.close()
    assert [entry.livemode for entry in bench.charges()] == [False]


def test_narrow_key_of_another_account_never_rejects_a_stored_payment(bench: Bench) -> None:
    """Goal: a key that may not read its account is caught at the stored id: in doubt only."""
    bench.customer()
    bench.deliver_and_die(bench.biller(TappedPayments(bench.payments, before=kill_before(CONFIRM))))
    narrow_key = "rk_test_narrow"
    permissions = {"payment_intents": Permission.WRITE, "customers": Permission.READ}
    bench.stripe.register_key(narrow_key, account="acct_other", permissions=permissions)
    narrow = bench.new_payments(narrow_key)
    bench.lapse_leases()
    assert bench.deliver(bench.biller(narrow)) is Outcome.IN_DOUBT
    narrow.close()
    bench.assert_nothing_charged(held=5000)
    assert bench.deliver() is Outcome.CHARGED
    bench.assert_charged_once()


def test_key_taken_by_other_parameters_is_never_rekeyed(bench: Bench, flow: Flow) -> None:
    """Goal: where another request has our key, an operator must look; nothing is charged."""
    bench.customer()
    taken: list[StripeRequest] = []

    def before(request: StripeRequest) -> None:
        if request.method == "post" and not taken:
            taken.append(request)
            other = {**request.parameters, "description": "not ours"}
            bench.payments.send(
                StripeRequest("post", request.path, other, request.idempotency_key), 5
            )

    settlement = RecordedSettlement()
    biller = bench.biller(TappedPayments(bench.payments, before=before), flow=flow)
    assert bench.deliver(biller, settlement=settlement) is Outcome.CONFLICT
    assert settlement.calls[0][:2] == ("dead_letter", "Conflict")
    assert bench.record().held_cents == 5000
    charges = len(bench.charges())
    assert bench.deliver(message_id="again") is Outcome.CONFLICT
    assert bench.reconcile(bench.biller(flow=flow)) == {}
    assert len(bench.charges()) == charges


def test_payment_method_of_the_event_comes_first(bench: Bench) -> None:
    """Goal: the event's payment method is used, not the customer's default."""
    bench.customer(payment_method="pm_card_simulated_lost_card")
    assert bench.deliver(payment_method_id="pm_card_visa") is Outcome.CHARGED
    bench.assert_charged_once()


def test_period_in_metadata_is_the_events(bench: Bench, flow: Flow) -> None:
    """Goal: audit and adoption find every payment by what Chargeonce wrote on it."""
    bench.customer()
    bench.deliver(bench.biller(flow=flow))
    metadata = bench.charges()[0].metadata
    assert metadata == {
        "chargeonce_key": bench.record().key,
        "attempt": "1",
        "customer_id": "customer-1",
        "billing_period": PERIOD,
    }


def test_confirm_is_sent_for_the_stored_intent_alone(bench: Bench) -> None:
    """Goal: every confirm names the stored PaymentIntent."""
    bench.customer()
    payments = TappedPayments(bench.payments)
    bench.deliver(bench.biller(payments))
    confirmed = [request.path for request in payments.sent if matches(request, CONFIRM)]
    assert confirmed == [f"/v1/payment_intents/{bench.record().payment_id}/confirm"]


def test_higher_attempt_before_the_earlier_one_is_known_to_have_failed(bench: Bench) -> None:
    """Goal: dunning that is faster than reconcile is not lost: it waits for the earlier attempt.

    Method: a bank debit bounces and the event that asks for attempt 2 comes before reconcile looks.
    """
    bench.customer(payment_method="pm_usBankAccount_success", source=None)
    assert bench.deliver() is Outcome.PROCESSING
    bench.stripe.settle(decline_code="account_closed")
    asked = {"attempt": 2, "payment_method_id": "pm_card_visa", "message_id": "dunning"}
    settlement = RecordedSettlement()
    outcome = bench.deliver(settlement=settlement, **asked)  # type: ignore[arg-type]
    assert outcome is Outcome.IN_PROGRESS_ELSEWHERE
    assert settlement.calls == [("leave",)]
    assert bench.reconcile() == {Outcome.DECLINED: 1}
    assert bench.deliver(**asked) is Outcome.CHARGED  # type: ignore[arg-type]
    bench.assert_charged_once()


def test_higher_attempt_that_finishes_the_earlier_one_comes_again(bench: Bench) -> None:
    """Goal: a delivery that drives an earlier attempt to its decline is not taken for that one."""
    bench.customer()
    bench.fault(FaultKind.CLOSE, CONFIRM, acts=False)
    assert bench.deliver() is Outcome.IN_DOUBT
    bench.fault(FaultKind.DECLINE, CONFIRM, code="insufficient_funds")
    settlement = RecordedSettlement()
    assert bench.deliver(attempt=2, settlement=settlement) is Outcome.IN_PROGRESS_ELSEWHERE
    assert settlement.calls == [("leave",)]
    assert bench.deliver(attempt=2) is Outcome.CHARGED
    bench.assert_charged_once()


def test_customer_deleted_before_confirm_is_rejected(bench: Bench) -> None:
    """Goal: what is missing is not the PaymentIntent, so a cancel proves that no money can move."""
    bench.customer()
    gone = {"type": "invalid_request_error", "code": "resource_missing", "param": "customer"}
    missing = StripeResponse(404, {}, json.dumps({"error": gone}).encode())

    def before(request: StripeRequest) -> StripeResponse | None:
        return missing if matches(request, CONFIRM) else None

    payments = TappedPayments(bench.payments, before=before)
    assert bench.deliver(bench.biller(payments)) is Outcome.REJECTED
    bench.assert_nothing_charged()
