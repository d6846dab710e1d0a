"""Processes that die at random moments under load: nothing is lost, nothing is charged twice."""

import random
import time
from collections import Counter

import pytest

from local.stripe_simulator import Fault, FaultKind, Match
from tests.support.servicebus import Desk, consumer_process, wait_until

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

KILLS = [2, pytest.param(10, marks=pytest.mark.prove)]
EVENTS_PER_KILL = 12
LONGEST_MOMENT_SECONDS = 0.4
MANY_DELIVERIES = 1000
PATIENCE_SECONDS = 90.0


@pytest.fixture
def loaded(desk: Desk) -> Desk:
    """A desk whose messages may be delivered often, and whose Stripe takes a moment to answer."""
    desk.set_lock(60, max_delivery_count=MANY_DELIVERIES)
    desk.environment["BILLING_MAX_DELIVERIES"] = str(MANY_DELIVERIES)
    desk.stripe.add_fault(Fault(FaultKind.DELAY, Match(method="POST"), answer_seconds=0.1))
    return desk


@pytest.mark.parametrize("kills", KILLS)
def test_consumer_is_killed(loaded: Desk, kills: int) -> None:
    """Goal: SIGKILL of the consumer, at any line and any request."""
    chance = random.Random(kills)
    for number in range(kills):
        with consumer_process(loaded.environment) as process:
            work_for_a_moment(loaded, number, chance)
            process.kill()
        lapse_leases_of_the_dead(loaded)
        loaded.lapse_locks()
    with consumer_process(loaded.environment):
        assert_all_charged_once(loaded, kills * EVENTS_PER_KILL)


@pytest.mark.usefixtures("requires_functions_runtime")
@pytest.mark.parametrize("kills", KILLS)
def test_worker_of_the_functions_host_is_killed(loaded: Desk, kills: int) -> None:
    """Goal: SIGKILL of the process that runs the functions; the host abandons what it had."""
    from local.functions_host.host import FunctionsHost

    chance = random.Random(kills)
    with FunctionsHost(loaded.environment) as host:
        for number in range(kills):
            work_for_a_moment(loaded, number, chance)
            host.kill_worker()
            # Another one takes far longer to start than this takes.
            lapse_leases_of_the_dead(loaded)
        assert_all_charged_once(loaded, kills * EVENTS_PER_KILL)


def work_for_a_moment(desk: Desk, number: int, chance: random.Random) -> None:
    """Send events, and return at a random moment after the first of them is charged."""
    names = [f"killed-{number}-{each}" for each in range(EVENTS_PER_KILL)]
    charged_before = charge_count(desk)
    for name in names:
        desk.send(desk.customer(name), name)
    wait_until(lambda: charge_count(desk) > charged_before)
    time.sleep(chance.uniform(0.0, LONGEST_MOMENT_SECONDS))


def charge_count(desk: Desk) -> int:
    """How often Stripe moved money."""
    return len(desk.stripe.ledger())


def lapse_leases_of_the_dead(desk: Desk) -> None:
    """Let the leases of a consumer lapse that has just been killed, which was the only one."""
    desk.execute("UPDATE chargeonce.records SET lease_until = now() WHERE lease_until > now()")


def assert_all_charged_once(desk: Desk, events: int) -> None:
    """Let the locks of the dead lapse, until every message is settled; then look at the money."""

    def is_settled() -> bool:
        status = desk.emulator.queue(desk.queue)
        if status.active == 0 and status.locked > 0:
            desk.lapse_locks()
        return status.active + status.locked == 0

    wait_until(is_settled, PATIENCE_SECONDS, poll_seconds=0.2)
    customers = Counter(entry.customer for entry in desk.stripe.ledger())
    assert len(customers) == events
    assert set(customers.values()) == {1}
    assert desk.execute("SELECT state, count(*) FROM chargeonce.records GROUP BY state") == [
        ("charged", events)
    ]
    assert desk.emulator.queue(desk.queue).dead_lettered == 0
    assert desk.execute("SELECT held_cents, charged_cents FROM chargeonce.runs") == [
        (0, 5000 * events)
    ]
