"""The running parts of a demo: all real processes, on the loopback interface."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Final

from azure_function.envelope import TRANSPORT as SERVICE_BUS
from gcp_function.envelope import TRANSPORT as PUBSUB_PUSH
from gcp_function.pull import TRANSPORT as PUBSUB_PULL
from local.demo.broker import DEAD_LETTER_TOPIC, PROJECT, Broker
from local.demo.emulator import EmulatorBroker
from local.demo.mischief import PATIENT_READ_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS
from local.demo.observer import Observer
from local.demo.own_emulator import OwnEmulatorBroker
from local.demo.plan import CURRENCY, PERIOD, Cloud, Customer, DemoPlan, Kind, Message, Script
from local.demo.pusher import Pusher
from local.demo.screen import Screen
from local.demo.service_bus import QueueConsumers, ServiceBusQueue, start_consumers
from local.demo.vault import VaultProxy, start_proxy
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
PATIENT_BUDGET_SECONDS: Final = 5
PATIENT_LEASE_SECONDS: Final = 9

PROCESSES: Final = 2
WORKERS: Final = 2
THREADS: Final = 8
PARTS: Final = 6
PUBLISHED_AT_ONCE: Final = 20


@dataclass(slots=True)
class Stage:
    """The parts, and what is remembered of the play.

    Attributes:
        queue: Service Bus's, as `broker` is Pub/Sub's.
        consumers: Those of the queue.
        proxy: The spend-cap proxy, which may still be starting.
        settings: The function's, which the pull workers and reconcile have too.
        transports: The ways in which each cloud's messages come.
        planned_deliveries: How many there have to be, each message counted once for each way.
        published: Transport and id of what has to be settled so far.
        messages: How many were published, by cloud.
        killed_processes: How many, by cloud.
        most_committed_cents: The most that the run was seen to have charged and held.
    """

    plan: DemoPlan
    screen: Screen
    script: Script
    stripe: ControlClient
    broker: Broker
    function: GoogleFunction
    queue: ServiceBusQueue
    consumers: QueueConsumers
    proxy: VaultProxy
    store: PostgresStore
    observer: Observer
    settings: Mapping[str, str]
    transports: Mapping[Cloud, Sequence[str]]
    planned_deliveries: int = 0
    published: set[tuple[str, str]] = field(default_factory=set)
    messages: Counter[Cloud] = field(default_factory=Counter)
    killed_processes: Counter[Cloud] = field(default_factory=Counter)
    most_committed_cents: int = 0

    def publish(self, messages: Sequence[Message], doing: str) -> None:
        """Publish messages, remember their ids, and tell how far the whole is meanwhile."""
        for message in messages:
            self.planned_deliveries += sum(len(self.transports[each]) for each in message.clouds)
        for start in range(0, len(messages), PUBLISHED_AT_ONCE):
            batch = messages[start : start + PUBLISHED_AT_ONCE]
            for cloud, publish in self._publishers().items():
                chosen = [message for message in batch if cloud in message.clouds]
                message_ids = publish(chosen) if chosen else []
                self.messages[cloud] += len(message_ids)
                self.published.update(product(self.transports[cloud], message_ids))
            self.settled_share(doing)

    def settled_share(self, doing: str) -> float:
        """Look at the database, tell how far it is, and return how much is settled."""
        run = self.store.get_run(PERIOD)
        assert run is not None
        committed_cents = run.charged_cents + run.held_cents
        self.most_committed_cents = max(self.most_committed_cents, committed_cents)
        settled = len(self.published) - self.unsettled_count()
        self.screen.show_progress(doing, settled, self.planned_deliveries)
        return settled / self.planned_deliveries

    def unsettled_count(self) -> int:
        """How many messages are not done with, counted once for each way that they come."""
        return len(self.published - self.observer.settled_messages())

    def _publishers(self) -> Mapping[Cloud, Callable[[Sequence[Message]], Sequence[str]]]:
        return {Cloud.SERVICE_BUS: self.queue.publish, Cloud.PUBSUB: self.broker.publish}


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
    proxy = start_proxy(stack, database_url, simulator.base_url, log_directory)
    screen.show_progress("starting Pub/Sub", 2, PARTS)
    broker = _start_broker(stack, plan)
    screen.show_progress("starting Service Bus", 3, PARTS)
    queue = stack.enter_context(ServiceBusQueue(plan.seed))
    shared = _shared_settings(database_url, simulator.base_url)
    screen.show_progress("starting who bills from Pub/Sub", 4, PARTS)
    google = {**shared, **_google_settings(), **broker.environment}
    function = _start_function(stack, google, broker, log_directory)
    pulling = _start_workers(stack, google, broker.pull_subscription, log_directory)
    screen.show_progress("starting who bills from Service Bus", 5, PARTS)
    azure = {**shared, **_azure_settings(), **queue.environment}
    consumers = start_consumers(stack, azure, log_directory)
    for workers in [*pulling, consumers.processes]:
        # First of all in the end, so that they end side by side.
        stack.callback(workers.dismiss)
    return Stage(
        plan=plan,
        screen=screen,
        script=script,
        stripe=simulator.control,
        broker=broker,
        function=function,
        queue=queue,
        consumers=consumers,
        proxy=proxy,
        store=stack.enter_context(closing(PostgresStore(database_url, pool_size=1))),
        observer=stack.enter_context(Observer(database_url)),
        settings=google,
        transports={
            Cloud.PUBSUB: [PUBSUB_PUSH, *[PUBSUB_PULL] * len(pulling)],
            Cloud.SERVICE_BUS: [SERVICE_BUS],
        },
    )


def _start_broker(stack: ExitStack, plan: DemoPlan) -> Broker:
    """Start what was asked for; Google's emulator may be missing, or not work here."""
    if plan.delivery == "pusher":
        return stack.enter_context(Pusher(plan.seed))
    if plan.delivery == "gcloud":
        return stack.enter_context(EmulatorBroker(_emulator_program()))
    return stack.enter_context(OwnEmulatorBroker(plan.seed))


