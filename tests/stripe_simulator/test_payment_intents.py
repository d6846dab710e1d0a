"""Goal: a PaymentIntent walks through Stripe's statuses, and succeeds at most once."""

import pytest

from local.stripe_simulator import CustomerSeed, FaultKind, Match, Options
from local.stripe_simulator.wire import JsonObject
from tests.stripe_simulator.support import DAY_SECONDS, NO_REDIRECTS, Desk

UNEXPECTED_STATE = "payment_intent_unexpected_state"


def confirm_path(intent: JsonObject) -> str:
    return f"/v1/payment_intents/{intent['id']}/confirm"


def test_one_without_a_payment_method_starts_without_an_error(desk: Desk) -> None:
    intent = desk.intent(desk.customer().id, {"description": "November", "metadata[a]": "b"})

    assert intent["status"] == "requires_payment_method"
    assert intent["last_payment_error"] is None
    assert intent["latest_charge"] is None
    assert intent["client_secret"].startswith(f"{intent['id']}_secret_")
    assert intent["description"] == "November"
    assert intent["metadata"] == {"a": "b"}
    assert intent["livemode"] is False
    assert len(desk.model.ledger) == 0


def test_one_with_a_payment_method_requires_confirmation(desk: Desk) -> None:
    customer = desk.customer()

    intent = desk.intent(customer.id, {"payment_method": customer.payment_method})

    assert intent["status"] == "requires_confirmation"


def test_a_confirm_moves_the_money(desk: Desk) -> None:
    customer = desk.customer()
    intent = desk.intent(customer.id)

    confirmed = desk.confirm(intent, customer.payment_method).json()
    charge = desk.get(f"/v1/charges/{confirmed['latest_charge']}")

    assert confirmed["status"] == "succeeded"
    assert confirmed["amount_received"] == 1000
    assert confirmed["payment_method"] == customer.payment_method
    assert charge["status"] == "succeeded"
    assert charge["paid"] is True
    assert charge["payment_intent"] == intent["id"]
    assert [entry.amount for entry in desk.model.ledger.entries()] == [1000]


def test_create_and_confirm_in_one_request(desk: Desk) -> None:
    customer = desk.customer()

    intent = desk.intent(
        customer.id,
        {"confirm": True, "off_session": True, "payment_method": customer.payment_method},
    )

    assert intent["status"] == "succeeded"


def test_a_second_confirm_is_refused_and_shows_the_payment_intent(desk: Desk) -> None:
    customer = desk.customer()
    intent = desk.intent(customer.id)
    desk.confirm(intent, customer.payment_method, key="k1")
    desk.clock.advance(400 * DAY_SECONDS)

    again = desk.confirm(intent, customer.payment_method, key="k2")
    error = again.json()["error"]

    assert again.status == 400
    assert error["type"] == "invalid_request_error"
    assert error["code"] == UNEXPECTED_STATE
    assert "already succeeded after being previously confirmed" in error["message"]
    assert error["payment_intent"]["id"] == intent["id"]
    assert error["payment_intent"]["status"] == "succeeded"
    assert len(desk.model.ledger) == 1


def test_a_canceled_one_cannot_be_confirmed(desk: Desk) -> None:
    customer = desk.customer()
    intent = desk.intent(customer.id)
    canceled = desk.post(
        f"/v1/payment_intents/{intent['id']}/cancel", {"cancellation_reason": "abandoned"}
    )

    error = desk.refused(400, confirm_path(intent), {"payment_method": customer.payment_method})

    assert canceled["status"] == "canceled"
    assert canceled["cancellation_reason"] == "abandoned"
    assert canceled["canceled_at"] == int(desk.clock.now())
    assert error["code"] == UNEXPECTED_STATE
    assert error["payment_intent"]["status"] == "canceled"


def test_one_that_succeeded_cannot_be_canceled(desk: Desk) -> None:
    intent = desk.paid_intent()

    error = desk.refused(400, f"/v1/payment_intents/{intent['id']}/cancel")

    assert error["code"] == UNEXPECTED_STATE
    assert error["payment_intent"]["status"] == "succeeded"


