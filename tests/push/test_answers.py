"""How each request is answered, and what is logged about it, through Flask."""

import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient

from gcp_function import push
from gcp_function.push import MAX_BODY_BYTES, USUAL_BODY_BYTES, PushFunction
from shared.biller import Biller, BillingRules
from shared.clock import SystemClock
from shared.errors import RecordsUnavailable, SchemaMismatch, SettlementFailed
from shared.outcome import Outcome
from shared.ports import Delivery, NoResponse, Settlement, StripeRequest, StripeResponse
from shared.settings import Settings
from shared.store.memory import MemoryStore
from shared.store.migrations import migrate
from shared.store.postgres import PostgresStore
from tests.support.bench import at_once
from tests.support.malformed_bodies import event_body
from tests.support.pubsub import PUSH_ACCOUNT, TOPIC, RecordedDeadLetters, bearer, token, wrap

ENVIRONMENT = {
    "DATABASE_URL": "postgresql://user:hunter2@nowhere/db",
    "STRIPE_API_KEY": "rk_test_hunter2",
    "PUBSUB_DEAD_LETTER_TOPIC": TOPIC,
    "PUBSUB_PUSH_SERVICE_ACCOUNT": PUSH_ACCOUNT,
}
BODY = event_body()


# What gunicorn says of a body that does not announce its length.
CHUNKED = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}


class NoPayments:
    """A Stripe that must not be asked."""

    def send(
        self, request: StripeRequest, timeout_seconds: float, vault_key: str | None = None
    ) -> StripeResponse | NoResponse:
        """See `Payments.send`."""
        raise AssertionError("nothing is sent to Stripe here")


class ScriptedBiller(Biller):
    """A biller that does as the test says.

    Args:
        script: settles the delivery; None does not settle it at all.
    """

    def __init__(self, script: Callable[[Delivery, Settlement], None] | None = None) -> None:
        clock = SystemClock()
        super().__init__(MemoryStore(clock), NoPayments(), clock, BillingRules())
        self._script = script
        self.deliveries: list[Delivery] = []

    def handle(self, delivery: Delivery, settlement: Settlement) -> Outcome:
        """See `Biller.handle`."""
        self.deliveries.append(delivery)
        if self._script is not None:
            self._script(delivery, settlement)
        return Outcome.CHARGED


def completing(_: Delivery, settlement: Settlement) -> None:
    """A script for what is done with."""
    settlement.complete()


class Endpoint:
    """The push function behind Flask.

    Args:
        biller: what deliveries come to.
        environment: the settings.
        make_biller: in place of handing out `biller`.
    """

    def __init__(
        self,
        biller: Biller | None = None,
        environment: Mapping[str, str] = ENVIRONMENT,
        make_biller: Callable[[Settings], Biller] | None = None,
    ) -> None:
        self.biller = biller or ScriptedBiller(completing)
        self.letters = RecordedDeadLetters()
        function = PushFunction(environment, make_biller or (lambda _: self.biller), self.letters)
        app = flask.Flask("bill")
        app.add_url_rule(
            "/",
            view_func=lambda: function.answer(flask.request),
            endpoint="bill",
            methods=["GET", "POST", "PUT", "DELETE"],
        )
        self.client: FlaskClient = app.test_client()

    def push(self, body: bytes | None = None, **options: Any) -> int:
        """Send a request, a good one unless told otherwise, and return the status."""
        options.setdefault("headers", bearer())
        response = self.client.post("/", data=wrap(BODY) if body is None else body, **options)
        assert response.data == b""
        return response.status_code


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, Any]]]:
    """What was logged, line by line; no secret may be among it."""
    caplog.set_level(logging.INFO, logger="chargeonce")

    def read() -> list[dict[str, Any]]:
        messages = [record.getMessage() for record in caplog.records]
        assert not any("hunter2" in message for message in messages)
        return [json.loads(message) for message in messages]

    return read


def test_settlement_is_the_status() -> None:
    """Goal: complete is 204, leave is 503, and whoever settles nothing leaves."""
    assert Endpoint(ScriptedBiller(completing)).push() == 204
    assert Endpoint(ScriptedBiller(lambda _, settlement: settlement.leave())).push() == 503
    assert Endpoint(ScriptedBiller()).push() == 503


