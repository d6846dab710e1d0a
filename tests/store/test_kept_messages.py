"""Kept messages, and how reconcilers share the work: taken up one at a time, never lost."""

from shared.ports import KeptMessage
from shared.record import RecordId, State
from tests.support.store import BODY, CUSTOMER, LEASE_SECONDS, PERIOD, StoreUnderTest

MINUTE_SECONDS = 60.0
HOUR_SECONDS = 3600.0
DAY_SECONDS = 86_400.0


def taken(stores: StoreUnderTest) -> KeptMessage:
    """Take up a kept message, which must be due."""
    kept = stores.take_kept()
    assert kept is not None
    return kept


def test_a_message_is_kept_whole(billing: StoreUnderTest) -> None:
    """Goal: all that its broker gave, but for a count that nobody goes on with."""
    billing.keep(billing_period="2027-01")
    assert billing.take_kept() is None, "its run may be there in a moment"
    billing.pass_time(MINUTE_SECONDS)
    assert billing.store.due(10) == [RecordId(CUSTOMER, "2027-01")]
    kept = taken(billing)
    assert (kept.event_id, kept.attempt) == (RecordId(CUSTOMER, "2027-01"), 1)
    assert kept.delivery.body == BODY
    envelope = kept.delivery.envelope
    assert (envelope.transport, envelope.message_id) == ("pubsub-push", "message-1")
    assert (envelope.delivery_count, envelope.attributes) == (None, {"source": "test"})
    assert MINUTE_SECONDS <= kept.age_seconds < 2 * MINUTE_SECONDS
    (line,) = billing.store.attempts(RecordId(CUSTOMER, "2027-01"), 10)
    assert (line.decision, line.code, line.delivery_count) == ("handed_over", "run_missing", 9)


def test_a_message_that_comes_again_is_kept_once(billing: StoreUnderTest) -> None:
    """Goal: its settlement may have failed; another message is another one, and so is a body."""
    for _ in range(2):
        billing.keep(message_id="message-1")
        billing.keep(message_id="message-2")
        billing.keep(message_id="message-2", body=b"{}")
    assert billing.kept_count() == 3
    assert billing.decisions() == ["handed_over"] * 3
    assert billing.store.status("2027-01").kept_message_count == 0


def test_a_kept_message_is_taken_by_one_and_comes_again(billing: StoreUnderTest) -> None:
    """Goal: no two deliver it at once, and one that dies loses nothing."""
    billing.keep(message_id="message-1")
    billing.pass_time(1)
    billing.keep(message_id="message-2")
    billing.pass_time(MINUTE_SECONDS)
    order = [taken(billing).delivery.envelope.message_id for _ in range(2)]
    assert order == ["message-1", "message-2"], "oldest first"
    assert billing.take_kept() is None
    billing.pass_time(LEASE_SECONDS)
    assert billing.take_kept() is None
    billing.pass_time(5 * MINUTE_SECONDS)
    again = taken(billing)
    billing.store.drop_kept(again.number)
    billing.store.drop_kept(again.number)
    assert billing.kept_count() == 1


def test_pauses_of_a_kept_message_grow(billing: StoreUnderTest) -> None:
    """Goal: minutes, then an hour, then a day; never less than its delivery may take."""
    billing.keep()
    billing.pass_time(MINUTE_SECONDS)
    for looks in range(1, 34):
        assert billing.take_kept() is not None, looks
        pause = 5 * MINUTE_SECONDS
        if looks > 6:
            pause = HOUR_SECONDS if looks <= 30 else DAY_SECONDS
        billing.pass_time(pause - 5)
        assert billing.take_kept() is None, looks
        billing.pass_time(6)
    long_seconds = 2 * HOUR_SECONDS
    billing.keep(message_id="message-2")
    billing.pass_time(2 * MINUTE_SECONDS)
    for _ in range(2):
        billing.store.take_kept(long_seconds)
    billing.pass_time(long_seconds - 5)
    assert billing.take_kept() is None


