"""A database that lost commits, on both stores: suspended until it was rebuilt, and no longer."""

from dataclasses import replace
from datetime import datetime, timedelta

from shared.ports import ClaimVerdict, Rebuild
from shared.record import State
from tests.support.bench import at_once
from tests.support.store import PERIOD, PostgresUnderTest, StoreUnderTest

MARGIN_SECONDS = 100.0
LIST = "/v1/payment_intents"


def begin(stores: StoreUnderTest, told_since: datetime | None = None) -> Rebuild:
    """Begin a rebuild, or go on with one."""
    rebuild = stores.store.begin_rebuild(told_since, MARGIN_SECONDS)
    assert rebuild is not None
    return rebuild


def last_claim_at(stores: StoreUnderTest) -> datetime:
    """When the last claim was granted."""
    return [line.noted_at for line in stores.attempts() if line.decision == "claimed"][-1]


def test_a_whole_database_has_nothing_to_rebuild(billing: StoreUnderTest) -> None:
    assert billing.store.begin_rebuild(None, MARGIN_SECONDS) is None


def test_a_rebuild_looks_back_past_the_last_granted_claim(billing: StoreUnderTest) -> None:
    """Goal: lines that are younger than the loss do not hide what was lost.

    A suspended database notes deliveries all the same, and records endings.
    """
    record = billing.claimed()
    before = last_claim_at(billing)
    billing.suspend()
    billing.claim("customer-2")
    billing.finish(record, State.CHARGED)
    rebuild = begin(billing)
    assert rebuild.since == before - timedelta(seconds=MARGIN_SECONDS)
    assert (rebuild.list_path, rebuild.cursor) == (None, None)
    assert timedelta(0) <= rebuild.database_time - rebuild.noticed_at < timedelta(seconds=60)


def test_without_any_claim_it_looks_back_to_the_beginning(billing: StoreUnderTest) -> None:
    billing.pass_time(1)
    billing.suspend()
    assert begin(billing).since < begin(billing).noticed_at - timedelta(seconds=MARGIN_SECONDS)


def test_a_rebuild_goes_on_where_it_was(billing: StoreUnderTest) -> None:
    billing.claimed()
    billing.suspend()
    begun = begin(billing)
    billing.store.note_rebuild_place(begun, LIST, "pi_9")
    resumed = begin(billing)
    assert resumed == replace(
        begun, list_path=LIST, cursor="pi_9", database_time=resumed.database_time
    )


def test_a_rebuilt_database_charges_again(billing: StoreUnderTest) -> None:
    billing.suspend()
    assert billing.store.finish_rebuild(begin(billing))
    assert billing.store.begin_rebuild(None, MARGIN_SECONDS) is None
    assert billing.claim().verdict is ClaimVerdict.CLAIMED


def test_only_one_of_two_finishes_it(billing: StoreUnderTest) -> None:
    billing.suspend()
    rebuild = begin(billing)
    assert billing.store.finish_rebuild(rebuild)
    assert not billing.store.finish_rebuild(rebuild)


def test_another_failover_in_the_middle_begins_anew(billing: StoreUnderTest) -> None:
    """Goal: what was adopted may be lost again, so nothing that was read counts."""
    billing.claimed()
    billing.suspend()
    first = begin(billing)
    billing.store.note_rebuild_place(first, LIST, "pi_9")
    billing.fail_over()
    assert not billing.store.finish_rebuild(first)
    assert billing.claim("customer-2").verdict is ClaimVerdict.SUSPENDED
    second = begin(billing)
    assert second.since == first.since
    assert (second.list_path, second.cursor) == (None, None)
    assert second.noticed_at >= first.noticed_at
    billing.store.note_rebuild_place(first, LIST, "pi_9")
    assert begin(billing).cursor is None
    assert not billing.store.finish_rebuild(first)
    assert billing.store.finish_rebuild(second)


def test_a_failover_that_nobody_noticed_yet_is_not_swallowed(postgres: PostgresUnderTest) -> None:
    """Goal: the present timeline is what counts, not the one that the row says."""
    postgres.suspend()
    rebuild = begin(postgres)
    postgres.fail_over()
    rebuild = replace(rebuild, history=f"before {rebuild.history}")
    assert not postgres.store.finish_rebuild(rebuild)


