"""Goal: each fault does to the real client what the documentation says.

The broker decides over faults, not the client, so one flavour of the client is enough.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from azure.servicebus import AutoLockRenewer, ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import (
    AutoLockRenewFailed,
    MessageLockLostError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusError,
    ServiceBusServerBusyError,
)

from local.servicebus_emulator import (
    Fault,
    FaultKind,
    Match,
    QueueSettings,
    ServiceBusEmulator,
    SettlementKind,
)
from tests.servicebus_emulator.sdk import (
    LOCK_SECONDS,
    Sdk,
    ids,
    new_message,
    token_of,
)
from tests.servicebus_emulator.support import eventually

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

# The client tries once and then three times more.
ATTEMPTS = 4


@pytest.fixture
def sdk(sync_sdk: Sdk) -> Sdk:
    return sync_sdk


def renewal_outcomes(emulator: ServiceBusEmulator) -> list[str]:
    return [str(renewal.outcome) for renewal in emulator.renewals()]


def settlements(emulator: ServiceBusEmulator) -> list[tuple[str, str, str, bool]]:
    """Kind, outcome, route and whether it was answered, of all but releases."""
    return [
        (str(each.kind), str(each.outcome), str(each.route), each.answered)
        for each in emulator.settlements()
        if each.kind is not SettlementKind.RELEASE
    ]


@contextmanager
def configured(sdk: Sdk, name: str, value: float) -> Iterator[None]:
    """Let the queue's receiver have another setting for a while."""
    configuration = sdk.receiver()._config
    usual = getattr(configuration, name)
    setattr(configuration, name, value)
    try:
        yield
    finally:
        setattr(configuration, name, usual)


# Renewals.


