"""The worker that pulls usage events, for Cloud Run worker pools: `python -m gcp_function.pull`.

It leans on what the client really does, which is not what its callbacks suggest: a callback that
returns without ack or nack keeps its lease for up to an hour and its place in flow control, and one
that raises is nacked at once and ends the worker's wait with its exception.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import queue
import signal
from collections.abc import Callable
from typing import Any

from google.cloud.pubsub_v1 import SubscriberClient
from google.cloud.pubsub_v1.subscriber.exceptions import AcknowledgeError, AcknowledgeStatus
from google.cloud.pubsub_v1.subscriber.message import Message
from google.cloud.pubsub_v1.types import FlowControl

from gcp_function.dead_letters import DeadLetters, PubsubDeadLetters, dead_letter_attributes
from shared import notices
from shared.biller import Biller
from shared.clock import SystemClock
from shared.decision_log import describe_defect, log_to_stdout
from shared.errors import ChargeonceError, SettingsError, SettlementFailed
from shared.ports import Clock, Delivery, Envelope
from shared.settings import Settings, read_pull_settings

TRANSPORT = "pubsub-pull"
# Pub/Sub goes on counting a message that was left until it comes back, and stops sending when as
# many are out as the client allows. So the client allows this many more for each thread: while
# they stay away, others are handled. In an outage that same count keeps the worker from leaving
# message after message until each has used up its deliveries.
LEFT_PER_THREAD = 16
LONGEST_LEAVE_SECONDS = 600
# How soon another worker gets what one has that was killed, at most.
LONGEST_EXTENSION_SECONDS = 60
ACK_SECONDS = 30.0
# Cloud Run sends SIGKILL ten seconds after SIGTERM.
SHUTDOWN_SECONDS = 7.0
FIRST_RECONNECT_SECONDS = 1.0
LONGEST_RECONNECT_SECONDS = 60.0
# CPython runs a signal's handler between two steps of the main thread, and only then. A signal that
# comes in the moment before a wait, or that another thread takes, does not end that wait.
LONGEST_WAIT_SECONDS = 0.5

EXIT_OK = 0
EXIT_SETTINGS = 3
EXIT_UNAVAILABLE = 4


class PullSettlement:
    """Implements the port `Settlement` for one pulled message.

    Args:
        message: as the client hands it to a callback.
        delivery: the same, as the core sees it.
        dead_letters: where it goes if it can never be charged.
        leave_seconds: how long a message that is left stays away the first time; doubled by each
            delivery.
    """

    def __init__(
        self, message: Message, delivery: Delivery, dead_letters: DeadLetters, leave_seconds: int
    ) -> None:
        self._message = message
        self._delivery = delivery
        self._dead_letters = dead_letters
        self._leave_seconds = leave_seconds

    def complete(self) -> None:
        """See `Settlement.complete`. With exactly-once delivery it waits for the broker's word."""
        try:
            self._message.ack_with_response().result(timeout=ACK_SECONDS)
        except Exception as error:
            raise _ack_failure(error) from error

    def dead_letter(self, reason: str, description: str) -> None:
        """See `Settlement.dead_letter`. No ack before the copy is safe."""
        attributes = dead_letter_attributes(self._delivery, reason, description)
        try:
            self._dead_letters.publish(self._delivery.body, attributes)
        except SettlementFailed:
            self.leave()
            raise
        self.complete()

    def leave(self) -> None:
        """See `Settlement.leave`.

        Only the two calls together do it: the first says when the message comes back, the second
        ends the client's lease on it and frees its thread's place in flow control.
        """
        earlier = (self._delivery.envelope.delivery_count or 1) - 1
        seconds = min(self._leave_seconds * 2 ** min(earlier, 10), LONGEST_LEAVE_SECONDS)
        self._message.modify_ack_deadline(seconds)
        self._message.drop()


class BillingThreads:
    """The threads that handle messages, in the form of the SDK's `Scheduler`.

    The SDK's own one has it nack, on shutdown, what no thread has begun. Here that is left like
    everything else, and comes back when its lease ends.

    Args:
        concurrency: how many there are.
    """

    def __init__(self, concurrency: int) -> None:
        self.queue: queue.Queue[Any] = queue.Queue()
        self._executor = concurrent.futures.ThreadPoolExecutor(
            concurrency, thread_name_prefix="billing"
        )

    def schedule(self, callback: Callable[..., object], *given: Any) -> None:
        """Have a message handled as soon as a thread is free; after `shutdown`, not at all."""
        with contextlib.suppress(RuntimeError):
            self._executor.submit(callback, *given)

    def shutdown(self, await_msg_callbacks: bool = False) -> list[Message]:
        """Begin nothing more; return what is to be nacked, which is nothing."""
        self._executor.shutdown(wait=await_msg_callbacks, cancel_futures=True)
        return []


