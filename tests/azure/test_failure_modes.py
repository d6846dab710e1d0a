"""The failure modes of billing from Service Bus: each is sprung on the usual recipe, then on ours.

A scenario is one function. The usual consumer has to charge twice in it, by the ledger of money
that really moved, or the trap would prove nothing; ours has to charge once.
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
    SettlementOutcome,
)
from local.stripe_simulator import Fault as StripeFault
from local.stripe_simulator import FaultKind as StripeFaultKind
from local.stripe_simulator import Match as StripeMatch
from local.usual_recipe import UnsafeConsumer, connect_stripe, key_from_message_id, no_key
from local.usual_recipe.consumers import Key
from local.usual_recipe.servicebus import PeekLockLoop
from tests.support.servicebus import COMPLETED, Desk, running_consumer, wait_until

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

LAPSE_INTERVAL_SECONDS = 0.5
PROVE_SECONDS = 600.0
HERD_POLL_SECONDS = 0.3

# Stripe's SDK repeats a request twice, under one key.
ATTEMPTS_OF_THE_SDK = 3

CHARGE = "/v1/charges"
CONFIRM = "/v1/payment_intents/*/confirm"


@dataclass(frozen=True, slots=True)
class Contender:
    """Somebody who consumes.

    Args:
        name: who it is.
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
        charged = desk.charged_cents(name)
        if self.is_safe:
            assert charged == [5000]
            assert desk.state(name) == "charged"
        else:
            assert len(charged) > 1


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


OURS = Contender("ours", CONFIRM, our_consumers, is_safe=True)
KEYLESS = Contender("usual", CHARGE, usual_consumers, is_safe=False)
KEYED = Contender("usual", CHARGE, keyed_by_message, is_safe=False)


def contenders(*usual: Contender) -> pytest.MarkDecorator:
    """The trap first, then the cure."""
    return pytest.mark.parametrize("contender", [*usual, OURS], ids=lambda each: each.name)


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


@contenders(KEYLESS)
def test_lock_expires_while_stripe_answers_because_its_renewal_fails(
    desk: Desk, contender: Contender
) -> None:
    """Goal: failure mode 1. A second consumer gets the message while the first one's charge runs.

    Method: renewals are answered with server-busy; the lock lapses after one was refused.
    """
    desk.set_lock(3)
    event = desk.customer("slow")
    desk.fault("slow", StripeFaultKind.DELAY, contender.money_path, answer_seconds=2.5)
    desk.emulator.add_fault(Fault(FaultKind.RENEWAL_BUSY, Match(entity=desk.queue)))
    with contender.consume(desk, 2):
        desk.send(event, "slow-1")
        wait_until(
            lambda: any(
                renewal.outcome is RenewalOutcome.SERVER_BUSY and renewal.message_id == "slow-1"
                for renewal in desk.emulator.renewals(desk.queue)
            )
        )
        desk.lapse_locks()
        settle_down(desk, ["slow-1"])
    contender.assert_charges(desk, "slow")


@contenders(KEYED)
def test_resubmitted_dead_letter_has_a_new_message_id(desk: Desk, contender: Contender) -> None:
    """Goal: failure mode 2. A charged message ends among the dead letters; an operator resends it.

    Method: it is charged, but the broker does not take its completion, and was to deliver it once.
    """
    with contender.consume(desk, 1):
        charge_but_dead_letter(desk, "dead")
        resubmit_as_tools_do(desk)
        wait_until(lambda: COMPLETED in all_settlements(desk))
    contender.assert_charges(desk, "dead")


@contenders(KEYED)
def test_central_dead_letter_processor_builds_new_messages(
    desk: Desk, contender: Contender
) -> None:
    """Goal: the side path of failure mode 2, by way of a central queue for dead letters."""
    with (
        ServiceBusClient.from_connection_string(desk.emulator.connection_string) as client,
        contender.consume(desk, 1),
    ):
        charge_but_dead_letter(desk, "central")
        forward_dead_letters(client, desk.queue, "central")
        rebuild_messages(client, "central", desk.queue)
        wait_until(lambda: COMPLETED in all_settlements(desk))
    contender.assert_charges(desk, "central")


@contenders(KEYLESS)
def test_abandon_after_a_timeout_redelivers_at_once(desk: Desk, contender: Contender) -> None:
    """Goal: failure mode 3. Stripe has charged, its answer is lost, and the message comes again."""
    event = desk.customer("timeout")
    desk.fault("timeout", StripeFaultKind.RESET, contender.money_path, count=ATTEMPTS_OF_THE_SDK)
    with contender.consume(desk, 2):
        desk.send(event, "timeout-1")
        settle_down(desk, ["timeout-1"])
    contender.assert_charges(desk, "timeout")


