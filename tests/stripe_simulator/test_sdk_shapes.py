"""Goal: every object has the fields and types that the SDK declares, and no others.

Method: the annotations of the SDK's own classes are read from its source and walked beside the
JSON. A field that is not optional must be there; a field that is there must be declared.
"""

import pytest

from local.stripe_simulator import CustomerSeed, FaultKind, Match
from local.stripe_simulator.wire import JsonObject
from tests.stripe_simulator.sdk_types import class_of, mismatches
from tests.stripe_simulator.support import Desk


def assert_fits(shown: JsonObject, module: str, name: str) -> None:
    assert list(mismatches(shown, class_of(module, name), name)) == []


def intents_in_every_status(desk: Desk) -> list[JsonObject]:
    customer = desk.customer()
    card = customer.payment_method
    bank = desk.customer(CustomerSeed(payment_method="pm_usBankAccount_success"))
    secure = desk.customer(CustomerSeed(payment_method="pm_card_authenticationRequired"))
    fresh = desk.intent(customer.id)
    waiting = desk.intent(customer.id, {"payment_method": card})
    canceled = desk.intent(customer.id)
    desk.post(f"/v1/payment_intents/{canceled['id']}/cancel")
    succeeded, declined = desk.intent(customer.id), desk.intent(customer.id)
    desk.confirm(succeeded, card)
    desk.confirm(declined, "pm_card_chargeDeclined")
    manual = desk.intent(customer.id, {"capture_method": "manual"})
    desk.confirm(manual, card)
    processing = desk.intent(bank.id)
    desk.confirm(processing, bank.payment_method)
    secured = desk.intent(secure.id)
    desk.post(
        f"/v1/payment_intents/{secured['id']}/confirm",
        {"payment_method": secure.payment_method, "return_url": "https://example.com"},
    )
    made = [fresh, waiting, canceled, succeeded, declined, manual, processing, secured]
    return [desk.read(intent) for intent in made]


def test_payment_intents_in_every_status(desk: Desk) -> None:
    shown = intents_in_every_status(desk)

    for intent in shown:
        assert_fits(intent, "_payment_intent", "PaymentIntent")
    assert {intent["status"] for intent in shown} == {
        "requires_payment_method",
        "requires_confirmation",
        "requires_action",
        "processing",
        "requires_capture",
        "canceled",
        "succeeded",
    }


def test_charges_in_every_status(desk: Desk) -> None:
    intents_in_every_status(desk)
    desk.post("/v1/charges", {"amount": 500, "currency": "usd", "source": "tok_visa"})

    charges = desk.get("/v1/charges")["data"]

    for charge in charges:
        assert_fits(charge, "_charge", "Charge")
    assert {charge["status"] for charge in charges} == {"succeeded", "failed", "pending"}


def test_customers(desk: Desk) -> None:
    seeded = desk.customer(CustomerSeed(source="tok_visa"))

    assert_fits(desk.get(f"/v1/customers/{seeded.id}"), "_customer", "Customer")
    assert_fits(desk.post("/v1/customers"), "_customer", "Customer")


@pytest.mark.parametrize(
    "name", ["pm_card_visa", "pm_usBankAccount_success", "pm_sepaDebit_success"]
)
def test_payment_methods(desk: Desk, name: str) -> None:
    assert_fits(desk.get(f"/v1/payment_methods/{name}"), "_payment_method", "PaymentMethod")


def test_legacy_cards(desk: Desk) -> None:
    customer = desk.customer()

    card = desk.post(f"/v1/customers/{customer.id}/sources", {"source": "tok_visa"})

    assert_fits(card, "_card", "Card")


def test_refunds(desk: Desk) -> None:
    intent = desk.paid_intent()

    assert_fits(desk.post("/v1/refunds", {"payment_intent": intent["id"]}), "_refund", "Refund")


def test_disputes(desk: Desk) -> None:
    intent = desk.paid_intent()

    desk.dispute(intent["id"])
    (dispute,) = desk.get("/v1/disputes")["data"]

    assert_fits(dispute, "_dispute", "Dispute")
    assert_fits(desk.get(f"/v1/charges/{intent['latest_charge']}"), "_charge", "Charge")


def test_the_account(desk: Desk) -> None:
    assert_fits(desk.get("/v1/account"), "_account", "Account")


def test_lists_and_search_results(desk: Desk) -> None:
    desk.intent()
    page = desk.get("/v1/payment_intents")
    found = desk.get("/v1/payment_intents/search", {"query": "amount:1000"})

    assert page.keys() == {"object", "data", "has_more", "url"}
    assert found.keys() == {"object", "data", "has_more", "next_page", "url"}


def test_error_objects(desk: Desk) -> None:
    paid = desk.paid_intent()
    errors = [
        desk.confirm(desk.intent(), "pm_card_chargeDeclinedExpiredCard").json()["error"],
        desk.confirm(paid, "pm_card_visa").json()["error"],
        desk.refused(400, "/v1/payment_intents", {"amount": 1, "currency": "usd"}),
        desk.refused(
            402, "/v1/charges", {"amount": 500, "currency": "usd", "source": "tok_chargeDeclined"}
        ),
        desk.refused(401, "/v1/account", method="GET", api_key="nonsense"),
    ]
    desk.strike(FaultKind.SERVER_ERROR, Match())
    errors.append(desk.refused(500, "/v1/account", method="GET"))

    for error in errors:
        assert_fits(error, "_error_object", "ErrorObject")
    for error in errors[:2]:
        assert_fits(error["payment_intent"], "_payment_intent", "PaymentIntent")
    assert_fits(errors[0]["payment_method"], "_payment_method", "PaymentMethod")


def test_the_comparison_itself_finds_what_is_wrong(desk: Desk) -> None:
    intent = desk.intent()
    del intent["client_secret"], intent["amount"]
    intent["currency"] = 5
    intent["colour"] = "red"
    intent["livemode"] = "no"
    intent["amount_details"] = {"shade": 1}
    intent["payment_method_types"] = ["card", 5]

    found = set(mismatches(intent, class_of("_payment_intent", "PaymentIntent"), "it"))

    assert found == {
        "it.amount: missing",
        "it.colour: unknown to PaymentIntent",
        "it.currency: 5 is no str",
        "it.livemode: 'no' is no bool",
        "it.amount_details.shade: unknown to AmountDetails",
        "it.payment_method_types[1]: 5 is no str",
    }
