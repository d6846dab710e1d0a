"""The failure modes of billing from Service Bus: each is sprung on the usual recipe, then on ours.

A scenario is one function. The usual consumer has to charge twice in it, by the ledger of money
that really moved, or the trap would prove nothing; ours has to charge once and may abandon nothing.
Ours is the consumer, and in the three main modes the function app as well.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from uuid import uuid4

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiver,
    ServiceBusSubQueue,
)

from local.servicebus_emulator import (
    Fault,
    FaultKind,
    Match,
    RenewalOutcome,
    SettlementKind,
)
from local.stripe_simulator import Fault as StripeFault
from local.stripe_simulator import FaultKind as StripeFaultKind
from local.stripe_simulator import Match as StripeMatch
from local.usual_recipe import UnsafeConsumer, connect_stripe, key_from_message_id, no_key
from local.usual_recipe.consumers import Key
from local.usual_recipe.servicebus import PeekLockLoop
from tests.azure.conftest import OpenDesk
from tests.support.servicebus import COMPLETED, Desk, running_consumer, wait_until

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

LAPSE_INTERVAL_SECONDS = 0.5
PROVE_SECONDS = 600.0
HERD_POLL_SECONDS = 0.3

# Stripe's SDK repeats a request twice, under one key.
ATTEMPTS_OF_THE_SDK = 3

# What `OperationTimeoutError`, `ServiceBusServerBusyError` and a plain `ServiceBusError` come of.
ERROR_CONDITIONS = {
    "timeout": "com.microsoft:timeout",
    "server-busy": "com.microsoft:server-busy",
    "internal-error": "amqp:internal-error",
}

CHARGE = "/v1/charges"
CONFIRM = "/v1/payment_intents/*/confirm"


@dataclass(frozen=True, slots=True)
class Contender:
    """Somebody who consumes.

    Args:
        name: who it is, and its queue.
        money_path: the request to Stripe that moves the money.
        consume: runs so many consumers of a desk's queue.
        is_safe: whether it has to charge once; else it has to charge again.
    """

    name: str
    money_path: str
    consume: Callable[[Desk, int], AbstractContextManager[None]]
    is_safe: bool

    def assert_charges(self, desk: Desk, name: str) -> None:
        """The trap is sprung, or it is cured."""
        if self.is_safe:
            wait_until(lambda: desk.state(name) == "charged")
            assert desk.charged_cents(name) == [5000]
        else:
            wait_until(lambda: len(desk.charged_cents(name)) > 1)


@contextmanager
def our_consumers(desk: Desk, count: int) -> Iterator[None]:
    """Run some of our consumers, each as a process of one thread would be."""
    environment = {**desk.environment, "WORKER_CONCURRENCY": "1"}
    with ExitStack() as stack:
        paths = [
            stack.enter_context(running_consumer(environment, retries=0)) for _ in range(count)
        ]
        yield
        # All at once; leaving the block then waits for each.
        for path in paths:
            path.consumer.stop(0)


@contextmanager
def usual_consumers(desk: Desk, count: int, key: Key = no_key, batch: int = 1) -> Iterator[None]:
    """Run some consumers of the usual kind."""
    client = connect_stripe("rk_test_usual", desk.environment["STRIPE_API_BASE"])
    loops = [
        PeekLockLoop(
            lambda: ServiceBusClient.from_connection_string(
                desk.emulator.connection_string, retry_total=0
            ),
            desk.queue,
            UnsafeConsumer(client, key).handle,
            batch,
        )
        for _ in range(count)
    ]
    for loop in loops:
        loop.start()
    try:
        yield
    finally:
        for loop in loops:
            loop.stop()
        for loop in loops:
            loop.join()


def keyed_by_message(desk: Desk, count: int) -> AbstractContextManager[None]:
    """The usual consumers with the message id for a key."""
    return usual_consumers(desk, count, key_from_message_id)


@contextmanager
def our_functions(desk: Desk, count: int) -> Iterator[None]:
    """Run the function app under the real runtime; it takes as many at once as host.json says."""
    from local.functions_host.host import FunctionsHost

    with FunctionsHost(desk.environment) as host:
        yield
        assert host.failures == []


OURS = Contender("ours", CONFIRM, our_consumers, is_safe=True)
FUNCTIONS = Contender("functions", CONFIRM, our_functions, is_safe=True)
KEYLESS = Contender("keyless", CHARGE, usual_consumers, is_safe=False)
KEYED = Contender("keyed", CHARGE, keyed_by_message, is_safe=False)

CONSUMERS = 2


def contenders(*others: Contender) -> pytest.MarkDecorator:
    """The trap first, then the cure."""
    return pytest.mark.parametrize(
        "consumed", [*others, OURS], ids=lambda each: each.name, indirect=True
    )


@pytest.fixture(scope="module")
def consumed(
    request: pytest.FixtureRequest, open_desk: OpenDesk
) -> Iterator[tuple[Contender, Desk]]:
    """A desk whose queue two consumers of a kind consume, test after test."""
    contender: Contender = request.param
    if contender is FUNCTIONS:
        request.getfixturevalue("requires_functions_runtime")
    with open_desk(contender.name) as desk, contender.consume(desk, CONSUMERS):
        yield contender, desk


@pytest.fixture
def contender(consumed: tuple[Contender, Desk]) -> Contender:
    """Who consumes."""
    return consumed[0]


@pytest.fixture
def stage(consumed: tuple[Contender, Desk]) -> Iterator[Desk]:
    """Their desk, as it was found."""
    contender, desk = consumed
    yield desk
    if contender.is_safe:
        kinds = {record.kind for record in desk.emulator.settlements(desk.queue)}
        assert SettlementKind.ABANDON not in kinds
    desk.forget()


def settle_down(desk: Desk, message_ids: Sequence[str]) -> None:
    """Let locks lapse, twice a second at most, until every message has been settled for good."""
    lapsed_at = time.monotonic()

    def is_settled() -> bool:
        nonlocal lapsed_at
        status = desk.emulator.queue(desk.queue)
        if status.locked > 0 and time.monotonic() - lapsed_at > LAPSE_INTERVAL_SECONDS:
            lapsed_at = time.monotonic()
            desk.lapse_locks()
        return status.active + status.locked == 0

    wait_until(lambda: all(desk.deliveries(message_id) for message_id in message_ids))
    wait_until(is_settled)


@contenders(KEYLESS, FUNCTIONS)
def test_lock_expires_while_stripe_answers_because_its_renewal_fails(
    stage: Desk, contender: Contender
) -> None:
    """Goal: failure mode 1. A second consumer gets the message while the first one's charge runs.

    Method: renewals are answered with server-busy; the lock lapses after one was refused.
    """
    stage.set_lock(2)
    event = stage.customer("slow")
    stage.fault("slow", StripeFaultKind.DELAY, contender.money_path, answer_seconds=1.8)
    stage.emulator.add_fault(Fault(FaultKind.RENEWAL_BUSY, Match(entity=stage.queue)))
    stage.send(event, "slow-1")
    wait_until(
        lambda: any(
            renewal.outcome is RenewalOutcome.SERVER_BUSY and renewal.message_id == "slow-1"
            for renewal in stage.emulator.renewals(stage.queue)
        )
    )
    stage.lapse_locks()
    settle_down(stage, ["slow-1"])
    contender.assert_charges(stage, "slow")


@contenders(KEYED, FUNCTIONS)
def test_resubmitted_dead_letter_has_a_new_message_id(stage: Desk, contender: Contender) -> None:
    """Goal: failure mode 2. A charged message ends among the dead letters; an operator resends it.

    Method: it is charged, but the broker does not take its completion, and was to deliver it once.
    """
    charge_but_dead_letter(stage, "dead")
    stage.wait_for(resubmit_as_tools_do(stage), COMPLETED)
    contender.assert_charges(stage, "dead")


@contenders(KEYED)
def test_central_dead_letter_processor_builds_new_messages(
    stage: Desk, contender: Contender
) -> None:
    """Goal: the side path of failure mode 2, by way of a central queue for dead letters."""
    charge_but_dead_letter(stage, "central")
    with connect(stage) as client:
        forward_dead_letters(client, stage.queue, "central")
        with client.get_queue_receiver("central") as letters:
            new_message_id = rebuild(letters, stage)
    stage.wait_for(new_message_id, COMPLETED)
    contender.assert_charges(stage, "central")


@contenders(KEYLESS, FUNCTIONS)
def test_abandon_after_a_timeout_redelivers_at_once(stage: Desk, contender: Contender) -> None:
    """Goal: failure mode 3. Stripe has charged, its answer is lost, and the message comes again."""
    event = stage.customer("timeout")
    stage.fault("timeout", StripeFaultKind.RESET, contender.money_path, count=ATTEMPTS_OF_THE_SDK)
    stage.send(event, "timeout-1")
    settle_down(stage, ["timeout-1"])
    contender.assert_charges(stage, "timeout")


@pytest.mark.parametrize("condition", ["timeout", "server-busy", "internal-error"])
@contenders(KEYLESS)
def test_service_bus_error_after_stripe_charged(
    stage: Desk, contender: Contender, condition: str
) -> None:
    """Goal: the side path of failure mode 3: OperationTimeoutError and other ServiceBusErrors."""
    name = f"error-{condition}"
    refusal = Fault(
        FaultKind.SETTLEMENT_REFUSED,
        # Of that message alone: another test's last settlement may still be on its way.
        Match(message_id=name, operation="complete", count=1),
        condition=ERROR_CONDITIONS[condition],
    )
    stage.emulator.add_fault(refusal)
    stage.send(stage.customer(name), name)
    settle_down(stage, [name])
    contender.assert_charges(stage, name)


@contenders(KEYED)
def test_both_namespaces_of_a_geo_redundant_pair_deliver_at_once(
    stage: Desk, contender: Contender
) -> None:
    """Goal: the producer sends to both namespaces; both consumers are at Stripe at the same time.

    Method: Stripe takes its time before it acts, so that the charges overlap.
    """
    event = stage.customer("pair")
    stage.fault("pair", StripeFaultKind.DELAY, contender.money_path, before_seconds=0.5)
    with stage.in_another_namespace() as second, contender.consume(second, 1):
        for number, namespace in enumerate((stage, second)):
            namespace.send(event, f"pair-{number}")
        settle_down(stage, ["pair-0"])
        settle_down(second, ["pair-1"])
    contender.assert_charges(stage, "pair")


WHOLE_HERD = pytest.param(50, marks=pytest.mark.prove)


def send_herd(desk: Desk, money_path: str, messages_each: int) -> Sequence[str]:
    """Give ten consumers so many messages each, and throttle their renewals; return the customers.

    A lock lasts 2 real seconds, of which a charge takes more than half.
    """
    desk.set_lock(2, max_delivery_count=1000)
    throttle = Fault(FaultKind.RENEWAL_THROTTLE, Match(entity=desk.queue), per_second=1)
    desk.emulator.add_fault(throttle)
    desk.stripe.add_fault(
        StripeFault(
            StripeFaultKind.DELAY,
            StripeMatch(method="POST", path=money_path),
            answer_seconds=1.2,
        )
    )
    names = [f"herd-{number}" for number in range(10 * messages_each)]
    for name in names:
        desk.send(desk.customer(name), name)
    return names


@pytest.mark.parametrize("messages_each", [2, WHOLE_HERD])
def test_throttled_herd_of_renewals_double_charges_the_usual_way(
    desk: Desk, messages_each: int
) -> None:
    """Goal: ten consumers' renewals fall due in the same second and are throttled: the trap.

    Method: each takes its messages in one batch, as the usual advice for throughput has it.
    """
    send_herd(desk, CHARGE, messages_each)
    with usual_consumers(desk, 10, batch=messages_each):
        wait_until(
            lambda: max(charge_counts(desk).values(), default=0) > 1,
            PROVE_SECONDS,
            HERD_POLL_SECONDS,
        )
    renewals = desk.emulator.renewals(desk.queue)
    throttled = {
        renewal.message_id for renewal in renewals if renewal.outcome is RenewalOutcome.SERVER_BUSY
    }
    # One a second is granted. A refusal breaks the SDK's link, so no consumer asks for much more.
    assert len(throttled) > 10 / 2


@pytest.mark.parametrize("messages_each", [1, WHOLE_HERD])
def test_throttled_herd_of_renewals_is_charged_once(desk: Desk, messages_each: int) -> None:
    """Goal: the same herd before ten of our consumers."""
    names = send_herd(desk, CONFIRM, messages_each)

    def is_done() -> bool:
        status = desk.emulator.queue(desk.queue)
        return status.active + status.locked == 0

    with our_consumers(desk, 10):
        wait_until(is_done, PROVE_SECONDS, HERD_POLL_SECONDS)
    assert charge_counts(desk) == Counter(f"cus_{name}" for name in names)
    states = desk.execute("SELECT DISTINCT state FROM chargeonce.records")
    assert states == [("charged",)]


def charge_counts(desk: Desk) -> Counter[str | None]:
    """How often each customer was charged."""
    return Counter(entry.customer for entry in desk.stripe.ledger())


def charge_but_dead_letter(desk: Desk, name: str) -> None:
    """Let a message be charged and yet end among the dead letters."""
    desk.set_lock(60, max_delivery_count=1)
    message_id = f"{name}-1"
    refusal = Match(message_id=message_id, operation="complete", count=1)
    desk.emulator.add_fault(
        Fault(FaultKind.SETTLEMENT_REFUSED, refusal, condition="amqp:internal-error")
    )
    desk.send(desk.customer(name), message_id)
    wait_until(lambda: desk.settlements(message_id))
    desk.lapse_locks()
    wait_until(lambda: desk.emulator.queue(desk.queue).dead_lettered == 1)
    assert desk.charged_cents(name) == [5000]


def connect(desk: Desk) -> ServiceBusClient:
    """A client for an operator's tools. Without pings its senders close at once."""
    return ServiceBusClient.from_connection_string(desk.emulator.connection_string, keep_alive=None)


def resubmit_as_tools_do(desk: Desk) -> str:
    """Send the body of the dead letter again, in a new message; return its id."""
    with (
        connect(desk) as client,
        client.get_queue_receiver(desk.queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as letters,
    ):
        return rebuild(letters, desk)


def forward_dead_letters(client: ServiceBusClient, queue: str, central: str) -> None:
    """Do what `forwardDeadLetteredMessagesTo` does: the message id stays."""
    with (
        client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as letters,
        client.get_queue_sender(central) as sender,
    ):
        for letter in letters.receive_messages(10, max_wait_time=5):
            sender.send_messages(ServiceBusMessage(str(letter), message_id=letter.message_id))
            letters.complete_message(letter)


def rebuild(letters: ServiceBusReceiver, desk: Desk) -> str:
    """Send the only message of a receiver to the desk's queue, in a new message with a new id."""
    (letter,) = letters.receive_messages(1, max_wait_time=5)
    message_id = str(uuid4())
    desk.send(str(letter).encode(), message_id)
    letters.complete_message(letter)
    return message_id
