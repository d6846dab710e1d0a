"""The same event through Service Bus and Pub/Sub at the same instant: it is charged once.

Both brokers are reached through their real SDKs, and what bills from each is what is deployed: the
consumer and the pull worker, or the functions under the real runtimes of both clouds. They share
one database. The ledger of the Stripe simulator says what money moved.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeAlias

import pytest

from local.google_function import GoogleFunction
from local.servicebus_emulator import (
    EmulatorOptions,
    QueueOptions,
    QueueSettings,
    ServiceBusEmulator,
)
from local.stripe_simulator import FaultKind, serve_in_thread
from tests.support.pulling import Pubsub, PullDesk
from tests.support.servicebus import LOCK_SECONDS, Desk, running_consumer, wait_until

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("forget_broken_connections"),
]

EVENTS = 200
AMOUNT_CENTS = 5000
WARM_UP = ("warm-azure", "warm-google")
QUEUE = "usage"
CONFIRM = "/v1/payment_intents/*/confirm"
# A charge takes so long that the other cloud's delivery meets it on its way.
CHARGE_SECONDS = 0.05
PATIENCE_SECONDS = 90.0
MANY_DELIVERIES = "1000"

# The earlier of two deliveries charges; the later one is left, and soon comes again.
PACE = {
    "BILLING_MAX_DELIVERIES": MANY_DELIVERIES,
    "PUBSUB_LEAVE_SECONDS": "1",
    "WORKER_CONCURRENCY": "8",
}
RETRY_POLICY = {
    "minimum_backoff": timedelta(seconds=1),
    "maximum_backoff": timedelta(seconds=1),
}

Clouds: TypeAlias = tuple[Desk, PullDesk]


@pytest.fixture
def clouds(migrated_database_url: str, pubsub: Pubsub) -> Iterator[Clouds]:
    """A queue of Service Bus and a subscription of Pub/Sub, over one database and one Stripe."""
    settings = QueueSettings(LOCK_SECONDS, max_delivery_count=int(MANY_DELIVERIES))
    options = EmulatorOptions(queues=[QueueOptions(QUEUE, settings)])
    with serve_in_thread() as stripe, ServiceBusEmulator(options) as emulator:
        google = PullDesk(migrated_database_url, stripe, pubsub, retry_policy=RETRY_POLICY)
        azure = Desk(migrated_database_url, stripe, emulator, QUEUE)
        azure.environment.update(PACE)
        yield azure, google
        azure.close()


@contextmanager
def containers(clouds: Clouds) -> Iterator[None]:
    """The peek-lock consumer and the pull worker."""
    azure, google = clouds
    with running_consumer(azure.environment), google.worker(**google_settings(clouds)):
        yield


@contextmanager
def functions(clouds: Clouds) -> Iterator[None]:
    """The function app under Azure's runtime, and the push function under functions-framework."""
    from local.functions_host.host import FunctionsHost

    azure, google = clouds
    settings = {**google.environment, **google_settings(clouds), "PUBSUB_PUSH_AUTH": "none"}
    with (
        FunctionsHost(azure.environment) as host,
        GoogleFunction("bill", settings) as function,
        google.subscriber() as client,
    ):
        client.modify_push_config(
            request={
                "subscription": google.subscription,
                "push_config": {"push_endpoint": function.url},
            }
        )
        yield
        assert host.failures == []


def google_settings(clouds: Clouds) -> Mapping[str, str]:
    """Google's side waits for Stripe as long as Azure's does."""
    azure, _ = clouds
    patience = {
        name: value
        for name, value in azure.environment.items()
        if name.startswith(("STRIPE_", "CHARGE_", "CLAIM_"))
    }
    return {**patience, **PACE}


def test_event_through_both_clouds_at_once_is_charged_once_by_containers(clouds: Clouds) -> None:
    """Goal: 200 events, each sent to both brokers in the same instant: 200 charges."""
    with containers(clouds):
        assert_charged_once(clouds, EVENTS)


@pytest.mark.usefixtures("requires_functions_runtime")
@pytest.mark.parametrize("count", [50, pytest.param(EVENTS, marks=pytest.mark.prove)])
def test_event_through_both_clouds_at_once_is_charged_once_by_functions(
    clouds: Clouds, count: int
) -> None:
    """Goal: the same before the functions."""
    with functions(clouds):
        assert_charged_once(clouds, count)


def assert_charged_once(clouds: Clouds, count: int) -> None:
    """Send the events through both clouds, wait until both brokers are rid of them, and count."""
    azure, google = clouds
    warm_up(clouds)
    events = google.customers(count)
    google.fault(FaultKind.DELAY, CONFIRM, before_seconds=CHARGE_SECONDS, count=None)
    send_to_both(clouds, events)
    wait_until(lambda: is_drained(clouds), PATIENCE_SECONDS, poll_seconds=0.2)
    assert google.charges() == Counter(f"cus_{name}" for name in (*WARM_UP, *events))
    states = azure.execute("SELECT state, count(*) FROM chargeonce.records GROUP BY state")
    assert states == [("charged", len(WARM_UP) + count)]
    run = azure.execute("SELECT held_cents, charged_cents FROM chargeonce.runs")
    assert run == [(0, (len(WARM_UP) + count) * AMOUNT_CENTS)]
    assert_both_met(azure, count)


def warm_up(clouds: Clouds) -> None:
    """Have both sides charge something, so that neither is still starting when it counts."""
    azure, google = clouds
    by_azure, by_google = WARM_UP
    azure.send(google.customer(by_azure), by_azure)
    google.publish(google.customer(by_google))
    wait_until(lambda: is_drained(clouds), PATIENCE_SECONDS)


def send_to_both(clouds: Clouds, events: Mapping[str, bytes]) -> None:
    """Send each event from two threads that wait for each other before each."""
    azure, google = clouds
    both = threading.Barrier(2)

    def send(to: Callable[[str, bytes], object]) -> None:
        for name, body in events.items():
            both.wait(PATIENCE_SECONDS)
            to(name, body)

    other = threading.Thread(target=send, args=(lambda name, body: azure.send(body, name),))
    other.start()
    send(lambda _, body: google.publish(body))
    other.join(PATIENCE_SECONDS)
    assert not other.is_alive()


def is_drained(clouds: Clouds) -> bool:
    """Whether both brokers are rid of everything; locks of what was left lapse meanwhile."""
    azure, google = clouds
    queue = azure.emulator.queue(QUEUE)
    if queue.active == 0 and queue.locked > 0:
        azure.lapse_locks()
    return queue.active + queue.locked == 0 and google.is_drained()


def assert_both_met(azure: Desk, count: int) -> None:
    """Each cloud delivered each event, and many a delivery found the other cloud at its charge."""
    rows = azure.execute(
        """
        SELECT count(DISTINCT transport), bool_or(decision = 'busy')
        FROM chargeonce.attempts WHERE customer_id <> ALL (%s) GROUP BY customer_id
        """,
        [list(WARM_UP)],
    )
    assert Counter(transports for transports, _ in rows) == {2: count}
    assert sum(met for _, met in rows) > count / 10
