"""Goal: a message is always in exactly one place, and moves only as Service Bus lets it."""

from uuid import UUID, uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from local.servicebus_emulator import queues
from local.servicebus_emulator.clock import MovableClock
from local.servicebus_emulator.errors import LockLost, MessageNotFound, QuotaExceeded
from local.servicebus_emulator.options import QueueSettings
from local.servicebus_emulator.queues import Entry, Queue, QueueCounts
from tests.servicebus_emulator.support import EPOCH, DeskClock, message, token_of, unhurried

LOCK_SECONDS = 30.0
MAX_DELIVERY_COUNT = 3


class DeskQueue:
    """A queue with a clock that stands until it is moved."""

    def __init__(self) -> None:
        self.clock = DeskClock()
        settings_of_both = QueueSettings(LOCK_SECONDS, None, MAX_DELIVERY_COUNT)
        self.dead = Queue("q/$DeadLetterQueue", settings_of_both, self.clock)
        self.queue = Queue("q", settings_of_both, self.clock, self.dead)

    def publish(self, *message_ids: str) -> list[int]:
        return self.queue.publish([message(message_id) for message_id in message_ids])

    def lock(self) -> tuple[Entry, UUID]:
        entry = self.queue.lock_next()
        assert entry is not None
        return entry, token_of(entry.lock_token)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.queue.run_due()
        self.dead.run_due()


@pytest.fixture
def desk() -> DeskQueue:
    return DeskQueue()


def ids(entries: list[Entry]) -> list[str]:
    return [entry.message.message_id for entry in entries]


def test_messages_come_in_order(desk: DeskQueue) -> None:
    assert desk.publish("a", "b") == [1, 2]
    assert desk.publish("c") == [3]

    assert [desk.lock()[0].message.message_id for _ in range(3)] == ["a", "b", "c"]
    assert desk.queue.lock_next() is None


def test_a_completed_message_is_gone(desk: DeskQueue) -> None:
    desk.publish("a")
    _, token = desk.lock()
    desk.queue.complete(token)

    assert desk.queue.counts() == QueueCounts(0, 0, 0)
    with pytest.raises(LockLost):
        desk.queue.complete(token)


def test_an_abandoned_message_comes_again_before_later_ones(desk: DeskQueue) -> None:
    desk.publish("a", "b")
    entry, token = desk.lock()
    desk.queue.abandon(token)

    again, other_token = desk.lock()
    assert (again, again.delivery_count) == (entry, 1)
    assert other_token != token


def test_a_released_message_has_not_been_delivered(desk: DeskQueue) -> None:
    desk.publish("a")
    for _ in range(2 * MAX_DELIVERY_COUNT):
        entry, token = desk.lock()
        desk.queue.release(token)
        assert entry.delivery_count == 0


@pytest.mark.parametrize("how", ["abandon", "expire"])
def test_too_many_failed_deliveries_dead_letter(desk: DeskQueue, how: str) -> None:
    desk.publish("a")
    for failed in range(MAX_DELIVERY_COUNT):
        entry, token = desk.lock()
        assert entry.delivery_count == failed
        if how == "abandon":
            desk.queue.abandon(token)
        else:
            desk.pass_time(LOCK_SECONDS)

    assert desk.queue.counts() == QueueCounts(0, 0, 0)
    (dead,) = desk.dead.peek(1, 10)
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert dead.dead_letter_description == (
        "Message could not be consumed after 3 delivery attempts."
    )
    assert (dead.delivery_count, dead.sequence_number) == (3, 1)


def test_dead_letters_may_fail_any_number_of_times(desk: DeskQueue) -> None:
    desk.publish("a")
    desk.queue.dead_letter(desk.lock()[1], "why", None)
    for _ in range(2 * MAX_DELIVERY_COUNT):
        entry = desk.dead.lock_next()
        assert entry is not None
        desk.dead.abandon(token_of(entry.lock_token))
    entry = desk.dead.lock_next()
    assert entry is not None
    desk.dead.dead_letter(token_of(entry.lock_token), "again", "text")

    (dead,) = desk.dead.peek(1, 10)
    assert (dead.dead_letter_reason, dead.dead_letter_description) == ("again", "text")
    assert desk.dead.counts() == QueueCounts(1, 0, 0)


def test_a_dead_letter_has_nothing_left_in_the_schedule_of_its_queue(desk: DeskQueue) -> None:
    """A lock in the dead-letter queue takes no notice of one that the message had before."""
    desk.publish("a")
    desk.queue.dead_letter(desk.lock()[1], "why", None)
    dead = desk.dead.lock_next()
    assert dead is not None
    desk.pass_time(LOCK_SECONDS)

    assert desk.queue.counts() == QueueCounts(0, 0, 0)
    assert desk.dead.counts() == QueueCounts(1, 0, 0)