@pytest.mark.parametrize("condition", ["com.microsoft:timeout", "amqp:internal-error"])
@contenders(KEYLESS)
def test_service_bus_error_after_stripe_charged(
    desk: Desk, contender: Contender, condition: str
) -> None:
    """Goal: the side path of failure mode 3: OperationTimeoutError and other ServiceBusErrors."""
    event = desk.customer("busy")
    refusal = Fault(
        FaultKind.SETTLEMENT_REFUSED,
        Match(entity=desk.queue, operation="complete", count=1),
        condition=condition,
    )
    desk.emulator.add_fault(refusal)
    with contender.consume(desk, 1):
        desk.send(event, "busy-1")
        settle_down(desk, ["busy-1"])
    contender.assert_charges(desk, "busy")


@contenders(KEYED)
def test_both_namespaces_of_a_geo_redundant_pair_deliver_at_once(
    desk: Desk, second_namespace: Desk, contender: Contender
) -> None:
    """Goal: the producer sends to both namespaces; both consumers are at Stripe at the same time.

    Method: Stripe takes its time before it acts, so that the charges overlap.
    """
    event = desk.customer("pair")
    desk.fault("pair", StripeFaultKind.DELAY, contender.money_path, before_seconds=0.5)
    with contender.consume(desk, 1), contender.consume(second_namespace, 1):
        for number, namespace in enumerate((desk, second_namespace)):
            namespace.send(event, f"pair-{number}")
        settle_down(desk, ["pair-0"])
        settle_down(second_namespace, ["pair-1"])
    contender.assert_charges(desk, "pair")


@pytest.fixture
def second_namespace(desk: Desk) -> Iterator[Desk]:
    """The same queue in another namespace, over the same database and Stripe."""
    with desk.in_another_namespace() as other:
        yield other


HERD = pytest.mark.parametrize("messages_each", [2, pytest.param(50, marks=pytest.mark.prove)])


def send_herd(desk: Desk, money_path: str, messages_each: int) -> Sequence[str]:
    """Give ten consumers so many messages each, and throttle their renewals; return the customers.

    A lock lasts 3 real seconds, of which a charge takes more than half.
    """
    desk.set_lock(3, max_delivery_count=1000)
    throttle = Fault(FaultKind.RENEWAL_THROTTLE, Match(entity=desk.queue), per_second=1)
    desk.emulator.add_fault(throttle)
    desk.stripe.add_fault(
        StripeFault(
            StripeFaultKind.DELAY,
            StripeMatch(method="POST", path=money_path),
            answer_seconds=1.7,
        )
    )
    names = [f"herd-{number}" for number in range(10 * messages_each)]
    for name in names:
        desk.send(desk.customer(name), name)
    return names


@HERD
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
    throttled = [
        renewal
        for renewal in desk.emulator.renewals(desk.queue)
        if renewal.outcome is RenewalOutcome.SERVER_BUSY
    ]
    assert throttled


@HERD
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


def all_settlements(desk: Desk) -> list[tuple[SettlementKind, SettlementOutcome]]:
    """How messages of the desk's queue were settled."""
    records = desk.emulator.settlements(desk.queue)
    return [(record.kind, record.outcome) for record in records]


def charge_but_dead_letter(desk: Desk, name: str) -> None:
    """Let a message be charged and yet end among the dead letters."""
    desk.set_lock(60, max_delivery_count=1)
    refusal = Match(entity=desk.queue, operation="complete", count=1)
    desk.emulator.add_fault(
        Fault(FaultKind.SETTLEMENT_REFUSED, refusal, condition="amqp:internal-error")
    )
    desk.send(desk.customer(name), f"{name}-1")
    wait_until(lambda: len(desk.emulator.settlements(desk.queue)) > 0)
    desk.lapse_locks()
    wait_until(lambda: desk.emulator.queue(desk.queue).dead_lettered == 1)
    assert desk.charged_cents(name) == [5000]


def resubmit_as_tools_do(desk: Desk) -> None:
    """Send the body of each dead letter again, in a new message."""
    with (
        ServiceBusClient.from_connection_string(desk.emulator.connection_string) as client,
        client.get_queue_receiver(desk.queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as letters,
    ):
        rebuild(client, letters, desk.queue)


def forward_dead_letters(client: ServiceBusClient, queue: str, central: str) -> None:
    """Do what `forwardDeadLetteredMessagesTo` does: the message id stays."""
    with (
        client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as letters,
        client.get_queue_sender(central) as sender,
    ):
        for letter in letters.receive_messages(10, max_wait_time=5):
            sender.send_messages(ServiceBusMessage(str(letter), message_id=letter.message_id))
            letters.complete_message(letter)


def rebuild_messages(client: ServiceBusClient, central: str, queue: str) -> None:
    """Do what a central processor does: it builds new messages."""
    with client.get_queue_receiver(central) as letters:
        rebuild(client, letters, queue)


def rebuild(client: ServiceBusClient, letters: ServiceBusReceiver, queue: str) -> None:
    """Send the only message of a receiver to a queue, in a new message with a new id."""
    (letter,) = letters.receive_messages(1, max_wait_time=5)
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage(str(letter), message_id=str(uuid4())))
    letters.complete_message(letter)
