"""Goal: each run has one live vault key, whoever mints, dies or is not answered; and a key never
lets a run pass its cap, nor blocks a charge that the cap allows.

Method: the real keeper over real PostgreSQL and the real proxy over HTTP.
"""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from cryptography.fernet import Fernet

from local.stripe_simulator import Fault, FaultKind, Match
from shared.errors import RecordsUnavailable, VaultUnavailable
from shared.outcome import Outcome
from shared.ports import StripeRequest, StripeResponse, WatchedRun
from shared.record import Flow
from shared.run_keys import KeyKeeper
from shared.sealing import FernetSeal
from shared.store.run_keys import PostgresRunKeys
from shared.vault.catalogue import ENDPOINTS_OF_FLOW, ONE_STEP_ENDPOINTS, TWO_STEP_ENDPOINTS
from shared.vault.client import VaultClient
from tests.support.bench import CAP_CENTS, PERIOD, RULES, Killed, at_once
from tests.support.run_keys import LABEL, ProxiedBench
from tests.support.vault import ADMIN_TOKEN, CHARGE

ROUNDS = 100
AMOUNT_CENTS = 5000


class Perilous:
    """A port whose calls get lost, before or after they are done, and whose caller may die there.

    Args:
        port: what does the work.
        chance: decides.
        lost: what the caller is told of a call that got lost.
    """

    def __init__(self, port: object, chance: random.Random, lost: Exception) -> None:
        self._port = port
        self._chance = chance
        self._lost = lost

    def __getattr__(self, name: str) -> Callable[..., Any]:
        actual = getattr(self._port, name)

        def call(*arguments: Any) -> Any:
            self._strike()
            answer = actual(*arguments)
            self._strike()
            return answer

        return call

    def _strike(self) -> None:
        drawn = self._chance.random()
        if drawn < 0.05:
            raise Killed
        if drawn < 0.10:
            raise self._lost


def fire(keeper: KeyKeeper) -> Callable[[], None]:
    """A timer that fires, in a process that may die."""

    def run() -> None:
        try:
            keeper.keep()
        except (Killed, RecordsUnavailable):
            return

    return run


def test_both_timers_in_one_second(proxied: ProxiedBench) -> None:
    """Goal: lost answers and deaths at any step leave one live key, and it is the stored one.

    Method: something asks for another key each round, both clouds' timers fire at one instant
    over ports that fail, and then one fires in peace.
    """
    chance = random.Random(5)
    others = [(PostgresRunKeys(proxied.vault.database_url), new_client(proxied)) for _ in range(2)]
    try:
        for number in range(ROUNDS):
            proxied.vault.restart_admin()
            proxied.bench.store.raise_cap(PERIOD, CAP_CENTS + number + 1)
            at_once(*(fire(perilous(proxied, chance, *ports)) for ports in others))
            assert proxied.keeper().keep()
            assert_one_live_key(proxied)
    finally:
        for keys, service in others:
            keys.close()
            service.close()


def new_client(proxied: ProxiedBench) -> VaultClient:
    """A connection of one timer's own."""
    return VaultClient(proxied.proxy_url, ADMIN_TOKEN)


def perilous(
    proxied: ProxiedBench, chance: random.Random, keys: PostgresRunKeys, service: VaultClient
) -> KeyKeeper:
    """A timer over ports that fail."""
    own_chance = random.Random(chance.random())
    return proxied.keeper(
        Perilous(service, own_chance, VaultUnavailable("lost")),
        Perilous(keys, own_chance, RecordsUnavailable("lost")),
    )


def assert_one_live_key(proxied: ProxiedBench) -> None:
    """One key works at the proxy, and consumers are handed that one."""
    assert len(proxied.live_keys()) == 1
    assert proxied.vault.get(proxied.stored_text(), "/v1/account").status == 200


STEPS = [
    (port, method, side)
    for port, method in (
        ("keys", "begin_key"),
        ("service", "list_keys"),
        ("keys", "forget_key"),
        ("service", "revoke"),
        ("service", "mint"),
        ("keys", "store_key"),
    )
    for side in ("before", "after")
]


