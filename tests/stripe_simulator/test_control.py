"""Goal: tests and demos steer the simulator over HTTP, and mistakes are told."""

import json
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
import stripe

from local.stripe_simulator import (
    ControlClient,
    ControlError,
    CustomerSeed,
    DisputeOpening,
    Fault,
    FaultKind,
    Match,
    PaymentSeed,
    RunningSimulator,
)
from tests.stripe_simulator.support import EPOCH


def call(
    simulator: RunningSimulator, method: str, path: str, body: bytes = b""
) -> tuple[int, object]:
    parts = urlsplit(simulator.base_url)
    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=5)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_the_clock_is_read_advanced_and_set(
    simulator: RunningSimulator, client: stripe.StripeClient
) -> None:
    control = simulator.control

    assert control.now() == EPOCH
    assert control.advance_clock(60) == EPOCH + 60
    assert control.set_clock(EPOCH + 1000) == EPOCH + 1000
    assert client.v1.customers.create().created == EPOCH + 1000


def test_the_clock_prunes_keys(simulator: RunningSimulator, client: stripe.StripeClient) -> None:
    first = client.v1.customers.create({}, {"idempotency_key": "k"})
    again = client.v1.customers.create({}, {"idempotency_key": "k"})
    simulator.control.advance_clock(24 * 3600)
    later = client.v1.customers.create({}, {"idempotency_key": "k"})

    assert first.id == again.id != later.id


def test_settings_can_be_changed_while_it_runs(
    simulator: RunningSimulator, client: stripe.StripeClient
) -> None:
    before = simulator.control.change_settings()
    try:
        changed = simulator.control.change_settings(idempotency=False, search_lag_seconds=0)
        first = client.v1.customers.create({"name": "x"}, {"idempotency_key": "k"})
        second = client.v1.customers.create({"name": "x"}, {"idempotency_key": "k"})
        found = client.v1.customers.search({"query": "name:'x'"})
    finally:
        restored = simulator.control.change_settings(**before)

    assert (changed["idempotency"], changed["search_lag_seconds"]) == (False, 0.0)
    assert first.id != second.id
    assert len(found.data) == 2
    assert restored == before


def test_faults_are_added_listed_and_removed(simulator: RunningSimulator) -> None:
    control = simulator.control
    first = control.add_fault(Fault(FaultKind.RATE_LIMIT, Match(path="/v1/charges")))
    control.add_fault(Fault(FaultKind.HANG))

    listed = control.faults()

    assert [fault["kind"] for fault in listed] == ["rate_limit", "hang"]
    assert listed[0]["match"]["path"] == "/v1/charges"
    assert (listed[0]["matched"], listed[0]["struck"]) == (0, 0)
    assert control.remove_fault(first) is True
    assert control.remove_fault(first) is False
    control.clear_faults()
    assert control.faults() == []


def test_ten_thousand_customers_in_one_call(
    simulator: RunningSimulator, client: stripe.StripeClient
) -> None:
    seeded = simulator.control.seed_customers(CustomerSeed(count=10_000))

    last = client.v1.customers.retrieve(seeded[-1].id)

    assert len({customer.id for customer in seeded}) == 10_000
    assert last.invoice_settings is not None
    assert last.invoice_settings.default_payment_method == seeded[-1].payment_method


def test_customers_of_another_account_and_mode(
    simulator: RunningSimulator, client: stripe.StripeClient
) -> None:
    simulator.control.register_key("sk_live_other", "acct_other")

    (customer,) = simulator.control.seed_customers(
        CustomerSeed(ids=["cus_live"]), "acct_other", livemode=True
    )

    read = client.v1.customers.retrieve(customer.id, options={"api_key": "sk_live_other"})
    assert read.livemode is True
    with pytest.raises(stripe.InvalidRequestError):
        client.v1.customers.retrieve(customer.id)


def test_the_ledger_is_read_in_pieces(
    simulator: RunningSimulator, client: stripe.StripeClient
) -> None:
    for number in range(5):
        client.v1.charges.create({"amount": 100 + number, "currency": "usd", "source": "tok_visa"})

    status, page = call(simulator, "GET", "/_control/ledger?since=1&limit=2")
    rest = simulator.control.ledger(since=3)

    assert status == 200
    assert isinstance(page, dict)
    assert [entry["amount"] for entry in page["entries"]] == [101, 102]
    assert (page["next"], page["total"]) == (3, 5)
    assert [entry.amount for entry in rest] == [103, 104]
    assert simulator.control.ledger(since=9) == []


def test_the_summary_shows_totals_and_double_charges(
    simulator: RunningSimulator, client: stripe.StripeClient
) -> None:
    for _ in range(2):
        client.v1.charges.create(
            {
                "amount": 500,
                "currency": "usd",
                "source": "tok_visa",
                "metadata": {"customer_id": "c1", "billing_period": "2026-11"},
            }
        )

    summary = simulator.control.ledger_summary()
    live = simulator.control.ledger_summary(account="acct_1SimulatedDefault", livemode=True)

    assert summary.totals["usd"].charged == 1000
    assert summary.double_charges[0].excess == 500
    assert (live.totals, live.double_charges) == ({}, [])


def test_bank_debits_are_settled_on_demand(
    simulator: RunningSimulator, client: stripe.StripeClient
) -> None:
    (customer,) = simulator.control.seed_customers(
        CustomerSeed(payment_method="pm_usBankAccount_success")
    )
    made = [
        client.v1.payment_intents.create(
            {
                "amount": 500,
                "currency": "usd",
                "customer": customer.id,
                "payment_method": str(customer.payment_method),
                "confirm": True,
                "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
            }
        )
        for _ in range(2)
    ]

    refused = simulator.control.settle(made[0].id, decline_code="insufficient_funds")
    settled = simulator.control.settle()
    statuses = [client.v1.payment_intents.retrieve(intent.id).status for intent in made]

    assert (refused, settled) == (1, 1)
    assert statuses == ["requires_payment_method", "succeeded"]