def test_one_that_is_canceled_cannot_be_canceled_again(desk: Desk) -> None:
    intent = desk.intent()
    desk.post(f"/v1/payment_intents/{intent['id']}/cancel")

    error = desk.refused(400, f"/v1/payment_intents/{intent['id']}/cancel")

    assert error["payment_intent"]["status"] == "canceled"


def test_a_decline_says_why_and_lets_another_card_try(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed(payment_method="pm_card_chargeDeclinedInsufficientFunds"))
    intent = desk.intent(customer.id)

    response = desk.confirm(intent, customer.payment_method)
    error = response.json()["error"]
    after = desk.read(intent)

    assert response.status == 402
    assert error["type"] == "card_error"
    assert error["code"] == "card_declined"
    assert error["decline_code"] == "insufficient_funds"
    assert error["advice_code"] == "try_again_later"
    assert error["payment_method"]["id"] == customer.payment_method
    assert error["payment_intent"]["status"] == "requires_payment_method"
    assert after["status"] == "requires_payment_method"
    assert after["payment_method"] is None
    assert after["last_payment_error"]["decline_code"] == "insufficient_funds"
    assert after["last_payment_error"]["charge"] == error["charge"]
    assert after["latest_charge"] == error["charge"]
    assert desk.get(f"/v1/charges/{error['charge']}")["status"] == "failed"
    assert len(desk.model.ledger) == 0

    assert desk.confirm(intent, "pm_card_visa").json()["status"] == "succeeded"
    assert desk.read(intent)["last_payment_error"] is None


@pytest.mark.parametrize(
    ("card", "code", "decline_code", "advice"),
    [
        ("pm_card_chargeDeclined", "card_declined", "generic_decline", None),
        ("pm_card_visa_chargeDeclinedLostCard", "card_declined", "lost_card", "do_not_try_again"),
        ("pm_card_chargeDeclinedExpiredCard", "expired_card", "expired_card", "confirm_card_data"),
        (
            "pm_card_chargeDeclinedIncorrectCvc",
            "incorrect_cvc",
            "incorrect_cvc",
            "confirm_card_data",
        ),
        (
            "pm_card_chargeDeclinedProcessingError",
            "processing_error",
            "processing_error",
            "try_again_later",
        ),
        ("pm_card_simulated_do_not_honor", "card_declined", "do_not_honor", None),
        (
            "pm_card_simulated_duplicate_transaction",
            "card_declined",
            "duplicate_transaction",
            None,
        ),
    ],
)
def test_test_cards_decline_as_named(
    desk: Desk, card: str, code: str, decline_code: str, advice: str | None
) -> None:
    error = desk.confirm(desk.intent(), card).json()["error"]

    assert (error["code"], error["decline_code"]) == (code, decline_code)
    assert error.get("advice_code") == advice


def test_authentication_off_session_is_a_decline(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed(payment_method="pm_card_authenticationRequired"))
    intent = desk.intent(customer.id)

    response = desk.confirm(intent, customer.payment_method)

    assert response.status == 402
    assert response.json()["error"]["code"] == "authentication_required"
    assert desk.read(intent)["status"] == "requires_payment_method"


def test_authentication_on_session_requires_action_and_the_customer_can_act(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed(payment_method="pm_card_authenticationRequired"))
    intent = desk.intent(customer.id)

    waiting = desk.post(confirm_path(intent), {"payment_method": customer.payment_method})
    finished = desk.model.authenticate(desk.scope, intent["id"], succeeds=True)

    assert waiting["status"] == "requires_action"
    assert waiting["next_action"]["type"] == "use_stripe_sdk"
    assert finished["status"] == "succeeded"
    assert finished["next_action"] is None
    assert len(desk.model.ledger) == 1


def test_a_failed_authentication_goes_back_to_the_start(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed(payment_method="pm_card_threeDSecure2Required"))
    intent = desk.intent(customer.id)
    waiting = desk.post(
        confirm_path(intent),
        {"payment_method": customer.payment_method, "return_url": "https://example.com"},
    )

    failed = desk.model.authenticate(desk.scope, intent["id"], succeeds=False)

    assert waiting["next_action"]["redirect_to_url"]["return_url"] == "https://example.com"
    assert failed["status"] == "requires_payment_method"
    assert failed["last_payment_error"]["code"] == "payment_intent_authentication_failure"