class DyingAt:
    """A port whose caller dies at its first call of one method."""

    def __init__(self, port: object, method: str, side: str) -> None:
        self._port = port
        self._method = method
        self._side = side
        self.has_died = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        actual: Callable[..., Any] = getattr(self._port, name)
        if name != self._method:
            return actual

        def die(*arguments: Any) -> None:
            self.has_died = True
            if self._side == "after":
                actual(*arguments)
            raise Killed

        return die


@pytest.mark.parametrize(("port", "method", "side"), STEPS)
def test_killed_at_each_step_of_a_replacement(
    proxied: ProxiedBench, port: str, method: str, side: str
) -> None:
    """Goal: the next firing finds what the dead one began, and no key outlives it."""
    proxied.keeper().keep()
    first = proxied.stored_text()
    proxied.bench.store.raise_cap(PERIOD, CAP_CENTS + 1)
    dying = DyingAt(getattr(proxied, port), method, side)
    ports: dict[str, Any] = {port: dying}
    proxied.bench.die(proxied.keeper(**ports).keep)
    assert dying.has_died
    assert proxied.keeper().keep()
    assert_one_live_key(proxied)
    assert proxied.vault.get(first, "/v1/account").status == 401


class Tapped:
    """A port with something that happens before its calls.

    Args:
        port: does the work.
        before: by the name of the method.
    """

    def __init__(self, port: object, **before: Callable[[], object]) -> None:
        self._port = port
        self._before = before

    def __getattr__(self, name: str) -> Any:
        if name in self._before:
            self._before.pop(name)()
        return getattr(self._port, name)


def test_who_is_overtaken_while_minting_leaves_no_key(proxied: ProxiedBench) -> None:
    """Goal: the loser revokes its own key at once: the winner had listed the keys before."""
    overtaken = Tapped(proxied.service, mint=lambda: proxied.keeper().keep())
    assert proxied.keeper(service=overtaken).keep()
    assert_one_live_key(proxied)


def test_who_looks_for_orphans_leaves_a_key_alone_that_is_being_stored(
    proxied: ProxiedBench,
) -> None:
    """Goal: a key that another timer has minted and not stored yet is not taken for an orphan."""
    proxied.keeper().keep()
    seen = proxied.keys.watch_runs()

    class SeenBefore(Tapped):
        def watch_runs(self) -> Sequence[WatchedRun]:
            return seen

    late = proxied.keeper(keys=SeenBefore(proxied.keys))
    proxied.let_key_hours_pass(3.1)
    minting = Tapped(proxied.keys, store_key=late.keep)
    assert proxied.keeper(keys=minting).keep()
    assert_one_live_key(proxied)


def test_a_key_that_nobody_stored_is_revoked(proxied: ProxiedBench) -> None:
    """Goal: an answer to a mint that was lost after a key was stored leaves no live orphan."""
    proxied.keeper().keep()
    stored = proxied.stored_text()
    orphan = proxied.vault.mint(label=LABEL)
    elsewhere = proxied.vault.mint(label="somebody-else")
    assert proxied.keeper().keep()
    assert proxied.vault.get(orphan, "/v1/account").status == 401
    assert proxied.vault.get(elsewhere, "/v1/account").status == 200
    assert proxied.stored_text() == stored
    assert_one_live_key(proxied)


def expire_soon(proxied: ProxiedBench) -> None:
    """Let half of the key's time be over."""
    proxied.let_key_hours_pass(3.1)


def raise_cap(proxied: ProxiedBench) -> None:
    """As an operator does."""
    proxied.bench.store.raise_cap(PERIOD, CAP_CENTS + 1)


def refuse(proxied: ProxiedBench) -> None:
    """Somebody revokes the key, and a consumer is told."""
    (key,) = proxied.live_keys()
    proxied.service.revoke(key.key_id)
    assert proxied.bench.deliver(proxied.biller()) is Outcome.TRANSIENT


