"""A worker process that is told to stop, or is killed, while it charges."""

import random
import signal
import time
from collections.abc import Iterator

import pytest

from local.pubsub_emulator import EventKind, Limits, PubsubEmulator
from local.stripe_simulator import FaultKind
from tests.pubsub_emulator.support import Cloud
from tests.pull.conftest import OpenDesk, opener
from tests.support.malformed_bodies import event_body
from tests.support.pulling import SHUTDOWN_SECONDS, Pubsub, PullDesk, wait_until

MOMENTS = 10
MOMENTS_IN_THE_SUITE = 3
LONGEST_MOMENT_SECONDS = 1.0
CUSTOMERS_PER_MOMENT = 16

# What a killed worker had comes back within two seconds instead of ten.
SPEED = 5.0
SHORT_LEASES = {
    "STRIPE_CONNECT_TIMEOUT_SECONDS": "0.3",
    "STRIPE_READ_TIMEOUT_SECONDS": "0.7",
    "CHARGE_BUDGET_SECONDS": "1.5",
    "CLAIM_LEASE_SECONDS": "2.6",
}

some_moments = pytest.mark.parametrize(
    "moments", [MOMENTS_IN_THE_SUITE, pytest.param(MOMENTS, marks=pytest.mark.prove)]
)


@pytest.fixture(scope="module")
def fast_pubsub() -> Iterator[Pubsub]:
    """An emulator where time passes faster."""
    limits = Limits(shortest_ack_deadline_seconds=1)
    with PubsubEmulator(limits=limits, speed=SPEED) as emulator:
        cloud = Cloud("own", emulator.environment, emulator.control)
        yield Pubsub(cloud, emulator.environment)
        cloud.close()


@pytest.fixture
def desk(fast_pubsub: Pubsub, migrated_database_url: str) -> Iterator[PullDesk]:
    """A desk there, with a Stripe that takes a tenth of a second for each request."""
    openers: Iterator[OpenDesk] = opener(fast_pubsub, migrated_database_url)
    desk = next(openers)()
    desk.fault(
        FaultKind.DELAY, count=None, before_seconds=0.03, after_seconds=0.03, answer_seconds=0.04
    )
    yield desk
    assert next(openers, None) is None


def publish_load(desk: PullDesk, moment: int) -> list[str]:
    """Publish customers' events, some of them twice, and return whom they charge."""
    names = [f"customer-{moment}-{number}" for number in range(CUSTOMERS_PER_MOMENT)]
    for name in names:
        desk.customer(name)
    for name in [*names, *names[::3]]:
        desk.publish(event_body(customer_id=name, stripe_customer_id=f"cus_{name}"))
    return names


def end_in_mid_charge(
    desk: PullDesk, number: signal.Signals, chance: random.Random
) -> tuple[int, float]:
    """Start a worker and end it at a random moment after it has begun."""
    before = attempt_count(desk)
    with desk.process(**SHORT_LEASES) as process:
        wait_until(lambda: attempt_count(desk) > before)
        time.sleep(chance.uniform(0, LONGEST_MOMENT_SECONDS))
        return process.end(number)


def attempt_count(desk: PullDesk) -> int:
    """How many lines there are about deliveries."""
    ((count,),) = desk.execute("SELECT count(*) FROM chargeonce.attempts")
    return int(count)


def assert_charged_once(desk: PullDesk, names: list[str]) -> None:
    """Let another worker come to an end with everything: nothing is lost, nothing doubled."""
    with desk.worker(**SHORT_LEASES):
        wait_until(desk.is_drained)
    assert desk.charged_names() == set(names)
    assert desk.charges() == {f"cus_{name}": 1 for name in names}


def settled_ids(desk: PullDesk) -> set[str]:
    """The messages that were decided upon in a way that ends in an ack."""
    rows = desk.execute(
        "SELECT message_id FROM chargeonce.attempts WHERE decision = 'charged' OR decision LIKE %s",
        [r"already\_%"],
    )
    return {row[0] for row in rows}


@some_moments
def test_sigterm_loses_no_ack(desk: PullDesk, moments: int) -> None:
    """Goal: at any moment under load, the worker ends in time and every ack reaches the broker."""
    chance = random.Random("sigterm")
    names: list[str] = []
    for moment in range(moments):
        names += publish_load(desk, moment)
        status, seconds = end_in_mid_charge(desk, signal.SIGTERM, chance)
        assert status == 0
        assert seconds < SHUTDOWN_SECONDS
        assert settled_ids(desk) <= {event.message_id for event in desk.events(EventKind.ACK)}
    assert_charged_once(desk, names)


@some_moments
def test_sigkill_loses_and_doubles_nothing(desk: PullDesk, moments: int) -> None:
    """Goal: whatever a killed worker was doing is finished by another, and done once."""
    chance = random.Random("sigkill")
    names: list[str] = []
    for moment in range(moments):
        names += publish_load(desk, moment)
        status, _ = end_in_mid_charge(desk, signal.SIGKILL, chance)
        assert status == -signal.SIGKILL
    assert_charged_once(desk, names)


def test_sigterm_does_not_wait_for_a_stripe_that_hangs(desk: PullDesk) -> None:
    """Goal: the platform's SIGKILL never has to come; what hung is charged once by another."""
    desk.stripe.clear_faults()
    desk.fault(FaultKind.HANG, "/v1/payment_intents/*/confirm", hang_seconds=30)
    desk.publish(desk.customer("patient"))
    patient = {
        "STRIPE_READ_TIMEOUT_SECONDS": "20",
        "CHARGE_BUDGET_SECONDS": "25",
        "CLAIM_LEASE_SECONDS": "50",
    }
    with desk.process(**patient) as process:
        wait_until(lambda: desk.charges() == {"cus_patient": 1})
        status, seconds = process.end(signal.SIGTERM)
        assert "some messages were still being handled" in process.log()
    assert (status, seconds < SHUTDOWN_SECONDS) == (0, True)
    assert desk.acked_ids() == frozenset()
    desk.lapse_leases()
    assert_charged_once(desk, ["patient"])


def test_sigterm_is_heard_while_the_worker_starts(desk: PullDesk) -> None:
    """Goal: nothing is in hand yet, so it goes at once: cleanly, or before it could say how."""
    with desk.process() as process:
        time.sleep(random.Random("start").uniform(0, LONGEST_MOMENT_SECONDS))
        status, seconds = process.end(signal.SIGTERM)
    assert status in (0, -signal.SIGTERM)
    assert seconds < SHUTDOWN_SECONDS


def test_sigterm_is_heard_by_a_worker_whose_wait_it_does_not_interrupt(desk: PullDesk) -> None:
    """Goal: it ends in time too when the signal reaches another thread than the one that waits."""
    desk.publish(desk.customer("waiting"))
    with desk.process("tests.support.uninterrupted_worker") as process:
        wait_until(desk.is_drained)
        status, seconds = process.end(signal.SIGTERM)
    assert (status, seconds < SHUTDOWN_SECONDS) == (0, True)
    assert_charged_once(desk, ["waiting"])


def test_settings_that_are_wrong_are_told_and_end_it(desk: PullDesk) -> None:
    """Goal: a worker that cannot work says why on one line of JSON, and has its own exit status."""
    with desk.process(PUBSUB_SUBSCRIPTION="", STRIPE_API_KEY="") as process:
        status = process.wait()
        assert "PUBSUB_SUBSCRIPTION is missing" in process.log()
        assert "STRIPE_API_KEY is missing" in process.log()
    assert status == 3
