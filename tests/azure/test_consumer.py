"""The peek-lock consumer as a container runs it, and its renewals over the real SDK."""

import signal
import time
from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from local.servicebus_emulator import Fault, FaultKind, Match, SettlementKind, SettlementOutcome
from local.stripe_simulator import FaultKind as StripeFaultKind
from tests.azure.conftest import OpenDesk
from tests.support.servicebus import (
    COMPLETED,
    Desk,
    Path,
    consumer_process,
    decisions,
    running_consumer,
    wait_until,
)

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

CONFIRM = "/v1/payment_intents/*/confirm"
STOP_SECONDS = 10.0
EXIT_SETTINGS = 3
EXIT_UNAVAILABLE = 4


@pytest.fixture(scope="module")
def consumed(open_desk: OpenDesk) -> Iterator[tuple[Desk, Path]]:
    """A desk whose queue one consumer consumes, test after test."""
    with open_desk("consumer") as desk, running_consumer(desk.environment) as path:
        yield desk, path


@pytest.fixture
def path(consumed: tuple[Desk, Path]) -> Path:
    """The consumer."""
    return consumed[1]


@pytest.fixture
def billed(consumed: tuple[Desk, Path]) -> Iterator[Desk]:
    """Its desk, as it was found."""
    desk, _ = consumed
    yield desk
    desk.forget()


def test_sigterm_finishes_what_is_in_hand(desk: Desk) -> None:
    """Goal: a deployment costs no delivery: the charge in hand is made, recorded and completed.

    Method: SIGTERM comes while Stripe's answer is on its way.
    """
    event = desk.customer("deployed")
    desk.fault("deployed", StripeFaultKind.DELAY, CONFIRM, answer_seconds=1.5)
    with consumer_process(desk.environment) as process:
        desk.send(event, "deployed-1")
        wait_until(lambda: desk.charged_cents("deployed") == [5000])
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_SECONDS) == 0
        assert time.monotonic() - started < 8
        assert process.stdout is not None
        assert "still being handled" not in process.stdout.read()
    assert desk.settlements("deployed-1") == [COMPLETED]
    assert desk.emulator.connection_count() <= 1


def test_sigterm_does_not_wait_for_stripe_for_ever(desk: Desk) -> None:
    """Goal: the process is gone before its container is killed; the message comes again.

    Method: a container that has but a second.
    """
    event = desk.customer("hanging")
    desk.fault("hanging", StripeFaultKind.HANG, CONFIRM)
    environment = {**desk.environment, "STRIPE_READ_TIMEOUT_SECONDS": "15"}
    environment["CLAIM_LEASE_SECONDS"] = "60"
    with consumer_process(environment, shutdown_seconds=1) as process:
        desk.send(event, "hanging-1")
        wait_until(lambda: desk.charged_cents("hanging") == [5000])
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_SECONDS) == 0
        assert process.stdout is not None
        assert "some messages were still being handled" in process.stdout.read()
    assert desk.settlements("hanging-1") == []


@pytest.mark.parametrize(
    ("changes", "status", "named"),
    [
        ({"BILLING_QUEUE": ""}, EXIT_SETTINGS, "BILLING_QUEUE"),
        ({"DATABASE_URL": "postgresql://127.0.0.1:1/none"}, EXIT_UNAVAILABLE, "database"),
    ],
)
def test_process_that_cannot_work_says_why(
    desk: Desk, changes: dict[str, str], status: int, named: str
) -> None:
    """Goal: it ends at once, with a status for scripts and one line for people."""
    with consumer_process({**desk.environment, **changes}) as process:
        assert process.wait(30) == status
        assert process.stdout is not None
        output = process.stdout.read()
    assert named in output
    assert "Traceback" not in output


