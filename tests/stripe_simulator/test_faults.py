"""Goal: a fault strikes the requests it names, and tells the truth about what took effect."""

import pytest

from local.stripe_simulator import CustomerSeed, DeliveryKind, Fault, FaultKind, Match
from local.stripe_simulator.faults import MAXIMUM_FAULTS, FaultPlan
from tests.stripe_simulator.support import CONFIRM, NO_REDIRECTS, Desk

MAY_SKIP_ACTING = [
    FaultKind.RESET,
    FaultKind.CLOSE,
    FaultKind.HANG,
    FaultKind.HTML_502,
    FaultKind.NOT_JSON,
    FaultKind.SERVER_ERROR,
]


@pytest.mark.parametrize("acts", [True, False])
@pytest.mark.parametrize("kind", MAY_SKIP_ACTING)
def test_money_moves_exactly_when_the_fault_lets_stripe_act(
    desk: Desk, kind: FaultKind, acts: bool
) -> None:
    customer = desk.customer()
    intent = desk.intent(customer.id)
    desk.strike(kind, acts=acts)

    desk.confirm(intent, customer.payment_method, key="k")

    assert len(desk.model.ledger) == int(acts)
    assert desk.read(intent)["status"] == ("succeeded" if acts else "requires_payment_method")


@pytest.mark.parametrize(
    "kind", [kind for kind in MAY_SKIP_ACTING if kind is not FaultKind.SERVER_ERROR]
)
@pytest.mark.parametrize("acts", [True, False])
def test_after_a_lost_answer_the_key_tells_the_outcome(
    desk: Desk, kind: FaultKind, acts: bool
) -> None:
    customer = desk.customer()
    intent = desk.intent(customer.id)
    desk.strike(kind, acts=acts)
    desk.confirm(intent, customer.payment_method, key="k")

    retry = desk.confirm(intent, customer.payment_method, key="k")

    assert retry.json()["status"] == "succeeded"
    assert ("Idempotent-Replayed" in retry.headers) is acts
    assert len(desk.model.ledger) == 1


@pytest.mark.parametrize(
    ("kind", "delivery"),
    [
        (FaultKind.RESET, DeliveryKind.RESET),
        (FaultKind.CLOSE, DeliveryKind.CLOSE),
        (FaultKind.HANG, DeliveryKind.HANG),
        (FaultKind.TRUNCATED, DeliveryKind.TRUNCATED),
        (FaultKind.DRIP_BODY, DeliveryKind.DRIP_BODY),
        (FaultKind.DRIP_HEADERS, DeliveryKind.DRIP_HEADERS),
        (FaultKind.HTML_502, DeliveryKind.WHOLE),
        (FaultKind.DELAY, DeliveryKind.WHOLE),
    ],
)
def test_a_fault_says_how_the_answer_travels(
    desk: Desk, kind: FaultKind, delivery: DeliveryKind
) -> None:
    desk.strike(kind, Match(), answer_seconds=1.0, interval_seconds=2.0, hang_seconds=3.0)

    found = desk.send("GET", "/v1/account").delivery

    assert found.kind is delivery
    assert (found.wait_seconds, found.interval_seconds, found.limit_seconds) == (1.0, 2.0, 3.0)


def test_a_500_after_acting_is_what_the_key_replays(desk: Desk) -> None:
    customer = desk.customer()
    intent = desk.intent(customer.id)
    desk.strike(FaultKind.SERVER_ERROR)

    first = desk.confirm(intent, customer.payment_method, key="k")
    replay = desk.confirm(intent, customer.payment_method, key="k")
    other_key = desk.confirm(intent, customer.payment_method, key="k2")

    assert (first.status, replay.status, other_key.status) == (500, 500, 400)
    assert first.json()["error"]["type"] == "api_error"
    assert other_key.json()["error"]["payment_intent"]["status"] == "succeeded"


