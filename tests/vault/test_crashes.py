"""Goal: wherever the proxy dies, no money goes uncounted, and its holds resolve by themselves."""

import pytest

from shared.errors import RecordsUnavailable
from tests.support.vault import CHARGE, VaultBench
from tests.vault.test_spending import CONFIRM, CREATE


class Died(BaseException):
    """Stands in for the death of the process."""


def die(method: str, path: str) -> None:
    """Die at the request that moves money."""
    if method == "POST" and not path.endswith("/payment_intents"):
        raise Died


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("flow", ["charge", "payment_intent"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_died_around_the_request(vault: VaultBench, flow: str, moment: str) -> None:
    key = vault.mint(daily_usd=10.0)
    path, parameters = "/v1/charges", CHARGE
    if flow == "payment_intent":
        made = vault.post(key, "/v1/payment_intents", CREATE).document["id"]
        path, parameters = f"/v1/payment_intents/{made}/confirm", CONFIRM
    setattr(vault.upstream, moment, die)
    with pytest.raises(ConnectionError):
        vault.post(key, path, parameters, "key-1")
    setattr(vault.upstream, moment, None)
    assert vault.money() == (1000, 0)
    assert vault.post(key, "/v1/charges", CHARGE).code == "spend_cap_reached"
    vault.resolve()
    moved = 1000 if moment == "after" else 0
    assert vault.moved_cents() == moved
    assert vault.money() == (1000 - moved, moved)
    assert vault.post(key, path, parameters, "key-1").status in (200, 400)
    assert (vault.money(), vault.moved_cents()) == ((0, 1000), 1000)


def test_the_answer_is_the_callers_though_it_cannot_be_written(
    vault: VaultBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = vault.mint()

    def fail(*arguments: object) -> None:
        raise RecordsUnavailable("gone")

    with monkeypatch.context() as patched:
        patched.setattr(vault.records, "settle", fail)
        assert vault.post(key, "/v1/charges", CHARGE).status == 200
    assert vault.money() == (1000, 0)
    vault.resolve()
    assert (vault.money(), vault.moved_cents()) == ((0, 1000), 1000)


@pytest.mark.parametrize("call", ["find_key", "admit"])
def test_closed_while_the_database_is_away(
    vault: VaultBench, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    key = vault.mint()

    def fail(*arguments: object) -> None:
        raise RecordsUnavailable("gone")

    monkeypatch.setattr(vault.records, call, fail)
    answer = vault.post(key, "/v1/charges", CHARGE)
    assert (answer.status, answer.code) == (503, "vault_unavailable")
    assert vault.upstream.sent == []


def test_proof_of_money_counts_past_the_cap(vault: VaultBench) -> None:
    """A hold that was given up wrongly by hand, and then the truth."""
    key = vault.mint(daily_usd=10.0)
    made = vault.post(key, "/v1/payment_intents", CREATE).document["id"]
    assert vault.post(key, f"/v1/payment_intents/{made}/confirm", CONFIRM).status == 200
    vault.execute(
        "UPDATE chargeonce.vault_payments SET state = 'released'; "
        "UPDATE chargeonce.vault_keys SET spent_cents = 0, day_cents = 0"
    )
    assert vault.post(key, "/v1/charges", CHARGE).status == 200
    assert vault.get(key, f"/v1/payment_intents/{made}").status == 200
    assert (vault.money(), vault.moved_cents()) == ((0, 2000), 2000)