@pytest.mark.parametrize("reason", [expire_soon, raise_cap, refuse])
def test_what_replaces_a_key(proxied: ProxiedBench, reason: Callable[[ProxiedBench], None]) -> None:
    """Goal: a key is replaced ahead of time, the old one revoked; and left alone otherwise."""
    proxied.keeper().keep()
    first = proxied.stored_text()
    assert proxied.keeper().keep()
    assert proxied.stored_text() == first
    reason(proxied)
    assert proxied.keeper().keep()
    assert proxied.stored_text() != first
    assert proxied.vault.get(first, "/v1/account").status == 401
    assert_one_live_key(proxied)
    assert proxied.bench.deliver(proxied.biller()) is Outcome.CHARGED
    proxied.bench.assert_charged_once()


def test_a_flow_that_the_key_does_not_serve_replaces_it(proxied: ProxiedBench) -> None:
    """Goal: a key calls exactly what the flows in use need, old records' flow as well."""
    proxied.keeper().keep()
    assert endpoints(proxied) == [TWO_STEP_ENDPOINTS]
    leave_in_doubt(proxied)
    proxied.keeper(flow=Flow.CHARGE).keep()
    both = dict.fromkeys((*TWO_STEP_ENDPOINTS, *ONE_STEP_ENDPOINTS))
    assert endpoints(proxied) == [tuple(both)]
    assert set(both) == {path for paths in ENDPOINTS_OF_FLOW.values() for path in paths}


def leave_in_doubt(proxied: ProxiedBench) -> None:
    """Charge the first customer; the answer and every look at what became of it are lost."""
    confirm, look = "/v1/payment_intents/*/confirm", "/v1/payment_intents/*"
    proxied.vault.fault(Fault(FaultKind.RESET, Match(path=confirm, count=1), acts=True))
    proxied.vault.fault(Fault(FaultKind.RESET, Match(method="GET", path=look)))
    assert deliver(proxied, 1) is Outcome.IN_DOUBT
    proxied.vault.stripe.clear_faults()


def endpoints(proxied: ProxiedBench) -> Sequence[tuple[str, ...]]:
    """What the live keys may call."""
    live = {key.key_id for key in proxied.live_keys()}
    return [
        key.allowed_endpoints
        for key in proxied.vault.records.list_keys(LABEL, 100)
        if key.key_id in live
    ]


def test_another_encryption_key(proxied: ProxiedBench) -> None:
    """Goal: encryption keys are rotated without a gap; a key that nobody can open is replaced."""
    proxied.keeper().keep()
    first = proxied.stored_text()
    new_key = Fernet.generate_key().decode()
    both = FernetSeal([new_key, proxied.encryption_key])
    assert proxied.keeper(seal=both).keep()
    assert proxied.stored_text() == first
    assert proxied.keeper(seal=FernetSeal([new_key])).keep()
    assert proxied.bench.deliver(proxied.biller()) is Outcome.TRANSIENT
    assert len(proxied.live_keys()) == 1


def test_a_run_keeps_its_key_until_its_last_record_is_final(proxied: ProxiedBench) -> None:
    """Goal: closed or not; and then the key is revoked."""
    proxied.keeper().keep()
    leave_in_doubt(proxied)
    proxied.bench.store.close_run(PERIOD, "test")
    assert proxied.keeper().keep()
    assert_one_live_key(proxied)
    proxied.bench.reconcile(proxied.biller())
    proxied.bench.assert_charged_once()
    assert proxied.keeper().keep()
    assert proxied.live_keys() == []