class PullWorker:
    """Pulls from one subscription until it is told to stop.

    Args:
        subscriber: the SDK's client.
        subscription: the full name, `projects/.../subscriptions/...`.
        biller: decides and records.
        dead_letters: where messages go that can never be charged.
        settings: concurrency and pacing.
        clock: for the pauses between reconnections.
    """

    def __init__(
        self,
        subscriber: SubscriberClient,
        subscription: str,
        biller: Biller,
        dead_letters: DeadLetters,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._subscriber = subscriber
        self._subscription = subscription
        self._biller = biller
        self._dead_letters = dead_letters
        self._settings = settings
        self._clock = clock
        self._is_stopping = False
        # Not an Event: a signal handler that sets one waits for ever if it interrupts its wait.
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()

    def stop(self) -> None:
        """Let `run` finish what is in hand and return. Safe to call from a signal handler."""
        self._is_stopping = True
        self._wakeups.put(None)

    def run(self) -> None:
        """Pull until `stop` is called; a lost stream is opened again after a pause."""
        failures = 0
        while not self._is_stopping:
            opened_at = self._clock.monotonic()
            failure = self._stream()
            if failure is None:
                return
            if self._clock.monotonic() - opened_at > LONGEST_RECONNECT_SECONDS:
                failures = 0
            pause_seconds = self._reconnect_seconds(failures)
            failures += 1
            notices.alarm(
                f"the stream ended ({failure}); opening it again in {pause_seconds:.1f} s"
            )
            self._pause(pause_seconds)

    def handle(self, message: Message) -> None:
        """Handle one message. Never raises: that would nack it and end the wait of `run`."""
        try:
            envelope = Envelope(
                TRANSPORT, message.message_id, message.delivery_attempt, dict(message.attributes)
            )
            delivery = Delivery(message.data, envelope)
            settlement = PullSettlement(
                message, delivery, self._dead_letters, self._settings.pubsub.leave_seconds
            )
            self._biller.handle(delivery, settlement)
        except Exception as error:  # noqa: BLE001 (see the docstring)
            notices.alarm(f"a message could not be handled: {describe_defect(error)}")
            message.drop()

    def _stream(self) -> str | None:
        """Stream until told to stop (None) or until the stream fails (why)."""
        streaming = self._open_stream()
        streaming.add_done_callback(lambda _: self._wakeups.put(None))
        while not (self._is_stopping or streaming.done()):
            self._wait(LONGEST_WAIT_SECONDS)
        if self._is_stopping:
            _finish(streaming)
            return None
        error = streaming.exception()
        return type(error).__name__ if error else "closed by the server"

    def _open_stream(self) -> Any:
        concurrency = self._settings.worker_concurrency
        return self._subscriber.subscribe(
            self._subscription,
            callback=self.handle,
            flow_control=FlowControl(
                max_messages=concurrency * (1 + LEFT_PER_THREAD),
                # Counted from when it waits for a thread: that wait, and then the claim's lease.
                max_lease_duration=2 * self._settings.rules.lease_seconds,
                max_duration_per_lease_extension=LONGEST_EXTENSION_SECONDS,
            ),
            scheduler=BillingThreads(concurrency),
            # Else the acks of callbacks that are running now would be dropped without a word.
            await_callbacks_on_shutdown=True,
        )

    def _pause(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while not self._is_stopping and (remaining := until - self._clock.monotonic()) > 0:
            self._wait(min(remaining, LONGEST_WAIT_SECONDS))

    def _wait(self, seconds: float) -> None:
        with contextlib.suppress(queue.Empty):
            self._wakeups.get(timeout=seconds)

    def _reconnect_seconds(self, failures: int) -> float:
        longest = min(FIRST_RECONNECT_SECONDS * 2.0 ** min(failures, 10), LONGEST_RECONNECT_SECONDS)
        return longest * (0.5 + self._clock.random() / 2)


def _finish(streaming: Any) -> None:
    """End a stream; what is being handled may come to its end, for a while."""
    try:
        streaming.cancel()
        streaming.result(timeout=SHUTDOWN_SECONDS)
    except TimeoutError:
        notices.warn("some messages were still being handled; they will be delivered again")
    except Exception as error:  # noqa: BLE001 (it has ended, and that was the aim)
        notices.warn(f"the stream ended while stopping ({type(error).__name__})")


def _ack_failure(error: Exception) -> SettlementFailed:
    if not isinstance(error, AcknowledgeError):
        problem = f"the message could not be acknowledged ({type(error).__name__})"
        return SettlementFailed(problem)
    status = error.error_code
    return SettlementFailed(
        f"the message could not be acknowledged ({status.name})",
        lock_lost=status is AcknowledgeStatus.INVALID_ACK_ID,
    )


def make_worker(settings: Settings) -> PullWorker:
    """A worker over the real parts.

    Raises:
        ChargeonceError: the database is away, or needs `chargeonce migrate`.
    """
    from shared.wiring import build_biller, open_store

    store = open_store(settings, settings.worker_concurrency)
    return PullWorker(
        SubscriberClient(),
        settings.pubsub.subscription_path,
        build_biller(settings, store),
        PubsubDeadLetters(settings.pubsub.dead_letter_path),
        settings,
        SystemClock(),
    )


def main() -> int:
    """Run the worker until SIGTERM or SIGINT; return the exit code."""
    log_to_stdout()
    # Nothing is in hand yet. Without a handler, process 1 of a container does not hear SIGTERM.
    _on_stop(lambda: os._exit(EXIT_OK))
    try:
        settings = read_pull_settings()
        worker = make_worker(settings)
    except SettingsError as error:
        notices.alarm(str(error))
        return EXIT_SETTINGS
    except ChargeonceError as error:
        notices.alarm(str(error))
        return EXIT_UNAVAILABLE
    notices.warn_each(settings.warnings)
    _on_stop(worker.stop)
    worker.run()
    return EXIT_OK


def _on_stop(stop: Callable[[], object]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())


if __name__ == "__main__":
    # Threads that still wait for Stripe must not hold the process beyond its grace period.
    os._exit(main())
