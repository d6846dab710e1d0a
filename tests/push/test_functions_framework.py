"""The push function under the real functions-framework and its gunicorn, over real HTTP."""

import re
import sys
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path

import grpc
import pytest

from gcp_function.push import MAX_BODY_BYTES
from local.google_function import HOST
from tests.support.bench import at_once
from tests.support.deployment import THREADS, Deployment
from tests.support.malformed_bodies import MALFORMED_BODIES, ODD_BUT_VALID, event_body
from tests.support.pubsub import TOPIC, PublisherService, bearer, token, wrap


def letters_of(publisher: PublisherService, message_id: str) -> list[tuple[str, str, bytes]]:
    """Reason, description and body of the dead letters that a message became."""
    return [
        (
            letter.attributes["chargeonce_reason"],
            letter.attributes["chargeonce_description"],
            letter.body,
        )
        for letter in publisher.letters.get(TOPIC, [])
        if letter.attributes["chargeonce_message_id"] == message_id
    ]


def test_wrapped_event_is_charged_once(deployment: Deployment) -> None:
    """Goal: one charge, however often the event comes and under whatever message id."""
    event = deployment.customer("wrapped")
    assert [deployment.push(event, str(number)) for number in (1, 1, 2, 3)] == [204] * 4
    assert deployment.charged_cents("wrapped") == [5000]


def test_unwrapped_event_is_charged_once(deployment: Deployment) -> None:
    """Goal: the same without a wrapper, with metadata in headers or without."""
    event = deployment.customer("unwrapped")
    with_metadata = {**bearer(), "x-goog-pubsub-message-id": "21"}
    assert [deployment.send(event, with_metadata), deployment.send(event)] == [204, 204]
    assert deployment.charged_cents("unwrapped") == [5000]


def test_concurrent_deliveries_charge_once(deployment: Deployment) -> None:
    """Goal: deliveries of one event that run at once are charged once; the others are left."""
    event = deployment.customer("crowd")
    statuses: list[int] = []
    at_once(
        *[
            lambda number=number: statuses.append(deployment.push(event, f"3{number}"))
            for number in range(2 * THREADS)
        ]
    )
    assert set(statuses) <= {204, 503}
    assert 204 in statuses
    assert deployment.push(event, "39") == 204
    assert deployment.charged_cents("crowd") == [5000]


def test_every_malformed_body_lands_whole_and_no_worker_dies(
    deployment: Deployment, publisher: PublisherService
) -> None:
    """Goal: each malformed body is acknowledged, with its bytes and a reason that names the
    field in the dead-letter topic and among the parked events, and the worker lives on.
    """
    workers = deployment.function.worker_pids()
    expected = {}
    for number, malformed in enumerate(MALFORMED_BODIES):
        message_id = f"malformed-{number}"
        assert deployment.push(malformed.body, message_id) == 204, malformed.name
        (letter,) = letters_of(publisher, message_id)
        assert (letter[0], letter[2]) == ("InvalidEvent", malformed.body)
        assert letter[1].startswith(malformed.reason)
        expected[message_id] = letter
    assert deployment.parked("malformed-%") == expected
    assert deployment.function.worker_pids() == workers
    event = deployment.customer("after")
    assert deployment.push(event, "after") == 204
    assert deployment.charged_cents("after") == [5000]


def test_message_without_data_is_dead_lettered(
    deployment: Deployment, publisher: PublisherService
) -> None:
    """Goal: a message that has attributes only does not come back for ever."""
    attributes = {"source": "meter"}
    assert deployment.send(wrap(None, "no-data", attributes=attributes)) == 204
    assert [letter[2] for letter in letters_of(publisher, "no-data")] == [b""]
    assert publisher.letters[TOPIC][-1].attributes["source"] == "meter"


def test_odd_but_valid_bodies_are_events(
    deployment: Deployment, publisher: PublisherService
) -> None:
    """Goal: what the contract allows is charged, or waits for its run; it is no dead letter."""
    deployment.customer("1")
    for name, body in ODD_BUT_VALID.items():
        waits = name == "longest of everything"
        assert deployment.push(body, f"odd-{name}") == (503 if waits else 204)
        assert letters_of(publisher, f"odd-{name}") == []
    # Two customers of ours share this one at Stripe.
    assert deployment.charged_cents("1") == [5000, 5000]


def test_period_without_a_run_is_left(deployment: Deployment, publisher: PublisherService) -> None:
    """Goal: an event that came before its run waits at Pub/Sub, in no dead letters."""
    event = event_body(customer_id="early", billing_period="2099-01")
    assert deployment.push(event, "early") == 503
    assert letters_of(publisher, "early") == []
    assert deployment.parked("early") == {}