def test_an_authenticated_card_can_still_decline(desk: Desk) -> None:
    card = "pm_card_authenticationRequiredChargeDeclinedInsufficientFunds"
    customer = desk.customer(CustomerSeed(payment_method=card))
    intent = desk.intent(customer.id)
    desk.post(confirm_path(intent), {"payment_method": customer.payment_method})

    with pytest.raises(Exception, match="insufficient funds"):
        desk.model.authenticate(desk.scope, intent["id"], succeeds=True)

    assert desk.read(intent)["status"] == "requires_payment_method"


def test_only_one_that_requires_action_can_be_authenticated(desk: Desk) -> None:
    intent = desk.intent()

    with pytest.raises(Exception, match="requires no action"):
        desk.model.authenticate(desk.scope, intent["id"], succeeds=True)


def test_one_that_requires_action_can_be_canceled(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed(payment_method="pm_card_authenticationRequired"))
    intent = desk.intent(customer.id)
    desk.post(confirm_path(intent), {"payment_method": customer.payment_method})

    assert desk.post(f"/v1/payment_intents/{intent['id']}/cancel")["status"] == "canceled"


def test_error_on_requires_action_declines_as_well(desk: Desk) -> None:
    form = {"payment_method": "pm_card_authenticationRequired", "error_on_requires_action": True}

    error = desk.refused(402, confirm_path(desk.intent()), form)

    assert error["code"] == "authentication_required"


@pytest.mark.parametrize("automatic", [{}, {"automatic_payment_methods[enabled]": True}])
def test_dashboard_methods_demand_a_return_url(desk: Desk, automatic: dict[str, object]) -> None:
    intent = desk.post("/v1/payment_intents", {"amount": 1000, "currency": "usd", **automatic})
    form = {"payment_method": "pm_card_visa", "off_session": True}

    error = desk.refused(400, confirm_path(intent), form)
    confirmed = desk.post(confirm_path(intent), {**form, "return_url": "https://example.com"})

    assert "`return_url`" in error["message"]
    assert confirmed["status"] == "succeeded"


def test_named_method_types_demand_no_return_url(desk: Desk) -> None:
    form = {"amount": 1000, "currency": "usd"}
    old = desk.send(
        "POST",
        "/v1/payment_intents",
        {**form, "payment_method_types[]": "card"},
        api_version="2025-09-30.clover",
    ).json()
    new = desk.post("/v1/payment_intents", {**form, "allowed_payment_method_types[0]": "card"})

    assert desk.confirm(old, "pm_card_visa").status == 200
    assert desk.confirm(new, "pm_card_visa").status == 200
    assert new["payment_method_types"] == ["card"]


def test_naming_method_types_is_refused_since_endive(desk: Desk) -> None:
    error = desk.refused(
        400,
        "/v1/payment_intents",
        {"amount": 1000, "currency": "usd", "payment_method_types[]": "card"},
    )

    assert error["code"] == "payment_method_types_no_longer_supported"


def test_the_ways_to_name_methods_exclude_each_other(desk: Desk) -> None:
    form = {
        **NO_REDIRECTS,
        "amount": 1000,
        "currency": "usd",
        "allowed_payment_method_types[]": "card",
    }

    error = desk.refused(400, "/v1/payment_intents", form)

    assert "only specify one" in error["message"]


def test_a_method_of_another_type_is_refused(desk: Desk) -> None:
    intent = desk.intent(extra={"currency": "gbp"})

    response = desk.confirm(intent, "pm_usBankAccount_success")

    assert response.status == 400
    assert "(us_bank_account) is not allowed" in response.json()["error"]["message"]


def test_only_the_default_source_stands_in_for_a_payment_method(desk: Desk) -> None:
    modern = desk.customer(CustomerSeed())
    legacy = desk.customer(CustomerSeed(payment_method=None, source="tok_visa"))

    refused = desk.confirm(desk.intent(modern.id), None)
    confirmed = desk.confirm(desk.intent(legacy.id), None).json()

    assert refused.status == 400
    assert refused.json()["error"]["code"] == UNEXPECTED_STATE
    assert "missing a payment method" in refused.json()["error"]["message"]
    assert confirmed["status"] == "succeeded"
    assert confirmed["source"] == legacy.source
    assert confirmed["payment_method"] is None