def test_biller_gets_the_delivery() -> None:
    """Goal: the message arrives, wrapped or not."""
    biller = ScriptedBiller(completing)
    endpoint = Endpoint(biller)
    assert endpoint.push(wrap(BODY, "11", deliveryAttempt=2)) == 204
    headers = {**bearer(), "x-goog-pubsub-message-id": "12"}
    assert endpoint.push(BODY, headers=headers) == 204
    assert [
        (each.body, each.envelope.message_id, each.envelope.delivery_count)
        for each in biller.deliveries
    ] == [(BODY, "11", 2), (BODY, "12", None)]


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/x-www-form-urlencoded", "multipart/form-data", None],
)
def test_content_type_does_not_matter(content_type: str | None) -> None:
    """Goal: no announced type makes Flask read the body before we do."""
    biller = ScriptedBiller(completing)
    assert Endpoint(biller).push(content_type=content_type) == 204
    assert biller.deliveries[0].body == BODY


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_only_post_is_a_push(method: str) -> None:
    """Goal: health checks and crawlers bill nobody."""
    biller = ScriptedBiller(completing)
    response = Endpoint(biller).client.open("/", method=method, headers=bearer())
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert biller.deliveries == []


@pytest.mark.parametrize("body", [b"", b'{"subscription": "s"}', b'{"message": {"data": 1}}'])
def test_request_without_a_message_is_a_bad_request(body: bytes) -> None:
    """Goal: what is no push is neither billed nor dead-lettered."""
    biller = ScriptedBiller(completing)
    assert Endpoint(biller).push(body) == 400
    assert biller.deliveries == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer nonsense"}, 401),
        (bearer("hunter2@example.com"), 403),
    ],
)
def test_stranger_is_refused_without_a_word(
    headers: dict[str, str], status: int, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """Goal: no detail in the answer, nothing of the token in the log, no biller made."""

    def make_biller(_: Settings) -> Biller:
        raise AssertionError("a stranger makes nobody connect to the database")

    assert Endpoint(make_biller=make_biller).push(headers=headers) == status
    (line,) = lines()
    assert line["severity"] == "WARNING"
    assert token({"email": "hunter2@example.com"})[:20] not in json.dumps(line)


def test_wrong_settings_are_named_in_the_log(lines: Callable[[], list[dict[str, Any]]]) -> None:
    """Goal: the function says what to mend, all at once, and quotes no value."""
    environment = {"STRIPE_API_KEY": "hunter2", "PUBSUB_PUSH_AUTH": "hunter2"}
    endpoint = Endpoint(environment=environment)
    assert endpoint.push() == 500
    (line,) = lines()
    assert line["severity"] == "ERROR"
    for name in ("DATABASE_URL", "STRIPE_API_KEY", "PUBSUB_PUSH_AUTH", "PUBSUB_DEAD_LETTER_TOPIC"):
        assert name in line["message"]


def test_settings_are_read_again_until_they_are_right() -> None:
    """Goal: a request that came too early spoils nothing for the next."""
    environment: dict[str, str] = {}
    endpoint = Endpoint(environment=environment)
    assert endpoint.push() == 500
    environment.update(ENVIRONMENT)
    assert endpoint.push() == 204


def test_warnings_are_logged_once(lines: Callable[[], list[dict[str, Any]]]) -> None:
    """Goal: a risky setting is told, but not with every message."""
    endpoint = Endpoint(environment={**ENVIRONMENT, "PUBSUB_PUSH_AUTH": "none"})
    assert [endpoint.push(headers={}), endpoint.push(headers={})] == [204, 204]
    (line,) = lines()
    assert (line["severity"], "PUBSUB_PUSH_AUTH" in line["message"]) == ("WARNING", True)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (RecordsUnavailable("away"), "database_unavailable"),
        (SchemaMismatch("older"), "schema_mismatch"),
        (ZeroDivisionError("hunter2"), "unexpected_error"),
    ],
)
def test_what_cannot_be_made_is_made_later(
    failure: Exception, code: str, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """Goal: whatever stands in the way at start, messages wait, and it is tried again."""
    failures = [failure, failure]

    def make_biller(_: Settings) -> Biller:
        if failures:
            raise failures.pop()
        return ScriptedBiller(completing)

    endpoint = Endpoint(make_biller=make_biller)
    assert [endpoint.push(), endpoint.push(), endpoint.push()] == [503, 503, 204]
    assert [(line["event"], line["code"]) for line in lines()] == [("transient", code)] * 2


def test_defect_is_answered_with_503(lines: Callable[[], list[dict[str, Any]]]) -> None:
    """Goal: no exception becomes a 500 whose page quotes it."""

    def break_down(_: Delivery, settlement: Settlement) -> None:
        settlement.complete()
        raise ZeroDivisionError("hunter2")

    assert Endpoint(ScriptedBiller(break_down)).push() == 503
    (line,) = lines()
    assert "ZeroDivisionError at test_answers.py" in line["message"]


def test_failed_dead_letter_is_left_and_told(lines: Callable[[], list[dict[str, Any]]]) -> None:
    """Goal: with the real core, no copy means no acknowledgement, and the next delivery gets it."""
    clock = SystemClock()
    store = MemoryStore(clock)
    endpoint = Endpoint(Biller(store, NoPayments(), clock, BillingRules()))
    endpoint.letters.failure = SettlementFailed("the topic is away")
    assert endpoint.push(wrap(b"no event")) == 503
    assert [line["event"] for line in lines()] == ["invalid_event", "settlement_failed"]
    endpoint.letters.failure = None
    assert endpoint.push(wrap(b"no event")) == 204
    assert [letter.body for letter in endpoint.letters.letters] == [b"no event"]


def test_largest_message_is_handled() -> None:
    """Goal: all that Pub/Sub carries arrives, to be dead-lettered whole."""
    biller = ScriptedBiller(completing)
    body = bytes(10_000_000)
    assert Endpoint(biller).push(wrap(body)) == 204
    assert biller.deliveries[0].body == body


@pytest.mark.parametrize("length", [{}, {"CONTENT_LENGTH": str(MAX_BODY_BYTES + 2)}])
def test_larger_than_any_message_is_refused(length: Mapping[str, str]) -> None:
    """Goal: no request fills the memory, whether it announces its length or not."""
    biller = ScriptedBiller(completing)
    endless = _Endless()
    environ = {"wsgi.input": endless, **(length or CHUNKED)}
    assert Endpoint(biller).push(b"", environ_overrides=environ) == 413
    assert endless.read_bytes <= (0 if length else MAX_BODY_BYTES + 1024 * 1024)
    assert biller.deliveries == []


def test_body_that_ends_early_is_no_message() -> None:
    """Goal: half a message, whose sender went away, is not dead-lettered as an invalid one.

    Method: as under gunicorn, which ends the stream itself and does not complain.
    """
    biller = ScriptedBiller(completing)
    environ = {"CONTENT_LENGTH": str(len(BODY) + 1), "wsgi.input_terminated": True}
    assert Endpoint(biller).push(BODY, environ_overrides=environ) == 400
    assert biller.deliveries == []


def test_bodies_of_unknown_length_need_no_turn() -> None:
    """Goal: chunked bodies of the usual size are handled at once, not one after the other."""
    both = threading.Barrier(2)

    def together(_: Delivery, settlement: Settlement) -> None:
        both.wait(10)
        settlement.complete()

    endpoint = Endpoint(ScriptedBiller(together))
    statuses: list[int] = []
    at_once(*[lambda: statuses.append(endpoint.push(environ_overrides=CHUNKED))] * 2)
    assert statuses == [204, 204]


class _Endless:
    """A body without an end."""

    def __init__(self) -> None:
        self.read_bytes = 0

    def read(self, size: int = 65536) -> bytes:
        self.read_bytes += size
        return bytes(size)

    def readinto(self, buffer: bytearray) -> int:
        self.read_bytes += len(buffer)
        return len(buffer)

    def close(self) -> None:
        """Nothing to close."""


def test_large_messages_take_turns(lines: Callable[[], list[dict[str, Any]]]) -> None:
    """Goal: of two large bodies one waits at Pub/Sub, unread, and a usual one passes them both."""
    inside, go_on = threading.Event(), threading.Event()

    def slowly(delivery: Delivery, settlement: Settlement) -> None:
        if len(delivery.body) > USUAL_BODY_BYTES:
            inside.set()
            assert go_on.wait(10)
        settlement.complete()

    endpoint = Endpoint(ScriptedBiller(slowly))
    large = wrap(bytes(USUAL_BODY_BYTES + 1))
    statuses: list[int] = []
    first = threading.Thread(target=lambda: statuses.append(endpoint.push(large)))
    first.start()
    assert inside.wait(10)
    assert endpoint.push(large) == 503
    endless = _Endless()
    environ = {"wsgi.input": endless, **CHUNKED}
    assert endpoint.push(b"", environ_overrides=environ) == 503
    assert endless.read_bytes <= 2 * USUAL_BODY_BYTES
    assert endpoint.push() == 204
    go_on.set()
    first.join(10)
    assert statuses == [204]
    assert endpoint.push(large) == 204
    assert [line["code"] for line in lines()] == ["large_message_waits"] * 2


def test_migration_is_waited_for(
    database_url: str, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """Goal: deployed before `chargeonce migrate`, the function starts to bill right after it.

    Method: the biller that production makes, over a database that has no schema at first.
    """
    made: list[Biller] = []

    def make_biller(settings: Settings) -> Biller:
        made.append(push._make_biller(settings))
        return made[-1]

    environment = {**ENVIRONMENT, "DATABASE_URL": database_url}
    endpoint = Endpoint(environment=environment, make_biller=make_biller)
    assert endpoint.push(wrap(b"no event")) == 503
    assert lines()[-1]["code"] == "schema_mismatch"
    migrate(database_url)
    assert endpoint.push(wrap(b"no event")) == 204
    assert [letter.body for letter in endpoint.letters.letters] == [b"no event"]
    for biller in made:
        store = biller._records
        assert isinstance(store, PostgresStore)
        store.close()