def test_a_lock_lasts_exactly_its_time(desk: DeskQueue) -> None:
    desk.publish("a")
    entry, token = desk.lock()
    assert desk.queue.next_due() == EPOCH + LOCK_SECONDS
    assert desk.queue.locked_stamps(entry).locked_until == EPOCH + LOCK_SECONDS
    assert desk.queue.stamps(entry).locked_until is None

    desk.pass_time(LOCK_SECONDS - 0.001)
    assert desk.queue.counts().locked == 1
    # Nobody has looked at the clock yet when the consumer comes.
    desk.clock.advance(0.001)
    with pytest.raises(LockLost):
        desk.queue.complete(token)
    assert desk.queue.counts() == QueueCounts(1, 0, 0)
    assert entry.delivery_count == 1


def test_a_renewed_lock_lasts_its_full_time_again(desk: DeskQueue) -> None:
    desk.publish("a")
    entry, token = desk.lock()
    desk.pass_time(20)
    assert desk.queue.renew(token) == EPOCH + 20 + LOCK_SECONDS

    desk.pass_time(29)
    assert desk.queue.counts().locked == 1
    desk.pass_time(1)
    assert desk.queue.counts().active == 1
    with pytest.raises(LockLost):
        desk.queue.renew(token)
    assert entry.delivery_count == 1


def test_a_lock_can_be_advertised_longer_than_it_is(desk: DeskQueue) -> None:
    desk.queue.configure(QueueSettings(10.0, 60.0, MAX_DELIVERY_COUNT))
    desk.publish("a")
    entry, token = desk.lock()

    assert desk.queue.locked_stamps(entry).locked_until == EPOCH + 60
    assert desk.queue.renew(token) == EPOCH + 60
    assert desk.queue.next_due() == EPOCH + 10
    assert desk.dead.settings.lock_seconds == 10.0


def test_clients_do_not_notice_that_the_clock_was_moved() -> None:
    passing = DeskClock()
    clock = MovableClock(EPOCH, passing.now)
    queue = Queue("q", QueueSettings(LOCK_SECONDS), clock)
    queue.publish([message("a")])
    clock.advance(1000)
    queue.publish([message("b", scheduled_at=EPOCH + 60)])
    entry = queue.lock_next()
    assert entry is not None
    stamps = queue.locked_stamps(entry)

    assert stamps.enqueued_at == EPOCH - 1000, "older things are older"
    assert stamps.locked_until == EPOCH + LOCK_SECONDS
    assert queue.renew(token_of(entry.lock_token)) == EPOCH + LOCK_SECONDS
    assert queue.counts().scheduled == 1
    passing.advance(60)
    queue.run_due()
    assert queue.counts().scheduled == 0
    with pytest.raises(ValueError, match="only moves forward"):
        clock.advance(-1)


def test_a_scheduled_message_waits_and_then_goes_to_the_end(desk: DeskQueue) -> None:
    (number,) = desk.queue.publish([message("later", scheduled_at=EPOCH + 60)])
    desk.publish("now")
    assert desk.queue.counts() == QueueCounts(1, 0, 1)
    assert desk.queue.next_due() == EPOCH + 60

    desk.pass_time(60)
    first, second = desk.queue.peek(1, 10)
    assert (ids([first, second]), second.sequence_number) == (["now", "later"], 3)
    assert (second.enqueued_at, number) == (EPOCH + 60, 1)


def test_a_time_that_has_passed_is_now(desk: DeskQueue) -> None:
    desk.queue.publish([message("late", scheduled_at=EPOCH)])

    assert desk.queue.counts() == QueueCounts(1, 0, 0)


def test_scheduled_messages_are_cancelled_together_or_not_at_all(desk: DeskQueue) -> None:
    later = [message(name, scheduled_at=EPOCH + 60) for name in "ab"]
    numbers = desk.queue.publish(later)
    (active,) = desk.publish("c")

    with pytest.raises(MessageNotFound, match=str(active)):
        desk.queue.cancel([*numbers, active])
    assert desk.queue.counts() == QueueCounts(1, 0, 2)
    desk.queue.cancel(numbers)
    assert desk.queue.counts() == QueueCounts(1, 0, 0)
    assert desk.queue.next_due() is None
    with pytest.raises(MessageNotFound):
        desk.queue.cancel(numbers)


def test_peeking_sees_everything_and_changes_nothing(desk: DeskQueue) -> None:
    desk.publish("a", "b", "c")
    desk.queue.publish([message("d", scheduled_at=EPOCH + 60)])
    desk.lock()
    before = desk.queue.counts()

    assert ids(desk.queue.peek(1, 10)) == ["a", "b", "c", "d"]
    assert ids(desk.queue.peek(2, 2)) == ["b", "c"]
    assert desk.queue.peek(9, 10) == []
    assert desk.queue.counts() == before


