"""Goal: arriving, taking effect and answering can be told apart, and overlap is noticed."""

import pytest

from local.stripe_simulator import CustomerSeed, FaultKind, Match, Request
from local.stripe_simulator.wire import JsonObject
from tests.stripe_simulator.support import Desk


def confirm_request(intent: JsonObject, payment_method: str | None, key: str) -> Request:
    return Request.build(
        "POST",
        f"/v1/payment_intents/{intent['id']}/confirm",
        {"payment_method": payment_method, "off_session": True},
        idempotency_key=key,
    )


def test_money_moves_when_the_request_acts_and_not_before(desk: Desk) -> None:
    customer = desk.customer()
    intent = desk.intent(customer.id)

    running = desk.model.begin(confirm_request(intent, customer.payment_method, "k"))
    assert len(desk.model.ledger) == 0
    desk.model.act(running)
    assert len(desk.model.ledger) == 1
    desk.model.act(running)
    response = desk.model.complete(running)

    assert response.json()["status"] == "succeeded"
    assert len(desk.model.ledger) == 1


def test_time_passes_between_arrival_and_effect(desk: Desk) -> None:
    running = desk.model.begin(
        Request.build("POST", "/v1/payment_intents", {"amount": 500, "currency": "usd"})
    )
    desk.clock.advance(30)

    assert desk.model.complete(running).json()["created"] == int(desk.clock.now())


def test_a_request_is_completed_once(desk: Desk) -> None:
    running = desk.model.begin(Request.build("GET", "/v1/account"))
    desk.model.complete(running)

    with pytest.raises(ValueError, match="completed before"):
        desk.model.complete(running)


def test_two_confirms_of_one_payment_intent_do_not_overlap(desk: Desk) -> None:
    customer = desk.customer()
    intent = desk.intent(customer.id)
    first = desk.model.begin(confirm_request(intent, customer.payment_method, "k1"))

    second = desk.model.handle(confirm_request(intent, customer.payment_method, "k2"))
    canceled = desk.send("POST", f"/v1/payment_intents/{intent['id']}/cancel")
    read = desk.read(intent)

    assert second.status == canceled.status == 429
    assert second.json()["error"]["code"] == "lock_timeout"
    assert second.headers["Stripe-Should-Retry"] == "true"
    assert read["status"] == "requires_payment_method"
    assert desk.model.complete(first).json()["status"] == "succeeded"


def test_a_lock_timeout_leaves_its_key_free(desk: Desk) -> None:
    customer = desk.customer()
    intent = desk.intent(customer.id)
    first = desk.model.begin(confirm_request(intent, customer.payment_method, "k1"))
    desk.model.handle(confirm_request(intent, customer.payment_method, "k2"))
    desk.model.complete(first)

    late = desk.model.handle(confirm_request(intent, customer.payment_method, "k2"))

    assert late.status == 400
    assert late.json()["error"]["code"] == "payment_intent_unexpected_state"
    assert "Idempotent-Replayed" not in late.headers


def test_a_confirm_on_its_way_can_overtake_nothing_that_was_canceled(desk: Desk) -> None:
    # The late request arrives after the cancel: it must find the PaymentIntent closed.
    customer = desk.customer()
    intent = desk.intent(customer.id)
    late = confirm_request(intent, customer.payment_method, "k")

    desk.post(f"/v1/payment_intents/{intent['id']}/cancel")
    response = desk.model.handle(late)

    assert response.status == 400
    assert response.json()["error"]["payment_intent"]["status"] == "canceled"
    assert len(desk.model.ledger) == 0


def test_different_payment_intents_do_not_lock_each_other(desk: Desk) -> None:
    customer = desk.customer()
    one, other = desk.intent(customer.id), desk.intent(customer.id)
    running = desk.model.begin(confirm_request(one, customer.payment_method, "k1"))

    assert desk.confirm(other, customer.payment_method).status == 200
    assert desk.model.complete(running).status == 200


def test_delays_are_told_to_whoever_runs_the_request(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed())
    intent = desk.intent(customer.id)
    desk.strike(FaultKind.DELAY, Match(), before_seconds=3.0, after_seconds=4.0, answer_seconds=5.0)

    running = desk.model.begin(confirm_request(intent, customer.payment_method, "k"))
    response = desk.model.complete(running)

    assert (running.before_seconds, running.after_seconds) == (3.0, 4.0)
    assert response.delivery.wait_seconds == 5.0
    assert response.json()["status"] == "succeeded"