def test_subscription_of_a_topic_is_consumed(desk: Desk) -> None:
    """Goal: BILLING_TOPIC and BILLING_SUBSCRIPTION in place of a queue."""
    event = desk.customer("topic")
    environment = {
        **desk.environment,
        "BILLING_QUEUE": "",
        "BILLING_TOPIC": "usage",
        "BILLING_SUBSCRIPTION": "billing",
    }
    with (
        running_consumer(environment),
        ServiceBusClient.from_connection_string(desk.emulator.connection_string) as client,
        client.get_topic_sender("usage") as sender,
    ):
        sender.send_messages(ServiceBusMessage(event, message_id="topic-1"))
        wait_until(
            lambda: (
                [
                    record.kind
                    for record in desk.emulator.settlements()
                    if record.message_id == "topic-1"
                ]
                == [SettlementKind.COMPLETE]
            )
        )
    assert desk.charged_cents("topic") == [5000]


def test_lock_is_renewed_while_stripe_answers(billed: Desk, path: Path) -> None:
    """Goal: a charge that takes longer than the lock is delivered once.

    Method: a lock of 3 real seconds; the first renewal is refused, and tried again in time.
    """
    billed.set_lock(3)
    event = billed.customer("renewed")
    billed.fault("renewed", StripeFaultKind.DELAY, CONFIRM, answer_seconds=3.5)
    billed.emulator.add_fault(Fault(FaultKind.RENEWAL_BUSY, Match(entity=billed.queue, count=1)))
    billed.send(event, "renewed-1")
    billed.wait_for("renewed-1", COMPLETED)
    assert len(billed.deliveries("renewed-1")) == 1
    assert billed.renewal_count("renewed-1") >= 2
    assert decisions(path, "renewed-1") == ["charged"]


@pytest.mark.parametrize("kind", [FaultKind.RENEWAL_BUSY, FaultKind.MANAGEMENT_TIMEOUT])
def test_lock_that_cannot_be_renewed_is_told_while_stripe_answers(
    billed: Desk, path: Path, kind: FaultKind
) -> None:
    """Goal: renewals that fail are logged as a lost lock, and cost another delivery, no charge.

    Method: a lock of 1.5 real seconds. A timeout is an OperationTimeoutError in the SDK.
    """
    billed.set_lock(1.5)
    event = billed.customer(kind)
    billed.fault(kind, StripeFaultKind.DELAY, CONFIRM, answer_seconds=2.5)
    fault = Fault(kind, Match(entity=billed.queue), acts=kind is FaultKind.RENEWAL_BUSY)
    billed.emulator.add_fault(fault)
    message_id = f"{kind}-1"
    billed.send(event, message_id)
    wait_until(lambda: "lock_lost" in decisions(path, message_id))
    assert "charged" not in decisions(path, message_id)
    billed.emulator.clear_faults()
    wait_until(lambda: "charged" in decisions(path, message_id))
    billed.lapse_locks()
    billed.wait_for(message_id, COMPLETED)
    assert billed.charged_cents(kind) == [5000]
    assert billed.settlements(message_id)[-1] == COMPLETED
    assert (SettlementKind.ABANDON, SettlementOutcome.APPLIED) not in billed.settlements(message_id)


def test_lost_connection_is_opened_again(billed: Desk, path: Path) -> None:
    """Goal: what the broker cuts while Stripe answers costs no charge and no consumer."""
    event = billed.customer("cut")
    billed.fault("cut", StripeFaultKind.DELAY, CONFIRM, answer_seconds=1)
    billed.send(event, "cut-1")
    wait_until(lambda: billed.charged_cents("cut") == [5000])
    billed.emulator.cut_connections()
    wait_until(lambda: "charged" in decisions(path, "cut-1"))
    billed.lapse_locks()
    wait_until(lambda: billed.emulator.queue(billed.queue).locked == 0)
    with ServiceBusClient.from_connection_string(billed.emulator.connection_string) as client:
        with client.get_queue_sender(billed.queue) as sender:
            sender.send_messages(ServiceBusMessage(event, message_id="cut-2"))
        billed.wait_for("cut-2", COMPLETED)
    assert billed.charged_cents("cut") == [5000]
