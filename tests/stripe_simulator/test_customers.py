"""Goal: customers and what they pay with behave as Stripe's do, deleted ones above all."""

import pytest

from local.stripe_simulator import CustomerSeed
from tests.stripe_simulator.support import Desk


def test_create_retrieve_and_update(desk: Desk) -> None:
    made = desk.post(
        "/v1/customers",
        {"email": "a@example.com", "name": "Ada", "metadata[a]": "1", "description": "d"},
    )

    updated = desk.post(
        f"/v1/customers/{made['id']}", {"name": "", "phone": "1", "metadata[b]": "2"}
    )

    assert (made["email"], made["name"], made["description"]) == ("a@example.com", "Ada", "d")
    assert (updated["name"], updated["phone"]) == (None, "1")
    assert updated["metadata"] == {"a": "1", "b": "2"}
    assert desk.get(f"/v1/customers/{made['id']}") == updated


def test_the_default_payment_method_is_one_of_the_customers_own(desk: Desk) -> None:
    customer = desk.post("/v1/customers")
    other = desk.customer()
    method = desk.post("/v1/payment_methods/pm_card_visa/attach", {"customer": customer["id"]})
    path = f"/v1/customers/{customer['id']}"

    refused = desk.refused(
        400, path, {"invoice_settings[default_payment_method]": other.payment_method}
    )
    updated = desk.post(path, {"invoice_settings[default_payment_method]": method["id"]})
    unset = desk.post(path, {"invoice_settings[default_payment_method]": ""})

    assert refused["code"] == "resource_missing"
    assert updated["invoice_settings"]["default_payment_method"] == method["id"]
    assert updated["default_source"] is None
    assert unset["invoice_settings"]["default_payment_method"] is None


def test_a_payment_method_can_be_attached_while_creating(desk: Desk) -> None:
    customer = desk.post(
        "/v1/customers",
        {
            "payment_method": "pm_card_visa",
            "invoice_settings[default_payment_method]": "pm_card_visa",
        },
    )

    (method,) = desk.get("/v1/payment_methods", {"customer": customer["id"]})["data"]

    assert customer["invoice_settings"]["default_payment_method"] == method["id"]
    assert method["customer"] == customer["id"]


def test_a_token_becomes_the_default_source(desk: Desk) -> None:
    customer = desk.post("/v1/customers", {"source": "tok_visa"})
    replaced = desk.post(f"/v1/customers/{customer['id']}", {"source": "tok_amex"})
    back = desk.post(
        f"/v1/customers/{customer['id']}", {"default_source": customer["default_source"]}
    )

    assert customer["default_source"].startswith("card_")
    assert replaced["default_source"] != customer["default_source"]
    assert back["default_source"] == customer["default_source"]
    assert len(desk.get(f"/v1/customers/{customer['id']}/sources")["data"]) == 2


def test_a_legacy_card_is_shown_as_a_payment_method_too(desk: Desk) -> None:
    customer = desk.post("/v1/customers", {"source": "tok_visa"})

    method = desk.get(f"/v1/payment_methods/{customer['default_source']}")

    assert (method["type"], method["card"]["last4"]) == ("card", "4242")


def test_a_deleted_customer_is_a_200_that_says_so(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed(source="tok_visa"))

    deleted = desk.send("DELETE", f"/v1/customers/{customer.id}").json()
    read = desk.get(f"/v1/customers/{customer.id}")

    assert deleted == read == {"id": customer.id, "object": "customer", "deleted": True}
    assert desk.get("/v1/customers")["data"] == []


def test_a_deleted_customer_cannot_be_used_for_anything(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed(source="tok_visa"))
    intent = desk.intent(customer.id)
    desk.send("DELETE", f"/v1/customers/{customer.id}")
    form = {"amount": 1000, "currency": "usd", "customer": customer.id}

    assert desk.refused(400, "/v1/payment_intents", form)["code"] == "resource_missing"
    assert desk.refused(400, "/v1/charges", form)["code"] == "resource_missing"
    assert desk.refused(404, f"/v1/customers/{customer.id}", {"name": "x"})["param"] == "id"
    desk.refused(404, f"/v1/customers/{customer.id}", method="DELETE")
    confirmed = desk.confirm(intent, customer.payment_method)
    assert confirmed.status == 400
    assert "may not be used again" in confirmed.json()["error"]["message"]
    assert len(desk.model.ledger) == 0


def test_an_unknown_customer_is_404_in_the_path_and_400_in_a_parameter(desk: Desk) -> None:
    in_path = desk.refused(404, "/v1/customers/cus_none", method="GET")
    in_form = desk.refused(
        400, "/v1/payment_intents", {"amount": 500, "currency": "usd", "customer": "cus_none"}
    )

    assert in_path["message"] == in_form["message"] == "No such customer: 'cus_none'"
    assert in_form["param"] == "customer"


def test_a_bad_email_is_refused_and_changes_nothing(desk: Desk) -> None:
    customer = desk.post("/v1/customers", {"name": "Ada"})

    error = desk.refused(400, f"/v1/customers/{customer['id']}", {"name": "Eve", "email": "x"})

    assert error["code"] == "email_invalid"
    assert desk.get(f"/v1/customers/{customer['id']}")["name"] == "Ada"


@pytest.mark.parametrize(
    ("form", "card"),
    [
        ({"type": "card", "card[token]": "tok_mastercard"}, ("mastercard", "4444")),
        ({"type": "card", "card[number]": "4242 4242 4242 4242"}, ("visa", "4242")),
    ],
)
def test_cards_are_made_from_tokens_and_numbers(
    desk: Desk, form: dict[str, object], card: tuple[str, str]
) -> None:
    method = desk.post("/v1/payment_methods", {**form, "billing_details[email]": "a@example.com"})

    assert (method["card"]["brand"], method["card"]["last4"]) == card
    assert method["billing_details"]["email"] == "a@example.com"
    assert method["customer"] is None


