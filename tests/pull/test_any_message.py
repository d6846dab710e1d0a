"""A worker survives any message, and acknowledges none before its end is durable."""

from typing import cast

import pytest

from local.pubsub_emulator import Effect, EventKind, Fault, Target
from shared.biller import Biller
from shared.dead_letter_attributes import REASON
from tests.pull.conftest import OpenDesk
from tests.support.malformed_bodies import MALFORMED_BODIES
from tests.support.pulling import wait_until

SAMPLE = MALFORMED_BODIES[:: len(MALFORMED_BODIES) // 12]


class BrokenBiller:
    """Raises where the real one never does."""

    def __init__(self) -> None:
        self.handled = 0

    def handle(self, *_: object) -> None:
        """Break."""
        self.handled += 1
        raise ZeroDivisionError


def test_malformed_messages_go_to_the_dead_letters(open_desk: OpenDesk) -> None:
    """Goal: each arrives there whole with its reason, and the worker goes on charging."""
    desk = open_desk()
    # Pub/Sub takes no message without body and attributes.
    bodies = [malformed.body for malformed in SAMPLE if malformed.body]
    good = desk.customer("good")
    with desk.worker(WORKER_CONCURRENCY="1"):
        for body in bodies:
            desk.publish(body)
        letters = desk.dead_letters(len(bodies))
        desk.publish(good)
        wait_until(lambda: desk.state("good") == "charged")
    assert {letter.message.data for letter in letters} == set(bodies)
    assert {letter.message.attributes[REASON] for letter in letters} == {"InvalidEvent"}


def test_nothing_is_acked_before_the_dead_letter_is_safe(open_own_desk: OpenDesk) -> None:
    """Goal: while the dead-letter topic refuses, the message stays; afterwards it moves, once."""
    desk = open_own_desk()
    refuse = Fault(
        Target.PUBLISH, Effect.REFUSE, resource=desk.dead_letter_topic, status="PERMISSION_DENIED"
    )
    fault_id = desk.cloud.control.inject(refuse)
    with desk.worker(PUBSUB_LEAVE_SECONDS="1"):
        message_id = desk.publish(b"{")
        wait_until(lambda: len(desk.noted(message_id, "invalid_event")) == 2)
        assert desk.acked_ids() == frozenset()
        desk.cloud.control.remove_fault(fault_id)
        (letter,) = desk.dead_letters(1)
        wait_until(desk.is_drained)
    assert letter.message.data == b"{"
    assert desk.execute("SELECT count(*) FROM chargeonce.parked_events") == [(1,)]


def test_a_defect_ends_neither_the_worker_nor_the_message(
    open_own_desk: OpenDesk, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal: a callback that raised would be nacked and end the wait of the worker's main thread."""
    desk = open_own_desk()
    broken = BrokenBiller()
    body = desk.customer("patient")
    with desk.worker(cast("Biller", broken)):
        desk.publish(body)
        wait_until(lambda: broken.handled == 1)
        wait_until(lambda: "ZeroDivisionError" in caplog.text)
        desk.publish(body)
        wait_until(lambda: broken.handled >= 2)
    assert desk.events(EventKind.ACK) == []
    assert desk.cloud.control.backlog(desk.subscription).messages == 2