def test_a_run_in_another_currency_gets_no_key(
    proxied: ProxiedBench, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal: a cap in dollars does not pretend to count yen."""
    proxied.bench.store.open_run("2026-12", "jpy", 1000, 1000)
    assert not proxied.keeper().keep()
    assert "JPY" in caplog.text
    assert proxied.live_keys(f"{RULES.key_namespace}-2026-12") == []
    assert_one_live_key(proxied)


def test_rotation_lets_nobody_pass_the_runs_cap(proxied: ProxiedBench) -> None:
    """Goal: who has every key that a run ever had cannot spend more than its cap with them.

    Method: a rogue spends under each key, sometimes without an answer, while the keys are
    replaced; what it holds at the proxy is resolved in between, or not. With the last key it
    spends until it is refused.
    """
    chance, text = random.Random(7), ""
    for number in range(8):
        proxied.vault.restart_admin()
        proxied.bench.store.raise_cap(PERIOD, CAP_CENTS + number)
        if chance.random() < 0.3:
            proxied.vault.resolve()
        proxied.keeper(flow=Flow.CHARGE).keep()
        text = proxied.stored_text()
        reset = FaultKind.RESET, Match(path="/v1/charges", count=1)
        proxied.vault.fault(Fault(*reset, acts=chance.random() < 0.5))
        for _ in range(2):
            spend(proxied, text, chance.randint(10_000, 70_000))
        assert proxied.vault.moved_cents() <= CAP_CENTS + number
    while spend(proxied, text, 50_000) == 200:
        assert proxied.vault.moved_cents() <= CAP_CENTS + 7
    assert proxied.vault.moved_cents() > CAP_CENTS / 2


def spend(proxied: ProxiedBench, text: str, amount_cents: int) -> int:
    """Charge with a key directly; the status."""
    return proxied.vault.post(text, "/v1/charges", {**CHARGE, "amount": str(amount_cents)}).status


def test_a_hold_at_the_proxy_parks_nothing_that_the_cap_allows(proxied: ProxiedBench) -> None:
    """Goal: a key with less than the run has left is no verdict: the message waits for the next.

    Method: somebody confirms with the run's key and is not answered, so that the proxy holds the
    amount for a day. The key is replaced meanwhile, and has that much less.
    """
    proxied.bench.execute(f"UPDATE chargeonce.runs SET cap_cents = {2 * AMOUNT_CENTS}")
    proxied.keeper().keep()
    stray = {"amount": str(AMOUNT_CENTS), "currency": "usd", "customer": "cus_1"}
    text = proxied.stored_text()
    intent = proxied.vault.post(text, "/v1/payment_intents", stray).document["id"]
    confirm = f"/v1/payment_intents/{intent}/confirm"
    proxied.vault.fault(Fault(FaultKind.RESET, Match(path=confirm, count=1), acts=False))
    assert proxied.vault.post(text, confirm, {"payment_method": "pm_card_visa"}).status == 502
    proxied.let_key_hours_pass(3.1)
    proxied.keeper().keep()
    assert [deliver(proxied, number) for number in (1, 2)] == [Outcome.CHARGED, Outcome.TRANSIENT]
    proxied.vault.let_hours_pass(25)
    proxied.vault.resolve()
    proxied.keeper().keep()
    proxied.bench.lapse_leases()
    assert deliver(proxied, 2) is Outcome.CHARGED
    proxied.bench.assert_run(held=0, charged=2 * AMOUNT_CENTS)


def test_a_replaced_key_blocks_no_charge_that_the_cap_allows(proxied: ProxiedBench) -> None:
    """Goal: what the proxy holds under an old key is not taken from what the run has left for good.

    Method: the run's cap is exactly what its customers owe. One confirm acts and its answer is
    lost, so its amount is held under the first key; the key is replaced while it is.
    """
    owed_cents = 3 * AMOUNT_CENTS
    proxied.bench.execute(f"UPDATE chargeonce.runs SET cap_cents = {owed_cents}")
    proxied.keeper().keep()
    leave_in_doubt(proxied)
    proxied.let_key_hours_pass(3.1)
    proxied.keeper().keep()
    outcomes = [deliver(proxied, number) for number in (1, 2, 3)]
    assert outcomes.count(Outcome.CHARGED) >= 2
    proxied.vault.resolve()
    proxied.keeper().keep()
    proxied.bench.lapse_leases()
    assert [deliver(proxied, number) for number in (1, 2, 3)] == [Outcome.CHARGED] * 3
    assert proxied.vault.moved_cents() == owed_cents
    proxied.bench.assert_run(held=0, charged=owed_cents)


def deliver(proxied: ProxiedBench, number: int) -> Outcome:
    """Bill one of the customers."""
    customer_id, message_id = f"customer-{number}", f"message-{number}"
    return proxied.bench.deliver(proxied.biller(), customer_id=customer_id, message_id=message_id)


def test_a_key_that_the_proxy_refuses_charges_nobody_and_loses_nothing(
    proxied: ProxiedBench,
) -> None:
    """Goal: revoked in flight, between create and confirm: left, replaced, charged once."""
    proxied.keeper().keep()
    (key,) = proxied.live_keys()
    sent: list[str] = []

    def revoke_before_confirm(_: str, path: str) -> None:
        sent.append(path)
        if path == "/v1/payment_intents":
            proxied.service.revoke(key.key_id)

    proxied.vault.upstream.before = revoke_before_confirm
    assert proxied.bench.deliver(proxied.biller()) is Outcome.TRANSIENT
    assert not any(path.endswith("/confirm") for path in sent)
    assert proxied.vault.charges() == []
    proxied.vault.upstream.before = None
    assert proxied.keeper().keep()
    proxied.bench.lapse_leases()
    assert proxied.bench.deliver(proxied.biller()) is Outcome.CHARGED
    proxied.bench.assert_charged_once()


HOSTED_CAP = {"error": "Daily spend cap of $50 reached", "spent_today_usd": 49.5}
HOSTED_ENDPOINT = {"error": "endpoint not allowed", "allowed_endpoints": [], "attempted": "/v1"}
OUR_CAP = {"error": {"type": "invalid_request_error", "code": "spend_cap_reached"}}
OUR_ENDPOINT = {"error": {"type": "invalid_request_error", "code": "endpoint_not_allowed"}}
OUR_KEY = {"error": {"type": "invalid_request_error", "code": "vault_key_revoked"}}


@pytest.mark.parametrize(
    ("status", "document", "outcome", "is_refused"),
    [
        pytest.param(401, OUR_KEY, Outcome.TRANSIENT, True, id="our 401"),
        pytest.param(401, {"error": "expired"}, Outcome.TRANSIENT, True, id="a hosted 401"),
        pytest.param(403, OUR_ENDPOINT, Outcome.TRANSIENT, False, id="our 403"),
        pytest.param(403, HOSTED_ENDPOINT, Outcome.TRANSIENT, False, id="a hosted 403"),
        pytest.param(429, OUR_CAP, Outcome.CAP_REACHED, False, id="our 429"),
        pytest.param(429, HOSTED_CAP, Outcome.CAP_REACHED, False, id="a hosted 429"),
    ],
)
def test_refusals_in_either_shape(
    proxied: ProxiedBench, status: int, document: object, outcome: Outcome, is_refused: bool
) -> None:
    """Goal: the confirm is refused: nothing moved, nothing is lost, a refused key is replaced."""
    proxied.keeper().keep()
    refusal = StripeResponse(status, {}, json.dumps(document).encode())

    def refuse(request: StripeRequest) -> StripeResponse | None:
        return refusal if request.path.endswith("/confirm") else None

    assert proxied.bench.deliver(proxied.biller(refuse)) is outcome
    proxied.bench.assert_nothing_charged(held=0 if outcome is Outcome.CAP_REACHED else AMOUNT_CENTS)
    (run,) = proxied.keys.watch_runs()
    assert (run.refused_at is not None) is is_refused
    proxied.keeper().keep()
    proxied.bench.lapse_leases()
    assert proxied.bench.deliver(proxied.biller()) is Outcome.CHARGED
    proxied.bench.assert_charged_once()


def test_without_a_key_the_message_waits(proxied: ProxiedBench) -> None:
    """Goal: nothing leaves without a vault key, and nothing is lost until the timer mints one."""
    assert proxied.bench.deliver(proxied.biller()) is Outcome.TRANSIENT
    assert proxied.vault.upstream.sent == []
    proxied.keeper().keep()
    assert proxied.bench.deliver(proxied.biller()) is Outcome.CHARGED
    proxied.bench.assert_charged_once()