def test_all_renewals_busy(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    emulator.add_fault(Fault(FaultKind.RENEWAL_BUSY))
    sdk.send(new_message())
    received = sdk.receive_one()

    with pytest.raises(ServiceBusServerBusyError):
        sdk.renew(received)
    assert renewal_outcomes(emulator) == ["server-busy"] * ATTEMPTS
    sdk.complete(received)


def test_the_next_renewals_busy(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    emulator.add_fault(Fault(FaultKind.RENEWAL_BUSY, Match(entity=sdk.queue, count=2)))
    sdk.send(new_message())
    sdk.renew(sdk.receive_one())

    assert renewal_outcomes(emulator) == ["server-busy", "server-busy", "renewed"]


def test_some_renewals_busy(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    emulator.add_fault(Fault(FaultKind.RENEWAL_BUSY, Match(probability=0.3)))
    sdk.send(new_message())
    received = sdk.receive_one()
    for _ in range(30):
        sdk.renew(received)

    outcomes = renewal_outcomes(emulator)
    assert outcomes.count("renewed") == 30
    assert 3 < outcomes.count("server-busy") < 30


def test_the_clients_renewer_reports_a_busy_broker(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    # It reports nothing useful of a lock that has run out meanwhile.
    emulator.configure_queue(sdk.queue, QueueSettings(lock_seconds=6.0))
    emulator.add_fault(Fault(FaultKind.RENEWAL_BUSY))
    sdk.send(new_message())
    received = sdk.receive_one()
    receiver = sdk.receiver()
    assert isinstance(receiver, ServiceBusReceiver)
    failures: list[Exception | None] = []
    with AutoLockRenewer(
        on_lock_renew_failure=lambda _message, error: failures.append(error)
    ) as renewer:
        renewer.register(receiver, received)
        eventually(lambda: bool(failures))

    assert isinstance(failures[0], AutoLockRenewFailed)
    assert set(renewal_outcomes(emulator)) == {"server-busy"}


def test_renewals_throttled(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    emulator.configure_queue(sdk.queue, QueueSettings(lock_seconds=300.0))
    emulator.add_fault(Fault(FaultKind.RENEWAL_THROTTLE, per_second=0.02))
    sdk.send(new_message())
    received = sdk.receive_one()
    sdk.renew(received)
    with pytest.raises(ServiceBusServerBusyError):
        sdk.renew(received)
    emulator.advance_clock(50)
    sdk.renew(received)

    assert renewal_outcomes(emulator) == ["renewed", *["server-busy"] * ATTEMPTS, "renewed"]


# Management requests.


@pytest.mark.parametrize("acts", [True, False])
def test_management_timeout_of_a_renewal(
    sdk: Sdk, emulator: ServiceBusEmulator, acts: bool
) -> None:
    match = Match(operation="renew-lock")
    emulator.add_fault(Fault(FaultKind.MANAGEMENT_TIMEOUT, match, acts=acts))
    sdk.send(new_message())
    received = sdk.receive_one()
    emulator.advance_clock(LOCK_SECONDS - 10)

    with pytest.raises(OperationTimeoutError):
        sdk.renew(received)
    assert renewal_outcomes(emulator) == ["timed-out"] * ATTEMPTS
    emulator.advance_clock(15)
    assert emulator.queue(sdk.queue).locked == acts, "the lock was renewed all the same, or not"


def test_management_timeout_of_other_requests(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    match = Match(operation="schedule-message")
    emulator.add_fault(Fault(FaultKind.MANAGEMENT_TIMEOUT, match))
    assert sdk.peek() == []

    with pytest.raises(OperationTimeoutError):
        sdk.schedule([new_message()], time.time() + 60)
    assert emulator.queue(sdk.queue).scheduled == ATTEMPTS, "each attempt has acted"


# Settlements.


def test_a_settlement_whose_answer_is_lost_with_the_connection(
    sdk: Sdk, emulator: ServiceBusEmulator
) -> None:
    match = Match(operation="complete", count=1)
    emulator.add_fault(Fault(FaultKind.SETTLEMENT_LOST, match, cuts=True))
    sdk.send(new_message())

    with pytest.raises(MessageLockLostError):
        sdk.complete(sdk.receive_one())
    assert settlements(emulator) == [
        ("complete", "applied", "link", False),
        ("complete", "lock-lost", "management", True),
    ]
    queue = emulator.queue(sdk.queue)
    assert (queue.active, queue.locked) == (0, 0), "the message is gone although it says lost"


def test_a_settlement_whose_answer_never_comes(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    emulator.add_fault(Fault(FaultKind.SETTLEMENT_LOST, Match(count=1)))
    sdk.send(new_message())
    received = sdk.receive_one()
    # Else the client waits for a minute.
    with configured(sdk, "timeout", 0.3), pytest.raises(MessageLockLostError):
        sdk.complete(received)

    assert settlements(emulator)[0] == ("complete", "applied", "link", False)


def test_a_settlement_that_is_lost_before_it_acts(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    fault = Fault(FaultKind.SETTLEMENT_LOST, Match(count=1), acts=False, cuts=True)
    emulator.add_fault(fault)
    sdk.send(new_message())
    sdk.complete(sdk.receive_one())

    assert settlements(emulator) == [
        ("complete", "lost", "link", False),
        ("complete", "applied", "management", True),
    ]


def test_settlements_that_never_arrive(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    emulator.add_fault(Fault(FaultKind.SETTLEMENT_LOST, acts=False, cuts=True))
    sdk.send(new_message())
    received = sdk.receive_one()

    with configured(sdk, "retry_total", 0), pytest.raises(ServiceBusError):
        sdk.complete(received)
    assert {(outcome, answered) for _, outcome, _, answered in settlements(emulator)} == {
        ("lost", False)
    }
    emulator.clear_faults()
    emulator.advance_clock(LOCK_SECONDS)
    again = sdk.receive_one()
    assert (again.message_id, again.delivery_count) == ("m-1", 1)


def test_a_refused_settlement(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    emulator.add_fault(
        Fault(
            FaultKind.SETTLEMENT_REFUSED,
            Match(message_id="m-1", operation="abandon"),
            condition="amqp:not-allowed",
        )
    )
    sdk.send([new_message("m-1"), new_message("m-2")])
    first, second = sdk.receive(2)

    with pytest.raises(ServiceBusError, match="fault on demand"):
        sdk.abandon(first)
    with pytest.raises(ValueError, match="already been shutdown"):
        sdk.complete(second)
    # The client opens its link again for whatever comes next, and then can settle once more.
    sdk.peek()
    sdk.complete(second)
    assert settlements(emulator) == [
        ("abandon", "refused", "link", True),
        ("complete", "applied", "management", True),
    ]


def test_a_settlement_refused_for_a_while(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    emulator.add_fault(Fault(FaultKind.SETTLEMENT_REFUSED, Match(count=1)))
    sdk.send(new_message())
    sdk.complete(sdk.receive_one())

    assert settlements(emulator) == [
        ("complete", "refused", "link", True),
        ("complete", "applied", "management", True),
    ]


def test_a_lock_advertised_longer_than_it_is(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    emulator.configure_queue(
        sdk.queue, QueueSettings(lock_seconds=0.3, advertised_lock_seconds=30.0)
    )
    sdk.send(new_message())
    received = sdk.receive_one()
    eventually(lambda: emulator.queue(sdk.queue).locked == 0)

    with pytest.raises(MessageLockLostError):
        sdk.complete(received)
    assert settlements(emulator) == [("complete", "lock-lost", "link", True)]


# Deliveries.


def test_a_dropped_delivery(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    emulator.add_fault(Fault(FaultKind.DELIVERY_DROPPED, Match(message_id="a")))
    sdk.send([new_message("a"), new_message("b")])
    assert sdk.receive_one().message_id == "b"
    assert emulator.queue(sdk.queue).locked == 2

    emulator.clear_faults()
    emulator.advance_clock(LOCK_SECONDS)
    received = sdk.receive_one()
    assert (received.message_id, received.delivery_count) == ("a", 1)


def test_a_delayed_delivery(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    emulator.add_fault(Fault(FaultKind.DELIVERY_DELAYED, Match(message_id="a"), seconds=0.4))
    sdk.send([new_message("a"), new_message("b")])
    began_at = time.monotonic()
    first, second = sdk.receive(2)

    assert ids([first, second]) == ["b", "a"]
    assert time.monotonic() - began_at > 0.3
    assert second.locked_until_utc is not None
    assert first.locked_until_utc is not None
    difference_seconds = (first.locked_until_utc - second.locked_until_utc).total_seconds()
    assert difference_seconds < 0.3, "its lock has run meanwhile"
    sdk.complete(second)


def test_a_duplicated_delivery(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    emulator.add_fault(Fault(FaultKind.DELIVERY_DUPLICATED))
    sdk.send(new_message())
    first, second = sdk.receive(2)

    assert ids([first, second]) == ["m-1", "m-1"]
    assert token_of(first) != token_of(second)
    assert (first.delivery_count, second.delivery_count) == (0, 0)
    sdk.complete(first)
    sdk.complete(second)
    queue = emulator.queue(sdk.queue)
    assert (queue.active, queue.locked) == (0, 0), "there are two of it, not more"


def test_a_delivery_that_cuts_the_connection(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    emulator.add_fault(Fault(FaultKind.DELIVERY_CUT, Match(count=1)))
    receiver = sdk.receiver()
    sdk.run(receiver.peek_messages())
    connected_count = emulator.connection_count()
    sdk.send(new_message())
    # Whether the client still sees the message is a matter of luck.
    with suppress(ServiceBusError):
        sdk.run(receiver.receive_messages(max_wait_time=0.2))
    eventually(lambda: emulator.faults()[0].struck == 1)
    eventually(lambda: emulator.connection_count() <= connected_count)

    emulator.advance_clock(LOCK_SECONDS)
    received = sdk.receive_one()
    assert (received.message_id, received.delivery_count) == ("m-1", 1)


# Connections.


def test_cut_connections(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    sdk.send(new_message("a"))
    assert emulator.cut_connections() >= 1
    eventually(lambda: emulator.connection_count() == 0)

    sdk.send(new_message("b"))
    assert ids(sdk.receive(2)) == ["a", "b"]


def test_a_refused_batch(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    match = Match(entity=sdk.queue, operation="send", nth=2, count=1)
    emulator.add_fault(Fault(FaultKind.SEND_REFUSED, match, condition="amqp:not-allowed"))
    sdk.send([new_message("m-1"), new_message("m-2")])
    with pytest.raises(ServiceBusError, match="fault on demand"):
        sdk.send([new_message("m-3"), new_message("m-4")])
    sdk.send(new_message("m-5"))
    assert [message.message_id for message in sdk.receive(3)] == ["m-1", "m-2", "m-5"]


def test_refused_connections(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    emulator.refuse_connections(60)
    with ServiceBusClient.from_connection_string(
        emulator.connection_string, retry_total=0
    ) as client:
        sender = client.get_queue_sender(sdk.queue)
        with pytest.raises(ServiceBusError):
            sender.send_messages(new_message())
        emulator.refuse_connections(0)
        sender.send_messages(new_message())
        sender.close()


def test_a_refused_token(sdk: Sdk, emulator: ServiceBusEmulator) -> None:
    fault_id = emulator.add_fault(Fault(FaultKind.TOKEN_REFUSED, Match(entity=sdk.queue)))
    with ServiceBusClient.from_connection_string(
        emulator.connection_string, retry_total=0
    ) as client:
        sender = client.get_queue_sender(sdk.queue)
        with pytest.raises(ServiceBusAuthenticationError):
            sender.send_messages(new_message())
        emulator.remove_fault(fault_id)
        sender.send_messages(new_message())
        sender.close()