def test_an_outcome_that_is_not_stored_lets_the_retry_act_again(desk: Desk) -> None:
    customer = desk.customer(CustomerSeed(source="tok_visa"))
    form = {"amount": 1000, "currency": "usd", "customer": customer.id}
    desk.strike(FaultKind.SERVER_ERROR, Match(path="/v1/charges", count=1), stored=False)

    first = desk.send("POST", "/v1/charges", form, key="k")
    second = desk.send("POST", "/v1/charges", form, key="k")

    assert (first.status, second.status) == (500, 200)
    assert len(desk.model.ledger.summary().double_charges) == 1


def test_a_fault_can_spoil_a_replay_without_changing_it(desk: Desk) -> None:
    form = {"amount": 1000, "currency": "usd", **NO_REDIRECTS}
    first = desk.send("POST", "/v1/payment_intents", form, key="k")
    desk.strike(FaultKind.SERVER_ERROR, Match(count=1))

    spoiled = desk.send("POST", "/v1/payment_intents", form, key="k")
    replay = desk.send("POST", "/v1/payment_intents", form, key="k")

    assert spoiled.status == 500
    assert replay.body == first.body


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        (FaultKind.RATE_LIMIT, 429, "rate_limit"),
        (FaultKind.LOCK_TIMEOUT, 429, "lock_timeout"),
        (FaultKind.KEY_IN_USE, 409, "idempotency_key_in_use"),
        (FaultKind.UNAUTHORIZED, 401, None),
        (FaultKind.FORBIDDEN, 403, None),
    ],
)
def test_refusals_never_act(desk: Desk, kind: FaultKind, status: int, code: str | None) -> None:
    customer = desk.customer()
    intent = desk.intent(customer.id)
    desk.strike(kind, reason="endpoint-rate")

    response = desk.confirm(intent, customer.payment_method)

    assert response.status == status
    assert response.json()["error"].get("code") == code
    assert len(desk.model.ledger) == 0
    if kind is FaultKind.RATE_LIMIT:
        assert response.headers["Stripe-Rate-Limited-Reason"] == "endpoint-rate"


def test_a_spend_cap_answers_with_a_text_as_error(desk: Desk) -> None:
    desk.strike(FaultKind.SPEND_CAP, Match(), spent_today_usd=50.0)

    response = desk.send("GET", "/v1/account")

    assert response.status == 429
    assert response.json() == {
        "error": "Daily spend cap of $50 reached",
        "spent_today_usd": 50.0,
    }


@pytest.mark.parametrize(("kind", "status"), [(FaultKind.HTML_502, 502), (FaultKind.NOT_JSON, 200)])
def test_pages_in_place_of_json(desk: Desk, kind: FaultKind, status: int) -> None:
    desk.strike(kind, Match())

    response = desk.send("GET", "/v1/account")

    assert response.status == status
    assert response.headers["Content-Type"] == "text/html"
    with pytest.raises(ValueError, match="Expecting value"):
        response.json()


def test_a_fault_strikes_by_method_and_path(desk: Desk) -> None:
    desk.strike(FaultKind.RATE_LIMIT, Match(method="GET", path="/v1/payment_intents/*"))

    intent = desk.intent()

    assert desk.send("GET", f"/v1/payment_intents/{intent['id']}").status == 429
    assert desk.send("GET", "/v1/payment_intents").status == 200
    assert desk.confirm(intent, "pm_card_visa").status == 200


def test_a_fault_strikes_by_customer_even_where_only_the_object_names_it(desk: Desk) -> None:
    victim, other = desk.customer(), desk.customer()
    intents = {each.id: desk.intent(each.id) for each in (victim, other)}
    desk.strike(FaultKind.RATE_LIMIT, Match(customer=victim.id))

    assert desk.confirm(intents[victim.id], victim.payment_method).status == 429
    assert desk.confirm(intents[other.id], other.payment_method).status == 200
    assert desk.send("POST", "/v1/charges", {"customer": victim.id}).status == 429
    assert desk.send("GET", f"/v1/customers/{victim.id}").status == 429


def test_a_fault_strikes_by_metadata_of_the_request_or_of_its_object(desk: Desk) -> None:
    marked = desk.intent(extra={"metadata[chargeonce_key]": "abc"})
    desk.strike(FaultKind.RATE_LIMIT, Match(metadata={"chargeonce_key": "abc"}))
    form = {"amount": 500, "currency": "usd"}

    assert desk.confirm(marked, "pm_card_visa").status == 429
    assert (
        desk.send("POST", "/v1/charges", {**form, "metadata[chargeonce_key]": "abc"}).status == 429
    )
    assert desk.confirm(desk.intent(), "pm_card_visa").status == 200