def test_a_bank_debit_settles_when_the_clock_says_so(
    simulator: RunningSimulator, client: stripe.StripeClient
) -> None:
    client.v1.payment_intents.create(
        {
            "amount": 500,
            "currency": "usd",
            "payment_method": "pm_usBankAccount_success",
            "confirm": True,
            "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
        }
    )

    before = simulator.control.ledger()
    simulator.control.advance_clock(4 * 24 * 3600)

    assert before == []
    assert [entry.amount for entry in simulator.control.ledger()] == [500]


def test_a_customer_authenticates_on_demand(
    simulator: RunningSimulator, client: stripe.StripeClient
) -> None:
    intent = client.v1.payment_intents.create(
        {
            "amount": 500,
            "currency": "usd",
            "payment_method": "pm_card_authenticationRequired",
            "confirm": True,
            "return_url": "https://example.com",
        }
    )

    assert intent.status == "requires_action"
    assert simulator.control.authenticate(intent.id) == "succeeded"
    with pytest.raises(ControlError, match="requires no action"):
        simulator.control.authenticate(intent.id)


def test_statistics_count_requests_and_connections(
    simulator: RunningSimulator, client: stripe.StripeClient
) -> None:
    customer = client.v1.customers.create()
    client.v1.customers.retrieve(customer.id)
    with pytest.raises(stripe.InvalidRequestError):
        client.v1.customers.retrieve("cus_none")

    found = simulator.control.statistics()

    assert found["requests"] == [
        {"endpoint": "GET /v1/customers/{id}", "status": 200, "count": 1},
        {"endpoint": "GET /v1/customers/{id}", "status": 404, "count": 1},
        {"endpoint": "POST /v1/customers", "status": 200, "count": 1},
    ]
    assert found["connections"]["open"] >= 1
    assert found["connections"]["accepted"] >= found["connections"]["open"]


def test_a_reset_forgets_everything(
    simulator: RunningSimulator, client: stripe.StripeClient
) -> None:
    client.v1.charges.create({"amount": 500, "currency": "usd", "source": "tok_visa"})
    simulator.control.add_fault(Fault(FaultKind.HANG))
    simulator.control.reset(seed=9)

    assert simulator.control.ledger() == []
    assert simulator.control.faults() == []
    assert client.v1.charges.list().data == []
    simulator.control.reset(seed=1)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/_control/nothing", b"", 404),
        ("PUT", "/_control/faults", b"", 404),
        ("POST", "/_control/faults", b"not json", 400),
        ("POST", "/_control/faults", b"[]", 400),
        ("POST", "/_control/faults", b'{"kind": "flood"}', 400),
        ("POST", "/_control/clock/advance", b"{}", 400),
        ("POST", "/_control/clock/set", b'{"now": "soon"}', 400),
        ("GET", "/_control/ledger?since=-1", b"", 400),
        ("GET", "/_control/ledger?limit=100000", b"", 400),
        ("GET", "/_control/ledger/summary?livemode=maybe", b"", 400),
        ("GET", "/_control/health?x=1", b"", 400),
        ("POST", "/_control/keys", b'{"key": "nonsense"}', 400),
        ("POST", "/_control/keys", b'{"key": "sk_test_1", "permissions": {"a": "b"}}', 400),
        ("POST", "/_control/customers", b'{"count": 0}', 400),
        ("POST", "/_control/customers", b'{"colour": "red"}', 400),
        ("POST", "/_control/settle", b'{"decline_code": "nonsense"}', 400),
        ("POST", "/_control/authenticate", b'{"payment_intent": "pi_none"}', 404),
        ("POST", "/_control/listener/refuse", b'{"seconds": 0}', 400),
    ],
)
def test_mistakes_are_told(
    simulator: RunningSimulator, method: str, path: str, body: bytes, status: int
) -> None:
    found, answer = call(simulator, method, path, body)

    assert found == status
    assert isinstance(answer, dict)
    assert answer["error"]


def test_the_client_tells_mistakes_as_exceptions(simulator: RunningSimulator) -> None:
    with pytest.raises(ControlError, match="sk_test_"):
        simulator.control.register_key("nonsense")


def test_where_nothing_listens_nothing_is_healthy() -> None:
    assert ControlClient("http://127.0.0.1:1").is_healthy() is False


def test_payments_are_made_at_once_and_disputed(
    simulator: RunningSimulator, client: stripe.StripeClient
) -> None:
    (customer,) = simulator.control.seed_customers(CustomerSeed())
    seed = PaymentSeed(customer.id, 1000, description="November", metadata={"a": "b"})

    made = simulator.control.seed_payments([seed] * 3)
    dispute = simulator.control.open_dispute(DisputeOpening(made[1].payment_intent))

    listed = client.v1.charges.list({"limit": 100}).data
    assert [charge.id for charge in listed] == [payment.charge for payment in reversed(made)]
    assert {(charge.status, charge.description) for charge in listed} == {("succeeded", "November")}
    assert len(simulator.control.ledger()) == 3
    assert [found.id for found in client.v1.disputes.list().data] == [dispute]
    with pytest.raises(ControlError, match="No such customer"):
        simulator.control.seed_payments([PaymentSeed("cus_nobody", 1000)])
