"""How a queue charges a customer twice, and how this project's worker does not.

Each failure mode is played three times: with a consumer as one finds it, to prove that the trap is
there; where it has something to say, with the consumer that is usually recommended instead; and
with ours. Google's client, Stripe's SDK and PostgreSQL are real; the ledger of the Stripe simulator
says what money moved.
"""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from google.cloud.pubsub_v1.types import FlowControl

from local.pubsub_emulator import Effect, EventKind, Fault, Target
from local.stripe_simulator import FaultKind
from local.usual_recipe import (
    BillingRecords,
    Message,
    SafeConsumer,
    UnsafeConsumer,
    connect_stripe,
    key_from_message_id,
    no_key,
)
from local.usual_recipe.consumers import Key
from local.usual_recipe.pubsub import callback_for
from tests.acceptance.conftest import OpenDesk
from tests.support.pulling import PullDesk, wait_until

CONFIRM = "/v1/payment_intents/*/confirm"
LOOK = "/v1/payment_intents/*"
CHARGE = "/v1/charges"
DAY_AND_AN_HOUR_SECONDS = 25 * 3600.0
SLOW_SECONDS = 2.5
DELIVERIES = 5

# Two seconds of the emulator's clock are over at once; so what is left here is left for longer.
PACED = {"PUBSUB_LEAVE_SECONDS": "60"}
PATIENT = {
    **PACED,
    "STRIPE_READ_TIMEOUT_SECONDS": "6",
    "CHARGE_BUDGET_SECONDS": "10",
    "CLAIM_LEASE_SECONDS": "20",
}


@contextmanager
def consuming(desk: PullDesk, handle: Callable[[Message], None], **options: Any) -> Iterator[None]:
    """Run one of the usual consumers under Google's client, while the block runs."""
    with desk.subscriber() as client:
        flow_control = FlowControl(max_messages=options.pop("max_messages", 10))
        streaming = client.subscribe(
            desk.subscription, callback_for(handle), flow_control=flow_control
        )
        try:
            yield
        finally:
            streaming.cancel()
            streaming.result(timeout=20)


def unsafe(desk: PullDesk, key: Key = no_key) -> Callable[[Message], None]:
    """The consumer that charges, then acknowledges."""
    return UnsafeConsumer(connect_stripe("rk_test_unsafe", desk.stripe_url), key).handle


def safe(desk: PullDesk) -> Callable[[Message], None]:
    """The consumer that is usually recommended."""
    client = connect_stripe("rk_test_safe", desk.stripe_url)
    return SafeConsumer(client, BillingRecords(desk.database_url), "pubsub-billing").handle


def charge_count(desk: PullDesk) -> int:
    """How often anybody was charged."""
    return desk.charges().total()


def assert_we_charged_once(desk: PullDesk, name: str) -> None:
    """Record and ledger agree, and nothing is left to deliver."""
    wait_until(desk.is_drained)
    assert desk.state(name) == "charged"
    assert desk.charges() == {f"cus_{name}": 1}
    assert not desk.events(EventKind.NACK)


class TestTheAckDeadlineRunsOutWhileStripeAnswers:
    """The client's extensions of the lease get lost while its callback waits for Stripe."""

    def _lose_extensions(self, desk: PullDesk, path: str) -> bytes:
        desk.cloud.control.inject(Fault(Target.EXTENSION, Effect.LOSE, resource=desk.subscription))
        desk.fault(FaultKind.DELAY, path, answer_seconds=SLOW_SECONDS)
        return desk.customer("slow")

    def test_unsafe(self, open_desk: OpenDesk) -> None:
        """Goal: it comes again while Stripe still answers, and is charged again."""
        desk = open_desk()
        body = self._lose_extensions(desk, CHARGE)
        with consuming(desk, unsafe(desk)):
            desk.publish(body)
            wait_until(desk.is_drained)
        assert charge_count(desk) >= 2

    def test_ours(self, open_desk: OpenDesk) -> None:
        """Goal: whoever gets it meanwhile finds the claim."""
        desk = open_desk()
        body = self._lose_extensions(desk, CONFIRM)
        with desk.worker(**PATIENT):
            message_id = desk.publish(body)
            wait_until(lambda: len(desk.events(EventKind.DELIVERED)) >= 2)
            assert_we_charged_once(desk, "slow")
        assert desk.noted(message_id, "busy")


class TestExactlyOnceDeliveryDoesNotCoverACrashBetweenChargeAndAck:
    """The process dies when money has moved and nothing is acknowledged yet."""

    def _crash(self, desk: PullDesk, path: str, *command: str, **settings: str) -> None:
        desk.fault(FaultKind.DELAY, path, answer_seconds=60.0)
        body = desk.customer("crash")
        with desk.process(*command, **settings) as process:
            desk.publish(body)
            wait_until(lambda: charge_count(desk) == 1)
            process.end(signal.SIGKILL)
        assert not desk.events(EventKind.ACK)
        desk.stripe.clear_faults()

    def test_unsafe(self, open_desk: OpenDesk) -> None:
        """Goal: exactly-once delivery delivers it again, because nothing was acknowledged."""
        desk = open_desk(enable_exactly_once_delivery=True)
        self._crash(desk, CHARGE, "local.usual_recipe", "unsafe")
        with consuming(desk, unsafe(desk)):
            wait_until(desk.is_drained)
        assert charge_count(desk) == 2

    def test_ours(self, open_desk: OpenDesk) -> None:
        """Goal: the next worker confirms the same PaymentIntent, which has succeeded."""
        desk = open_desk(enable_exactly_once_delivery=True)
        self._crash(desk, CONFIRM, **PACED)
        desk.lapse_leases()
        with desk.worker(**PACED):
            assert_we_charged_once(desk, "crash")


