"""Azure's half of the demo: a queue of our Service Bus emulator, and whoever bills from it.

The consumer for containers runs everywhere, in two processes. The function app runs beside it where
the real Functions runtime is installed. All of them compete for the messages of one queue.
"""

import json
import random
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue

from local.demo.plan import Message
from local.demo.waiting import wait_until
from local.demo.workers import Workers
from local.functions_host import MISSING
from local.servicebus_emulator import (
    EmulatorOptions,
    EmulatorProcess,
    Fault,
    FaultKind,
    Match,
    QueueOptions,
    QueueSettings,
    RenewalOutcome,
)
from shared.decision_log import DecisionEvent

if TYPE_CHECKING:
    from local.functions_host.host import FunctionsHost

QUEUE: Final = "usage"
# Shorter than Stripe's latest answers, so that a lock that is not renewed is lost meanwhile.
LOCK_SECONDS: Final = 2.0
# What is left is to come back, not to be given up.
MOST_DELIVERIES: Final = 100
CONSUMERS: Final = 2
CONSUMER_THREADS: Final = 4
FUNCTION_CALLS: Final = 4

DELIVERED_TWICE: Final = 0.05
SETTLEMENTS_LOST: Final = 0.02

MOST_LETTERS_PER_RECEIVE: Final = 100
LETTER_SECONDS: Final = 0.5
_LOCK_LOST: Final = str(DecisionEvent.LOCK_LOST)


class ServiceBusQueue:
    """The queue and its dead letters, as a context manager."""

    name = "our Service Bus emulator"

    def __init__(self, seed: int) -> None:
        """Prepare the emulator.

        Args:
            seed: Decides what is delivered twice, and which settlements are lost.
        """
        settings = QueueSettings(LOCK_SECONDS, max_delivery_count=MOST_DELIVERIES)
        options = EmulatorOptions(queues=[QueueOptions(QUEUE, settings)], seed=seed)
        self._emulator = EmulatorProcess(options)
        self._chance = random.Random(f"service-bus:{seed}")
        self._dead_letters: set[str] = set()
        self._running = ExitStack()

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that lead consumers here."""
        return {"ServiceBus": self._emulator.connection_string, "BILLING_QUEUE": QUEUE}

    def __enter__(self) -> Self:
        """Start the emulator and connect a sender."""
        with ExitStack() as starting:
            starting.enter_context(self._emulator)
            for fault in _faults():
                self._emulator.add_fault(fault)
            self._client = starting.enter_context(
                ServiceBusClient.from_connection_string(self._emulator.connection_string)
            )
            self._sender = starting.enter_context(self._client.get_queue_sender(QUEUE))
            self._running = starting.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the emulator."""
        self._running.close()

    def publish(self, messages: Sequence[Message]) -> Sequence[str]:
        """Publish messages under new ids, and return these in order."""
        ids = [f"{self._chance.getrandbits(128):032x}" for _ in messages]
        self._sender.send_messages(
            [
                ServiceBusMessage(
                    message.body,
                    message_id=message_id,
                    application_properties=dict(message.attributes.items()),
                )
                for message_id, message in zip(ids, messages, strict=True)
            ]
        )
        return ids

    def take_dead_letters(self) -> Sequence[bytes]:
        """Take what is in the dead-letter queue, as an operator who will send it again."""
        bodies = []
        with self._client.get_queue_receiver(
            QUEUE, sub_queue=ServiceBusSubQueue.DEAD_LETTER
        ) as receiver:
            while letters := receiver.receive_messages(
                MOST_LETTERS_PER_RECEIVE, max_wait_time=LETTER_SECONDS
            ):
                for letter in letters:
                    self._dead_letters.add(str(letter.message_id))
                    bodies.append(b"".join(letter.body))
                    receiver.complete_message(letter)
        return bodies

    def dead_letters(self, count: int, within_seconds: float) -> frozenset[str]:
        """Return the ids of all messages that were ever dead-lettered.

        Args:
            count: How many are awaited.
            within_seconds: How long.
        """

        def are_all_there() -> bool:
            self.take_dead_letters()
            return len(self._dead_letters) >= count

        wait_until(are_all_there, within_seconds)
        return frozenset(self._dead_letters)

    def refused_renewals(self) -> int:
        """Return how many lock renewals were refused because the server was busy."""
        renewals = self._emulator.renewals(QUEUE)
        return sum(renewal.outcome is RenewalOutcome.SERVER_BUSY for renewal in renewals)


@dataclass(frozen=True, slots=True)
class QueueConsumers:
    """Whoever bills from the queue.

    Attributes:
        processes: The consumer for containers.
        function_app: Under its host; None where the runtime is not installed.
        log_file: What the processes wrote.
    """

    processes: Workers
    function_app: "FunctionsHost | None"
    log_file: Path

    def lost_locks(self) -> int:
        """Return of how many messages a lock was lost while they were being charged."""
        text = self.log_file.read_text(errors="replace")
        if self.function_app is not None:
            text += self.function_app.log()
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return len({line.get("message_id") for line in lines if line.get("event") == _LOCK_LOST})


def start_consumers(
    stack: ExitStack, settings: Mapping[str, str], log_directory: Path
) -> QueueConsumers:
    """Start whoever can bill from the queue here.

    Args:
        stack: Ends them.
        settings: Theirs.
        log_directory: Where their logs go.
    """
    log_file = log_directory / "consumers.log"
    own = {"WORKER_CONCURRENCY": str(CONSUMER_THREADS)}
    processes = Workers(
        ("azure_function.consumer",),
        {**settings, **own},
        CONSUMERS,
        stack.enter_context(log_file.open("wb")),
    )
    stack.callback(processes.stop)
    processes.start()
    function_app = None if MISSING else _start_function_app(stack, settings, log_directory)
    return QueueConsumers(processes, function_app, log_file)


def _start_function_app(
    stack: ExitStack, settings: Mapping[str, str], log_directory: Path
) -> "FunctionsHost":
    # Only where the runtime is can this be imported.
    from local.functions_host.host import ROOT, FunctionsHost
    from local.functions_host.host_json import HostSettings

    usual = HostSettings.read(ROOT / "host.json")
    own = {"PYTHON_THREADPOOL_THREAD_COUNT": str(usual.concurrent_calls)}
    host = FunctionsHost(
        {**settings, **own}, settings=replace(usual, concurrent_calls=FUNCTION_CALLS)
    )
    stack.enter_context(host)
    stack.callback(lambda: (log_directory / "function-app.log").write_text(host.log()))
    return host


def _faults() -> Sequence[Fault]:
    """No lock is ever renewed; now and then a copy comes along, or nobody hears of a settlement."""
    return [
        Fault(FaultKind.RENEWAL_BUSY),
        Fault(FaultKind.DELIVERY_DUPLICATED, Match(entity=QUEUE, probability=DELIVERED_TWICE)),
        Fault(
            FaultKind.SETTLEMENT_LOST,
            Match(entity=QUEUE, probability=SETTLEMENTS_LOST),
            acts=False,
            cuts=True,
        ),
    ]