def _start_function(
    stack: ExitStack, settings: Mapping[str, str], broker: Broker, log_directory: Path
) -> GoogleFunction:
    function = stack.enter_context(GoogleFunction("bill", settings))
    stack.callback(lambda: (log_directory / "function.log").write_text(function.log()))
    broker.push_to(function.url)
    return function


def _start_workers(
    stack: ExitStack, settings: Mapping[str, str], subscription: str | None, log_directory: Path
) -> Sequence[Workers]:
    """Start those that pull, if there is anything to pull from."""
    if subscription is None:
        return []
    log = stack.enter_context((log_directory / "workers.log").open("wb"))
    own = {
        "PUBSUB_SUBSCRIPTION": subscription,
        "WORKER_CONCURRENCY": str(THREADS),
    }
    workers = Workers(("gcp_function.pull",), {**settings, **own}, WORKERS, log)
    stack.callback(workers.stop)
    workers.start()
    return [workers]


def _emulator_program() -> Path:
    program = find_tool("pubsub-emulator")
    if isinstance(program, Missing):
        raise PubsubEmulatorError(str(program))
    return program


def _shared_settings(database_url: str, stripe_url: str) -> Mapping[str, str]:
    return {
        "DATABASE_URL": database_url,
        "STRIPE_API_KEY": "rk_test_demo",
        "STRIPE_API_BASE": stripe_url,
        "STRIPE_CONNECT_TIMEOUT_SECONDS": str(CONNECT_TIMEOUT_SECONDS),
        "BILLING_CURRENCY": CURRENCY,
    }


def _azure_settings() -> Mapping[str, str]:
    return {
        "STRIPE_READ_TIMEOUT_SECONDS": str(PATIENT_READ_TIMEOUT_SECONDS),
        "CHARGE_BUDGET_SECONDS": str(PATIENT_BUDGET_SECONDS),
        "CLAIM_LEASE_SECONDS": str(PATIENT_LEASE_SECONDS),
    }


def _google_settings() -> Mapping[str, str]:
    return {
        "STRIPE_READ_TIMEOUT_SECONDS": str(READ_TIMEOUT_SECONDS),
        "CHARGE_BUDGET_SECONDS": str(BUDGET_SECONDS),
        "CLAIM_LEASE_SECONDS": str(LEASE_SECONDS),
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