class TestANackOnATimeoutRedeliversAtOnce:
    """Stripe charges, the answer gets lost, and the consumer asks for the message again."""

    def test_unsafe(self, open_desk: OpenDesk) -> None:
        """Goal: it is back long before anybody could know, and is charged again."""
        desk = open_desk()
        desk.fault(FaultKind.RESET, CHARGE)
        with consuming(desk, unsafe(desk)):
            desk.publish(desk.customer("lost"))
            wait_until(desk.is_drained)
        first, second = desk.events(EventKind.DELIVERED)
        assert len(desk.events(EventKind.NACK)) == 1
        assert second.at_seconds - first.at_seconds < 1.0
        assert charge_count(desk) == 2

    def test_ours(self, open_desk: OpenDesk) -> None:
        """Goal: nothing nacks, and the doubt ends with a look at the stored PaymentIntent."""
        desk = open_desk()
        desk.fault(FaultKind.RESET, CONFIRM)
        desk.fault(FaultKind.RESET, LOOK, method="GET")
        with desk.worker(**PACED):
            desk.publish(desk.customer("lost"))
            assert_we_charged_once(desk, "lost")


class TestDeadLetterResubmissionUnderANewIdTwentyFiveHoursLater:
    """An operator sends what was given up once more, when Stripe has forgotten its keys."""

    def _forget_keys(self, desk: PullDesk) -> None:
        desk.stripe.clear_faults()
        desk.stripe.advance_clock(DAY_AND_AN_HOUR_SECONDS)
        desk.execute(
            "UPDATE chargeonce.records SET attempt_started_at = attempt_started_at - %s",
            [timedelta(seconds=DAY_AND_AN_HOUR_SECONDS)],
        )

    def test_unsafe(self, open_desk: OpenDesk) -> None:
        """Goal: a key of the message id holds for every redelivery, and for no resubmission."""
        desk = open_desk(max_delivery_attempts=DELIVERIES)
        desk.fault(FaultKind.RESET, CHARGE, count=None)
        body = desk.customer("resubmitted")
        with consuming(desk, unsafe(desk, key_from_message_id)):
            desk.publish(body)
            (letter,) = desk.dead_letters(1)
            assert charge_count(desk) == 1
            self._forget_keys(desk)
            desk.publish(letter.message.data)
            wait_until(desk.is_drained)
        assert charge_count(desk) == 2

    def test_safe(self, open_desk: OpenDesk) -> None:
        """Goal: a lost answer left no record, and Stripe has forgotten the business key."""
        desk = open_desk()
        desk.fault(FaultKind.RESET, CHARGE)
        body = desk.customer("resubmitted")
        with consuming(desk, safe(desk)):
            desk.publish(body)
            wait_until(lambda: charge_count(desk) == 1)
        self._forget_keys(desk)
        with consuming(desk, safe(desk)):
            desk.publish(body)
            wait_until(desk.is_drained)
        assert charge_count(desk) == 2

    def test_ours(self, open_desk: OpenDesk) -> None:
        """Goal: the record holds the PaymentIntent, which succeeds at most once, for ever.

        Method: the first worker gets no answer at all, not even when it looks again.
        """
        desk = open_desk()
        desk.fault(FaultKind.RESET, CONFIRM)
        desk.fault(FaultKind.RESET, LOOK, method="GET", count=None)
        body = desk.customer("resubmitted")
        with desk.worker(**PACED):
            desk.publish(body)
            wait_until(lambda: charge_count(desk) == 1)
        self._forget_keys(desk)
        with desk.worker(**PACED):
            desk.publish(body)
            assert_we_charged_once(desk, "resubmitted")


class TestLeavingAMessageByDoingNothingStopsTheWorker:
    """A callback that returns without ack or nack keeps the message, for an hour."""

    def _leave_one(self, desk: PullDesk, path: str) -> Mapping[str, bytes]:
        events = {name: desk.customer(name) for name in ("left", "next")}
        desk.fault(FaultKind.RATE_LIMIT, path, customer="cus_left", count=None)
        return events

    def test_safe(self, open_slow_desk: OpenDesk) -> None:
        """Goal: while the client goes on extending the lease of one, the next is not delivered."""
        desk = open_slow_desk()
        events = self._leave_one(desk, CHARGE)
        with consuming(desk, safe(desk), max_messages=1):
            left = desk.publish(events["left"])
            wait_until(lambda: self._rate_limited(desk))
            desk.publish(events["next"])
            before = len(desk.events(EventKind.EXTENSION))
            wait_until(lambda: len(desk.events(EventKind.EXTENSION)) > before)
        assert [event.message_id for event in desk.events(EventKind.DELIVERED)] == [left]

    def _rate_limited(self, desk: PullDesk) -> bool:
        (fault,) = desk.stripe.faults()
        return bool(fault["struck"])

    def test_ours(self, open_desk: OpenDesk) -> None:
        """Goal: the next message is charged, and the left one when Stripe has time again."""
        desk = open_desk()
        events = self._leave_one(desk, "/v1/payment_intents")
        with desk.worker(**PACED, WORKER_CONCURRENCY="1"):
            left = desk.publish(events["left"])
            wait_until(lambda: desk.noted(left, "transient"))
            desk.publish(events["next"])
            wait_until(lambda: desk.state("next") == "charged")
            desk.stripe.clear_faults()
            wait_until(lambda: desk.state("left") == "charged")
        assert desk.charges() == {"cus_left": 1, "cus_next": 1}