def test_messages_wait_no_longer_than_their_run(stores: StoreUnderTest) -> None:
    """Goal: opening a run, raising its cap and reopening it make its messages due at once."""
    stores.keep(billing_period="2027-01", message_id="other")
    stores.keep()
    assert stores.due() == []
    stores.open_run()
    assert stores.store.due(10) == [RecordId(CUSTOMER, PERIOD)]

    def deliver_in_vain() -> None:
        for _ in range(8):
            stores.pass_time(6 * MINUTE_SECONDS)
            stores.store.take_kept(LEASE_SECONDS)
            stores.store.take_kept(LEASE_SECONDS)

    deliver_in_vain()
    stores.store.raise_cap(PERIOD, 99_000)
    assert RecordId(CUSTOMER, PERIOD) in stores.store.due(10)
    deliver_in_vain()
    stores.store.close_run(PERIOD, "by hand")
    assert stores.due() == []
    stores.store.raise_cap(PERIOD, 100_000)
    assert stores.due() == [], "it is still closed"
    stores.store.reopen_run(PERIOD)
    assert stores.store.due(10) == [RecordId(CUSTOMER, PERIOD)]
    assert taken(stores).event_id.billing_period == PERIOD
    stores.pass_time(5 * MINUTE_SECONDS + 1)
    assert RecordId(CUSTOMER, PERIOD) in stores.store.due(10), "its pauses begin anew"


def test_a_due_record_is_taken_by_one_and_comes_again(billing: StoreUnderTest) -> None:
    """Goal: the same for records: oldest first, no two at once, and whoever dies loses nothing."""
    for number in range(2):
        billing.release(billing.claimed(f"customer-{number}"), doubt=True)
        billing.pass_time(1)
    assert billing.take_due() is None
    billing.pass_time(MINUTE_SECONDS)
    assert [billing.take_due(), billing.take_due()] == ["customer-0", "customer-1"]
    assert billing.take_due() is None
    billing.pass_time(5 * MINUTE_SECONDS)
    assert billing.take_due() == "customer-0"


def test_a_record_with_a_holder_is_not_taken(billing: StoreUnderTest) -> None:
    """Goal: a message is at work on it."""
    billing.claimed()
    billing.pass_time(LEASE_SECONDS - 5)
    assert billing.take_due() is None
    billing.pass_time(6)
    due = billing.store.take_due(LEASE_SECONDS)
    assert due is not None
    assert due.record == billing.record()
    assert LEASE_SECONDS <= due.age_seconds < LEASE_SECONDS + 30


def test_pauses_of_a_record_grow_until_its_next_attempt(billing: StoreUnderTest) -> None:
    """Goal: a transient answer, a doubt or a bank at work does not shorten the pause."""
    billing.release(billing.claimed(), doubt=True)
    billing.pass_time(MINUTE_SECONDS)
    for looks in range(1, 32):
        assert billing.take_due() == CUSTOMER, looks
        resumed = billing.resume().record
        assert resumed is not None
        pause = 5 * MINUTE_SECONDS
        if looks % 3 == 0:
            billing.finish(resumed, State.PROCESSING)
            pause = HOUR_SECONDS
        else:
            billing.release(resumed, doubt=looks % 3 == 1)
        if looks > 6:
            pause = HOUR_SECONDS if looks <= 30 else DAY_SECONDS
        billing.pass_time(pause - 5)
        assert billing.take_due() is None, looks
        billing.pass_time(6)
    resumed = billing.resume().record
    assert resumed is not None
    billing.finish(resumed, State.DECLINED)
    billing.release(billing.claimed(attempt=2), doubt=True)
    billing.pass_time(MINUTE_SECONDS)
    assert billing.take_due() == CUSTOMER
    billing.pass_time(5 * MINUTE_SECONDS)
    assert billing.take_due() == CUSTOMER, "its pauses begin anew"


def test_nothing_is_taken_while_commits_may_be_lost(billing: StoreUnderTest) -> None:
    """Goal: no look is wasted on what may charge nobody; messages are still kept."""
    billing.release(billing.claimed(), doubt=True)
    billing.suspend()
    billing.keep()
    billing.pass_time(HOUR_SECONDS)
    assert billing.take_due() is None
    assert billing.take_kept() is None
    assert billing.kept_count() == 1
