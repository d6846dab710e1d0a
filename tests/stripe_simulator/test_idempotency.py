"""Goal: the key table keeps, replays, refuses and forgets exactly as Stripe does."""

import pytest

from local.stripe_simulator import CustomerSeed, FaultKind, Match, Options, Request
from tests.stripe_simulator.support import DAY_SECONDS, NO_REDIRECTS, Desk

INTENT = {"amount": 1000, "currency": "usd", **NO_REDIRECTS}


def test_the_same_key_gives_the_same_answer_without_acting_again(desk: Desk) -> None:
    first = desk.send("POST", "/v1/payment_intents", INTENT, key="k")
    second = desk.send("POST", "/v1/payment_intents", INTENT, key="k")

    assert second.body == first.body
    assert second.headers["Idempotent-Replayed"] == "true"
    assert second.headers["Original-Request"] == first.headers["Request-Id"]
    assert second.headers["Request-Id"] != first.headers["Request-Id"]
    assert second.headers["Idempotency-Key"] == "k"
    assert "Idempotent-Replayed" not in first.headers
    assert len(desk.scope.payment_intents) == 1


def test_the_order_of_parameters_does_not_matter(desk: Desk) -> None:
    desk.post("/v1/payment_intents", INTENT, key="k")

    replay = desk.send("POST", "/v1/payment_intents", dict(reversed(INTENT.items())), key="k")

    assert replay.headers["Idempotent-Replayed"] == "true"


def test_without_a_key_each_request_is_new(desk: Desk) -> None:
    desk.post("/v1/payment_intents", INTENT)
    desk.post("/v1/payment_intents", INTENT)

    assert len(desk.scope.payment_intents) == 2


def test_other_parameters_under_a_used_key_are_an_idempotency_error(desk: Desk) -> None:
    desk.post("/v1/payment_intents", INTENT, key="k")

    error = desk.refused(400, "/v1/payment_intents", {**INTENT, "amount": 1001}, key="k")

    assert error["type"] == "idempotency_error"
    assert "same parameters" in error["message"]
    assert desk.send("POST", "/v1/payment_intents", INTENT, key="k").status == 200


def test_another_endpoint_under_a_used_key_is_an_idempotency_error(desk: Desk) -> None:
    desk.post("/v1/payment_intents", INTENT, key="k")

    error = desk.refused(400, "/v1/customers", {}, key="k")

    assert error["type"] == "idempotency_error"
    assert "same endpoint" in error["message"]


def test_metadata_added_on_a_retry_is_other_parameters(desk: Desk) -> None:
    desk.post("/v1/payment_intents", INTENT, key="k")

    error = desk.refused(400, "/v1/payment_intents", {**INTENT, "metadata[try]": "2"}, key="k")

    assert error["type"] == "idempotency_error"


def test_keys_belong_to_one_account_and_mode(desk: Desk) -> None:
    desk.model.world.keys.register("sk_test_other", "acct_other", None)

    test = desk.post("/v1/payment_intents", INTENT, key="k")
    live = desk.post("/v1/payment_intents", INTENT, key="k", api_key="sk_live_1")
    other = desk.post("/v1/payment_intents", INTENT, key="k", api_key="sk_test_other")

    assert len({test["id"], live["id"], other["id"]}) == 3


def test_another_api_key_of_the_same_account_replays(desk: Desk) -> None:
    first = desk.post("/v1/payment_intents", INTENT, key="k")
    second = desk.post("/v1/payment_intents", INTENT, key="k", api_key="rk_test_rotated")

    assert second["id"] == first["id"]


def test_a_decline_is_kept_and_replayed(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed(payment_method="pm_card_chargeCustomerFail"))
    intent = desk.intent(customer.id)

    first = desk.confirm(intent, customer.payment_method, key="k")
    second = desk.confirm(intent, customer.payment_method, key="k")

    assert first.status == second.status == 402
    assert second.body == first.body
    assert second.headers["Idempotent-Replayed"] == "true"
    assert len(desk.scope.charges) == 1


def test_a_500_is_kept_and_replayed_for_a_day(desk: Desk) -> None:
    desk.strike(FaultKind.SERVER_ERROR, Match(count=1), acts=False)

    first = desk.send("POST", "/v1/payment_intents", INTENT, key="k")
    second = desk.send("POST", "/v1/payment_intents", INTENT, key="k")
    desk.clock.advance(DAY_SECONDS)
    third = desk.send("POST", "/v1/payment_intents", INTENT, key="k")

    assert (first.status, second.status, third.status) == (500, 500, 200)
    assert second.headers["Idempotent-Replayed"] == "true"


def test_a_missing_object_is_kept_even_when_it_appears_later(desk: Desk) -> None:
    form = {**INTENT, "customer": "cus_soon"}
    desk.refused(400, "/v1/payment_intents", form, key="k")
    desk.customer(CustomerSeed(ids=["cus_soon"]))

    assert desk.refused(400, "/v1/payment_intents", form, key="k")["code"] == "resource_missing"
    assert desk.post("/v1/payment_intents", form, key="k2")["customer"] == "cus_soon"


