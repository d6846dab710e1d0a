"""The running parts of a demo: all real processes, on the loopback interface."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gcp_function import envelope, pull
from local.demo.broker import DEAD_LETTER_TOPIC, PROJECT, Broker
from local.demo.emulator import EmulatorBroker
from local.demo.mischief import READ_TIMEOUT_SECONDS
from local.demo.observer import Observer
from local.demo.own_emulator import OwnEmulatorBroker
from local.demo.plan import CURRENCY, PERIOD, Customer, DemoPlan, Kind, Message, Script
from local.demo.pusher import Pusher
from local.demo.screen import Screen
from local.demo.workers import Workers
from local.google_function import GoogleFunction
from local.postgres import database_server
from local.pubsub_emulator_gcloud import PubsubEmulatorError
from local.stripe_simulator import ControlClient, CustomerSeed, SimulatorProcess
from local.tools import Missing, find_tool
from shared.store.migrations import migrate
from shared.store.postgres import PostgresStore

# Short, so that what a killed process held is taken over while somebody watches.
CONNECT_TIMEOUT_SECONDS: Final = 0.5
BUDGET_SECONDS: Final = 3
LEASE_SECONDS: Final = 5

PROCESSES: Final = 2
WORKERS: Final = 2
LEAVE_SECONDS: Final = 1
THREADS: Final = 8
PARTS: Final = 4
PUBLISHED_AT_ONCE: Final = 20


@dataclass(slots=True)
class Stage:
    """The parts, and what is remembered of the play.

    Attributes:
        settings: The function's, which the workers and reconcile have too.
        transports: The ways in which each message comes.
        planned_messages: How many there are, those not yet published among them.
        published: Ids of all messages so far.
        most_committed_cents: The most that the run was seen to have charged and held.
    """

    plan: DemoPlan
    screen: Screen
    script: Script
    stripe: ControlClient
    broker: Broker
    function: GoogleFunction
    store: PostgresStore
    observer: Observer
    settings: Mapping[str, str]
    transports: Sequence[str]
    planned_messages: int = 0
    published: set[str] = field(default_factory=set)
    most_committed_cents: int = 0
    killed_processes: int = 0

    def publish(self, messages: Sequence[Message], doing: str) -> None:
        """Publish messages, remember their ids, and tell how far the whole is meanwhile."""
        self.planned_messages += len(messages)
        for start in range(0, len(messages), PUBLISHED_AT_ONCE):
            batch = messages[start : start + PUBLISHED_AT_ONCE]
            self.published.update(self.broker.publish(batch))
            self.settled_share(doing)

    def settled_share(self, doing: str) -> float:
        """Look at the database, tell how far it is, and return how much is settled."""
        run = self.store.get_run(PERIOD)
        assert run is not None
        committed_cents = run.charged_cents + run.held_cents
        self.most_committed_cents = max(self.most_committed_cents, committed_cents)
        planned = self.planned_messages * len(self.transports)
        settled = planned - self.unsettled_count() - self._unpublished_count()
        self.screen.show_progress(doing, settled, planned)
        return settled / planned

    def unsettled_count(self) -> int:
        """How many messages are not done with, counted once for each way that they come."""
        expected = {(way, message_id) for way in self.transports for message_id in self.published}
        return len(expected - self.observer.settled_messages())

    def _unpublished_count(self) -> int:
        return (self.planned_messages - len(self.published)) * len(self.transports)


def set_up(
    stack: ExitStack, plan: DemoPlan, script: Script, screen: Screen, log_directory: Path
) -> Stage:
    """Start every part.

    Args:
        stack: Ends the parts, the last one first.
        plan: What was asked for.
        script: What will be published.
        screen: Where the demo tells how far it is.
        log_directory: Where the processes' logs go.
    """
    screen.show_progress("starting PostgreSQL", 0, PARTS)
    database_url = stack.enter_context(database_server(fsync=False)).create_database()
    migrate(database_url)
    screen.show_progress("starting the Stripe simulator", 1, PARTS)
    simulator = stack.enter_context(SimulatorProcess(plan.seed))
    _seed_customers(simulator.control, script.customers)
    screen.show_progress("starting Pub/Sub", 2, PARTS)
    broker = _start_broker(stack, plan)
    screen.show_progress("starting the push function", 3, PARTS)
    settings = _settings(database_url, simulator.base_url, broker.environment)
    function = stack.enter_context(GoogleFunction("bill", settings))
    stack.callback(lambda: (log_directory / "function.log").write_text(function.log()))
    broker.push_to(function.url)
    transports = [envelope.TRANSPORT]
    if broker.pull_subscription is not None:
        transports.append(pull.TRANSPORT)
        _start_workers(stack, settings, broker.pull_subscription, log_directory)
    return Stage(
        plan=plan,
        screen=screen,
        script=script,
        stripe=simulator.control,
        broker=broker,
        function=function,
        store=stack.enter_context(closing(PostgresStore(database_url, pool_size=1))),
        observer=stack.enter_context(Observer(database_url)),
        settings=settings,
        transports=transports,
    )


def _start_broker(stack: ExitStack, plan: DemoPlan) -> Broker:
    """Start what was asked for; Google's emulator may be missing, or not work here."""
    if plan.delivery == "pusher":
        return stack.enter_context(Pusher(plan.seed))
    if plan.delivery == "gcloud":
        return stack.enter_context(EmulatorBroker(_emulator_program()))
    return stack.enter_context(OwnEmulatorBroker(plan.seed))


