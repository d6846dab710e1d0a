"""Goal: the real SDK meets on the wire what the model says, faults included.

Faults that take time are bounded by the client's own time limit, never by a sleep of the test.
"""

import http.client
import socket
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
import requests
import stripe
import urllib3

from local.stripe_simulator import (
    CustomerSeed,
    Fault,
    FaultKind,
    Match,
    Permission,
    RunningSimulator,
    SeededCustomer,
    serve_in_thread,
)
from tests.stripe_simulator.support import CONFIRM

NEVER_SECONDS = 60.0
PAYMENT: dict[str, object] = {
    "amount": 1000,
    "currency": "usd",
    "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
    "metadata": {"customer_id": "c1", "billing_period": "2026-11"},
}

Confirm = Callable[[], stripe.PaymentIntent]


@pytest.fixture
def customer(simulator: RunningSimulator) -> SeededCustomer:
    return simulator.control.seed_customers(CustomerSeed())[0]


@pytest.fixture
def intent(client: stripe.StripeClient, customer: SeededCustomer) -> stripe.PaymentIntent:
    return client.v1.payment_intents.create({**PAYMENT, "customer": customer.id})  # type: ignore[typeddict-item]


@pytest.fixture
def confirm(
    client: stripe.StripeClient, customer: SeededCustomer, intent: stripe.PaymentIntent
) -> Confirm:
    """Confirm the payment intent, always with the same key."""

    def call() -> stripe.PaymentIntent:
        return client.v1.payment_intents.confirm(
            intent.id,
            {"payment_method": str(customer.payment_method), "off_session": True},
            {"idempotency_key": "confirm"},
        )

    return call


@pytest.fixture
def hasty_client(simulator: RunningSimulator) -> stripe.StripeClient:
    """A client that gives up on a read after a moment."""
    return stripe.StripeClient(
        "sk_test_desk",
        base_addresses={"api": simulator.base_url},
        http_client=stripe.RequestsClient(timeout=(2, 0.4), session=requests.Session()),
    )


def strike(simulator: RunningSimulator, kind: FaultKind, **how: object) -> None:
    fault = {"kind": kind, **how}
    simulator.control.add_fault(Fault(match=Match(path=CONFIRM, count=1), **fault))  # type: ignore[arg-type]


def connect(simulator: RunningSimulator) -> socket.socket:
    parts = urlsplit(simulator.base_url)
    return socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=5)


def causes(error: BaseException) -> set[type[BaseException]]:
    found: set[type[BaseException]] = set()
    pending: list[BaseException | None] = [error]
    while pending and len(found) < 50:
        each = pending.pop()
        if each is not None:
            found.add(type(each))
            pending += [each.__cause__, each.__context__]
            pending += [argument for argument in each.args if isinstance(argument, Exception)]
    return found


def test_the_sdk_pays_reads_lists_and_refunds(
    client: stripe.StripeClient,
    customer: SeededCustomer,
    intent: stripe.PaymentIntent,
    confirm: Confirm,
) -> None:
    confirmed = confirm()
    charge = client.v1.charges.retrieve(str(confirmed.latest_charge))
    listed = client.v1.payment_intents.list({"customer": customer.id})
    refund = client.v1.refunds.create({"payment_intent": intent.id, "amount": 300})
    read = client.v1.customers.retrieve(customer.id)

    assert confirmed.status == "succeeded"
    assert charge.amount == 1000
    assert [each.id for each in listed.auto_paging_iter()] == [intent.id]
    assert refund.status == "succeeded"
    assert read.invoice_settings is not None
    assert read.invoice_settings.default_payment_method == customer.payment_method
    assert client.v1.accounts.retrieve_current().id == "acct_1SimulatedDefault"


def test_the_sdk_pages_through_everything(
    client: stripe.StripeClient, simulator: RunningSimulator
) -> None:
    seeded = simulator.control.seed_customers(CustomerSeed(count=250))

    found = list(client.v1.customers.list({"limit": 100}).auto_paging_iter())

    assert [each.id for each in found] == [each.id for each in reversed(seeded)]


def test_sdk_exceptions_carry_what_stripe_says(
    client: stripe.StripeClient, simulator: RunningSimulator, confirm: Confirm
) -> None:
    strike(simulator, FaultKind.DECLINE, code="insufficient_funds")

    with pytest.raises(stripe.CardError) as declined:
        confirm()
    with pytest.raises(stripe.InvalidRequestError) as missing:
        client.v1.payment_intents.retrieve("pi_none")

    assert declined.value.code == "card_declined"
    assert declined.value.error is not None
    assert declined.value.error.decline_code == "insufficient_funds"
    assert declined.value.request_id is not None
    assert missing.value.http_status == 404


