"""Push subscriptions: what is sent, which answers acknowledge, retries, and the deadline."""

import base64
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from google.api_core.exceptions import FailedPrecondition

from local.pubsub_emulator import push
from tests.pubsub_emulator.support import (
    Cloud,
    Endpoint,
    Pushed,
    except_on_gclouds,
    on_both,
    on_our_own,
)

TOLERANCE_SECONDS = 0.1

_paths = (f"/{number}" for number in itertools.count(1))


def push_to(url: str, **config: Any) -> dict[str, Any]:
    """The settings of a subscription whose messages are pushed there."""
    return {"push_config": {"push_endpoint": url, **config}}


def seconds_between(pushed: Sequence[Pushed]) -> list[float]:
    """How much time passed between requests."""
    return [later.at_seconds - earlier.at_seconds for earlier, later in itertools.pairwise(pushed)]


@on_both
def test_a_wrapped_message(cloud: Cloud, endpoint: Endpoint) -> None:
    path = next(_paths)
    topic, subscription = cloud.topic_with_subscription(**push_to(endpoint.answer(path, 204)))
    message_id = cloud.publish(topic, b"\x00\xff", color="blue")
    (pushed,) = endpoint.wait_for(path, 1)
    body = pushed.json
    message = body.pop("message")
    assert pushed.headers["Content-Type"] == "application/json"
    assert body == {"subscription": subscription}
    assert base64.b64decode(message["data"]) == b"\x00\xff"
    assert message["attributes"] == {"color": "blue"}
    assert message["messageId"] == message["message_id"] == message_id
    assert message["publishTime"] == message["publish_time"]
    assert message["publishTime"].endswith("Z")


@except_on_gclouds("it sends no ordering key and no delivery attempt, and empty data as a string")
def test_what_a_wrapped_message_may_hold_besides(cloud: Cloud, endpoint: Endpoint) -> None:
    path = next(_paths)
    topic, _ = cloud.topic_with_subscription(
        **push_to(endpoint.answer(path, 204)),
        dead_letter_policy={"dead_letter_topic": cloud.topic(), "max_delivery_attempts": 5},
    )
    cloud.publish(topic, b"", "a-key", only="attributes")
    (pushed,) = endpoint.wait_for(path, 1)
    assert pushed.json.get("deliveryAttempt") == 1
    assert pushed.json["message"].get("orderingKey") == "a-key"
    assert "data" not in pushed.json["message"]


@on_both
def test_an_unwrapped_message_with_metadata(cloud: Cloud, endpoint: Endpoint) -> None:
    path = next(_paths)
    config = push_to(endpoint.answer(path, 204), no_wrapper={"write_metadata": True})
    topic, subscription = cloud.topic_with_subscription(**config)
    message_id = cloud.publish(topic, b'{"bare": true}', color="blue")
    (pushed,) = endpoint.wait_for(path, 1)
    headers = {name.lower(): value for name, value in pushed.headers.items()}
    assert pushed.body == b'{"bare": true}'
    assert headers["x-goog-pubsub-subscription-name"] == subscription
    assert headers["x-goog-pubsub-message-id"] == message_id
    assert headers["x-goog-pubsub-publish-time"].endswith("Z")
    assert headers["color"] == "blue"


@on_both
def test_an_unwrapped_message_without_metadata(cloud: Cloud, endpoint: Endpoint) -> None:
    path = next(_paths)
    config = push_to(endpoint.answer(path, 204), no_wrapper={"write_metadata": False})
    topic, _ = cloud.topic_with_subscription(**config)
    cloud.publish(topic, b"bare", color="blue")
    (pushed,) = endpoint.wait_for(path, 1)
    names = {name.lower() for name in pushed.headers}
    assert pushed.body == b"bare"
    assert "color" not in names
    assert not any(name.startswith("x-goog") for name in names)


@on_both
def test_answers_that_acknowledge(cloud: Cloud, endpoint: Endpoint) -> None:
    assert _pushes_by_answer(cloud, endpoint, 200, 201, 204) == {200: 1, 201: 1, 204: 1}


