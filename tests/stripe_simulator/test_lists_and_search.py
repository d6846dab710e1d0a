"""Goal: lists see everything at once, in pages; Search lags, so that absence proves nothing."""

import pytest

from local.stripe_simulator import CustomerSeed
from local.stripe_simulator.wire import JsonObject
from tests.stripe_simulator.support import EPOCH, Desk

START = int(EPOCH)


def ids(page: JsonObject) -> list[str]:
    return [item["id"] for item in page["data"]]


def intents(desk: Desk, count: int, customer: str | None = None) -> list[str]:
    """Make PaymentIntents one second apart and return their ids, newest first."""
    made = []
    for _ in range(count):
        made.append(desk.intent(customer)["id"])
        desk.clock.advance(1)
    return made[::-1]


def test_a_list_sees_what_was_made_just_now(desk: Desk) -> None:
    intent = desk.intent()

    page = desk.get("/v1/payment_intents")

    assert ids(page) == [intent["id"]]
    assert (page["object"], page["url"]) == ("list", "/v1/payment_intents")
    assert page["has_more"] is False


def test_pages_have_ten_and_at_most_a_hundred_objects(desk: Desk) -> None:
    made = intents(desk, 12)

    page = desk.get("/v1/payment_intents")

    assert ids(page) == made[:10]
    assert page["has_more"] is True
    assert ids(desk.get("/v1/payment_intents", {"limit": 100})) == made
    for limit in (0, 101, "x"):
        desk.refused(400, "/v1/payment_intents", {"limit": limit}, method="GET")


@pytest.mark.parametrize("by_customer", [True, False])
def test_pages_follow_one_another_in_both_directions(desk: Desk, by_customer: bool) -> None:
    customer = desk.customer().id
    desk.intent()
    made = intents(desk, 7, customer)
    desk.intent()
    form = {"limit": 3, "customer": customer}
    if not by_customer:
        made = ids(desk.get("/v1/payment_intents"))
        form = {"limit": 3}

    first = desk.get("/v1/payment_intents", form)
    second = desk.get("/v1/payment_intents", {**form, "starting_after": ids(first)[-1]})
    third = desk.get("/v1/payment_intents", {**form, "starting_after": ids(second)[-1]})
    back = desk.get("/v1/payment_intents", {**form, "ending_before": ids(third)[0]})

    assert ids(first) + ids(second) + ids(third) == made
    assert [page["has_more"] for page in (first, second, third)] == [True, True, False]
    assert ids(back) == ids(second)
    assert back["has_more"] is True


def test_cursors_must_exist_and_be_one(desk: Desk) -> None:
    (intent,) = intents(desk, 1)

    missing = desk.refused(400, "/v1/payment_intents", {"starting_after": "pi_none"}, method="GET")
    both = {"starting_after": intent, "ending_before": intent}

    assert missing["code"] == "resource_missing"
    desk.refused(400, "/v1/payment_intents", both, method="GET")


@pytest.mark.parametrize(
    ("created", "expected"),
    [
        ({"created": START + 1}, slice(3, 4)),
        ({"created[gte]": START + 1, "created[lt]": START + 3}, slice(2, 4)),
        ({"created[gt]": START + 1, "created[lte]": START + 3}, slice(1, 3)),
        ({"created[gt]": START + 1, "created[gte]": START}, slice(3)),
        ({"created[gte]": START + 9}, slice(0, 0)),
    ],
)
@pytest.mark.parametrize("path", ["/v1/payment_intents", "/v1/charges", "/v1/customers"])
def test_lists_are_limited_by_creation_time(
    desk: Desk, path: str, created: dict[str, object], expected: slice
) -> None:
    for _ in range(5):
        desk.post("/v1/customers")
        desk.post("/v1/charges", {"amount": 500, "currency": "usd", "source": "tok_visa"})
        desk.intent()
        desk.clock.advance(1)
    everything = ids(desk.get(path))

    assert ids(desk.get(path, created)) == everything[expected]


@pytest.mark.parametrize(
    "created", [{"created": "x"}, {"created[around]": 1}, {"created[gt]": "x"}]
)
def test_bad_creation_times_are_refused(desk: Desk, created: dict[str, object]) -> None:
    desk.refused(400, "/v1/charges", created, method="GET")


def test_charges_are_listed_by_payment_intent(desk: Desk) -> None:
    one, _ = desk.paid_intent(), desk.paid_intent()

    page = desk.get("/v1/charges", {"payment_intent": one["id"]})

    assert ids(page) == [one["latest_charge"]]


def test_customers_are_listed_by_email(desk: Desk) -> None:
    desk.post("/v1/customers", {"email": "a@example.com"})
    wanted = desk.post("/v1/customers", {"email": "b@example.com"})

    assert ids(desk.get("/v1/customers", {"email": "b@example.com"})) == [wanted["id"]]


def test_unknown_filters_are_refused(desk: Desk) -> None:
    error = desk.refused(400, "/v1/payment_intents", {"metadata[a]": "b"}, method="GET")

    assert error["code"] == "parameter_unknown"


