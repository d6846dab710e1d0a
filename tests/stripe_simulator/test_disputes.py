"""Goal: a dispute names its charge, and only money that moved can be disputed."""

import pytest

from local.stripe_simulator import DisputeOpening
from local.stripe_simulator.errors import StripeError
from tests.stripe_simulator.support import Desk


def test_a_dispute_is_seen_from_both_sides(desk: Desk) -> None:
    intent = desk.paid_intent()

    opened = desk.dispute(intent["id"], amount=400, reason="duplicate")
    charge = desk.get(f"/v1/charges/{intent['latest_charge']}")

    assert charge["disputed"] is True
    assert (opened["charge"], opened["payment_intent"]) == (charge["id"], intent["id"])
    assert (opened["amount"], opened["reason"]) == (400, "duplicate")
    assert opened["status"] == "needs_response"
    assert desk.get(f"/v1/disputes/{opened['id']}") == opened


def test_disputes_are_listed_newest_first_and_filtered(desk: Desk) -> None:
    one, other = desk.paid_intent(), desk.paid_intent()
    first = desk.dispute(one["id"], status="lost")
    desk.clock.advance(60)
    second = desk.dispute(other["latest_charge"])

    assert desk.get("/v1/disputes")["data"] == [second, first]
    assert desk.get("/v1/disputes", {"payment_intent": one["id"]})["data"] == [first]
    assert desk.get("/v1/disputes", {"charge": other["latest_charge"]})["data"] == [second]
    assert desk.get("/v1/disputes", {"created[gt]": first["created"]})["data"] == [second]


def test_what_did_not_move_or_is_disputed_cannot_be_disputed(desk: Desk) -> None:
    unconfirmed, paid = desk.intent(), desk.paid_intent()
    desk.dispute(paid["id"])

    for payment in (unconfirmed["id"], paid["id"], "pi_none", "ch_none"):
        with pytest.raises(StripeError):
            desk.dispute(payment)
    with pytest.raises(ValueError, match="amount"):
        desk.dispute(desk.paid_intent()["id"], amount=1001)
    with pytest.raises(ValueError, match="status"):
        DisputeOpening("pi_1", status="angry")


def test_an_unknown_dispute_is_404(desk: Desk) -> None:
    desk.refused(404, "/v1/disputes/du_none", method="GET")
