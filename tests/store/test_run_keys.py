"""The vault keys of the runs, in both stores."""

from datetime import timedelta

import pytest

from shared.ports import RunMoney, StoredKey, WatchedRun
from shared.record import Flow, State
from tests.support.store import AMOUNT_CENTS, CAP_CENTS, PERIOD, StoreUnderTest


def watched(stores: StoreUnderTest) -> WatchedRun:
    """The usual run, which must be watched."""
    (run,) = stores.run_keys.watch_runs()
    assert run.billing_period == PERIOD
    return run


def key_of(stores: StoreUnderTest, key_id: str = "key-1", **changes: object) -> StoredKey:
    """A key of six hours."""
    now = watched(stores).database_time
    fields = {
        "key_id": key_id,
        "sealed_text": f"sealed {key_id}",
        "flows": frozenset({Flow.PAYMENT_INTENT}),
        "run_cap_cents": CAP_CENTS,
        "is_whole": True,
        "minted_at": now,
        "expires_at": now + timedelta(hours=6),
        **changes,
    }
    return StoredKey(**fields)  # type: ignore[arg-type]


def store(stores: StoreUnderTest, key_id: str = "key-1", **changes: object) -> int:
    """Store a key as whoever mints it does; the generation."""
    begun = stores.run_keys.begin_key(PERIOD, watched(stores).generation)
    assert begun is not None
    key = key_of(stores, key_id, **changes)
    assert stores.run_keys.store_key(PERIOD, begun.generation, key)
    return begun.generation


def test_a_claim_comes_with_its_runs_key(billing: StoreUnderTest) -> None:
    """Goal: consumers have the key without another round trip."""
    assert billing.claim("before").vault_key is None
    store(billing)
    key = billing.claim("after").vault_key
    assert key is not None
    assert (key.key_id, key.sealed_text, key.is_whole) == ("key-1", "sealed key-1", True)
    refused = billing.claim("third", amount_cents=CAP_CENTS)
    assert (refused.verdict, refused.vault_key) == ("cap_reached", None)


def test_a_resumed_record_comes_with_its_runs_key(billing: StoreUnderTest) -> None:
    """Goal: reconcile has it as well."""
    billing.release(billing.claimed())
    store(billing)
    key = billing.resume().vault_key
    assert key is not None
    assert key.key_id == "key-1"


def test_a_key_that_expired_is_handed_out_no_more(billing: StoreUnderTest) -> None:
    """Goal: a key that the proxy refuses anyway is a missing one."""
    now = watched(billing).database_time
    store(billing, expires_at=now - timedelta(seconds=1))
    assert billing.claim().vault_key is None
    assert billing.run_keys.any_key() is None


def test_a_key_older_than_a_raised_cap_is_not_whole(billing: StoreUnderTest) -> None:
    """Goal: what it refuses, the run's cap may allow."""
    store(billing)
    billing.store.raise_cap(PERIOD, CAP_CENTS + 1)
    key = billing.claim().vault_key
    assert key is not None
    assert not key.is_whole


def test_only_the_latest_generation_is_stored(billing: StoreUnderTest) -> None:
    """Goal: of two who mint at once one stores, and who was overtaken stores nothing."""
    seen = watched(billing).generation
    first = billing.run_keys.begin_key(PERIOD, seen)
    assert first is not None
    assert billing.run_keys.begin_key(PERIOD, seen) is None
    second = billing.run_keys.begin_key(PERIOD, first.generation)
    assert second is not None
    assert billing.run_keys.forget_key(PERIOD, first.generation) is None
    assert not billing.run_keys.store_key(PERIOD, first.generation, key_of(billing, "key-1"))
    assert billing.run_keys.store_key(PERIOD, second.generation, key_of(billing, "key-2"))
    key = watched(billing).key
    assert key is not None
    assert key.key_id == "key-2"


def test_whoever_begins_learns_what_was_stored_until_then(billing: StoreUnderTest) -> None:
    """Goal: the key to revoke is the one that is stored now, not the one that was seen before."""
    generation = store(billing)
    begun = billing.run_keys.begin_key(PERIOD, generation)
    assert begun is not None
    assert begun.key_id == "key-1"