def test_receive_and_delete_leaves_nothing(desk: DeskQueue) -> None:
    desk.publish("a")

    taken = desk.queue.take_next()
    assert taken is not None
    assert desk.queue.take_next() is None
    assert desk.queue.counts() == QueueCounts(0, 0, 0)


def test_a_copy_is_a_message_of_its_own(desk: DeskQueue) -> None:
    desk.publish("a")
    original, token = desk.lock()
    desk.queue.copy(original)

    copied, copied_token = desk.lock()
    assert copied.message is original.message
    assert copied.is_copy
    assert not original.is_copy
    desk.queue.complete(token)
    desk.queue.complete(copied_token)


def test_a_queue_can_be_full(desk: DeskQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    room_for_two = 2 * (message("a").size_bytes + 1024)
    monkeypatch.setattr(queues, "MAXIMUM_QUEUE_BYTES", room_for_two)
    desk.publish("a")
    desk.queue.dead_letter(desk.lock()[1], None, None)

    with pytest.raises(QuotaExceeded):
        desk.publish("b", "c")
    assert desk.queue.counts().active == 0, "a batch is taken in as a whole or not at all"
    desk.publish("b")
    with pytest.raises(QuotaExceeded):
        desk.publish("c")
    desk.queue.purge()
    desk.publish("c", "d")


def test_purging_forgets_everything(desk: DeskQueue) -> None:
    desk.publish("a", "b")
    desk.queue.publish([message("c", scheduled_at=EPOCH + 60)])
    desk.queue.dead_letter(desk.lock()[1], None, None)
    _, token = desk.lock()
    desk.queue.purge()

    assert desk.queue.counts() == desk.dead.counts() == QueueCounts(0, 0, 0)
    assert desk.queue.next_due() is None
    assert desk.queue.lock_next() is None
    with pytest.raises(LockLost):
        desk.queue.complete(token)


def test_renewals_do_not_pile_up(desk: DeskQueue) -> None:
    desk.publish("a")
    _, token = desk.lock()
    for _ in range(10_000):
        desk.queue.renew(token)

    assert len(desk.queue._appointments) < 200


def test_signals_tell_of_messages_and_times(desk: DeskQueue) -> None:
    active: list[int] = []
    due: list[float] = []
    desk.queue.on_active(lambda: active.append(desk.queue.counts().active))
    desk.queue.on_due(due.append)
    desk.publish("a", "b")
    desk.lock()
    desk.clock.advance(1)
    desk.lock()
    desk.pass_time(29)

    assert active == [2, 1]
    assert due == [EPOCH + LOCK_SECONDS], "a later time is no news"


class QueueMachine(RuleBasedStateMachine):
    """Method: random operations against a model that only counts failed deliveries."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = DeskQueue()
        self.published = 0
        self.finished = 0
        self.locks: list[UUID] = []

    @rule(count=st.integers(1, 3), later=st.booleans())
    def publish(self, count: int, later: bool) -> None:
        at = self.desk.clock.now() + 20 if later else None
        self.desk.queue.publish([message("m", scheduled_at=at) for _ in range(count)])
        self.published += count

    @rule()
    def lock(self) -> None:
        entry = self.desk.queue.lock_next()
        if entry is not None:
            self.locks.append(token_of(entry.lock_token))

    @rule()
    def take(self) -> None:
        self.finished += self.desk.queue.take_next() is not None

    @precondition(lambda self: self.locks)
    @rule(choice=st.data(), how=st.sampled_from(["complete", "abandon", "release", "renew"]))
    def use_lock(self, choice: st.DataObject, how: str) -> None:
        token = choice.draw(st.sampled_from(self.locks))
        is_held = token in self.desk.queue._locks
        try:
            getattr(self.desk.queue, how)(token)
        except LockLost:
            assert not is_held
        else:
            assert is_held
            self.finished += how == "complete"

    @rule(token=st.builds(uuid4))
    def use_unknown_lock(self, token: UUID) -> None:
        with pytest.raises(LockLost):
            self.desk.queue.complete(token)

    @rule(seconds=st.sampled_from([1.0, 10.0, 30.0]))
    def pass_time(self, seconds: float) -> None:
        self.desk.pass_time(seconds)

    @invariant()
    def every_message_is_in_one_place(self) -> None:
        here, dead = self.desk.queue.counts(), self.desk.dead.counts()
        held = here.active + here.locked + here.scheduled + dead.active
        assert held + self.finished == self.published
        assert len(self.desk.queue.peek(0, 1000)) == held - dead.active
        for entry in self.desk.queue.peek(0, 1000):
            assert entry.delivery_count < MAX_DELIVERY_COUNT

    @invariant()
    def what_holds_nothing_weighs_nothing(self) -> None:
        if self.published == self.finished:
            assert self.desk.queue.size_bytes == 0


QueueMachine.TestCase.settings = settings(unhurried, max_examples=30, stateful_step_count=30)
TestQueueMachine = QueueMachine.TestCase
