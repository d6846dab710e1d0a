"""The whole way through Google's own Pub/Sub emulator: publish, push, charge, dead-letter."""

import time
from collections.abc import Callable, Iterator

import pytest

from local.pubsub_emulator_gcloud import GcloudPubsubEmulator
from local.stripe_simulator import serve_in_thread
from tests.support.deployment import Deployment
from tests.support.malformed_bodies import MALFORMED_BODIES, event_body

PATIENCE_SECONDS = 30.0


@pytest.fixture(scope="module")
def emulator(gcloud_emulator: GcloudPubsubEmulator) -> GcloudPubsubEmulator:
    """Google's emulator with a dead-letter topic that somebody subscribes to."""
    gcloud_emulator.create_topic("dead-letters")
    gcloud_emulator.create_subscription("dead-letters", "dead-letters-kept")
    return gcloud_emulator


@pytest.fixture(scope="module")
def pushed(module_database_url: str, emulator: GcloudPubsubEmulator) -> Iterator[Deployment]:
    """The function, pushed to by two topics: `usage` wrapped and `usage-unwrapped`.

    The emulator sends no token, hence no authentication.
    """
    with serve_in_thread() as stripe:
        deployment = Deployment(module_database_url, stripe, emulator.host_and_port)
        with deployment.running(PUBSUB_PUSH_AUTH="none") as function:
            for topic, unwrapped in (("usage", False), ("usage-unwrapped", True)):
                emulator.create_topic(topic)
                emulator.create_subscription(
                    topic, f"bill-{topic}", push_endpoint=function.url, unwrapped=unwrapped
                )
            yield deployment


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens by itself; fails if it does not."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.parametrize("topic", ["usage", "usage-unwrapped"])
def test_published_event_is_charged_once(
    emulator: GcloudPubsubEmulator, pushed: Deployment, topic: str
) -> None:
    """Goal: what is published three times is charged once and acknowledged each time."""
    event = pushed.customer(topic)
    message_ids = {emulator.publish(topic, event) for _ in range(3)}
    wait_until(
        lambda: (
            message_ids
            <= {line.get("message_id") for line in pushed.log_lines() if line["severity"] == "INFO"}
        )
    )
    assert pushed.charged_cents(topic) == [5000]


def test_every_malformed_body_lands_whole(
    emulator: GcloudPubsubEmulator, pushed: Deployment
) -> None:
    """Goal: through the real emulator too, each malformed body is found byte by byte in the
    dead-letter topic with its reason, and nothing is delivered again.
    """
    workers = pushed.function.worker_pids()
    attributes = {"source": "meter"}
    # The emulator, like Pub/Sub, takes no message without data unless it has attributes.
    published = {
        emulator.publish("usage", malformed.body, attributes): malformed
        for malformed in MALFORMED_BODIES
    }
    for letter in emulator.pull("dead-letters-kept", len(MALFORMED_BODIES)):
        malformed = published.pop(letter.attributes["chargeonce_message_id"])
        assert letter.body == malformed.body
        assert letter.attributes["chargeonce_reason"] == "InvalidEvent"
        assert letter.attributes["chargeonce_description"].startswith(malformed.reason)
        assert letter.attributes["source"] == "meter"
    assert published == {}
    assert pushed.function.worker_pids() == workers
    assert {line.get("code") for line in pushed.log_lines()} >= {"body", "amount_cents"}


def test_event_that_is_left_is_pushed_again(
    emulator: GcloudPubsubEmulator, pushed: Deployment
) -> None:
    """Goal: 503 brings the event back, until its run is open and it can be charged."""
    pushed.customer("late")
    event = event_body(customer_id="late", stripe_customer_id="cus_late", billing_period="2026-12")
    message_id = emulator.publish("usage", event)
    wait_until(
        lambda: any(
            line.get("message_id") == message_id and line["event"] == "transient"
            for line in pushed.log_lines()
        )
    )
    pushed.execute(
        """
        INSERT INTO chargeonce.runs (billing_period, currency, expected_cents, cap_cents)
        VALUES ('2026-12', 'usd', 10000, 10000)
        """
    )
    wait_until(lambda: pushed.charged_cents("late") == [5000])
