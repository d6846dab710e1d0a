"""Exactly-once delivery, where the subscription has it: the broker says what became of an ack."""

import logging
from collections.abc import Iterator

import pytest

from local.pubsub_emulator import (
    Effect,
    EventKind,
    Fault,
    Limits,
    Outcome,
    PubsubEmulator,
    Target,
)
from local.stripe_simulator import FaultKind
from shared.decision_log import LOGGER_NAME
from tests.pubsub_emulator.support import Cloud
from tests.pull.conftest import OpenDesk, opener
from tests.support.pulling import Pubsub, wait_until

# The client asks for leases of a minute under exactly-once delivery.
SPEED = 60.0


@pytest.fixture
def fast_pubsub() -> Iterator[Pubsub]:
    """An emulator where a lease of a minute lapses within a second."""
    limits = Limits(shortest_ack_deadline_seconds=1)
    with PubsubEmulator(limits=limits, speed=SPEED) as emulator:
        cloud = Cloud("own", emulator.environment, emulator.control)
        yield Pubsub(cloud, emulator.environment)
        cloud.close()


@pytest.fixture
def open_fast_desk(fast_pubsub: Pubsub, migrated_database_url: str) -> Iterator[OpenDesk]:
    """Opens a desk there."""
    yield from opener(fast_pubsub, migrated_database_url)


def test_an_event_is_charged_and_acknowledged(open_desk: OpenDesk) -> None:
    """Goal: the worker understands such a subscription, on both emulators."""
    desk = open_desk(enable_exactly_once_delivery=True)
    body = desk.customer("good")
    with desk.worker():
        message_id = desk.publish(body)
        wait_until(lambda: desk.state("good") == "charged")
        if desk.cloud.kind == "own":
            wait_until(lambda: message_id in desk.acked_ids())
    assert desk.charges() == {"cus_good": 1}


def test_an_ack_that_failed_for_a_while_is_sent_again(
    open_own_desk: OpenDesk, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal: the settlement has its result from the broker, not from having been sent."""
    caplog.set_level(logging.INFO, LOGGER_NAME)
    desk = open_own_desk(enable_exactly_once_delivery=True)
    refuse_once = Fault(Target.ACK, Effect.REFUSE, resource=desk.subscription, count=1)
    desk.cloud.control.inject(refuse_once)
    body = desk.customer("good")
    with desk.worker():
        message_id = desk.publish(body)
        wait_until(lambda: message_id in desk.acked_ids())
    assert len(desk.events(EventKind.ACK, Outcome.REFUSED)) == 1
    assert "settlement_failed" not in caplog.text
    assert desk.charges() == {"cus_good": 1}


def test_an_ack_that_came_too_late_is_told(
    open_fast_desk: OpenDesk, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal: a lease that lapsed while Stripe answered is logged as lost, and charges nobody twice.

    Method: no extension arrives, and Stripe takes longer than the lease.
    """
    caplog.set_level(logging.INFO, LOGGER_NAME)
    desk = open_fast_desk(enable_exactly_once_delivery=True)
    desk.cloud.control.inject(Fault(Target.EXTENSION, Effect.LOSE, count=1))
    desk.fault(FaultKind.DELAY, "/v1/payment_intents/*/confirm", answer_seconds=2.0)
    body = desk.customer("late")
    with desk.worker(
        STRIPE_READ_TIMEOUT_SECONDS="5", CHARGE_BUDGET_SECONDS="8", CLAIM_LEASE_SECONDS="20"
    ):
        desk.publish(body)
        wait_until(lambda: "lock_lost" in caplog.text)
        wait_until(desk.is_drained)
    assert desk.charges() == {"cus_late": 1}
