"""The peek-lock consumer for containers: `python -m azure_function.consumer`.

Each of its threads has a client and a receiver of its own, because the SDK's are not thread-safe,
and takes one message at a time, because the locks of those that wait would run out.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, NoReturn

from azure_function.client import make_client
from azure_function.envelope import TRANSPORT, read_message
from azure_function.renewal import LockRenewal
from azure_function.settlement import MAX_DESCRIPTION_CHARACTERS, MAX_REASON_CHARACTERS
from shared import notices
from shared.biller import Biller
from shared.clock import SystemClock
from shared.decision_log import DecisionEvent, describe_defect, log_decision, log_to_stdout
from shared.errors import ChargeonceError, SettingsError, SettlementFailed
from shared.ports import Clock
from shared.settings import Settings, read_servicebus_settings

if TYPE_CHECKING:
    from azure.servicebus import (
        ServiceBusClient,
        ServiceBusReceivedMessage,
        ServiceBusReceiver,
    )

# Also how long a thread may take to notice that it is to stop.
RECEIVE_SECONDS = 1.0
# Kubernetes and Container Apps send SIGKILL some time after SIGTERM; ten seconds is usual.
SHUTDOWN_SECONDS = 7.0
FIRST_RECONNECT_SECONDS = 1.0
LONGEST_RECONNECT_SECONDS = 60.0

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

EXIT_OK = 0
EXIT_SETTINGS = 3
EXIT_UNAVAILABLE = 4


class ReceiverSettlement:
    """Implements the port `Settlement` for one message of a receiver.

    Args:
        receiver: which received the message.
        message: what is settled.
        renewal: stopped first in any case: what is left has to come back after one lock.
    """

    def __init__(
        self,
        receiver: ServiceBusReceiver,
        message: ServiceBusReceivedMessage,
        renewal: LockRenewal,
    ) -> None:
        self._receiver = receiver
        self._message = message
        self._renewal = renewal

    def complete(self) -> None:
        """See `Settlement.complete`. Returns when the broker has confirmed it."""
        self._settle("completed", lambda: self._receiver.complete_message(self._message))

    def dead_letter(self, reason: str, description: str) -> None:
        """See `Settlement.dead_letter`."""
        self._settle(
            "dead-lettered",
            lambda: self._receiver.dead_letter_message(
                self._message,
                reason=reason[:MAX_REASON_CHARACTERS],
                error_description=description[:MAX_DESCRIPTION_CHARACTERS],
            ),
        )

    def leave(self) -> None:
        """See `Settlement.leave`."""
        self._renewal.stop()

    def _settle(self, what: str, action: Callable[[], None]) -> None:
        self._renewal.stop()
        try:
            action()
        except Exception as error:
            problem = type(error).__name__
            raise SettlementFailed(
                f"the message could not be {what} ({problem})",
                lock_lost=problem == "MessageLockLostError",
            ) from error


class Consumer:
    """Consumes one queue or subscription, between `start` and `stop`.

    Args:
        make_client: makes a client of the SDK; called by each thread, and again after a failure.
        biller: decides and records.
        settings: checked.
        clock: for the pauses between reconnections.
    """

    def __init__(
        self,
        make_client: Callable[[], ServiceBusClient],
        biller: Biller,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._make_client = make_client
        self._biller = biller
        self._settings = settings
        self._clock = clock
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads and return."""
        for number in range(self._settings.worker_concurrency):
            thread = threading.Thread(target=self._consume, name=f"billing-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self, seconds: float = SHUTDOWN_SECONDS) -> bool:
        """Take no more messages, and let those in hand come to their end.

        Args:
            seconds: how long they may take.

        Returns:
            Whether each of them was settled or left in that time.
        """
        self._stop.set()
        give_up = self._clock.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, give_up - self._clock.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def handle(self, receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage) -> None:
        """Handle one message. Never raises for it."""
        try:
            delivery = read_message(message)
            with LockRenewal(
                receiver,
                message,
                self._settings.rules.lease_seconds,
                lambda problem: _log_lock_lost(delivery.envelope.message_id, problem),
            ) as renewal:
                self._biller.handle(delivery, ReceiverSettlement(receiver, message, renewal))
        except Exception as error:  # noqa: BLE001 (the message is left, and comes again)
            notices.alarm(f"a message could not be handled: {describe_defect(error)}")

    def _consume(self) -> None:
        """Receive and handle; a lost connection is opened again after a pause."""
        failures = 0
        while not self._stop.is_set():
            started = self._clock.monotonic()
            try:
                with ExitStack() as stack:
                    self._receive(self._open_receiver(stack))
            except Exception as error:  # noqa: BLE001 (whatever it was, it is opened again)
                if self._clock.monotonic() - started > LONGEST_RECONNECT_SECONDS:
                    failures = 0
                pause_seconds = self._reconnect_seconds(failures)
                # Connections end all the time; one that cannot be opened again is another matter.
                tell = notices.alarm if failures > 0 else notices.warn
                tell(
                    f"the connection to Service Bus ended ({type(error).__name__}); "
                    f"opening it again in {pause_seconds:.0f} s"
                )
                failures += 1
                self._stop.wait(pause_seconds)

    def _open_receiver(self, stack: ExitStack) -> ServiceBusReceiver:
        client = stack.enter_context(self._make_client())
        servicebus = self._settings.servicebus
        if servicebus.queue is not None:
            return stack.enter_context(client.get_queue_receiver(servicebus.queue))
        assert servicebus.topic is not None
        assert servicebus.subscription is not None
        return stack.enter_context(
            client.get_subscription_receiver(servicebus.topic, servicebus.subscription)
        )

    def _receive(self, receiver: ServiceBusReceiver) -> None:
        while not self._stop.is_set():
            for message in receiver.receive_messages(1, max_wait_time=RECEIVE_SECONDS):
                self.handle(receiver, message)

    def _reconnect_seconds(self, failures: int) -> float:
        longest = min(FIRST_RECONNECT_SECONDS * 2.0 ** min(failures, 10), LONGEST_RECONNECT_SECONDS)
        return longest * (0.5 + self._clock.random() / 2)


def make_consumer(settings: Settings) -> Consumer:
    """A consumer over the real parts.

    Raises:
        ChargeonceError: the database is away, or needs `chargeonce migrate`.
    """
    from shared.wiring import build_biller, open_store

    store = open_store(settings, settings.worker_concurrency)
    biller = build_biller(settings, store)
    return Consumer(lambda: make_client(settings.servicebus), biller, settings, SystemClock())


def _log_lock_lost(message_id: str, problem: str | None) -> None:
    log_decision(
        DecisionEvent.LOCK_LOST,
        "the lock ran out while the message was being handled",
        transport=TRANSPORT,
        message_id=message_id or None,
        code=problem,
    )


def main(shutdown_seconds: float = SHUTDOWN_SECONDS) -> int:
    """Run the consumer until SIGTERM or SIGINT; return the exit code.

    Args:
        shutdown_seconds: how long what is in hand may take to be settled.
    """
    log_to_stdout()
    # Held back in every thread and waited for below: a handler could interrupt a thread anywhere.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        settings = read_servicebus_settings()
        consumer = make_consumer(settings)
    except SettingsError as error:
        notices.alarm(str(error))
        return EXIT_SETTINGS
    except ChargeonceError as error:
        notices.alarm(str(error))
        return EXIT_UNAVAILABLE
    notices.warn_each(settings.warnings)
    consumer.start()
    signal.sigwait(STOP_SIGNALS)
    if not consumer.stop(shutdown_seconds):
        notices.warn("some messages were still being handled; they will be delivered again")
    return EXIT_OK


def run_process(shutdown_seconds: float = SHUTDOWN_SECONDS) -> NoReturn:
    """Run `main` and end the process, also where threads still wait for Stripe.

    They must not hold it beyond its grace period.
    """
    code = main(shutdown_seconds)
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    run_process()