def test_a_fault_waits_for_its_turn_and_ends(desk: Desk) -> None:
    desk.strike(FaultKind.RATE_LIMIT, Match(nth=2, count=2))

    statuses = [desk.send("GET", "/v1/account").status for _ in range(5)]
    (planned,) = desk.model.faults.planned()

    assert statuses == [200, 429, 429, 200, 200]
    assert (planned.matched, planned.struck) == (5, 2)


def test_a_probable_fault_follows_the_seed() -> None:
    def statuses(seed: int) -> list[int]:
        desk = Desk(seed)
        desk.strike(FaultKind.RATE_LIMIT, Match(probability=0.5))
        return [desk.send("GET", "/v1/account").status for _ in range(40)]

    assert statuses(1) == statuses(1)
    assert statuses(1) != statuses(2)
    assert 5 < statuses(1).count(429) < 35


def test_the_first_fault_that_fits_strikes(desk: Desk) -> None:
    desk.strike(FaultKind.RATE_LIMIT, Match(count=1))
    desk.strike(FaultKind.FORBIDDEN, Match())

    assert [desk.send("GET", "/v1/account").status for _ in range(3)] == [429, 403, 403]


def test_a_payment_outcome_waits_for_a_request_that_pays(desk: Desk) -> None:
    customer = desk.customer()
    desk.strike(FaultKind.DECLINE, Match(customer=customer.id, count=1), code="lost_card")

    intent = desk.intent(customer.id)
    first = desk.confirm(intent, customer.payment_method)
    second = desk.confirm(intent, customer.payment_method)

    assert first.json()["error"]["decline_code"] == "lost_card"
    assert second.status == 200


def test_a_create_that_confirms_pays_too(desk: Desk) -> None:
    desk.strike(FaultKind.DECLINE, Match(count=1))
    form = {
        **NO_REDIRECTS,
        "amount": 500,
        "currency": "usd",
        "confirm": True,
        "payment_method": "pm_card_visa",
    }

    assert desk.send("POST", "/v1/payment_intents", form).status == 402


def test_faults_can_be_removed_one_by_one_or_all(desk: Desk) -> None:
    first = desk.strike(FaultKind.RATE_LIMIT, Match())
    desk.strike(FaultKind.FORBIDDEN, Match())

    assert desk.model.faults.remove(first) is True
    assert desk.model.faults.remove(first) is False
    assert desk.send("GET", "/v1/account").status == 403
    desk.model.faults.clear()
    assert desk.send("GET", "/v1/account").status == 200


def test_the_number_of_faults_is_bounded() -> None:
    plan = FaultPlan(seed=1)
    for _ in range(MAXIMUM_FAULTS):
        plan.add(Fault(FaultKind.DELAY))

    with pytest.raises(ValueError, match="at most"):
        plan.add(Fault(FaultKind.DELAY))


def test_a_fault_survives_its_json_form() -> None:
    fault = Fault(
        FaultKind.DECLINE,
        Match(path=CONFIRM, metadata={"a": "b"}, count=3, probability=0.25),
        before_seconds=1.5,
        code="lost_card",
    )

    assert Fault.from_json(fault.to_json()) == fault


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"kind": "flood"},
        {"kind": "reset", "colour": "red"},
        {"kind": "reset", "match": {"colour": "red"}},
        {"kind": "decline", "code": "nonsense"},
        {"kind": "decline", "acts": False},
        {"kind": "truncated", "acts": False},
        {"kind": "delay", "before_seconds": -1},
        {"kind": "hang", "hang_seconds": 3601},
        {"kind": "delay", "before_seconds": float("nan")},
        {"kind": "reset", "match": {"nth": 0}},
        {"kind": "reset", "match": {"count": 0}},
        {"kind": "reset", "match": {"probability": 1.5}},
        {"kind": "delay", "before_seconds": "soon"},
    ],
)
def test_senseless_faults_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Fault.from_json(given)