def test_a_forgotten_key_is_handed_out_no_more(billing: StoreUnderTest) -> None:
    """Goal: nobody uses a revoked key; and what its successor may spend is read then."""
    generation = store(billing)
    billing.finish(billing.claimed(), State.CHARGED)
    billing.claimed("held")
    money = billing.run_keys.forget_key(PERIOD, generation)
    assert money == RunMoney(CAP_CENTS, AMOUNT_CENTS)
    assert watched(billing).key is None
    assert billing.resume("held").vault_key is None
    assert billing.run_keys.any_key() is None
    # It must still be revoked by whoever begins after one who was killed here.
    begun = billing.run_keys.begin_key(PERIOD, generation)
    assert begun is not None
    assert begun.key_id == "key-1"


def test_a_refusal_is_noted_of_the_key_that_was_refused(billing: StoreUnderTest) -> None:
    """Goal: a late refusal of the key before does not replace the one that works."""
    store(billing)
    store(billing, "key-2")
    billing.run_keys.refuse_key(PERIOD, "key-1")
    assert watched(billing).refused_at is None
    billing.run_keys.refuse_key(PERIOD, "key-2")
    assert watched(billing).refused_at is not None
    store(billing, "key-3")
    assert watched(billing).refused_at is None


def test_a_run_needs_a_key_until_its_last_record_is_final(billing: StoreUnderTest) -> None:
    """Goal: closing a run takes the key from nobody who has still to finish."""
    record = billing.claimed()
    billing.store.close_run(PERIOD, "test")
    assert watched(billing).is_wanted
    assert watched(billing).unfinished_flows == {Flow.PAYMENT_INTENT}
    billing.finish(record, State.CHARGED)
    assert billing.run_keys.watch_runs() == []


def test_a_run_that_is_done_with_is_watched_while_it_has_a_key(billing: StoreUnderTest) -> None:
    """Goal: its key is revoked rather than left to run out."""
    store(billing)
    billing.store.close_run(PERIOD, "test")
    run = watched(billing)
    assert not run.is_wanted
    assert run.key is not None


@pytest.mark.parametrize("flow", list(Flow))
def test_unfinished_records_name_their_flows(billing: StoreUnderTest, flow: Flow) -> None:
    """Goal: a record keeps its flow, whatever the settings say by now."""
    billing.claimed(flow=flow)
    assert watched(billing).unfinished_flows == {flow}


def test_what_was_lost_is_searched_with_a_key(billing: StoreUnderTest) -> None:
    """Goal: the rebuild and the sweep can read Stripe, although the run is closed."""
    record = billing.claimed()
    billing.release(record, doubt=True, create_in_doubt=True)
    assert watched(billing).is_searched
    billing.finish(billing.claimed("other"), State.CHARGED)
    billing.store.close_run(PERIOD, "test")
    billing.suspend()
    assert watched(billing).is_wanted
    assert watched(billing).is_searched


def test_stripe_is_read_with_the_key_that_may_call_most(billing: StoreUnderTest) -> None:
    """Goal: what is done beside the deliveries has a key, and rather one that is not refused."""
    store(billing, flows=frozenset(Flow))
    billing.store.open_run("2026-12", "usd", 1, CAP_CENTS)
    begun = billing.run_keys.begin_key("2026-12", 0)
    assert begun is not None
    run = next(each for each in billing.run_keys.watch_runs() if each.billing_period == PERIOD)
    assert run.key is not None
    later = StoredKey(
        "key-2",
        "sealed key-2",
        frozenset({Flow.CHARGE}),
        CAP_CENTS,
        True,
        run.key.minted_at + timedelta(seconds=1),
        run.key.expires_at,
    )
    assert billing.run_keys.store_key("2026-12", begun.generation, later)
    key = billing.run_keys.any_key()
    assert key is not None
    assert key.key_id == "key-1"
    billing.run_keys.refuse_key(PERIOD, "key-1")
    key = billing.run_keys.any_key()
    assert key is not None
    assert key.key_id == "key-2"