def test_a_number_that_was_given_twice_is_no_other_rebuild(postgres: PostgresUnderTest) -> None:
    """Goal: a runner of a rebuild that the database lost does not finish its namesake."""
    postgres.suspend()
    rebuild = begin(postgres)
    assert not postgres.store.finish_rebuild(replace(rebuild, history="1:00000001"))


def test_an_operator_may_tell_of_a_loss(billing: StoreUnderTest) -> None:
    """Goal: a restore that kept the timeline suspends too, and looks back as far as was told."""
    billing.claimed()
    told = last_claim_at(billing) - timedelta(days=2)
    rebuild = begin(billing, told)
    assert billing.claim("customer-2").verdict is ClaimVerdict.SUSPENDED
    assert rebuild.since == told - timedelta(seconds=MARGIN_SECONDS)
    assert begin(billing).id == rebuild.id
    assert billing.store.finish_rebuild(rebuild)
    assert billing.claim("customer-2").verdict is ClaimVerdict.CLAIMED


def test_who_tells_too_late_a_moment_loses_nothing(billing: StoreUnderTest) -> None:
    """Goal: what the database itself says, and an unfinished rebuild, go further back."""
    billing.finish(billing.claimed(), State.CHARGED, "pi_1")
    last = last_claim_at(billing)
    first = begin(billing, last - timedelta(days=2))
    second = begin(billing, last + timedelta(days=2))
    assert second.id != first.id
    assert second.since == first.since
    assert not billing.store.finish_rebuild(first)
    assert billing.store.finish_rebuild(second)
    third = begin(billing, last + timedelta(days=2))
    assert third.since == last - timedelta(seconds=MARGIN_SECONDS)


def test_an_attempt_whose_payment_is_not_known_goes_further_back(billing: StoreUnderTest) -> None:
    """Goal: its create, sent again, may have brought back a payment from when it began."""
    billing.store.raise_cap(PERIOD, 1_000_000)
    unnamed = billing.claimed()
    named = billing.claimed("customer-2")
    billing.store.store_payment(named.lease, "pi_2")
    billing.finish(billing.claimed("customer-3"), State.CHARGED, "pi_3")
    rebuild = begin(billing, last_claim_at(billing) + timedelta(days=2))
    assert rebuild.since == unnamed.attempt_started_at - timedelta(seconds=MARGIN_SECONDS)


def test_two_that_notice_at_once_begin_one(postgres: PostgresUnderTest) -> None:
    postgres.suspend()
    at_once(*[lambda: begin(postgres)] * 4)
    assert postgres.execute("SELECT count(*) FROM chargeonce.rebuilds") == [(1,)]


def test_the_number_of_a_lost_claim_is_nobodys_afterwards(billing: StoreUnderTest) -> None:
    """Goal: a holder whose claim was lost does not pass for the one who claims after it."""
    lost = billing.claimed()
    billing.lose(lost.record_id)
    billing.suspend()
    assert billing.store.finish_rebuild(begin(billing))
    now = billing.claimed()
    assert not now.is_takeover
    assert billing.store.store_payment(lost.lease, "pi_lost") is None
    assert not billing.finish(lost, State.DECLINED).written
    assert billing.finish(now, State.DECLINED).written
    again = billing.claimed(attempt=2)
    assert again.fence == again.attempt_fence == now.fence + 1


def test_the_number_of_a_lost_takeover_is_nobodys_afterwards(postgres: PostgresUnderTest) -> None:
    postgres.open_run()
    known = postgres.claimed()
    postgres.release(known, doubt=True)
    lost = postgres.resume().record
    assert lost is not None
    postgres.execute("UPDATE chargeonce.records SET fence = 1, holder = NULL, lease_until = now()")
    postgres.suspend()
    assert postgres.store.finish_rebuild(begin(postgres))
    now = postgres.claimed()
    assert now.is_takeover
    assert now.fence > lost.fence
    assert now.attempt_fence == known.attempt_fence
    assert not postgres.finish(lost, State.DECLINED).written
    assert postgres.finish(now, State.DECLINED).written
