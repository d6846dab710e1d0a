"""Dead letters: what the copy says of itself, and the real SDK that publishes it."""

import time
from collections.abc import Iterator, Mapping

import grpc
import pytest

from gcp_function import dead_letters
from gcp_function.dead_letters import PubsubDeadLetters, dead_letter_attributes
from gcp_function.settlement import PushSettlement
from shared.errors import SettlementFailed
from shared.ports import Delivery, Envelope
from tests.support.pubsub import (
    TOPIC,
    DeadLetter,
    PublisherService,
    RecordedDeadLetters,
    serve_publisher,
)

DELIVERY = Delivery(b"\x00body\xff", Envelope("pubsub-push", "11", 3, {"source": "meter"}))
REASONS = {
    "chargeonce_reason": "InvalidEvent",
    "chargeonce_message_id": "11",
    "chargeonce_delivery_count": "3",
    "chargeonce_description": "amount_cents: is missing",
}


def attributes_of(
    own: Mapping[str, str] | None = None, body: bytes = b"{}", description: str = "why"
) -> dict[str, str]:
    """The attributes of a dead letter whose message had some of its own."""
    delivery = Delivery(body, Envelope("pubsub-push", "11", 3, own or {}))
    return dead_letter_attributes(delivery, "InvalidEvent", description)


def request_bytes(body: bytes, attributes: dict[str, str]) -> int:
    """The size of the publish request as Pub/Sub counts it."""
    from google.pubsub_v1 import PublishRequest, PubsubMessage

    message = PubsubMessage(data=body, attributes=attributes)
    return len(PublishRequest.serialize(PublishRequest(topic=TOPIC, messages=[message])))


def test_reason_and_origin_are_added_to_the_messages_own_attributes() -> None:
    """Goal: an operator sees why, and which message it was."""
    assert dead_letter_attributes(DELIVERY, "InvalidEvent", "amount_cents: is missing") == {
        **REASONS,
        "source": "meter",
    }


def test_what_is_unknown_is_left_out() -> None:
    """Goal: no empty attribute stands for something that Pub/Sub did not say."""
    delivery = Delivery(b"{}", Envelope("pubsub-push"))
    assert dead_letter_attributes(delivery, "Conflict", "") == {"chargeonce_reason": "Conflict"}


def test_latest_reason_replaces_an_earlier_one() -> None:
    """Goal: a message that was resubmitted and failed again says why it failed now."""
    attributes = attributes_of({"chargeonce_reason": "CapReached", "chargeonce_description": "old"})
    assert attributes["chargeonce_reason"] == "InvalidEvent"
    assert attributes["chargeonce_description"] == "why"


@pytest.mark.parametrize("name", ["googclient_schemaencoding", "GOOG", "goog", ""])
def test_names_that_pubsub_refuses_are_left_out(name: str) -> None:
    """Goal: Pub/Sub hands some attributes out that it takes from nobody."""
    assert name not in attributes_of({name: "x"})


def test_long_text_is_cut_to_whole_characters() -> None:
    """Goal: a value has at most 1024 bytes and stays UTF-8."""
    cut = attributes_of(description="ä" * 2000)["chargeonce_description"]
    assert cut == "ä" * 512
    assert attributes_of(description="x" + "ä" * 2000)["chargeonce_description"] == "x" + "ä" * 511
    assert attributes_of(description="a\ud800b")["chargeonce_description"] == "a?b"


def test_no_more_attributes_than_pubsub_takes() -> None:
    """Goal: a message that already has 100 attributes still gets its reason."""
    attributes = attributes_of({f"own-{number}": "x" for number in range(100)})
    assert len(attributes) == 100
    assert attributes["chargeonce_reason"] == "InvalidEvent"


@pytest.mark.parametrize("missing_bytes", [100_000, 2000, 500, 100])
def test_largest_message_still_fits(missing_bytes: int) -> None:
    """Goal: a message that was as large as Pub/Sub takes can be published again, whole."""
    body = bytes(10_000_000 - missing_bytes)
    own = {f"own-{number}": "x" * 1000 for number in range(100)}
    attributes = attributes_of(own, body)
    assert request_bytes(body, attributes) <= 10_000_000
    if missing_bytes > 400:
        assert attributes["chargeonce_reason"] == "InvalidEvent"