def test_a_replay_is_told_in_the_headers(confirm: Confirm) -> None:
    first, second = confirm(), confirm()

    assert second.last_response is not None
    assert first.last_response is not None
    assert second.last_response.headers["Idempotent-Replayed"] == "true"
    assert second.last_response.body == first.last_response.body
    assert second.last_response.headers["Idempotency-Key"] == "confirm"


@pytest.mark.parametrize("kind", [FaultKind.RESET, FaultKind.CLOSE])
@pytest.mark.parametrize("acts", [True, False])
def test_a_broken_connection_leaves_the_client_in_doubt(
    simulator: RunningSimulator, confirm: Confirm, kind: FaultKind, acts: bool
) -> None:
    strike(simulator, kind, acts=acts)

    with pytest.raises(stripe.APIConnectionError) as broken:
        confirm()

    assert urllib3.exceptions.ProtocolError in causes(broken.value)
    assert len(simulator.control.ledger()) == int(acts)
    assert confirm().status == "succeeded"
    assert len(simulator.control.ledger()) == 1


def test_a_reset_is_a_reset(simulator: RunningSimulator, confirm: Confirm) -> None:
    strike(simulator, FaultKind.RESET)

    with pytest.raises(stripe.APIConnectionError) as broken:
        confirm()

    assert ConnectionResetError in causes(broken.value)


def test_a_truncated_200_breaks_the_body(simulator: RunningSimulator, confirm: Confirm) -> None:
    strike(simulator, FaultKind.TRUNCATED)

    with pytest.raises(stripe.APIConnectionError) as broken:
        confirm()

    assert requests.exceptions.ChunkedEncodingError in causes(broken.value)
    assert len(simulator.control.ledger()) == 1


@pytest.mark.parametrize(("kind", "status"), [(FaultKind.HTML_502, 502), (FaultKind.NOT_JSON, 200)])
@pytest.mark.parametrize("acts", [True, False])
def test_a_page_in_place_of_json(
    simulator: RunningSimulator, confirm: Confirm, kind: FaultKind, status: int, acts: bool
) -> None:
    strike(simulator, kind, acts=acts)

    with pytest.raises(stripe.APIError) as unreadable:
        confirm()

    assert unreadable.value.http_status == status
    assert len(simulator.control.ledger()) == int(acts)


@pytest.mark.parametrize("acts", [True, False])
def test_a_500_is_stored_and_replayed(
    simulator: RunningSimulator, confirm: Confirm, acts: bool
) -> None:
    strike(simulator, FaultKind.SERVER_ERROR, acts=acts)

    for _ in range(2):
        with pytest.raises(stripe.APIError) as failed:
            confirm()
        assert failed.value.http_status == 500

    assert len(simulator.control.ledger()) == int(acts)


@pytest.mark.parametrize(
    ("kind", "exception", "code"),
    [
        (FaultKind.RATE_LIMIT, stripe.RateLimitError, "rate_limit"),
        (FaultKind.LOCK_TIMEOUT, stripe.RateLimitError, "lock_timeout"),
        (FaultKind.KEY_IN_USE, stripe.APIError, "idempotency_key_in_use"),
        (FaultKind.UNAUTHORIZED, stripe.AuthenticationError, None),
        (FaultKind.FORBIDDEN, stripe.PermissionError, None),
    ],
)
def test_refusals_are_the_exceptions_that_stripe_raises(
    simulator: RunningSimulator,
    confirm: Confirm,
    kind: FaultKind,
    exception: type[stripe.StripeError],
    code: str | None,
) -> None:
    strike(simulator, kind)

    with pytest.raises(exception) as refused:
        confirm()

    assert refused.value.error is not None
    assert refused.value.error.code == code
    assert len(simulator.control.ledger()) == 0


def test_a_spend_cap_is_more_than_the_sdk_can_parse(
    simulator: RunningSimulator, confirm: Confirm
) -> None:
    strike(simulator, FaultKind.SPEND_CAP)

    with pytest.raises(AttributeError):
        confirm()


def test_a_hang_ends_at_the_clients_read_timeout_and_stripe_acted(
    simulator: RunningSimulator,
    hasty_client: stripe.StripeClient,
    intent: stripe.PaymentIntent,
    customer: SeededCustomer,
) -> None:
    strike(simulator, FaultKind.HANG, hang_seconds=NEVER_SECONDS)

    with pytest.raises(stripe.APIConnectionError) as timed_out:
        hasty_client.v1.payment_intents.confirm(
            intent.id, {"payment_method": str(customer.payment_method)}
        )

    assert requests.exceptions.ReadTimeout in causes(timed_out.value)
    assert len(simulator.control.ledger()) == 1