@except_on_gclouds("it repeats 202 for ever")
def test_202_acknowledges(cloud: Cloud, endpoint: Endpoint) -> None:
    assert _pushes_by_answer(cloud, endpoint, 202) == {202: 1}


@on_our_own
def test_102_acknowledges(cloud: Cloud, endpoint: Endpoint) -> None:
    """Goal: an answer that servers hardly give for their last; gcloud's waits for another."""
    assert _pushes_by_answer(cloud, endpoint, 102) == {102: 1}


@on_both
def test_any_other_answer_brings_the_message_back(cloud: Cloud, endpoint: Endpoint) -> None:
    statuses = (301, 400, 404, 429, 500, 503)
    assert _pushes_by_answer(cloud, endpoint, *statuses) == dict.fromkeys(statuses, 2)


@except_on_gclouds("it takes 203 for an acknowledgement")
def test_203_brings_the_message_back(cloud: Cloud, endpoint: Endpoint) -> None:
    assert _pushes_by_answer(cloud, endpoint, 203) == {203: 2}


@on_both
def test_an_endpoint_that_is_not_there_yet(cloud: Cloud, endpoint: Endpoint) -> None:
    """Goal: a refused connection is a failed delivery like any other."""
    path = next(_paths)
    topic, subscription = cloud.topic_with_subscription(**push_to("http://127.0.0.1:9/"))
    cloud.publish(topic, b"patience")
    cloud.subscriber.modify_push_config(
        subscription=subscription, push_config={"push_endpoint": endpoint.answer(path, 204)}
    )
    endpoint.wait_for(path, 1)


@on_our_own
def test_the_pace_without_a_retry_policy(cloud: Cloud, endpoint: Endpoint) -> None:
    """Goal: from a tenth of a second on, twice as long each time. gcloud's waits a second."""
    path = next(_paths)
    topic, _ = cloud.topic_with_subscription(**push_to(endpoint.answer(path, *[500] * 3, 204)))
    cloud.publish(topic, b"paced")
    waits = seconds_between(endpoint.wait_for(path, 4))
    assert [wait > planned * 0.9 for wait, planned in zip(waits, (0.1, 0.2, 0.4), strict=True)]
    assert sum(waits) < 3.0


@on_our_own
def test_the_pace_of_a_retry_policy(cloud: Cloud, endpoint: Endpoint) -> None:
    path = next(_paths)
    topic, _ = cloud.topic_with_subscription(
        **push_to(endpoint.answer(path, 500, 500, 204)),
        retry_policy={"minimum_backoff": "0.600s", "maximum_backoff": "0.600s"},
    )
    cloud.publish(topic, b"paced")
    waits = seconds_between(endpoint.wait_for(path, 3))
    assert all(wait > 0.6 - TOLERANCE_SECONDS for wait in waits), waits


@on_both
def test_past_the_deadline_it_is_sent_again_while_the_first_still_runs(
    cloud: Cloud, endpoint: Endpoint
) -> None:
    """Method: the endpoint holds the first answer back until the end of all tests."""
    path = next(_paths)
    topic, _ = cloud.topic_with_subscription(
        **push_to(endpoint.answer(path, 0, 204)), ack_deadline_seconds=1
    )
    cloud.publish(topic, b"slow")
    first, second = endpoint.wait_for(path, 2)
    assert second.at_seconds - first.at_seconds > 1.0 - TOLERANCE_SECONDS
    assert first.json["message"]["messageId"] == second.json["message"]["messageId"]


@on_both
def test_dead_letters_of_a_push_subscription(cloud: Cloud, endpoint: Endpoint) -> None:
    path = next(_paths)
    dead_letter_topic, dead_letters = cloud.topic_with_subscription()
    topic, _ = cloud.topic_with_subscription(
        **push_to(endpoint.answer(path, 500)),
        dead_letter_policy={"dead_letter_topic": dead_letter_topic, "max_delivery_attempts": 5},
    )
    cloud.publish(topic, b"poison")
    (letter,) = cloud.pull(dead_letters)
    assert len(endpoint.pushed(path)) == 5
    assert letter.message.attributes["CloudPubSubDeadLetterSourceDeliveryCount"] == "5"


