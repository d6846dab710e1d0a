"""Subscriptions with message ordering: it buys billing nothing, and must not cost anything."""

import time
from collections import Counter

from tests.pull.conftest import OpenDesk
from tests.support.pulling import PERIOD_WITHOUT_RUN, wait_until

KEY = "customer"
LEAVE_SECONDS = 1
BACKLOG = 10


def test_a_left_message_starts_no_storm_and_its_backlog_charges_nobody_twice(
    open_desk: OpenDesk,
) -> None:
    """Goal: behind a message that is left, others of its key come again and again with it.

    Method: the first of a customer waits for its run, and behind it wait the customer's events of
    other periods, each published twice. In the end everything is charged once.
    """
    desk = open_desk(enable_message_ordering=True)
    waiting = desk.customer("waiting", billing_period=PERIOD_WITHOUT_RUN)
    behind = list(desk.customers(BACKLOG).values())
    with desk.worker(PUBSUB_LEAVE_SECONDS=str(LEAVE_SECONDS)):
        started = time.monotonic()
        left = desk.publish(waiting, KEY)
        for body in [*behind, *behind]:
            desk.publish(body, KEY)
        wait_until(lambda: len(desk.charged_names()) == BACKLOG)
        wait_until(lambda: len(desk.noted(left, "run_missing")) >= 2)
        came_back = len(desk.noted(left, "run_missing")) - 1
        assert came_back <= (time.monotonic() - started) / LEAVE_SECONDS + 1
        desk.open_run(PERIOD_WITHOUT_RUN)
        wait_until(lambda: "waiting" in desk.charged_names())
    expected = Counter(f"cus_customer-{number}" for number in range(BACKLOG))
    assert desk.charges() == expected + Counter(cus_waiting=1)
