"""Goal: the ledger tells which money moved, whatever clients were told, and finds doubles."""

import pytest

from local.stripe_simulator import FaultKind, LedgerEntry, Match
from local.stripe_simulator.ledger import Ledger
from tests.stripe_simulator.support import Desk

METADATA = {"metadata[customer_id]": "c1", "metadata[billing_period]": "2026-11"}


def entry(charge: str, **changes: object) -> LedgerEntry:
    fields: dict[str, object] = {
        "moved_at": 1.0,
        "kind": "charge",
        "amount": 100,
        "currency": "usd",
        "customer": "cus_1",
        "payment_intent": None,
        "charge": charge,
        "description": None,
        "metadata": {},
        "account": "acct_1",
        "livemode": False,
        "idempotency_key": None,
        "request_id": None,
    }
    return LedgerEntry(**{**fields, **changes})  # type: ignore[arg-type]


def ledger(*entries: LedgerEntry) -> Ledger:
    filled = Ledger()
    for each in entries:
        filled.append(each)
    return filled


def test_an_entry_says_everything_about_a_movement(desk: Desk) -> None:
    customer = desk.customer()
    intent = desk.intent(
        customer.id, {**METADATA, "metadata[chargeonce_key]": "k", "description": "x"}
    )
    response = desk.confirm(intent, customer.payment_method, key="key-of-the-confirm")

    (found,) = desk.model.ledger.entries()

    assert found.to_json() == {
        "moved_at": desk.clock.now(),
        "kind": "charge",
        "amount": 1000,
        "currency": "usd",
        "customer": customer.id,
        "payment_intent": intent["id"],
        "charge": response.json()["latest_charge"],
        "description": "x",
        "metadata": {"customer_id": "c1", "billing_period": "2026-11", "chargeonce_key": "k"},
        "account": "acct_1SimulatedDefault",
        "livemode": False,
        "idempotency_key": "key-of-the-confirm",
        "request_id": response.headers["Request-Id"],
    }


def test_money_that_the_client_never_heard_of_is_in_it(desk: Desk) -> None:
    customer = desk.customer()
    intent = desk.intent(customer.id)
    desk.strike(FaultKind.SERVER_ERROR, Match(count=1))

    response = desk.confirm(intent, customer.payment_method)

    assert response.status == 500
    assert [found.payment_intent for found in desk.model.ledger.entries()] == [intent["id"]]


def test_two_payment_intents_for_one_period_are_a_double_charge(desk: Desk) -> None:
    first, second = desk.paid_intent(METADATA), desk.paid_intent(METADATA)

    (double,) = desk.model.ledger.summary().double_charges

    assert double.group == {"customer_id": "c1", "billing_period": "2026-11"}
    assert double.charges == [first["latest_charge"], second["latest_charge"]]
    assert (double.excess, double.currency) == (1000, "usd")


def test_a_refund_does_not_hide_a_double_charge(desk: Desk) -> None:
    desk.paid_intent(METADATA)
    second = desk.paid_intent(METADATA)

    desk.post("/v1/refunds", {"charge": second["latest_charge"]})

    assert len(desk.model.ledger.summary().double_charges) == 1


def test_without_metadata_customer_amount_and_description_tell() -> None:
    summary = ledger(
        entry("ch_1", description="x"),
        entry("ch_2", description="y"),
        entry("ch_3", description="x"),
        entry("ch_4", description="x", amount=101),
    ).summary()

    (double,) = summary.double_charges
    assert double.charges == ["ch_1", "ch_3"]
    assert double.group == {"customer": "cus_1", "amount": 100, "description": "x"}


@pytest.mark.parametrize("other", [{"account": "acct_2"}, {"livemode": True}])
def test_other_accounts_and_modes_are_no_doubles(other: dict[str, object]) -> None:
    filled = ledger(entry("ch_1"), entry("ch_2", **other))

    assert filled.summary().double_charges == []


def test_totals_by_currency_and_scope() -> None:
    filled = ledger(
        entry("ch_1"),
        entry("ch_1", kind="refund", amount=40),
        entry("ch_2", currency="eur", amount=7),
        entry("ch_3", livemode=True, amount=1),
        entry("ch_4", account="acct_2", amount=2),
    )

    everything = filled.summary().to_json()["totals"]
    scoped = filled.summary("acct_1", livemode=False).to_json()["totals"]

    assert everything["usd"] == {"charges": 3, "charged": 103, "refunds": 1, "refunded": 40}
    assert everything["eur"]["charged"] == 7
    assert scoped["usd"]["charged"] == 100


def test_entries_are_read_from_an_offset() -> None:
    filled = ledger(*(entry(f"ch_{number}") for number in range(5)))

    assert [found.charge for found in filled.entries(1, 2)] == ["ch_1", "ch_2"]
    assert [found.charge for found in filled.entries(3)] == ["ch_3", "ch_4"]
    assert filled.entries(9) == []
