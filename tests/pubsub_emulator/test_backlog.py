"""The broker's rules, with a clock that the tests move: leases, backoff, order, dead letters."""

import pytest

from local.pubsub_emulator import EventKind, Limits
from local.pubsub_emulator.backlog import BacklogSummary
from local.pubsub_emulator.errors import ResourceExhausted
from local.pubsub_emulator.settings import DeadLetterPolicy, PushSettings, RetryPolicy
from tests.pubsub_emulator.desk import DEAD_LETTER_TOPIC, SUBSCRIPTION, Desk

FIVE_ATTEMPTS = DeadLetterPolicy(DEAD_LETTER_TOPIC, 5)


def test_a_lease_ends_exactly_in_time() -> None:
    desk = Desk()
    desk.publish(b"one")
    desk.take_one(lease_seconds=10.0)
    desk.pass_time(9.99)
    assert desk.take() == []
    desk.pass_time(0.01)
    assert desk.take_one().attempt == 2


def test_an_extension_counts_from_now() -> None:
    desk = Desk()
    desk.publish(b"one")
    delivery = desk.take_one(lease_seconds=10.0)
    desk.pass_time(9.0)
    assert desk.extend(delivery, 10.0)
    desk.pass_time(9.9)
    assert desk.take() == []
    desk.pass_time(0.2)
    assert not desk.extend(delivery, 10.0)
    assert desk.take_data() == [b"one"]


def test_an_extension_can_shorten() -> None:
    desk = Desk()
    desk.publish(b"one")
    assert desk.extend(desk.take_one(lease_seconds=600.0), 1.0)
    desk.pass_time(1.0)
    assert desk.take_data() == [b"one"]


def test_messages_go_out_in_turn_and_failed_ones_to_the_end() -> None:
    desk = Desk()
    desk.publish(b"1", b"2", b"3")
    first, second = desk.take(2)
    desk.nack(first)
    assert desk.take_data() == [b"3", b"1"]
    assert desk.acknowledge(second)


def test_a_nack_counts_once() -> None:
    desk = Desk()
    desk.publish(b"one")
    delivery = desk.take_one()
    assert desk.nack(delivery)
    assert not desk.nack(delivery)
    assert not desk.acknowledge(delivery)
    assert desk.take_one().attempt == 2


def test_a_late_ack_counts_until_the_next_delivery() -> None:
    desk = Desk()
    desk.publish(b"one", b"two")
    first, second = desk.take(2)
    desk.pass_time(10.0)
    assert desk.acknowledge(first)
    assert desk.take_data() == [b"two"]
    assert not desk.acknowledge(second)


def test_with_exactly_once_a_late_ack_never_counts() -> None:
    desk = Desk(exactly_once=True)
    desk.publish(b"one")
    delivery = desk.take_one()
    desk.pass_time(10.0)
    assert not desk.acknowledge(delivery)
    assert desk.take_data() == [b"one"]


@pytest.mark.parametrize("exactly_once", [False, True])
def test_an_ack_counts_once(exactly_once: bool) -> None:
    desk = Desk(exactly_once=exactly_once)
    desk.publish(b"one")
    delivery = desk.take_one()
    assert desk.acknowledge(delivery)
    assert not desk.acknowledge(delivery)
    assert not desk.extend(delivery, 10.0)
    desk.pass_time(1000.0)
    assert desk.take() == []


def test_a_retry_policy_doubles_up_to_its_maximum() -> None:
    desk = Desk(retry_policy=RetryPolicy(1.0, 5.0))
    desk.publish(b"one")
    for wait_seconds in (1.0, 2.0, 4.0, 5.0, 5.0):
        desk.nack(desk.take_one())
        desk.pass_time(wait_seconds - 0.01)
        assert desk.take() == []
        desk.pass_time(0.01)
    assert desk.take_one().attempt == 6


def test_a_retry_policy_is_for_lapsed_leases_too() -> None:
    desk = Desk(retry_policy=RetryPolicy(3.0, 3.0))
    desk.publish(b"one")
    desk.take_one(lease_seconds=10.0)
    desk.pass_time(12.9)
    desk.pass_time(0.0)
    assert desk.take() == []
    desk.pass_time(3.0)
    assert desk.take_data() == [b"one"]


def test_many_failures_do_not_overflow_the_backoff() -> None:
    assert RetryPolicy(10.0, 600.0).backoff_seconds(10_000) == 600.0
    assert RetryPolicy(0.0, 600.0).backoff_seconds(10_000) == 0.0