@pytest.mark.parametrize(
    ("form", "method_type"),
    [
        (
            {"type": "us_bank_account", "us_bank_account[account_number]": "000123456789"},
            "us_bank_account",
        ),
        ({"type": "sepa_debit", "sepa_debit[iban]": "DE89 3704 0044 0532 0130 00"}, "sepa_debit"),
    ],
)
def test_bank_accounts_are_made_from_test_numbers(
    desk: Desk, form: dict[str, object], method_type: str
) -> None:
    method = desk.post("/v1/payment_methods", form)

    assert method["type"] == method_type
    assert (
        method[method_type]["last4"]
        == desk.get(f"/v1/payment_methods/{method['id']}")[method_type]["last4"]
    )


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({}, 400),
        ({"type": "card"}, 400),
        ({"type": "card", "card[exp_month]": 1}, 400),
        ({"type": "card", "card[token]": "tok_nonsense"}, 400),
        ({"type": "card", "card[number]": "4111"}, 402),
        ({"type": "us_bank_account"}, 400),
        ({"type": "us_bank_account", "us_bank_account[account_number]": "1"}, 400),
        ({"type": "barter"}, 400),
    ],
)
def test_bad_payment_methods_are_refused(desk: Desk, form: dict[str, object], status: int) -> None:
    desk.refused(status, "/v1/payment_methods", form)


def test_a_test_card_can_be_looked_at(desk: Desk) -> None:
    assert desk.get("/v1/payment_methods/pm_card_visa")["card"]["last4"] == "4242"


def test_saving_a_card_that_declines_at_once_is_refused(desk: Desk) -> None:
    customer = desk.post("/v1/customers")
    path = "/v1/payment_methods/pm_card_chargeDeclined/attach"

    declined = desk.refused(402, path, {"customer": customer["id"]})
    attached = desk.post(
        "/v1/payment_methods/pm_card_chargeCustomerFail/attach", {"customer": customer["id"]}
    )

    assert declined["code"] == "card_declined"
    assert attached["customer"] == customer["id"]


def test_a_payment_method_has_one_customer(desk: Desk) -> None:
    owner, other = desk.customer(), desk.customer()
    path = f"/v1/payment_methods/{owner.payment_method}/attach"

    again = desk.post(path, {"customer": owner.id})
    error = desk.refused(400, path, {"customer": other.id})

    assert again["customer"] == owner.id
    assert "already been attached" in error["message"]


def test_a_detached_payment_method_cannot_come_back(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed(source="tok_visa"))

    detached = desk.post(f"/v1/payment_methods/{customer.payment_method}/detach")
    twice = desk.refused(400, f"/v1/payment_methods/{customer.payment_method}/detach")
    again = desk.refused(
        400, f"/v1/payment_methods/{customer.payment_method}/attach", {"customer": customer.id}
    )
    desk.post(f"/v1/payment_methods/{customer.source}/detach")
    read = desk.get(f"/v1/customers/{customer.id}")

    assert detached["customer"] is None
    assert "not attached" in twice["message"]
    assert "may not be used again" in again["message"]
    assert read["invoice_settings"]["default_payment_method"] is None
    assert read["default_source"] is None


def test_payment_methods_are_listed_by_type(desk: Desk) -> None:
    customer = desk.customer()
    bank = desk.post(
        "/v1/payment_methods/pm_usBankAccount_success/attach", {"customer": customer.id}
    )

    listed = desk.get("/v1/payment_methods", {"customer": customer.id, "type": "us_bank_account"})[
        "data"
    ]
    everything = desk.get(f"/v1/customers/{customer.id}/payment_methods")["data"]

    assert [method["id"] for method in listed] == [bank["id"]]
    assert [method["id"] for method in everything] == [bank["id"], customer.payment_method]
    assert desk.get("/v1/payment_methods")["data"] == []


def test_a_sources_token_must_exist(desk: Desk) -> None:
    customer = desk.customer()

    error = desk.refused(400, f"/v1/customers/{customer.id}/sources", {"source": "tok_nonsense"})

    assert error["message"] == "No such token: 'tok_nonsense'"


def test_seeded_customers_keep_cards_that_went_bad(desk: Desk) -> None:
    seed = CustomerSeed(
        ids=["cus_a", "cus_b"], payment_method="pm_card_chargeDeclined", metadata={"tier": "x"}
    )

    customer = desk.customer(seed)

    assert customer.id == "cus_a"
    assert desk.get("/v1/customers/cus_b")["metadata"] == {"tier": "x"}
    assert desk.confirm(desk.intent("cus_a"), customer.payment_method).status == 402


@pytest.mark.parametrize(
    "seed",
    [
        CustomerSeed(ids=["cus_a", "cus_a"]),
        CustomerSeed(payment_method="pm_nonsense"),
        CustomerSeed(source="pm_card_visa"),
    ],
)
def test_impossible_seeds_are_refused_whole(desk: Desk, seed: CustomerSeed) -> None:
    with pytest.raises(ValueError, match=r"taken|test name"):
        desk.customer(seed)

    assert len(desk.scope.customers) == 0


@pytest.mark.parametrize("count", [0, 100_001])
def test_the_number_of_seeded_customers_is_bounded(count: int) -> None:
    with pytest.raises(ValueError, match="customers"):
        CustomerSeed(count=count)