def test_a_decline_of_the_default_source_shows_the_source(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed(payment_method=None, source="tok_chargeCustomerFail"))

    error = desk.confirm(desk.intent(customer.id), None).json()["error"]

    assert error["source"]["id"] == customer.source
    assert error["decline_code"] == "generic_decline"


def test_another_customers_payment_method_is_refused(desk: Desk) -> None:
    owner, other = desk.customer(), desk.customer()

    for_other = desk.confirm(desk.intent(other.id), owner.payment_method)
    for_nobody = desk.confirm(desk.intent(), owner.payment_method)

    assert for_other.status == for_nobody.status == 400
    assert "does not match the expected customer" in for_other.json()["error"]["message"]
    assert "you must provide the customer" in for_nobody.json()["error"]["message"]


def test_an_unsaved_payment_method_pays_once(desk: Desk) -> None:
    method = desk.post("/v1/payment_methods", {"type": "card", "card[token]": "tok_visa"})

    first = desk.confirm(desk.intent(), method["id"])
    second = desk.confirm(desk.intent(), method["id"])

    assert (first.status, second.status) == (200, 400)
    assert "may not be used again" in second.json()["error"]["message"]


def test_setup_future_usage_saves_the_payment_method(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed(payment_method=None))
    intent = desk.intent(customer.id)

    confirmed = desk.post(
        confirm_path(intent),
        {"payment_method": "pm_card_visa", "setup_future_usage": "off_session"},
    )
    saved = desk.get(f"/v1/customers/{customer.id}/payment_methods")["data"]

    assert [method["id"] for method in saved] == [confirmed["payment_method"]]
    assert desk.confirm(desk.intent(customer.id), saved[0]["id"]).status == 200


def test_amount_to_confirm_is_what_is_charged(desk: Desk) -> None:
    intent = desk.intent()

    confirmed = desk.post(
        confirm_path(intent), {"payment_method": "pm_card_visa", "amount_to_confirm": 700}
    )

    assert confirmed["amount_received"] == 700
    assert [entry.amount for entry in desk.model.ledger.entries()] == [700]


@pytest.mark.parametrize(
    ("amount", "code"), [("x", "parameter_invalid_integer"), (10, "amount_too_small")]
)
def test_a_bad_amount_to_confirm_is_refused(desk: Desk, amount: object, code: str) -> None:
    form = {"payment_method": "pm_card_visa", "amount_to_confirm": amount}

    error = desk.refused(400, confirm_path(desk.intent()), form)

    assert (error["code"], error["param"]) == (code, "amount_to_confirm")


def test_manual_capture_moves_money_when_it_is_captured(desk: Desk) -> None:
    customer = desk.customer()
    intent = desk.intent(customer.id, {"capture_method": "manual"})

    authorized = desk.confirm(intent, customer.payment_method).json()
    moved_before = len(desk.model.ledger)
    captured = desk.post(
        f"/v1/payment_intents/{intent['id']}/capture", {"amount_to_capture": 600}, key="k"
    )
    charge = desk.get(f"/v1/charges/{captured['latest_charge']}")

    assert authorized["status"] == "requires_capture"
    assert authorized["amount_capturable"] == 1000
    assert moved_before == 0
    assert captured["status"] == "succeeded"
    assert captured["amount_received"] == 600
    assert charge["amount_captured"] == 600
    assert charge["amount_refunded"] == 400
    assert [(entry.amount, entry.idempotency_key) for entry in desk.model.ledger.entries()] == [
        (600, "k")
    ]


def test_an_authorized_one_can_be_canceled_and_no_money_moves(desk: Desk) -> None:
    intent = desk.intent(extra={"capture_method": "manual"})
    desk.confirm(intent, "pm_card_visa")

    canceled = desk.post(f"/v1/payment_intents/{intent['id']}/cancel")
    error = desk.refused(400, f"/v1/payment_intents/{intent['id']}/capture")

    assert canceled["status"] == "canceled"
    assert error["code"] == UNEXPECTED_STATE
    assert desk.get(f"/v1/charges/{canceled['latest_charge']}")["refunded"] is True
    assert len(desk.model.ledger) == 0