@on_our_own
def test_of_a_key_one_message_is_pushed_at_a_time(cloud: Cloud, endpoint: Endpoint) -> None:
    """Goal: a message that fails holds back those behind it. gcloud's goes on with them."""
    path = next(_paths)
    topic, _ = cloud.topic_with_subscription(
        **push_to(endpoint.answer(path, 500, 500, 204)), enable_message_ordering=True
    )
    for data in (b"1", b"2"):
        cloud.publish(topic, data, ordering_key="key")
    pushed = endpoint.wait_for(path, 4)
    assert [base64.b64decode(one.json["message"]["data"]) for one in pushed] == [
        *(b"1", b"1", b"1"),
        b"2",
    ]


@on_our_own
def test_a_subscription_whose_endpoint_hangs_stops_no_other(
    cloud: Cloud, endpoint: Endpoint
) -> None:
    path = next(_paths)
    with Endpoint().serving() as hanging:
        topic, subscription = cloud.topic_with_subscription(
            **push_to(hanging.answer("/", 0)), ack_deadline_seconds=600
        )
        for number in range(100):
            cloud.publish(topic, b"%d" % number)
        hanging.wait_for("/", push.MAXIMUM_REQUESTS_PER_SUBSCRIPTION)
        topic, _ = cloud.topic_with_subscription(**push_to(endpoint.answer(path, 204)))
        cloud.publish(topic, b"well")
        endpoint.wait_for(path, 1)
        assert len(hanging.pushed("/")) == push.MAXIMUM_REQUESTS_PER_SUBSCRIPTION
        cloud.subscriber.delete_subscription(subscription=subscription)


@on_our_own
def test_a_place_that_becomes_free_is_taken(
    cloud: Cloud, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: with one place only, every message waits for the one before it."""
    monkeypatch.setattr(push, "MAXIMUM_REQUESTS_PER_SUBSCRIPTION", 1)
    path = next(_paths)
    topic, _ = cloud.topic_with_subscription(**push_to(endpoint.answer(path, 204)))
    for number in range(30):
        cloud.publish(topic, b"%d" % number)
    endpoint.wait_for(path, 30)


@except_on_gclouds("it lets anybody pull from a push subscription")
def test_a_push_subscription_cannot_be_pulled_from(cloud: Cloud, endpoint: Endpoint) -> None:
    _, subscription = cloud.topic_with_subscription(**push_to(endpoint.answer(next(_paths), 204)))
    with pytest.raises(FailedPrecondition):
        cloud.pull_now(subscription)


@on_both
def test_a_push_subscription_can_become_a_pull_subscription(
    cloud: Cloud, endpoint: Endpoint
) -> None:
    path = next(_paths)
    topic, subscription = cloud.topic_with_subscription(**push_to(endpoint.answer(path, 204)))
    cloud.publish(topic, b"pushed")
    endpoint.wait_for(path, 1)
    cloud.subscriber.modify_push_config(subscription=subscription, push_config={})
    cloud.publish(topic, b"pulled")
    assert [one.message.data for one in cloud.pull(subscription)] == [b"pulled"]


def _pushes_by_answer(cloud: Cloud, endpoint: Endpoint, *statuses: int) -> dict[int, int]:
    """Return how often a message was pushed, for each first answer; the second is 204.

    Method: a message that is refused once, and that is published after the others were pushed,
    shows when those would have come again.
    """
    paths = {status: next(_paths) for status in statuses}
    for status, path in paths.items():
        topic, _ = cloud.topic_with_subscription(**push_to(endpoint.answer(path, status, 204)))
        cloud.publish(topic, b"tried")
        endpoint.wait_for(path, 1)
    witness = next(_paths)
    topic, _ = cloud.topic_with_subscription(**push_to(endpoint.answer(witness, 500, 204)))
    cloud.publish(topic, b"witness")
    endpoint.wait_for(witness, 2)
    return {status: len(endpoint.pushed(path)) for status, path in paths.items()}
