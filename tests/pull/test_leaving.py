"""A message that must be left: nobody waits for it, and it comes back when it was meant to."""

import time
from functools import partial

from tests.pull.conftest import OpenDesk
from tests.support.pulling import PERIOD_WITHOUT_RUN, PullDesk, wait_until

LEAVE_SECONDS = 2
# Never early; late on a machine that is busy with something else.
MOST_EARLY_SECONDS = 0.3
MOST_LATE_SECONDS = 1.5


def is_about(expected_seconds: float, seconds: float) -> bool:
    """Whether a message came back when it was meant to."""
    return -MOST_EARLY_SECONDS < seconds - expected_seconds < MOST_LATE_SECONDS


def charged_within_two_seconds(desk: PullDesk, name: str) -> bool:
    """Publish a customer's event and return whether it is charged soon."""
    body = desk.customer(name)
    started = time.monotonic()
    desk.publish(body)
    wait_until(lambda: desk.state(name) == "charged")
    return time.monotonic() - started < 2.0


def test_a_left_message_holds_nobody_up_and_comes_back_in_time(open_desk: OpenDesk) -> None:
    """Goal: with one thread, the next is handled within 2 s, the left one after LEAVE_SECONDS.

    Method: an event of a period that has no run yet must wait for it.
    """
    desk = open_desk()
    waiting = desk.customer("waiting", billing_period=PERIOD_WITHOUT_RUN)
    with desk.worker(WORKER_CONCURRENCY="1", PUBSUB_LEAVE_SECONDS=str(LEAVE_SECONDS)):
        left = desk.publish(waiting)
        wait_until(lambda: desk.noted(left, "run_missing"))
        assert charged_within_two_seconds(desk, "next")
        wait_until(lambda: len(desk.noted(left, "run_missing")) == 2)
        desk.open_run(PERIOD_WITHOUT_RUN)
        wait_until(lambda: desk.state("waiting") == "charged")
    first, second = desk.noted(left, "run_missing")
    assert is_about(LEAVE_SECONDS, second - first)
    assert desk.charges() == {"cus_next": 1, "cus_waiting": 1}


def test_many_left_messages_hold_nobody_up(open_desk: OpenDesk) -> None:
    """Goal: Pub/Sub counts what was left as being out; ten of them leave room for the next."""
    desk = open_desk()
    with desk.worker(WORKER_CONCURRENCY="1", PUBSUB_LEAVE_SECONDS="60"):
        for number in range(10):
            left = desk.publish(
                desk.customer(f"waiting-{number}", billing_period=PERIOD_WITHOUT_RUN)
            )
            wait_until(partial(desk.noted, left, "run_missing"))
        assert charged_within_two_seconds(desk, "next")


def test_each_further_delivery_stays_away_for_twice_as_long(open_desk: OpenDesk) -> None:
    """Goal: an outage does not use up the deliveries of a message at an even pace."""
    desk = open_desk(max_delivery_attempts=20)
    waiting = desk.customer("waiting", billing_period=PERIOD_WITHOUT_RUN)
    with desk.worker(PUBSUB_LEAVE_SECONDS="1"):
        left = desk.publish(waiting)
        wait_until(lambda: len(desk.noted(left, "run_missing")) == 3)
    first, second, third = desk.noted(left, "run_missing")
    assert is_about(1, second - first)
    assert is_about(2, third - second)