def test_more_than_authorized_cannot_be_captured(desk: Desk) -> None:
    intent = desk.intent(extra={"capture_method": "manual"})
    desk.confirm(intent, "pm_card_visa")

    error = desk.refused(
        400, f"/v1/payment_intents/{intent['id']}/capture", {"amount_to_capture": 1001}
    )

    assert error["code"] == "amount_too_large"


def test_a_bank_debit_processes_and_settles_by_itself() -> None:
    desk = Desk(options=Options(settlement_seconds=3 * DAY_SECONDS))
    customer = desk.customer(CustomerSeed(payment_method="pm_usBankAccount_success"))
    intent = desk.intent(customer.id)

    processing = desk.confirm(intent, customer.payment_method, key="k").json()
    desk.clock.advance(3 * DAY_SECONDS - 1)
    still = desk.read(intent)
    moved_before = len(desk.model.ledger)
    desk.clock.advance(1)
    settled = desk.read(intent)

    assert processing["status"] == still["status"] == "processing"
    assert desk.get(f"/v1/charges/{processing['latest_charge']}")["status"] == "succeeded"
    assert moved_before == 0
    assert settled["status"] == "succeeded"
    assert settled["amount_received"] == 1000
    assert [entry.idempotency_key for entry in desk.model.ledger.entries()] == ["k"]


def test_a_processing_one_is_neither_confirmed_nor_canceled(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed(payment_method="pm_usBankAccount_success"))
    intent = desk.intent(customer.id)
    desk.confirm(intent, customer.payment_method)

    again = desk.confirm(intent, customer.payment_method).json()["error"]
    canceled = desk.refused(400, f"/v1/payment_intents/{intent['id']}/cancel")

    assert again["code"] == canceled["code"] == UNEXPECTED_STATE
    assert again["payment_intent"]["status"] == "processing"
    assert (
        desk.get(f"/v1/charges/{again['payment_intent']['latest_charge']}")["status"] == "pending"
    )


def test_a_bank_debit_can_fail_days_later(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed(payment_method="pm_usBankAccount_insufficientFunds"))
    intent = desk.intent(customer.id)
    desk.confirm(intent, customer.payment_method)

    count = desk.model.settle(desk.scope, intent_id=intent["id"])
    failed = desk.read(intent)

    assert count == 1
    assert failed["status"] == "requires_payment_method"
    assert failed["last_payment_error"]["decline_code"] == "insufficient_funds"
    assert len(desk.model.ledger) == 0


def test_a_settled_one_does_not_settle_again(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed(payment_method="pm_usBankAccount_success"))
    desk.confirm(desk.intent(customer.id), customer.payment_method)
    desk.model.settle(desk.scope, decline_code="debit_not_authorized")
    desk.clock.advance(30 * DAY_SECONDS)

    assert desk.model.settle(desk.scope) == 0
    assert desk.get("/v1/payment_intents")["data"][0]["status"] == "requires_payment_method"
    assert len(desk.model.ledger) == 0


def test_amount_description_and_metadata_can_be_updated(desk: Desk) -> None:
    intent = desk.intent(extra={"metadata[a]": "1", "metadata[b]": "2"})

    updated = desk.post(
        f"/v1/payment_intents/{intent['id']}",
        {"amount": 1200, "description": "x", "metadata[a]": "", "metadata[c]": "3"},
    )

    assert updated["amount"] == 1200
    assert updated["description"] == "x"
    assert updated["metadata"] == {"b": "2", "c": "3"}
    assert desk.post(f"/v1/payment_intents/{intent['id']}", {"metadata": ""})["metadata"] == {}


def test_a_payment_method_given_by_an_update_waits_for_its_confirm(desk: Desk) -> None:
    customer = desk.customer()
    intent = desk.intent(customer.id)

    updated = desk.post(
        f"/v1/payment_intents/{intent['id']}", {"payment_method": customer.payment_method}
    )

    assert updated["status"] == "requires_confirmation"
    assert desk.confirm(intent, None).json()["status"] == "succeeded"


