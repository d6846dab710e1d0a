"""One contestant: two worker processes on a subscription, a Stripe and a database of its own."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from google.pubsub_v1 import PublisherClient, PubsubMessage, SubscriberClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport
from grpc import Channel

from local.demo.comparison.schedule import BAD_CARD, GOOD_CARD, Mishap, Schedule
from local.demo.plan import CAP_PERCENT, CURRENCY, PERIOD
from local.demo.workers import Workers
from local.pubsub_emulator import BacklogSummary, EmulatorProcess, EventFilter, EventKind
from local.stripe_simulator import CustomerSeed, Fault, FaultKind, Match, SimulatorProcess
from local.usual_recipe import BillingRecords
from shared.runs import cap_from_expected
from shared.store.migrations import migrate
from shared.store.postgres import PostgresStore

WORKERS: Final = 2
PLACES: Final = 10
MOST_DELIVERIES: Final = 10
# Long enough that whoever is killed was just charging, and a second delivery meets the first.
ANSWER_SECONDS: Final = 0.3
READ_TIMEOUT_SECONDS: Final = 2
CALL_SECONDS: Final = 30.0

_SETTINGS: Final = {
    "STRIPE_API_KEY": "rk_test_comparison",
    "STRIPE_CONNECT_TIMEOUT_SECONDS": "0.5",
    "STRIPE_READ_TIMEOUT_SECONDS": str(READ_TIMEOUT_SECONDS),
    "CHARGE_BUDGET_SECONDS": "3",
    "CLAIM_LEASE_SECONDS": "6",
    "BILLING_CURRENCY": CURRENCY,
    "BILLING_MAX_DELIVERIES": str(MOST_DELIVERIES),
    "PUBSUB_LEAVE_SECONDS": "1",
    "WORKER_CONCURRENCY": str(PLACES),
}
_RECIPE_OPTIONS: Final = (
    *("--max-messages", str(PLACES)),
    *("--read-timeout-seconds", str(READ_TIMEOUT_SECONDS)),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """Who takes part.

    Attributes:
        name: In documents, and in the names of its topic and subscription.
        title: For people.
        command: A Python module and its arguments.
        money_path: Stripe's endpoint with which it moves money.
    """

    name: str
    title: str
    command: Sequence[str]
    money_path: str


ENTRIES: Final = (
    Entry(
        "unsafe",
        "charge, then ack",
        ("local.usual_recipe", "unsafe", *_RECIPE_OPTIONS),
        "/v1/charges",
    ),
    Entry(
        "safe",
        "the usual recipe",
        ("local.usual_recipe", "safe", *_RECIPE_OPTIONS),
        "/v1/charges",
    ),
    Entry("ours", "chargeonce", ("gcp_function.pull",), "/v1/payment_intents/*/confirm"),
)


@dataclass(slots=True)
class Contestant:
    """An entry at work.

    Attributes:
        entry: Who it is.
        simulator: Its Stripe.
        emulator: The Pub/Sub of all contestants.
        workers: Its processes.
        publisher: The way to its topic.
        workers_stuck: See `Score`.
        messages_stuck: See `Score`.
    """

    entry: Entry
    simulator: SimulatorProcess
    emulator: EmulatorProcess
    workers: Workers
    publisher: PublisherClient
    workers_stuck: int = 0
    messages_stuck: int = 0

    @property
    def topic(self) -> str:
        """Its topic's full name."""
        return self.emulator.topic_path(self.entry.name)

    def publish(self, events: Sequence[bytes]) -> None:
        """Publish events to its topic."""
        messages = [PubsubMessage(data=event) for event in events]
        self.publisher.publish(topic=self.topic, messages=messages, timeout=CALL_SECONDS)

    def backlog(self) -> BacklogSummary:
        """What its subscription holds, and how much of it is out."""
        return self.emulator.control.backlog(self.emulator.subscription_path(self.entry.name))

    def charge_count(self) -> int:
        """How often money has moved."""
        return len(self.simulator.control.ledger())

    def delivery_count(self) -> int:
        """How often a message was handed to its workers."""
        delivered = EventFilter(kind=EventKind.DELIVERED, resource=self.entry.name)
        return len(self.emulator.control.events(delivered))

    def note_who_is_stuck(self) -> None:
        """Remember what its workers hold, now that nothing moves any more."""
        backlog = self.backlog()
        self.messages_stuck = backlog.outstanding
        is_anything_waiting = backlog.messages > backlog.outstanding
        self.workers_stuck = self.workers.count if is_anything_waiting else 0


