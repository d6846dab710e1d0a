"""Goal: a key opens exactly its account, mode and permissions, and nothing else."""

import base64

import pytest

from local.stripe_simulator import Permission, Request
from tests.stripe_simulator.support import Desk


def test_without_a_key_the_answer_is_401(desk: Desk) -> None:
    response = desk.model.handle(Request("GET", "/v1/account"))

    assert response.status == 401
    assert response.headers["WWW-Authenticate"] == 'Basic realm="Stripe"'
    assert "did not provide an API key" in response.json()["error"]["message"]


@pytest.mark.parametrize("key", ["", "nonsense", "pk_test_1", "sk_prod_1", "sk_test_a b"])
def test_a_malformed_key_is_401_and_is_not_shown(desk: Desk, key: str) -> None:
    error = desk.refused(401, "/v1/account", method="GET", api_key=key)

    assert error["type"] == "invalid_request_error"
    assert not key or key not in error["message"]


def test_basic_authentication_works_as_well(desk: Desk) -> None:
    credentials = base64.b64encode(b"sk_test_desk:").decode()

    response = desk.model.handle(
        Request("GET", "/v1/account", headers={"authorization": f"Basic {credentials}"})
    )

    assert response.status == 200


def test_unreadable_basic_credentials_are_401(desk: Desk) -> None:
    response = desk.model.handle(
        Request("GET", "/v1/account", headers={"authorization": "Basic \xff"})
    )

    assert response.status == 401


def test_every_well_formed_key_opens_the_default_account(desk: Desk) -> None:
    accounts = {
        desk.get("/v1/account", api_key=key)["id"]
        for key in ("sk_test_1", "rk_test_2", "sk_live_3", "rk_live_4")
    }

    assert accounts == {"acct_1SimulatedDefault"}


def test_a_key_opens_the_account_it_was_registered_for(desk: Desk) -> None:
    desk.model.world.keys.register("sk_test_other", "acct_other", None)

    customer = desk.post("/v1/customers", api_key="sk_test_other")
    error = desk.refused(404, f"/v1/customers/{customer['id']}", method="GET")

    assert desk.get("/v1/account", api_key="sk_test_other")["id"] == "acct_other"
    assert error["code"] == "resource_missing"


def test_a_test_key_does_not_see_live_objects_and_is_told_why(desk: Desk) -> None:
    live = desk.post("/v1/payment_intents", {"amount": 500, "currency": "usd"}, api_key="sk_live_1")

    error = desk.refused(404, f"/v1/payment_intents/{live['id']}", method="GET")

    assert live["livemode"] is True
    assert error["code"] == "resource_missing"
    assert "a similar object exists in live mode, but a test mode key was used" in error["message"]


def test_a_revoked_key_is_401(desk: Desk) -> None:
    desk.get("/v1/account", api_key="sk_test_leaked")

    desk.model.world.keys.revoke("sk_test_leaked")

    error = desk.refused(401, "/v1/account", method="GET", api_key="sk_test_leaked")
    assert error["code"] == "api_key_expired"
    assert "leaked" not in error["message"]


def test_registering_a_revoked_key_opens_it_again(desk: Desk) -> None:
    desk.model.world.keys.revoke("sk_test_back")

    desk.model.world.keys.register("sk_test_back", "acct_1", None)

    assert desk.get("/v1/account", api_key="sk_test_back")["id"] == "acct_1"


def test_a_malformed_key_cannot_be_registered(desk: Desk) -> None:
    with pytest.raises(ValueError, match="sk_test_"):
        desk.model.world.keys.register("nonsense", "acct_1", None)


def test_a_restricted_key_may_do_what_it_was_given_and_no_more(desk: Desk) -> None:
    desk.model.world.keys.register(
        "rk_test_narrow",
        "acct_1",
        {"payment_intents": Permission.WRITE, "customers": Permission.READ},
    )

    desk.get("/v1/customers", api_key="rk_test_narrow")
    desk.get("/v1/payment_intents", api_key="rk_test_narrow")
    desk.post("/v1/payment_intents", {"amount": 500, "currency": "usd"}, api_key="rk_test_narrow")
    cannot_write = desk.refused(403, "/v1/customers", api_key="rk_test_narrow")
    cannot_read = desk.refused(403, "/v1/charges", method="GET", api_key="rk_test_narrow")

    assert "rak_customers_write" in cannot_write["message"]
    assert "rak_charges_read" in cannot_read["message"]


def test_another_account_in_the_scope_header_is_403(desk: Desk) -> None:
    request = Request.build("GET", "/v1/account")
    headers = {**request.headers, "stripe-account": "acct_connected"}

    response = desk.model.handle(Request("GET", "/v1/account", headers=headers))

    assert response.status == 403
    assert response.json()["error"]["code"] == "account_invalid"


def test_a_refused_key_leaves_no_trace_under_the_idempotency_key(desk: Desk) -> None:
    desk.model.world.keys.register("rk_test_none", "acct_1SimulatedDefault", {})
    form = {"amount": 500, "currency": "usd"}

    desk.refused(403, "/v1/payment_intents", form, key="k", api_key="rk_test_none")
    response = desk.send("POST", "/v1/payment_intents", form, key="k")

    assert response.status == 200
    assert "Idempotent-Replayed" not in response.headers