def test_large_messages_land_whole(deployment: Deployment, publisher: PublisherService) -> None:
    """Goal: too large for an event, and as large as Pub/Sub carries, is dead-lettered whole."""
    for size in (65_537, 1_000_000, 9_999_000):
        body = event_body(note="x" * (size - len(event_body(note=""))))
        assert len(body) == size
        assert deployment.push(body, f"large-{size}") == 204
        (letter,) = letters_of(publisher, f"large-{size}")
        assert letter == (
            "InvalidEvent",
            f"body: is {size} bytes long; at most 65536 are read",
            body,
        )
        assert deployment.parked(f"large-{size}") == {f"large-{size}": letter}


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_refused_bodies_are_not_read_into_memory(deployment: Deployment) -> None:
    """Goal: nobody fills the memory with bodies that are too large or not authorized.

    Method: functions-framework itself would read what we left unread, so the peak is watched.
    """
    (worker_pid,) = deployment.function.worker_pids()
    assert deployment.push(b"warm") == 204
    too_large = bytes(MAX_BODY_BYTES + 2)
    for headers, status in ((bearer(), 413), (bearer("else@example.com"), 403), ({}, 401)):
        before_bytes = _reset_peak(worker_pid)
        assert _send_or_give_up(deployment, too_large, headers) in (status, None)
        assert deployment.send(b"x" * 10_000, {}) == 401
        assert _peak_bytes(worker_pid) - before_bytes < len(too_large) // 2
    assert deployment.function.worker_pids() == [worker_pid]


def _reset_peak(pid: int) -> int:
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return _peak_bytes(pid)


def _peak_bytes(pid: int) -> int:
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


def _send_or_give_up(deployment: Deployment, body: bytes, headers: Mapping[str, str]) -> int | None:
    try:
        return deployment.send(body, headers)
    except OSError:
        # The server closed the connection rather than read the rest.
        return None


def test_chunked_body_is_read(deployment: Deployment) -> None:
    """Goal: a body that does not announce its length is a push too."""
    event = deployment.customer("chunked")
    connection = HTTPConnection(HOST, deployment.function.port, timeout=30)
    wrapped = wrap(event, "chunked")
    halves = iter([wrapped[:50], wrapped[50:]])
    connection.request("POST", "/", halves, bearer(), encode_chunked=True)
    assert connection.getresponse().status == 204
    connection.close()
    assert deployment.charged_cents("chunked") == [5000]


def test_failed_dead_letter_is_left_and_parked_once(
    deployment: Deployment, publisher: PublisherService
) -> None:
    """Goal: without the copy in the topic there is no acknowledgement; the parked event is one."""
    publisher.failure = grpc.StatusCode.NOT_FOUND
    try:
        assert deployment.push(b"no event", "unpublished") == 503
    finally:
        publisher.failure = None
    assert deployment.push(b"no event", "unpublished") == 204
    assert len(letters_of(publisher, "unpublished")) == 1
    assert len(deployment.parked("unpublished")) == 1


def test_log_has_one_json_line_per_decision_and_no_secret(deployment: Deployment) -> None:
    """Goal: Cloud Logging can read every line, and no line holds a key or a token."""
    event = deployment.customer("logged")
    before = len(deployment.log_lines())
    for message_id in ("logged-1", "logged-2"):
        assert deployment.push(event, message_id, deliveryAttempt=2) == 204
    assert deployment.push(b"no event", "logged-3") == 204
    lines = deployment.log_lines()[before:]
    assert [(line["event"], line["message_id"]) for line in lines] == [
        ("charged", "logged-1"),
        ("duplicate_prevented", "logged-2"),
        ("invalid_event", "logged-3"),
    ]
    assert {line["transport"] for line in lines} == {"pubsub-push"}
    assert [line.get("delivery_count") for line in lines] == [2, 2, None]
    log = deployment.function.log()
    for secret in ("hunter2", token({})[:20], "client_secret"):
        assert secret not in log


def test_stopping_is_quiet(deployment: Deployment) -> None:
    """Goal: SIGTERM ends the function at once, and its last words are decisions too."""
    with deployment.running() as function:
        assert deployment.push(b"no event", "last") == 204
        log_before = function.log()
        assert function.stop() == 0
        assert function.log() == log_before


def test_wrong_signature_type_does_not_matter(deployment: Deployment) -> None:
    """Goal: deployed as the wrong kind of function, it still is the HTTP function that it is.

    As a CloudEvent function every answer would be 200, and what was left would be lost.
    """
    with deployment.running(FUNCTION_SIGNATURE_TYPE="cloudevent"):
        assert deployment.push(event_body(billing_period="2099-02")) == 503
