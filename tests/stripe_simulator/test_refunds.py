"""Goal: money goes back at most as far as it came."""

import pytest

from tests.stripe_simulator.support import Desk


def test_a_full_refund_of_a_payment_intent(desk: Desk) -> None:
    intent = desk.paid_intent({"metadata[customer_id]": "c1"})

    refund = desk.post(
        "/v1/refunds", {"payment_intent": intent["id"], "reason": "duplicate"}, key="k"
    )
    charge = desk.get(f"/v1/charges/{intent['latest_charge']}")
    entry = desk.model.ledger.entries()[-1]

    assert refund["status"] == "succeeded"
    assert (refund["amount"], refund["reason"]) == (1000, "duplicate")
    assert refund["payment_intent"] == intent["id"]
    assert charge["refunded"] is True
    assert charge["amount_refunded"] == 1000
    assert (entry.kind, entry.amount, entry.idempotency_key) == ("refund", 1000, "k")
    assert entry.metadata == {"customer_id": "c1"}


def test_partial_refunds_until_nothing_is_left(desk: Desk) -> None:
    charge = desk.paid_intent()["latest_charge"]

    first = desk.post("/v1/refunds", {"charge": charge, "amount": 300})
    too_much = desk.refused(400, "/v1/refunds", {"charge": charge, "amount": 701})
    rest = desk.post("/v1/refunds", {"charge": charge})
    nothing_left = desk.refused(400, "/v1/refunds", {"charge": charge})

    assert (first["amount"], rest["amount"]) == (300, 700)
    assert "greater than unrefunded amount" in too_much["message"]
    assert nothing_left["code"] == "charge_already_refunded"
    assert [entry.amount for entry in desk.model.ledger.entries()] == [1000, 300, 700]


def test_refunds_are_retrieved_and_listed(desk: Desk) -> None:
    one, other = desk.paid_intent(), desk.paid_intent()
    refund = desk.post("/v1/refunds", {"charge": one["latest_charge"], "metadata[a]": "b"})
    desk.post("/v1/refunds", {"charge": other["latest_charge"]})

    by_charge = desk.get("/v1/refunds", {"charge": one["latest_charge"]})["data"]
    by_intent = desk.get("/v1/refunds", {"payment_intent": one["id"]})["data"]

    assert by_charge == by_intent == [desk.get(f"/v1/refunds/{refund['id']}")]
    assert by_charge[0]["metadata"] == {"a": "b"}
    assert len(desk.get("/v1/refunds")["data"]) == 2


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({}, 400),
        ({"charge": "ch_none"}, 400),
        ({"payment_intent": "pi_none"}, 400),
        ({"charge": "ch_none", "amount": "x"}, 400),
        ({"charge": "ch_none", "reason": "regret"}, 400),
    ],
)
def test_bad_refunds_are_refused(desk: Desk, form: dict[str, object], status: int) -> None:
    desk.refused(status, "/v1/refunds", form)

    assert len(desk.model.ledger) == 0


def test_zero_cannot_be_refunded(desk: Desk) -> None:
    charge = desk.paid_intent()["latest_charge"]

    error = desk.refused(400, "/v1/refunds", {"charge": charge, "amount": 0})

    assert error["code"] == "parameter_invalid_integer"


def test_what_was_not_paid_cannot_be_refunded(desk: Desk) -> None:
    unconfirmed = desk.intent()
    authorized = desk.intent(extra={"capture_method": "manual"})
    desk.confirm(authorized, "pm_card_visa")

    never_tried = desk.refused(400, "/v1/refunds", {"payment_intent": unconfirmed["id"]})
    not_captured = desk.refused(400, "/v1/refunds", {"payment_intent": authorized["id"]})

    assert "does not have a successful charge" in never_tried["message"]
    assert "has not been captured" in not_captured["message"]


def test_an_unknown_refund_is_404(desk: Desk) -> None:
    desk.refused(404, "/v1/refunds/re_none", method="GET")