def test_without_a_retry_policy_a_push_is_paced_and_a_pull_is_not() -> None:
    push = Desk(push=PushSettings("http://127.0.0.1/"))
    settings = push.broker.subscription(SUBSCRIPTION)
    assert [settings.backoff_seconds(failures) for failures in (1, 2, 3, 11, 99)] == [
        *(0.1, 0.2, 0.4),
        *(60.0, 60.0),
    ]
    pull = Desk().broker.subscription(SUBSCRIPTION)
    assert pull.backoff_seconds(99) == 0.0


def test_dead_letters_after_exactly_so_many_attempts() -> None:
    """Goal: nacks and lapsed leases count alike."""
    desk = Desk(dead_letter_policy=FIVE_ATTEMPTS)
    desk.publish(b"poison")
    for attempt in range(1, 6):
        delivery = desk.take_one(lease_seconds=10.0)
        assert delivery.attempt == attempt
        assert desk.dead_letters() == []
        if attempt % 2:
            desk.pass_time(10.0)
        else:
            desk.nack(delivery)
    assert desk.dead_letters() == [b"poison"]
    assert desk.take() == []
    (event,) = desk.events(EventKind.DEAD_LETTERED)
    assert (event.message_id, event.attempt) == ("1", 5)


def test_without_its_dead_letter_topic_a_message_stays() -> None:
    desk = Desk(dead_letter_policy=FIVE_ATTEMPTS)
    desk.broker.delete_topic(DEAD_LETTER_TOPIC)
    desk.publish(b"poison")
    for _ in range(7):
        desk.nack(desk.take_one())
    assert desk.take_one().attempt == 8


def test_a_full_dead_letter_backlog_takes_no_more() -> None:
    desk = Desk(limits=Limits(backlog_messages=1), dead_letter_policy=FIVE_ATTEMPTS)
    for _ in range(2):
        desk.publish(b"poison")
        for _ in range(5):
            desk.nack(desk.take_one())
    assert desk.take_one().attempt == 6
    assert desk.dead_letters() == [b"poison"]


def test_order_within_a_key() -> None:
    desk = Desk(ordered=True)
    desk.publish(b"a1", b"a2", b"a3", key="a")
    desk.publish(b"b1", key="b")
    desk.publish(b"free")
    assert desk.take_data(2, "first") == [b"a1", b"a2"]
    # The rest of the key is for whoever has its beginning.
    assert desk.take_data(10, "second") == [b"b1", b"free"]
    assert desk.take_data(10, "first") == [b"a3"]


def test_a_key_keeps_its_turn_until_all_of_it_is_out() -> None:
    desk = Desk(ordered=True)
    desk.publish(b"a1", b"a2", key="a")
    desk.publish(b"free")
    assert [desk.take_data(1) for _ in range(3)] == [[b"a1"], [b"a2"], [b"free"]]


def test_keys_mean_nothing_without_ordering() -> None:
    desk = Desk()
    desk.publish(b"a1", b"a2", key="a")
    assert desk.take_data(1, "first") == [b"a1"]
    assert desk.take_data(1, "second") == [b"a2"]


def test_a_key_goes_to_another_consumer_once_nothing_of_it_is_out() -> None:
    desk = Desk(ordered=True)
    desk.publish(b"a1", b"a2", key="a")
    (delivery,) = desk.take(1, "first")
    assert desk.take(1, "second") == []
    desk.acknowledge(delivery)
    assert desk.take_data(1, "second") == [b"a2"]


def test_a_failure_takes_back_what_came_behind_it() -> None:
    """Goal: acknowledged or out, all that came behind comes again, without having failed."""
    desk = Desk(ordered=True)
    desk.publish(b"1", b"2", b"3", b"4", key="a")
    first, second, third, fourth = desk.take()
    assert desk.acknowledge(first)
    assert desk.acknowledge(third)
    assert desk.nack(second)
    assert not desk.acknowledge(fourth)
    again = desk.take(consumer="other")
    assert [one.message.content.data for one in again] == [b"2", b"3", b"4"]
    assert [one.attempt for one in again] == [2, 1, 1]


def test_what_was_acknowledged_ahead_is_done_once_those_before_it_are() -> None:
    desk = Desk(ordered=True)
    desk.publish(b"1", b"2", b"3", key="a")
    first, second, third = desk.take()
    desk.acknowledge(third)
    desk.acknowledge(second)
    assert desk.broker.summary(SUBSCRIPTION) == BacklogSummary(messages=3, outstanding=1)
    desk.acknowledge(first)
    assert desk.broker.summary(SUBSCRIPTION) == BacklogSummary(messages=0, outstanding=0)


