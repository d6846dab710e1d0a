"""What counts against a key, when, and what gives it back."""

import uuid

import pytest

from local.stripe_simulator import Fault, FaultKind, Match
from shared.ports import NoResponse
from shared.vault.keys import VaultKey
from tests.support.vault import CHARGE, Answer, VaultBench

CREATE = {
    **CHARGE,
    "automatic_payment_methods[enabled]": "true",
    "automatic_payment_methods[allow_redirects]": "never",
}
CONFIRM = {"off_session": "true", "payment_method": "pm_card_visa"}


def create(vault: VaultBench, key: str, **parameters: str) -> str:
    """An unconfirmed PaymentIntent."""
    answer = vault.post(key, "/v1/payment_intents", {**CREATE, **parameters}, str(uuid.uuid4()))
    assert answer.status == 200, answer
    return str(answer.document["id"])


def confirm(vault: VaultBench, key: str, payment_id: str, **parameters: str) -> Answer:
    """Confirm one."""
    path = f"/v1/payment_intents/{payment_id}/confirm"
    return vault.post(key, path, {**CONFIRM, **parameters}, str(uuid.uuid4()))


def test_a_charge_is_counted_and_made(vault: VaultBench) -> None:
    key = vault.mint()
    answer = vault.post(key, "/v1/charges", CHARGE, "key-1")
    assert answer.status == 200
    assert answer.headers["request-id"].startswith("req_")
    assert vault.money() == (0, 1000)
    assert vault.moved_cents() == 1000


def test_the_cap_ends_the_spending(vault: VaultBench) -> None:
    key = vault.mint(daily_usd=25.0)
    statuses = [vault.post(key, "/v1/charges", CHARGE).status for _ in range(4)]
    assert statuses == [200, 200, 429, 429]
    refused = vault.post(key, "/v1/charges", CHARGE)
    assert refused.code == "spend_cap_reached"
    assert refused.headers["stripe-should-retry"] == "false"
    assert vault.moved_cents() == 2000
    assert vault.post(key, "/v1/charges", {**CHARGE, "amount": "500"}).status == 200


def test_a_total_cap_holds_over_midnight(vault: VaultBench) -> None:
    key = vault.mint(daily_usd=20.0, total_usd_cap=30.0)
    for _ in range(2):
        assert vault.post(key, "/v1/charges", CHARGE).status == 200
    assert vault.post(key, "/v1/charges", CHARGE).status == 429
    vault.execute("UPDATE chargeonce.vault_keys SET day = day - 1")
    assert vault.post(key, "/v1/charges", CHARGE).status == 200
    refused = vault.post(key, "/v1/charges", CHARGE)
    assert "total spend cap" in refused.document["error"]["message"]


def test_a_clock_that_goes_back_does_not_empty_the_day(vault: VaultBench) -> None:
    key = vault.mint(daily_usd=10.0)
    assert vault.post(key, "/v1/charges", CHARGE).status == 200
    vault.execute("UPDATE chargeonce.vault_keys SET day = day + 1")
    assert vault.post(key, "/v1/charges", CHARGE).status == 429


def test_an_intent_counts_once_when_money_can_move(vault: VaultBench) -> None:
    key = vault.mint()
    payment_id = create(vault, key)
    assert vault.money() == (0, 0)
    assert confirm(vault, key, payment_id).document["status"] == "succeeded"
    assert vault.money() == (0, 1000)
    again = confirm(vault, key, payment_id)
    assert again.code == "payment_intent_unexpected_state"
    assert vault.money() == (0, 1000)
    assert vault.moved_cents() == 1000


def test_confirm_on_create_counts_as_confirm(vault: VaultBench) -> None:
    key = vault.mint(daily_usd=10.0)
    parameters = {**CREATE, "confirm": "true", "payment_method": "pm_card_visa"}
    assert vault.post(key, "/v1/payment_intents", parameters, "key-1").status == 200
    assert vault.money() == (0, 1000)
    assert vault.post(key, "/v1/payment_intents", parameters, "key-2").status == 429
    assert vault.moved_cents() == 1000


def test_an_intent_made_elsewhere_is_looked_up(vault: VaultBench) -> None:
    key = vault.mint(daily_usd=5.0)
    payment_id = create(vault, key)
    vault.execute("DELETE FROM chargeonce.vault_payments")
    assert confirm(vault, key, payment_id).code == "spend_cap_reached"
    assert vault.moved_cents() == 0


def test_a_decline_gives_back_what_it_held(vault: VaultBench) -> None:
    key = vault.mint(daily_usd=10.0)
    payment_id = create(vault, key)
    refused = confirm(vault, key, payment_id, payment_method="pm_card_chargeDeclined")
    assert refused.status == 402
    assert vault.money() == (0, 0)
    assert confirm(vault, key, payment_id).status == 200
    assert vault.money() == (0, 1000)