def test_search_does_not_see_what_just_happened(desk: Desk) -> None:
    intent = desk.intent(extra={"metadata[customer_id]": "c1"})
    query = {"query": "metadata['customer_id']:'c1'"}

    at_once = desk.get("/v1/payment_intents/search", query)
    desk.clock.advance(60)
    later = desk.get("/v1/payment_intents/search", query)
    desk.confirm(intent, "pm_card_visa")
    changed = desk.get("/v1/payment_intents/search", query)

    assert ids(at_once) == []
    assert ids(later) == [intent["id"]]
    assert ids(changed) == []
    assert ids(desk.get("/v1/payment_intents")) == [intent["id"]]
    assert (later["object"], later["next_page"]) == ("search_result", None)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("amount:1000", ["big", "old"]),
        ("amount>1000", ["huge"]),
        ("amount<=1000 AND currency:'usd'", ["big", "old"]),
        ("amount>=1000 amount<2000", ["big", "old"]),
        ("metadata['name']:'big' OR metadata['name']:'huge'", ["huge", "big"]),
        ("-metadata['name']:'big'", ["huge", "old"]),
        ('metadata["name"]:"hu\\ge"', ["huge"]),
        ("metadata['tier']:null", ["huge", "big"]),
        ("-metadata['tier']:null", ["old"]),
        ("status:'succeeded'", []),
        ("customer:'cus_1' AND created>1", ["old"]),
        ("amount>'many'", []),
        ("customer>5", []),
    ],
)
def test_search_understands_stripes_language(desk: Desk, query: str, found: list[str]) -> None:
    desk.customer(CustomerSeed(ids=["cus_1"]))
    desk.intent("cus_1", {"metadata[name]": "old", "metadata[tier]": "gold"})
    desk.intent(extra={"metadata[name]": "big"})
    desk.intent(extra={"metadata[name]": "huge", "amount": 2000})
    desk.clock.advance(60)

    page = desk.get("/v1/payment_intents/search", {"query": query})

    assert [item["metadata"]["name"] for item in page["data"]] == found


def test_search_has_pages(desk: Desk) -> None:
    made = intents(desk, 5)
    desk.clock.advance(60)
    form = {"query": "amount:1000", "limit": 3}

    first = desk.get("/v1/payment_intents/search", form)
    second = desk.get("/v1/payment_intents/search", {**form, "page": first["next_page"]})

    assert ids(first) + ids(second) == made
    assert (first["has_more"], second["has_more"]) == (True, False)


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"query": ""},
        {"query": "nonsense"},
        {"query": "colour:'red'"},
        {"query": "amount:1 AND amount:2 OR amount:3"},
        {"query": " AND ".join(["amount:1"] * 11)},
        {"query": "amount:1 | amount:2"},
        {"query": "amount:1", "page": "x"},
    ],
)
def test_queries_that_stripe_refuses(desk: Desk, form: dict[str, object]) -> None:
    desk.refused(400, "/v1/charges/search", form, method="GET")


def test_charges_and_customers_can_be_searched(desk: Desk) -> None:
    customer = desk.post("/v1/customers", {"email": "ada@example.com", "source": "tok_visa"})
    charge = desk.post(
        "/v1/charges", {"amount": 500, "currency": "usd", "customer": customer["id"]}
    )
    desk.clock.advance(60)

    by_email = desk.get("/v1/customers/search", {"query": "email~'ADA'"})
    by_customer = desk.get("/v1/charges/search", {"query": f"customer:'{customer['id']}'"})

    assert ids(by_email) == [customer["id"]]
    assert ids(by_customer) == [charge["id"]]


def test_ids_can_be_expanded_into_objects(desk: Desk) -> None:
    intent = desk.paid_intent()

    expanded = desk.get(
        f"/v1/payment_intents/{intent['id']}",
        {"expand[0]": "latest_charge.customer", "expand[1]": "payment_method"},
    )
    listed = desk.get("/v1/charges", {"expand[]": "data.payment_intent"})

    assert expanded["latest_charge"]["customer"]["object"] == "customer"
    assert expanded["payment_method"]["object"] == "payment_method"
    assert listed["data"][0]["payment_intent"]["id"] == intent["id"]


def test_nested_ids_of_a_customer_can_be_expanded(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed(source="tok_visa"))

    expanded = desk.get(
        f"/v1/customers/{customer.id}",
        {"expand[0]": "invoice_settings.default_payment_method", "expand[1]": "default_source"},
    )

    method = expanded["invoice_settings"]["default_payment_method"]
    assert method["id"] == customer.payment_method
    assert expanded["default_source"]["object"] == "card"


def test_an_unset_id_stays_unset_when_expanded(desk: Desk) -> None:
    intent = desk.intent()

    read = desk.get(f"/v1/payment_intents/{intent['id']}", {"expand[]": "latest_charge.customer"})

    assert read["latest_charge"] is None


@pytest.mark.parametrize("path", ["colour", "a.b.c.d.customer"])
def test_what_cannot_be_expanded_is_refused_before_anything_happens(desk: Desk, path: str) -> None:
    form = {"amount": 500, "currency": "usd", "source": "tok_visa", "expand[]": path}

    desk.refused(400, "/v1/charges", form)

    assert len(desk.model.ledger) == 0
