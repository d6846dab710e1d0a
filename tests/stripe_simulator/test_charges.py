"""Goal: the older Charges API charges sources, fails loudly and keeps its failures."""

import pytest

from local.stripe_simulator import CustomerSeed, FaultKind, Match
from tests.stripe_simulator.support import Desk


def charge_form(customer: str | None = None, **extra: object) -> dict[str, object]:
    form: dict[str, object] = {"amount": 1000, "currency": "usd", **extra}
    return form if customer is None else {**form, "customer": customer}


def legacy(desk: Desk, token: str = "tok_visa") -> str:
    return desk.customer(CustomerSeed(payment_method=None, source=token)).id


def test_a_customer_with_a_source_is_charged(desk: Desk) -> None:
    customer = legacy(desk)

    charge = desk.post(
        "/v1/charges", charge_form(customer, description="x", **{"metadata[a]": "b"}), key="k"
    )
    (entry,) = desk.model.ledger.entries()

    assert charge["status"] == "succeeded"
    assert charge["captured"] is True
    assert charge["source"]["object"] == "card"
    assert charge["balance_transaction"].startswith("txn_")
    assert charge["payment_intent"] is None
    assert (entry.charge, entry.customer, entry.payment_intent) == (charge["id"], customer, None)
    assert (entry.metadata, entry.description) == ({"a": "b"}, "x")
    assert entry.idempotency_key == "k"
    assert entry.request_id is not None
    assert entry.moved_at == desk.clock.now()


def test_a_customer_without_a_source_has_no_active_card(desk: Desk) -> None:
    modern = desk.customer()

    error = desk.refused(402, "/v1/charges", charge_form(modern.id))

    assert (error["type"], error["code"]) == ("card_error", "missing")
    assert error["message"] == "Cannot charge a customer that has no active card"


def test_a_declined_charge_stays_in_the_list(desk: Desk) -> None:
    customer = legacy(desk, "tok_chargeCustomerFail")

    error = desk.refused(402, "/v1/charges", charge_form(customer))
    (listed,) = desk.get("/v1/charges", {"customer": customer})["data"]

    assert error["decline_code"] == "generic_decline"
    assert listed["id"] == error["charge"]
    assert listed["status"] == "failed"
    assert listed["paid"] is False
    assert listed["failure_code"] == "card_declined"
    assert listed["outcome"]["type"] == "issuer_declined"
    assert len(desk.model.ledger) == 0


def test_a_token_pays_without_a_customer(desk: Desk) -> None:
    assert desk.post("/v1/charges", charge_form(source="tok_visa"))["status"] == "succeeded"


def test_a_named_source_of_the_customer_pays(desk: Desk) -> None:
    customer = legacy(desk)
    card = desk.post(f"/v1/customers/{customer}/sources", {"source": "tok_mastercard"})

    charge = desk.post("/v1/charges", charge_form(customer, source=card["id"]))

    assert charge["source"]["brand"] == "Mastercard"


def test_a_source_that_the_customer_does_not_have_is_refused(desk: Desk) -> None:
    customer, other = legacy(desk), legacy(desk)
    (card,) = desk.get(f"/v1/customers/{other}/sources")["data"]

    of_other = desk.refused(400, "/v1/charges", charge_form(customer, source=card["id"]))
    without_customer = desk.refused(400, "/v1/charges", charge_form(source=card["id"]))

    assert of_other["code"] == without_customer["code"] == "missing"


@pytest.mark.parametrize(
    ("form", "param"),
    [
        ({}, "source"),
        ({"source": "tok_nonsense"}, "source"),
        ({"source": "card_none"}, "source"),
        ({"customer": "cus_none"}, "customer"),
    ],
)
def test_nothing_to_charge_is_refused(desk: Desk, form: dict[str, object], param: str) -> None:
    assert desk.refused(400, "/v1/charges", {**charge_form(), **form})["param"] == param


def test_a_card_that_wants_authentication_declines(desk: Desk) -> None:
    customer = legacy(desk, "tok_authenticationRequired")

    error = desk.refused(402, "/v1/charges", charge_form(customer))

    assert error["code"] == "authentication_required"


def test_an_uncaptured_charge_moves_money_at_capture(desk: Desk) -> None:
    charge = desk.post("/v1/charges", charge_form(legacy(desk), capture=False))
    moved_before = len(desk.model.ledger)

    captured = desk.post(f"/v1/charges/{charge['id']}/capture", {"amount": 400}, key="k")
    again = desk.refused(400, f"/v1/charges/{charge['id']}/capture")

    assert charge["captured"] is False
    assert moved_before == 0
    assert captured["amount_captured"] == 400
    assert again["code"] == "charge_already_captured"
    assert [entry.amount for entry in desk.model.ledger.entries()] == [400]


def test_more_than_authorized_cannot_be_captured(desk: Desk) -> None:
    charge = desk.post("/v1/charges", charge_form(legacy(desk), capture=False))

    error = desk.refused(400, f"/v1/charges/{charge['id']}/capture", {"amount": 1001})

    assert error["code"] == "amount_too_large"


def test_a_failed_charge_cannot_be_captured(desk: Desk) -> None:
    failed = desk.refused(
        402, "/v1/charges", charge_form(source="tok_chargeDeclined", capture=False)
    )

    error = desk.refused(400, f"/v1/charges/{failed['charge']}/capture")

    assert "cannot be captured" in error["message"]


def test_a_charge_of_a_payment_intent_is_captured_through_it(desk: Desk) -> None:
    intent = desk.intent(extra={"capture_method": "manual"})
    charge_id = desk.confirm(intent, "pm_card_visa").json()["latest_charge"]

    error = desk.refused(400, f"/v1/charges/{charge_id}/capture")

    assert "Capture the PaymentIntent" in error["message"]


def test_metadata_and_description_can_be_updated(desk: Desk) -> None:
    charge = desk.post("/v1/charges", charge_form(source="tok_visa", description="old"))

    updated = desk.post(
        f"/v1/charges/{charge['id']}", {"description": "new", "metadata[seen]": "yes"}
    )

    assert (updated["description"], updated["metadata"]) == ("new", {"seen": "yes"})
    assert desk.model.ledger.entries()[0].metadata == {}


def test_a_pending_charge_can_be_settled(desk: Desk) -> None:
    desk.strike(FaultKind.PROCESSING, Match(count=1))
    charge = desk.post("/v1/charges", charge_form(source="tok_visa"))

    settled = desk.model.settle(desk.scope)

    assert charge["status"] == "pending"
    assert settled == 1
    assert desk.get(f"/v1/charges/{charge['id']}")["status"] == "succeeded"


def test_an_unknown_charge_is_404(desk: Desk) -> None:
    error = desk.refused(404, "/v1/charges/ch_none", method="GET")

    assert error["message"] == "No such charge: 'ch_none'"