def enter(
    stack: ExitStack,
    entry: Entry,
    schedule: Schedule,
    database_url: str,
    emulator: EmulatorProcess,
    channel: Channel,
    log_directory: Path,
) -> Contestant:
    """Give an entry all that it needs but its workers; the stack ends it, and those too.

    Args:
        stack: Ends what is started.
        entry: Who takes part.
        schedule: Its customers and mishaps.
        database_url: An empty database.
        emulator: The Pub/Sub of all.
        channel: The way there.
        log_directory: Where its workers' output goes.
    """
    _prepare_database(database_url, schedule)
    simulator = stack.enter_context(SimulatorProcess())
    _prepare_stripe(simulator, entry, schedule)
    publisher = PublisherClient(transport=PublisherGrpcTransport(channel=channel))
    topic = emulator.topic_path(entry.name)
    subscription = emulator.subscription_path(entry.name)
    publisher.create_topic(name=topic)
    publisher.create_topic(name=f"{topic}-dead")
    _subscribe(channel, topic, subscription)
    settings = {
        **emulator.environment,
        **_SETTINGS,
        "DATABASE_URL": database_url,
        "STRIPE_API_BASE": simulator.base_url,
        "PUBSUB_SUBSCRIPTION": subscription,
        "PUBSUB_DEAD_LETTER_TOPIC": f"{topic}-dead",
    }
    log = stack.enter_context((log_directory / f"{entry.name}.log").open("wb"))
    workers = Workers(entry.command, settings, WORKERS, log)
    stack.callback(workers.stop)
    return Contestant(entry, simulator, emulator, workers, publisher)


def _prepare_database(database_url: str, schedule: Schedule) -> None:
    migrate(database_url)
    BillingRecords(database_url).create_table()
    expected_cents = schedule.expected_cents
    with closing(PostgresStore(database_url, pool_size=1)) as store:
        cap_cents = cap_from_expected(expected_cents, CAP_PERCENT)
        store.open_run(PERIOD, CURRENCY, expected_cents, cap_cents)


def _prepare_stripe(simulator: SimulatorProcess, entry: Entry, schedule: Schedule) -> None:
    stripe, path = simulator.control, entry.money_path
    for card in (GOOD_CARD, BAD_CARD):
        ids = [each.stripe_customer_id for each in schedule.subjects if each.card == card]
        stripe.seed_customers(CustomerSeed(ids=ids, payment_method=None, source=card))
    for subject in schedule.subjects:
        if subject.mishap is Mishap.ANSWER_IS_LOST:
            match = Match(method="POST", path=path, customer=subject.stripe_customer_id, count=1)
            stripe.add_fault(Fault(FaultKind.RESET, match, acts=True))
    # After those: the first fault that fits a request strikes it.
    every = Match(method="POST", path=path)
    stripe.add_fault(Fault(FaultKind.DELAY, every, answer_seconds=ANSWER_SECONDS))


def _subscribe(channel: Channel, topic: str, subscription: str) -> None:
    subscriber = SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))
    policy = {
        "dead_letter_topic": f"{topic}-dead",
        "max_delivery_attempts": MOST_DELIVERIES,
    }
    subscriber.create_subscription(
        request={"name": subscription, "topic": topic, "dead_letter_policy": policy}
    )