def _start_workers(
    stack: ExitStack, settings: Mapping[str, str], subscription: str, log_directory: Path
) -> None:
    log = stack.enter_context((log_directory / "workers.log").open("wb"))
    own = {
        "PUBSUB_SUBSCRIPTION": subscription,
        "PUBSUB_LEAVE_SECONDS": str(LEAVE_SECONDS),
        "WORKER_CONCURRENCY": str(THREADS),
    }
    workers = Workers(("gcp_function.pull",), {**settings, **own}, WORKERS, log)
    stack.callback(workers.stop)
    workers.start()


def _emulator_program() -> Path:
    program = find_tool("pubsub-emulator")
    if isinstance(program, Missing):
        raise PubsubEmulatorError(str(program))
    return program


def _settings(
    database_url: str, stripe_url: str, broker_environment: Mapping[str, str]
) -> Mapping[str, str]:
    return {
        **broker_environment,
        "DATABASE_URL": database_url,
        "STRIPE_API_KEY": "rk_test_demo",
        "STRIPE_API_BASE": stripe_url,
        "STRIPE_CONNECT_TIMEOUT_SECONDS": str(CONNECT_TIMEOUT_SECONDS),
        "STRIPE_READ_TIMEOUT_SECONDS": str(READ_TIMEOUT_SECONDS),
        "CHARGE_BUDGET_SECONDS": str(BUDGET_SECONDS),
        "CLAIM_LEASE_SECONDS": str(LEASE_SECONDS),
        "BILLING_CURRENCY": CURRENCY,
        "GOOGLE_CLOUD_PROJECT": PROJECT,
        "PUBSUB_DEAD_LETTER_TOPIC": DEAD_LETTER_TOPIC,
        # Two workers behind one address; gunicorn starts one again that dies.
        "WORKERS": str(PROCESSES),
        "THREADS": str(THREADS),
        # Only this machine can reach the endpoint.
        "PUBSUB_PUSH_AUTH": "none",
    }


def _seed_customers(stripe: ControlClient, customers: Sequence[Customer]) -> None:
    ids_by_card: defaultdict[str | None, list[str]] = defaultdict(list)
    for customer in customers:
        if customer.kind is not Kind.IS_UNKNOWN_TO_STRIPE:
            ids_by_card[customer.card].append(customer.stripe_customer_id)
    for card, ids in ids_by_card.items():
        stripe.seed_customers(CustomerSeed(ids=ids, payment_method=card))
