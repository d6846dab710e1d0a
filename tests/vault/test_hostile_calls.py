"""Attempts to spend more than is counted that go on over several calls.

Each was found by attacking the proxy. The judge is the ledger, as in test_bypass.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from local.stripe_simulator import Fault, FaultKind, Match
from shared.ports import NoResponse, StripeResponse
from shared.vault.holds import GONE_AFTER_SECONDS
from shared.vault.ports import Effect, Proof
from tests.support.vault import CHARGE, VaultBench
from tests.vault.test_spending import CONFIRM, CREATE, confirm, create


def end_key(vault: VaultBench, change: str) -> None:
    """Revoke the only key, or let it expire."""
    vault.execute(f"UPDATE chargeonce.vault_keys SET {change}")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("revoked_at = now()", "vault_key_revoked"),
        ("expires_at = now() - interval '1 second'", "vault_key_expired"),
    ],
)
@pytest.mark.parametrize("outcome", ["held", "spent"])
def test_a_key_that_has_ended_replays_nothing(
    vault: VaultBench, change: str, code: str, outcome: str
) -> None:
    """Goal: also the payment that it has already been counted for goes no further."""
    key = vault.mint()
    payment_id = create(vault, key)
    if outcome == "held":
        vault.upstream.before = lambda method, path: NoResponse(sent=True, problem="read_timeout")
    confirm(vault, key, payment_id)
    vault.post(key, "/v1/charges", CHARGE, "key-1")
    vault.upstream.reset()
    end_key(vault, change)
    confirmed = confirm(vault, key, payment_id)
    charged = vault.post(key, "/v1/charges", CHARGE, "key-1")
    assert [(one.status, one.code) for one in (confirmed, charged)] == [(401, code)] * 2
    assert vault.upstream.sent == []


def test_a_key_revoked_between_reserve_and_forward(vault: VaultBench) -> None:
    """Goal: the call that was let pass is counted to its end, the next one is refused."""
    key = vault.mint()
    vault.upstream.before = lambda method, path: end_key(vault, "revoked_at = now()")
    assert vault.post(key, "/v1/charges", CHARGE).status == 200
    assert vault.post(key, "/v1/charges", CHARGE).status == 401
    assert (vault.money(), vault.moved_cents()) == ((0, 1000), 1000)


@pytest.mark.parametrize("kind", [FaultKind.RATE_LIMIT, FaultKind.KEY_IN_USE, FaultKind.FORBIDDEN])
def test_a_refused_confirm_gives_back_no_payment_in_processing(
    vault: VaultBench, kind: FaultKind
) -> None:
    """Goal: a bank debit stays counted, whatever is asked of its PaymentIntent meanwhile."""
    key = vault.mint(daily_usd=10.0)
    payment_id = process(vault, key)
    vault.fault(Fault(kind, Match(path="/v1/payment_intents/*/confirm", count=2)))
    assert [confirm(vault, key, payment_id).status >= 400 for _ in range(2)] == [True, True]
    assert vault.money() == (1000, 0)
    assert vault.post(key, "/v1/charges", CHARGE).code == "spend_cap_reached"
    vault.stripe.settle(payment_id)
    vault.resolve()
    assert (vault.money(), vault.moved_cents()) == ((0, 1000), 1000)


def lose_confirm(vault: VaultBench, key: str, payment_id: str) -> None:
    """Let a confirm be sent that never arrives, and nobody knows."""
    vault.upstream.before = lambda method, path: NoResponse(sent=True, problem="read_timeout")
    assert confirm(vault, key, payment_id).status == 502
    vault.upstream.reset()


def process(vault: VaultBench, key: str) -> str:
    """A PaymentIntent whose money is on its way."""
    payment_id = create(vault, key)
    answer = confirm(vault, key, payment_id, payment_method="pm_usBankAccount_success")
    assert answer.document["status"] == "processing", answer
    return payment_id


def test_an_old_look_gives_back_nothing(vault: VaultBench) -> None:
    """Goal: what Stripe said before a confirm was sent proves nothing about it."""
    key = vault.mint(daily_usd=10.0)
    payment_id = create(vault, key)
    lose_confirm(vault, key, payment_id)
    vault.let_hours_pass(26)
    vault.execute("UPDATE chargeonce.vault_payments SET due_at = now()")
    (hold,) = vault.records.take_due_holds(10, 600)
    failed = Proof(Effect.FAILED, payment_id)
    confirm(vault, key, payment_id, payment_method="pm_usBankAccount_success")
    vault.records.conclude(hold, failed, GONE_AFTER_SECONDS)
    assert vault.money() == (1000, 0)


def test_a_confirm_that_never_arrived_is_given_back_after_a_day(vault: VaultBench) -> None:
    """Goal: a hold that nobody comes back for ends without a human, and not too early."""
    key = vault.mint(daily_usd=10.0)
    payment_id = create(vault, key)
    lose_confirm(vault, key, payment_id)
    vault.let_hours_pass(24)
    vault.resolve()
    assert vault.money() == (1000, 0)
    vault.let_hours_pass(2)
    vault.resolve()
    assert vault.money() == (0, 0)
    assert confirm(vault, key, payment_id).status == 200
    assert (vault.money(), vault.moved_cents()) == ((0, 1000), 1000)


def test_no_answer_holds_what_confirms_past_the_proxy(vault: VaultBench) -> None:
    """Goal: with its client secret and the public key a browser confirms a PaymentIntent."""
    key = vault.mint()
    made = vault.post(key, "/v1/payment_intents", CREATE)
    payment_id = made.document["id"]
    declined = confirm(vault, key, payment_id, payment_method="pm_card_chargeDeclined")
    read = vault.get(key, f"/v1/payment_intents/{payment_id}")
    listed = vault.get(key, "/v1/payment_intents?limit=3")
    expanded = vault.get(key, "/v1/charges?expand[]=data.payment_intent")
    for answer in (made, declined, read, listed, expanded):
        assert f"{payment_id}_secret" not in str(answer.document)
    assert read.document["client_secret"] is None
    assert declined.document["error"]["payment_intent"]["status"] == "requires_payment_method"
    assert listed.document["data"][0]["id"] == payment_id


@pytest.mark.parametrize("call", ["", "/capture"])
def test_what_a_payment_is_recognised_by_stays(vault: VaultBench, call: str) -> None:
    """Goal: whoever holds a key cannot hide a payment from the rebuild, the audit or the proxy."""
    key = vault.mint()
    payment_id = create(vault, key)
    path = f"/v1/payment_intents/{payment_id}{call}"
    for name in ("metadata[chargeonce_key]", "metadata[vault_request]", "metadata"):
        assert vault.post(key, path, {name: ""}).code == "parameter_not_allowed"
    assert len(vault.upstream.sent) == 1


@pytest.mark.parametrize("path", ["/v1/charges", "confirm"])
def test_two_requests_with_one_idempotency_key_at_once(vault: VaultBench, path: str) -> None:
    """Goal: however the two fall together, one payment is made and counted once."""
    key = vault.mint(daily_usd=15.0)
    parameters = CHARGE
    if path == "confirm":
        path, parameters = f"/v1/payment_intents/{create(vault, key)}/confirm", CONFIRM
    start = threading.Barrier(8)

    def send(_: int) -> int:
        start.wait(20)
        return vault.post(key, path, parameters, "one-key").status

    with ThreadPoolExecutor(8) as pool:
        statuses = set(pool.map(send, range(8)))
    assert 200 in statuses
    assert statuses <= {200, 409}
    assert (vault.money(), vault.moved_cents()) == ((0, 1000), 1000)


@pytest.mark.parametrize("acts", [True, False])
def test_a_lost_request_sent_again_after_pruning(vault: VaultBench, acts: bool) -> None:
    """Goal: it makes a second payment, which is not taken for the first that nobody heard of."""
    key = vault.mint()
    vault.fault(Fault(FaultKind.RESET, Match(path="/v1/charges", count=1), acts=acts))
    assert vault.post(key, "/v1/charges", CHARGE, "key-1").status == 502
    vault.let_hours_pass(25)
    assert vault.post(key, "/v1/charges", CHARGE, "key-1").status == 200
    assert vault.money() == (1000, 1000)
    vault.resolve()
    assert (vault.money(), vault.moved_cents()) == ((0, 1000 + acts * 1000), 1000 + acts * 1000)


def test_an_amount_raised_elsewhere_after_a_decline(vault: VaultBench) -> None:
    """Goal: what was given back is read anew before it is confirmed again."""
    key = vault.mint(daily_usd=20.0)
    payment_id = create(vault, key)
    confirm(vault, key, payment_id, payment_method="pm_card_chargeDeclined")
    raised = vault.upstream.send("POST", f"/v1/payment_intents/{payment_id}", "amount=5000", {})
    assert isinstance(raised, StripeResponse)
    assert raised.status == 200
    assert confirm(vault, key, payment_id).code == "spend_cap_reached"
    assert (vault.money(), vault.moved_cents()) == ((0, 0), 0)


def test_a_replayed_create_counts_the_intent_that_it_made(vault: VaultBench) -> None:
    """Goal: money that moved meanwhile is found by a replay after a day, and counted once."""
    key = vault.mint()
    parameters = {**CREATE, "confirm": "true", "payment_method": "pm_card_chargeDeclined"}
    declined = vault.post(key, "/v1/payment_intents", parameters, "key-1")
    payment_id = declined.document["error"]["payment_intent"]["id"]
    assert vault.money() == (0, 0)
    assert confirm(vault, key, payment_id).status == 200
    vault.let_hours_pass(23.5)
    again = vault.post(key, "/v1/payment_intents", parameters, "key-1")
    assert again.status == 402
    assert (vault.money(), vault.moved_cents()) == ((0, 1000), 1000)
