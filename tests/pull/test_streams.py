"""Streams that end: the worker opens another."""

import time

import pytest

from local.pubsub_emulator import EventKind
from tests.pull.conftest import OpenDesk
from tests.support.pulling import wait_until


def test_a_cut_stream_is_opened_again(open_own_desk: OpenDesk) -> None:
    """Goal: what is published after the cut is charged; a connection is lost any time."""
    desk = open_own_desk()
    events = desk.customers(3)
    with desk.worker():
        for number, (name, body) in enumerate(events.items(), start=1):
            wait_until(lambda: len(desk.events(EventKind.STREAM_OPENED)) >= number)  # noqa: B023
            desk.publish(body)
            wait_until(lambda: desk.state(name) == "charged")  # noqa: B023
            assert desk.cloud.control.cut_streams(desk.subscription) == 1
    assert set(desk.charges().values()) == {1}


def test_a_refused_stream_is_asked_for_again(
    open_desk: OpenDesk, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal: a refusal that the SDK takes for final ends the stream, not the worker.

    Method: the subscription is missing, as while somebody replaces it.
    """
    desk = open_desk()
    desk.cloud.subscriber.delete_subscription(subscription=desk.subscription)
    body = desk.customer("patient")
    with desk.worker():
        wait_until(lambda: "the stream ended (NotFound)" in caplog.text)
        desk.cloud.subscriber.create_subscription(name=desk.subscription, topic=desk.topic)
        desk.publish(body)
        wait_until(lambda: desk.state("patient") == "charged")


def test_a_worker_that_pauses_between_streams_stops_at_once(
    open_own_desk: OpenDesk, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal: SIGTERM is heard during the pause too, which lasts two seconds at least by then."""
    desk = open_own_desk()
    desk.cloud.subscriber.delete_subscription(subscription=desk.subscription)
    with desk.worker():
        wait_until(lambda: caplog.text.count("the stream ended (NotFound)") == 3)
        started = time.monotonic()
    assert time.monotonic() - started < 1.5