def test_with_exactly_once_what_was_acknowledged_ahead_never_comes_again() -> None:
    desk = Desk(ordered=True, exactly_once=True)
    desk.publish(b"1", b"2", b"3", key="a")
    first, second, _ = desk.take()
    assert desk.acknowledge(second)
    desk.nack(first)
    assert desk.take_data() == [b"1", b"3"]


def test_a_key_waits_for_its_backoff() -> None:
    desk = Desk(ordered=True, retry_policy=RetryPolicy(5.0, 5.0))
    desk.publish(b"a1", b"a2", key="a")
    desk.nack(desk.take(1)[0])
    desk.publish(b"a3", key="a")
    desk.publish(b"b1", key="b")
    assert desk.take_data() == [b"b1"]
    desk.pass_time(5.0)
    assert desk.take_data() == [b"a1", b"a2", b"a3"]


def test_a_dead_letter_frees_its_key() -> None:
    desk = Desk(ordered=True, dead_letter_policy=FIVE_ATTEMPTS)
    desk.publish(b"poison", b"next", key="a")
    for _ in range(5):
        desk.nack(desk.take(1)[0])
    assert desk.take_data() == [b"next"]


def test_a_late_ack_frees_a_key_that_backs_off() -> None:
    desk = Desk(ordered=True, retry_policy=RetryPolicy(60.0, 60.0))
    desk.publish(b"a1", b"a2", key="a")
    delivery = desk.take(1)[0]
    desk.pass_time(10.0)
    assert desk.acknowledge(delivery)
    assert desk.take_data() == [b"a2"]


def test_flow_control_counts_messages_until_they_are_settled() -> None:
    desk = Desk()
    desk.publish(b"1", b"2", b"3")
    first, second = desk.take(outstanding_messages=2)
    assert desk.take(outstanding_messages=2) == []
    assert desk.take_data(10, "other") == [b"3"]
    desk.acknowledge(first)
    desk.nack(second)
    assert desk.take_data(outstanding_messages=2) == [b"2"]


def test_flow_control_counts_bytes_until_leases_lapse() -> None:
    desk = Desk()
    desk.publish(b"x" * 100, b"y" * 100)
    assert len(desk.take(10, outstanding_bytes=50)) == 1
    assert desk.take(10, outstanding_bytes=50) == []
    desk.pass_time(10.0)
    assert len(desk.take(10, outstanding_bytes=101)) == 2


def test_a_response_is_limited_in_bytes_but_never_empty() -> None:
    desk = Desk()
    desk.publish(b"x" * 100, b"y" * 100)
    assert len(desk.take(10, bytes=1)) == 1


def test_a_duplicate_is_out_beside_the_first() -> None:
    desk = Desk()
    desk.publish(b"one")
    first = desk.take_one()
    desk.broker.duplicate(SUBSCRIPTION, first.ack_id)
    second = desk.take_one("other")
    assert (first.attempt, second.attempt) == (1, 1)
    # One of them failing is not yet a failure.
    desk.nack(first)
    assert desk.take() == []
    desk.pass_time(10.0)
    assert desk.take_one().attempt == 2


def test_a_duplicate_of_what_was_settled_meanwhile_does_not_go_out() -> None:
    desk = Desk()
    desk.publish(b"one")
    first = desk.take_one()
    desk.broker.duplicate(SUBSCRIPTION, first.ack_id)
    desk.acknowledge(first)
    assert desk.take() == []


def test_exactly_once_has_no_duplicates() -> None:
    desk = Desk(exactly_once=True)
    desk.publish(b"one")
    desk.broker.duplicate(SUBSCRIPTION, desk.take_one().ack_id)
    assert desk.take() == []


def test_old_messages_are_forgotten() -> None:
    desk = Desk(retention_seconds=600.0)
    desk.publish(b"old", b"out")
    desk.take(1)
    desk.pass_time(599.0)
    desk.publish(b"young")
    desk.pass_time(1.0)
    assert desk.take_data() == [b"young"]
    assert len(desk.events(EventKind.FORGOTTEN)) == 2


def test_a_backlog_is_bounded() -> None:
    messages = Desk(limits=Limits(backlog_messages=2))
    messages.publish(b"1", b"2")
    with pytest.raises(ResourceExhausted):
        messages.publish(b"3")
    size = Desk(limits=Limits(backlog_bytes=10))
    with pytest.raises(ResourceExhausted):
        size.publish(b"x" * 11)
    assert size.take() == []


def test_nothing_is_planned_for_an_idle_broker() -> None:
    desk = Desk()
    assert desk.broker.next_at() is None
    desk.publish(b"one")
    assert desk.broker.next_at() is None
    delivery = desk.take_one(lease_seconds=7.0)
    assert desk.broker.next_at() == 7.0
    desk.acknowledge(delivery)
    assert desk.broker.next_at() is None
