"""The emulator as a whole: starting, stopping, being left alone, and doing without."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from google.api_core.exceptions import MethodNotImplemented, ServiceUnavailable
from google.pubsub_v1.types import PullRequest

from local.pubsub_emulator import ControlClient, EventFilter, EventKind, NotFound, PubsubEmulator
from local.pubsub_emulator.broker import Topic
from local.pubsub_emulator.clock import Clock
from local.pubsub_emulator.exchange import Exchange
from local.pubsub_emulator.messages import Draft
from local.pubsub_emulator.settings import SubscriptionSettings
from local.pubsub_emulator.subscriber_service import SubscriberService
from tests.pubsub_emulator.desk import SUBSCRIPTION, TOPIC
from tests.pubsub_emulator.support import Cloud, Endpoint, eventually, streaming

OWN_THREADS = "pubsub-emulator"


def emulator_threads() -> set[str]:
    """The names of the threads that emulators run."""
    return {one.name for one in threading.enumerate() if one.name.startswith(OWN_THREADS)}


def pull_for_ever(cloud: Cloud, subscription: str) -> None:
    """Pull until that fails."""
    while True:
        cloud.subscriber.pull(subscription=subscription, max_messages=1, retry=None, timeout=30)


def test_it_stops_at_once_whoever_waits(endpoint: Endpoint) -> None:
    """Goal: with a pull, a stream, a push and somebody who waits for events, nothing hangs on."""
    before = emulator_threads()
    with ExitStack() as waiting:
        with PubsubEmulator(control_port=0) as emulator:
            cloud = Cloud("own", emulator.environment, emulator.control)
            waiting.callback(cloud.close)
            _, subscription = cloud.topic_with_subscription()
            topic, _ = cloud.topic_with_subscription(
                push_config={"push_endpoint": endpoint.answer("/held", 0)},
                ack_deadline_seconds=600,
            )
            cloud.publish(topic, b"held")
            endpoint.wait_for("/held", 1)
            stream = waiting.enter_context(streaming(cloud, subscription))
            threads = waiting.enter_context(ThreadPoolExecutor())
            pull = threads.submit(pull_for_ever, cloud, subscription)
            control = ControlClient(emulator.control_url)
            nothing = EventFilter(kind=EventKind.NACK)
            wait = threads.submit(control.wait_for_events, nothing, 1, 60.0)
            stopped_at = time.monotonic()
        assert time.monotonic() - stopped_at < 5
        with pytest.raises(ServiceUnavailable):
            stream.receive()
        assert isinstance(pull.exception(timeout=10), ServiceUnavailable)
        assert isinstance(wait.exception(timeout=10), (TimeoutError, OSError))
    # Well before the endpoint lets go of the push by itself.
    eventually(lambda: emulator_threads() <= before, seconds=5.0)


def test_what_happened_can_be_read_after_the_end() -> None:
    with PubsubEmulator() as emulator:
        emulator.add_topic("orders")
        cloud = Cloud("own", emulator.environment, emulator.control)
        cloud.publish(emulator.topic_path("orders"), b"event")
        cloud.close()
    (event,) = emulator.control.events(EventFilter(kind=EventKind.PUBLISHED))
    assert event.resource == "projects/chargeonce-local/topics/orders"


def test_adding_what_is_there_changes_nothing() -> None:
    with PubsubEmulator() as emulator:
        for _ in range(2):
            emulator.add_topic("orders")
            emulator.add_subscription("orders", "billing")
        with pytest.raises(NotFound):
            emulator.add_subscription("missing", "billing-2")
        summary = emulator.control.backlog(emulator.subscription_path("billing"))
        assert summary.messages == 0


def test_two_emulators_do_not_share_a_port() -> None:
    with PubsubEmulator() as first:
        port = int(first.host_and_port.rpartition(":")[2])
        with pytest.raises(OSError, match="cannot listen"), PubsubEmulator(port=port):
            pass
        assert Cloud("own", first.environment, None).topic()


class GoneClient:
    """gRPC's context of a call whose client is gone."""

    def is_active(self) -> bool:
        """See gRPC."""
        return False

    def time_remaining(self) -> None:
        """See gRPC."""


def test_a_pull_whose_client_is_gone_takes_no_message() -> None:
    """Goal: what nobody receives would be out until its lease lapses."""
    exchange = Exchange(Clock())
    with exchange.administer() as broker:
        broker.create_topic(Topic(TOPIC))
        broker.create_subscription(SubscriptionSettings(SUBSCRIPTION, TOPIC))
    exchange.publish(TOPIC, [Draft(b"one")])
    request = PullRequest(subscription=SUBSCRIPTION, max_messages=1)
    answer = SubscriberService(exchange)._pull(request, GoneClient())
    assert list(answer.received_messages) == []
    with exchange.look() as broker:
        assert broker.summary(SUBSCRIPTION).outstanding == 0


def test_it_says_what_it_cannot_do(own: Cloud) -> None:
    with pytest.raises(MethodNotImplemented, match="filter"):
        own.topic_with_subscription(filter='attributes.color = "blue"')
    with pytest.raises(MethodNotImplemented, match="bigquery_config"):
        own.topic_with_subscription(bigquery_config={"table": "a.b.c"})
    with pytest.raises(MethodNotImplemented):
        own.subscriber.seek(request={"subscription": "projects/p/subscriptions/any"})


def test_an_idle_emulator_costs_nothing() -> None:
    """Goal: nobody polls; whoever waits is woken.

    Method: counting the processor time of this process while an emulator with a stream idles.
    """
    with PubsubEmulator() as emulator:
        cloud = Cloud("own", emulator.environment, emulator.control)
        _, subscription = cloud.topic_with_subscription()
        with cloud.consuming(subscription, lambda message, _: message.ack()):
            emulator.control.wait_for_events(EventFilter(kind=EventKind.STREAM_OPENED))
            before = time.process_time()
            time.sleep(0.5)
            assert time.process_time() - before < 0.25
        cloud.close()