def test_the_customer_can_be_changed_and_the_lists_follow(desk: Desk) -> None:
    old, new = desk.customer(), desk.customer()
    intent = desk.intent(old.id)

    desk.post(f"/v1/payment_intents/{intent['id']}", {"customer": new.id})

    assert desk.get("/v1/payment_intents", {"customer": old.id})["data"] == []
    assert len(desk.get("/v1/payment_intents", {"customer": new.id})["data"]) == 1


def test_what_was_paid_cannot_be_changed_but_its_metadata_can(desk: Desk) -> None:
    intent = desk.paid_intent()

    error = desk.refused(400, f"/v1/payment_intents/{intent['id']}", {"amount": 1200})
    updated = desk.post(f"/v1/payment_intents/{intent['id']}", {"metadata[seen]": "yes"})

    assert error["code"] == UNEXPECTED_STATE
    assert updated["metadata"]["seen"] == "yes"


@pytest.mark.parametrize("name", ["off_session", "error_on_requires_action"])
def test_parameters_of_a_confirm_need_one(desk: Desk, name: str) -> None:
    form = {"amount": 1000, "currency": "usd", name: True}

    assert desk.refused(400, "/v1/payment_intents", form)["param"] == name


def test_a_failing_create_and_confirm_leaves_nothing_when_it_was_never_tried(desk: Desk) -> None:
    form = {"amount": 1000, "currency": "usd", "confirm": True, "payment_method": "pm_card_visa"}

    desk.refused(400, "/v1/payment_intents", form)

    assert len(desk.scope.payment_intents) == 0


def test_a_declined_create_and_confirm_leaves_the_payment_intent(desk: Desk) -> None:
    form = {
        **NO_REDIRECTS,
        "amount": 1000,
        "currency": "usd",
        "confirm": True,
        "payment_method": "pm_card_chargeDeclined",
    }

    error = desk.refused(402, "/v1/payment_intents", form)

    assert desk.read(error["payment_intent"])["status"] == "requires_payment_method"


@pytest.mark.parametrize("verb", ["", "/confirm", "/capture", "/cancel"])
def test_an_unknown_payment_intent_is_404(desk: Desk, verb: str) -> None:
    error = desk.refused(404, f"/v1/payment_intents/pi_none{verb}")

    assert error["code"] == "resource_missing"
    assert error["message"] == "No such payment_intent: 'pi_none'"


def test_an_unknown_payment_method_is_400(desk: Desk) -> None:
    error = desk.confirm(desk.intent(), "pm_none").json()["error"]

    assert error["code"] == "resource_missing"
    assert error["param"] == "payment_method"


def test_parameters_that_change_nothing_are_shown_again(desk: Desk) -> None:
    intent = desk.intent(
        extra={
            "receipt_email": "a@example.com",
            "statement_descriptor_suffix": "NOV",
            "application_fee_amount": 12,
            "transfer_data[destination]": "acct_2",
            "on_behalf_of": "acct_2",
        }
    )

    assert intent["receipt_email"] == "a@example.com"
    assert intent["statement_descriptor_suffix"] == "NOV"
    assert intent["application_fee_amount"] == 12
    assert intent["transfer_data"] == {"destination": "acct_2"}
    assert intent["on_behalf_of"] == "acct_2"


def test_outcomes_can_be_forced_for_any_card(desk: Desk) -> None:
    customer = desk.customer()
    declined, waiting, processing = (desk.intent(customer.id) for _ in range(3))

    desk.strike(FaultKind.DECLINE, Match(count=1), code="do_not_honor")
    first = desk.confirm(declined, customer.payment_method)
    desk.strike(FaultKind.REQUIRES_ACTION, Match(count=1))
    second = desk.post(confirm_path(waiting), {"payment_method": customer.payment_method})
    desk.strike(FaultKind.PROCESSING, Match(count=1))
    third = desk.confirm(processing, customer.payment_method)

    assert first.json()["error"]["decline_code"] == "do_not_honor"
    assert second["status"] == "requires_action"
    assert third.json()["status"] == "processing"