def test_a_hang_is_bounded(simulator: RunningSimulator, confirm: Confirm) -> None:
    strike(simulator, FaultKind.HANG, hang_seconds=0.05)

    with pytest.raises(stripe.APIConnectionError) as broken:
        confirm()

    assert http.client.RemoteDisconnected in causes(broken.value)


def test_a_slow_request_keeps_its_key_in_use_and_its_object_locked(
    simulator: RunningSimulator,
    client: stripe.StripeClient,
    hasty_client: stripe.StripeClient,
    intent: stripe.PaymentIntent,
    customer: SeededCustomer,
) -> None:
    strike(simulator, FaultKind.DELAY, before_seconds=NEVER_SECONDS)
    form = {"payment_method": str(customer.payment_method)}
    with pytest.raises(stripe.APIConnectionError):
        hasty_client.v1.payment_intents.confirm(intent.id, form, {"idempotency_key": "k"})  # type: ignore[arg-type]

    with pytest.raises(stripe.APIError) as in_use:
        client.v1.payment_intents.confirm(intent.id, form, {"idempotency_key": "k"})  # type: ignore[arg-type]
    with pytest.raises(stripe.RateLimitError) as locked:
        client.v1.payment_intents.cancel(intent.id)

    assert in_use.value.http_status == 409
    assert locked.value.error is not None
    assert locked.value.error.code == "lock_timeout"
    assert len(simulator.control.ledger()) == 0


def test_a_request_runs_on_when_its_client_is_gone(
    simulator: RunningSimulator,
    client: stripe.StripeClient,
    hasty_client: stripe.StripeClient,
    intent: stripe.PaymentIntent,
    customer: SeededCustomer,
) -> None:
    strike(simulator, FaultKind.DELAY, before_seconds=0.8)
    with pytest.raises(stripe.APIConnectionError):
        hasty_client.v1.payment_intents.confirm(
            intent.id, {"payment_method": str(customer.payment_method)}
        )
    before = client.v1.payment_intents.retrieve(intent.id).status

    ends_at = time.monotonic() + 10
    while not simulator.control.ledger() and time.monotonic() < ends_at:
        time.sleep(0.01)

    assert before == "requires_payment_method"
    assert client.v1.payment_intents.retrieve(intent.id).status == "succeeded"


def test_a_delayed_answer_comes_after_the_key_is_free(
    simulator: RunningSimulator,
    client: stripe.StripeClient,
    confirm: Confirm,
    intent: stripe.PaymentIntent,
) -> None:
    strike(simulator, FaultKind.DELAY, after_seconds=0.02, answer_seconds=0.02)

    assert confirm().status == "succeeded"
    assert client.v1.payment_intents.retrieve(intent.id).status == "succeeded"


@pytest.mark.parametrize(
    ("kind", "exception"),
    [
        (FaultKind.DRIP_BODY, stripe.APIConnectionError),
        # Headers that end too early look to the HTTP library like an empty body.
        (FaultKind.DRIP_HEADERS, stripe.APIError),
    ],
)
def test_a_dripping_answer_outlives_every_read_timeout(
    simulator: RunningSimulator,
    hasty_client: stripe.StripeClient,
    intent: stripe.PaymentIntent,
    customer: SeededCustomer,
    kind: FaultKind,
    exception: type[stripe.StripeError],
) -> None:
    # Each byte comes in time, all of them do not: only a total deadline notices.
    strike(simulator, kind, interval_seconds=0.01, hang_seconds=0.8)
    started_at = time.monotonic()

    with pytest.raises(exception) as cut_off:
        hasty_client.v1.payment_intents.confirm(
            intent.id, {"payment_method": str(customer.payment_method)}
        )

    assert time.monotonic() - started_at >= 0.7
    assert requests.exceptions.ReadTimeout not in causes(cut_off.value)


def test_a_quick_drip_arrives_whole(simulator: RunningSimulator, confirm: Confirm) -> None:
    strike(simulator, FaultKind.DRIP_HEADERS, interval_seconds=0.0)

    assert confirm().status == "succeeded"


def test_refused_connections_were_never_sent(simulator: RunningSimulator) -> None:
    fresh = stripe.StripeClient(
        "sk_test_desk",
        base_addresses={"api": simulator.base_url},
        http_client=stripe.RequestsClient(timeout=(2, 5), session=requests.Session()),
    )
    simulator.control.refuse_connections(seconds=1.0)

    with pytest.raises(stripe.APIConnectionError) as refused:
        fresh.v1.accounts.retrieve_current()
    assert urllib3.exceptions.NewConnectionError in causes(refused.value)
    assert simulator.control.is_healthy() is False

    ends_at = time.monotonic() + 10
    while not simulator.control.is_healthy() and time.monotonic() < ends_at:
        time.sleep(0.01)
    assert fresh.v1.accounts.retrieve_current().id == "acct_1SimulatedDefault"