def test_an_unknown_outcome_holds_until_stripe_proves_it(vault: VaultBench) -> None:
    key = vault.mint(daily_usd=10.0)
    payment_id = create(vault, key)
    path = "/v1/payment_intents/*/confirm"
    vault.fault(Fault(FaultKind.RESET, Match(path=path, count=1), acts=True))
    assert confirm(vault, key, payment_id).status == 502
    assert vault.money() == (1000, 0)
    other = create(vault, key)
    assert confirm(vault, key, other).status == 429
    assert vault.resolve() == 1
    assert vault.money() == (0, 1000)
    assert vault.moved_cents() == 1000


def test_a_confirm_in_doubt_is_held_beyond_a_decline(vault: VaultBench) -> None:
    """Goal: the earlier confirm may still be on its way; only a cancel proves that it is not."""
    key = vault.mint()
    payment_id = create(vault, key)
    vault.upstream.before = lambda method, path: (
        NoResponse(sent=True, problem="read_timeout") if path.endswith("/confirm") else None
    )
    assert confirm(vault, key, payment_id).status == 502
    vault.upstream.before = None
    declined = confirm(vault, key, payment_id, payment_method="pm_card_chargeDeclined")
    assert declined.status == 402
    vault.resolve()
    assert vault.money() == (1000, 0)
    canceled = vault.post(key, f"/v1/payment_intents/{payment_id}/cancel")
    assert canceled.document["status"] == "canceled"
    assert vault.money() == (0, 0)


def test_a_replay_is_not_counted_twice(vault: VaultBench) -> None:
    key = vault.mint(daily_usd=10.0)
    first = vault.post(key, "/v1/charges", CHARGE, "key-1")
    again = vault.post(key, "/v1/charges", CHARGE, "key-1")
    assert (again.status, again.document["id"]) == (200, first.document["id"])
    assert again.headers["idempotent-replayed"] == "true"
    assert vault.money() == (0, 1000)


def test_a_request_is_counted_anew_once_stripe_may_have_forgotten_it(vault: VaultBench) -> None:
    key = vault.mint(daily_usd=25.0)
    vault.post(key, "/v1/charges", CHARGE, "key-1")
    vault.let_hours_pass(23.5)
    replayed = vault.post(key, "/v1/charges", CHARGE, "key-1")
    assert replayed.headers["idempotent-replayed"] == "true"
    assert vault.money() == (0, 1000)
    vault.let_hours_pass(25)
    assert vault.post(key, "/v1/charges", CHARGE, "key-1").status == 200
    assert (vault.money(), vault.moved_cents()) == ((0, 2000), 2000)


def test_one_idempotency_key_does_not_buy_two_amounts(vault: VaultBench) -> None:
    key = vault.mint()
    vault.post(key, "/v1/charges", CHARGE, "key-1")
    other = vault.post(key, "/v1/charges", {**CHARGE, "amount": "9000"}, "key-1")
    assert other.code == "amount_changed"
    assert vault.money() == (0, 1000)


def test_a_lost_charge_is_found_by_its_mark(vault: VaultBench) -> None:
    key = vault.mint()
    vault.fault(Fault(FaultKind.RESET, Match(path="/v1/charges", count=1), acts=True))
    assert vault.post(key, "/v1/charges", CHARGE).status == 502
    assert vault.money() == (1000, 0)
    vault.resolve()
    assert (vault.money(), vault.moved_cents()) == ((0, 1000), 1000)


def test_absence_proves_nothing_for_a_day(vault: VaultBench) -> None:
    key = vault.mint()
    vault.fault(Fault(FaultKind.RESET, Match(path="/v1/charges", count=1), acts=False))
    assert vault.post(key, "/v1/charges", CHARGE).status == 502
    vault.resolve()
    assert vault.money() == (1000, 0)
    vault.let_hours_pass(26)
    vault.resolve()
    assert vault.money() == (0, 0)


def test_a_capture_is_counted_with_its_confirm(vault: VaultBench) -> None:
    key = vault.mint(daily_usd=10.0)
    payment_id = create(vault, key, capture_method="manual")
    assert confirm(vault, key, payment_id).document["status"] == "requires_capture"
    assert vault.money() == (1000, 0)
    path = f"/v1/payment_intents/{payment_id}/capture"
    more = vault.post(key, path, {"amount_to_capture": "1001"})
    assert more.code == "parameter_invalid"
    captured = vault.post(key, path, {"amount_to_capture": "700"})
    assert captured.status == 200
    assert (vault.money(), vault.moved_cents()) == ((0, 700), 700)


@pytest.mark.parametrize("change", ["revoked_at = now()", "expires_at = now()"])
def test_a_key_that_ends_between_the_look_and_the_hold(
    vault: VaultBench, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: what was revoked a moment ago counts nothing and forwards nothing."""
    key = vault.mint()
    find = vault.records.find_key

    def find_and_end(key_id: str) -> VaultKey | None:
        found = find(key_id)
        vault.execute(f"UPDATE chargeonce.vault_keys SET {change}")
        return found

    monkeypatch.setattr(vault.records, "find_key", find_and_end)
    assert vault.post(key, "/v1/charges", CHARGE).status == 401
    assert vault.get(key, "/v1/customers/cus_1").status == 401
    assert vault.upstream.sent == []