@pytest.mark.parametrize(
    "bad",
    [{"amount": "ten"}, {"amount": 10}, {"currency": "xxx"}, {"unknown": 1}],
    ids=["integer", "too small", "currency", "unknown parameter"],
)
def test_a_validation_failure_leaves_the_key_free(desk: Desk, bad: dict[str, object]) -> None:
    desk.refused(400, "/v1/payment_intents", {**INTENT, **bad}, key="k")

    response = desk.send("POST", "/v1/payment_intents", INTENT, key="k")

    assert response.status == 200
    assert "Idempotent-Replayed" not in response.headers


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (FaultKind.RATE_LIMIT, 429),
        (FaultKind.UNAUTHORIZED, 401),
        (FaultKind.FORBIDDEN, 403),
        (FaultKind.KEY_IN_USE, 409),
        (FaultKind.LOCK_TIMEOUT, 429),
        (FaultKind.SPEND_CAP, 429),
    ],
)
def test_a_refusal_before_execution_leaves_the_key_free(
    desk: Desk, kind: FaultKind, status: int
) -> None:
    desk.strike(kind, Match(count=1))

    first = desk.send("POST", "/v1/payment_intents", INTENT, key="k")
    second = desk.send("POST", "/v1/payment_intents", INTENT, key="k")

    assert (first.status, second.status) == (status, 200)
    assert "Idempotent-Replayed" not in second.headers
    assert len(desk.scope.payment_intents) == 1


def test_a_key_lives_for_a_day_and_not_a_second_less(desk: Desk) -> None:
    first = desk.post("/v1/payment_intents", INTENT, key="k")
    desk.clock.advance(DAY_SECONDS - 1)
    second = desk.post("/v1/payment_intents", INTENT, key="k")
    desk.clock.advance(1)
    third = desk.post("/v1/payment_intents", INTENT, key="k")

    assert second["id"] == first["id"]
    assert third["id"] != first["id"]


def test_pruned_keys_take_no_memory(desk: Desk) -> None:
    for number in range(5):
        desk.post("/v1/payment_intents", INTENT, key=f"k{number}")
    desk.clock.advance(DAY_SECONDS)

    desk.post("/v1/payment_intents", INTENT, key="new")

    assert len(desk.scope.idempotency) == 1


def test_after_a_day_a_charge_under_its_old_key_moves_money_twice(desk: Desk) -> None:
    # The hole that every recipe falls into, and that the ledger must show.
    customer = desk.customer(CustomerSeed(source="tok_visa"))
    form = {
        "amount": 1000,
        "currency": "usd",
        "customer": customer.id,
        "metadata[customer_id]": "c1",
        "metadata[billing_period]": "2026-11",
    }

    desk.post("/v1/charges", form, key="k")
    desk.post("/v1/charges", form, key="k")
    assert desk.model.ledger.summary().double_charges == []
    desk.clock.advance(DAY_SECONDS)
    desk.post("/v1/charges", form, key="k")

    (double,) = desk.model.ledger.summary().double_charges
    assert double.group == {"customer_id": "c1", "billing_period": "2026-11"}
    assert double.excess == 1000


def test_a_key_may_have_255_characters_and_no_more(desk: Desk) -> None:
    desk.post("/v1/payment_intents", INTENT, key="k" * 255)

    error = desk.refused(400, "/v1/payment_intents", INTENT, key="k" * 256)

    assert "255 characters" in error["message"]


def test_only_post_uses_the_key(desk: Desk) -> None:
    desk.post("/v1/payment_intents", INTENT, key="k")

    response = desk.send("GET", "/v1/payment_intents", key="k")

    assert response.status == 200
    assert "Idempotent-Replayed" not in response.headers
    assert "Idempotency-Key" not in response.headers


def test_idempotency_can_be_switched_off() -> None:
    desk = Desk(options=Options(idempotency=False))

    first = desk.post("/v1/payment_intents", INTENT, key="k")
    second = desk.post("/v1/payment_intents", INTENT, key="k")

    assert first["id"] != second["id"]


def test_a_running_request_keeps_its_key_in_use(desk: Desk) -> None:
    request = Request.build("POST", "/v1/payment_intents", INTENT, idempotency_key="k")
    running = desk.model.begin(request)

    before = desk.model.handle(request)
    desk.model.act(running)
    after = desk.model.handle(request)
    desk.model.complete(running)
    replay = desk.model.handle(request)

    assert (before.status, after.status, replay.status) == (409, 409, 200)
    assert before.json()["error"]["code"] == "idempotency_key_in_use"
    assert before.headers["Stripe-Should-Retry"] == "true"
    assert replay.headers["Idempotent-Replayed"] == "true"


def test_a_running_request_is_not_pruned(desk: Desk) -> None:
    request = Request.build("POST", "/v1/payment_intents", INTENT, idempotency_key="k")
    running = desk.model.begin(request)
    desk.clock.advance(2 * DAY_SECONDS)

    assert desk.model.handle(request).status == 409
    assert desk.model.complete(running).status == 200