def test_message_is_acknowledged_only_with_its_dead_letter() -> None:
    """Goal: the status is 204 with the copy, and stays 503 without it."""
    letters = RecordedDeadLetters()
    settlement = PushSettlement(DELIVERY, letters)
    settlement.dead_letter("InvalidEvent", "amount_cents: is missing")
    assert settlement.status == 204
    assert letters.letters == [DeadLetter(DELIVERY.body, {**REASONS, "source": "meter"})]
    failing = PushSettlement(DELIVERY, RecordedDeadLetters(SettlementFailed("away")))
    with pytest.raises(SettlementFailed):
        failing.dead_letter("InvalidEvent", "why")
    assert failing.status == 503


def test_completing_acknowledges_and_leaving_does_not() -> None:
    """Goal: the HTTP status is the settlement."""
    completed = PushSettlement(DELIVERY, RecordedDeadLetters())
    completed.complete()
    left = PushSettlement(DELIVERY, RecordedDeadLetters())
    left.leave()
    never = PushSettlement(DELIVERY, RecordedDeadLetters())
    assert (completed.status, left.status, never.status) == (204, 503, 503)


def test_message_is_settled_once() -> None:
    """Goal: a second settlement is a defect and is not hidden."""
    settlement = PushSettlement(DELIVERY, RecordedDeadLetters())
    settlement.leave()
    for settle in (settlement.complete, settlement.leave):
        with pytest.raises(AssertionError):
            settle()
    assert settlement.status == 503


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[PublisherService]:
    """Pub/Sub's publisher, where the SDK looks for an emulator."""
    with serve_publisher() as service:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", service.host_and_port)
        yield service


def test_sdk_publishes_body_and_attributes_as_they_are(publisher: PublisherService) -> None:
    """Goal: through the real SDK too nothing changes, whatever the attributes are called."""
    letters = PubsubDeadLetters(TOPIC)
    # These are the names of the parameters of the SDK's own publish.
    attributes = dict.fromkeys(("topic", "data", "ordering_key", "retry", "timeout"), "x")
    for body in (b"\x00\xff", b"", bytes(9_900_000)):
        letters.publish(body, attributes)
    assert publisher.letters == {
        TOPIC: [DeadLetter(body, attributes) for body in (b"\x00\xff", b"", bytes(9_900_000))]
    }


@pytest.mark.parametrize(
    "failure",
    [
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.INVALID_ARGUMENT,
    ],
)
def test_refused_dead_letter_fails_at_once(
    publisher: PublisherService, failure: grpc.StatusCode
) -> None:
    """Goal: what waiting does not mend is not retried here."""
    publisher.failure = failure
    with pytest.raises(SettlementFailed):
        PubsubDeadLetters(TOPIC).publish(b"{}", {})
    assert publisher.request_count == 1


def test_passing_trouble_is_waited_out(publisher: PublisherService) -> None:
    """Goal: one refused attempt does not cost a redelivery."""
    publisher.failure = grpc.StatusCode.UNAVAILABLE
    publisher.failures_left = 1
    PubsubDeadLetters(TOPIC).publish(b"{}", {})
    assert publisher.letters == {TOPIC: [DeadLetter(b"{}", {})]}


@pytest.mark.parametrize("trouble", ["hangs", "is unavailable"])
def test_waiting_for_the_topic_has_a_bound(
    publisher: PublisherService, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """Goal: a topic that does not answer holds up no thread for long."""
    monkeypatch.setattr(dead_letters, "ATTEMPT_SECONDS", 1.0)
    monkeypatch.setattr(dead_letters, "RETRY_SECONDS", 0.5)
    publisher.hanging = trouble == "hangs"
    publisher.failure = None if publisher.hanging else grpc.StatusCode.UNAVAILABLE
    letters = PubsubDeadLetters(TOPIC)
    started = time.monotonic()
    with pytest.raises(SettlementFailed, match="did not take the message"):
        letters.publish(b"{}", {})
    assert time.monotonic() - started < 5


def test_no_more_than_the_promised_bound() -> None:
    """Goal: the bound leaves the rest of a usual function timeout alone."""
    assert dead_letters.ATTEMPT_SECONDS + dead_letters.RETRY_SECONDS < 15