def test_closed_connections_turn_out_stale(simulator: RunningSimulator) -> None:
    with connect(simulator) as pooled:
        pooled.sendall(b"GET /v1/account HTTP/1.1\r\nAuthorization: Bearer sk_test_1\r\n\r\n")
        assert pooled.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")

        simulator.control.close_connections()

        assert pooled.recv(1) == b""


def test_permissions_and_revocation_reach_the_wire(
    simulator: RunningSimulator, customer: SeededCustomer
) -> None:
    simulator.control.register_key("rk_test_narrow", permissions={"customers": Permission.READ})
    narrow = stripe.StripeClient(
        "rk_test_narrow",
        base_addresses={"api": simulator.base_url},
        http_client=stripe.RequestsClient(session=requests.Session()),
    )

    assert narrow.v1.customers.retrieve(customer.id).id == customer.id
    with pytest.raises(stripe.PermissionError):
        narrow.v1.customers.create()
    simulator.control.revoke_key("rk_test_narrow")
    with pytest.raises(stripe.AuthenticationError):
        narrow.v1.customers.retrieve(customer.id)


def test_many_clients_at_once_charge_once(
    simulator: RunningSimulator, intent: stripe.PaymentIntent, customer: SeededCustomer
) -> None:
    outcomes: list[str] = []

    def attempt(number: int) -> None:
        with requests.Session() as session:
            racer = stripe.StripeClient(
                "sk_test_desk",
                base_addresses={"api": simulator.base_url},
                http_client=stripe.RequestsClient(session=session),
            )
            try:
                racer.v1.payment_intents.confirm(
                    intent.id,
                    {"payment_method": str(customer.payment_method)},
                    {"idempotency_key": f"race-{number}"},
                )
                outcomes.append("succeeded")
            except stripe.InvalidRequestError as error:
                outcomes.append(str(error.code))

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert sorted(outcomes) == ["payment_intent_unexpected_state"] * 7 + ["succeeded"]
    assert len(simulator.control.ledger()) == 1


def test_requests_may_arrive_in_pieces_and_in_bunches(simulator: RunningSimulator) -> None:
    request = b"GET /v1/account HTTP/1.1\r\nAuthorization: Bearer sk_test_1\r\n\r\n"
    with connect(simulator) as raw:
        raw.sendall(request[:20])
        raw.sendall(request[20:] + request)
        received = b""
        while received.count(b"HTTP/1.1 200 OK") < 2:
            more = raw.recv(65536)
            assert more
            received += more

    assert received.count(b"Connection: keep-alive") == 2


def test_a_request_behind_a_slow_one_waits_its_turn(simulator: RunningSimulator) -> None:
    slow = Fault(FaultKind.DELAY, Match(path="/v1/account", count=1), before_seconds=0.05)
    simulator.control.add_fault(slow)
    authorization = b"HTTP/1.1\r\nAuthorization: Bearer sk_test_1\r\n\r\n"
    with connect(simulator) as raw:
        raw.sendall(b"GET /v1/account " + authorization + b"GET /v1/customers " + authorization)
        received = b""
        while b'"url":"/v1/customers"' not in received:
            more = raw.recv(65536)
            assert more
            received += more

    assert received.index(b'"object":"account"') < received.index(b'"url":"/v1/customers"')


def test_a_client_may_ask_to_close(simulator: RunningSimulator) -> None:
    with connect(simulator) as raw:
        raw.sendall(
            b"GET /v1/account HTTP/1.1\r\nAuthorization: Bearer sk_test_1\r\n"
            b"Connection: close\r\n\r\n"
        )
        received = b""
        while more := raw.recv(65536):
            received += more

    assert b"Connection: close" in received


def test_what_is_not_http_ends_the_connection(simulator: RunningSimulator) -> None:
    with connect(simulator) as raw:
        raw.sendall(b"nonsense\r\n\r\n")
        received = raw.recv(65536)
        assert received.startswith(b"HTTP/1.1 400 Bad Request")
        assert raw.recv(1) == b""


def test_a_taken_port_is_an_error(simulator: RunningSimulator) -> None:
    port = int(urlsplit(simulator.base_url).port or 0)

    with pytest.raises(OSError, match="in use"), serve_in_thread(port=port):
        pytest.fail("two simulators cannot serve on one port")
