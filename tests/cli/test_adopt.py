"""`chargeonce adopt`: a payment that Stripe has and the records do not is recorded once."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from local.stripe_simulator import CustomerSeed, PaymentSeed, RunningSimulator
from ops.exit_codes import ExitCode
from shared.outcome import Outcome
from shared.ports import StripeRequest, StripeResponse
from shared.record import RecordId, State
from shared.settings import read_settings
from shared.store.postgres import PostgresStore
from shared.wiring import build_payments
from tests.cli.conftest import PERIOD, CommandLine, Ran, claim, doubt, end

ACME = ("--customer", "acme", "--period", PERIOD)


@pytest.fixture
def customer(deployed: CommandLine, simulator: RunningSimulator) -> None:
    """A customer with a good card."""
    seed = CustomerSeed(ids=["cus_acme"], payment_method="pm_card_visa", source="tok_visa")
    simulator.control.seed_customers(seed)


def pay(simulator: RunningSimulator, amount: int = 5000, **metadata: str) -> tuple[str, str]:
    """A payment that another system made: its PaymentIntent and its charge."""
    (payment,) = simulator.control.seed_payments(
        [PaymentSeed("cus_acme", amount, metadata=metadata)]
    )
    return payment.payment_intent, payment.charge


def post(path: str, **parameters: str) -> dict[str, Any]:
    """Ask Stripe for something by hand."""
    payments = build_payments(read_settings())
    request = StripeRequest("post", path, parameters, f"by-hand-{path}-{sorted(parameters)}")
    answer = payments.send(request, 20)
    payments.close()
    assert isinstance(answer, StripeResponse)
    content: dict[str, Any] = json.loads(answer.body)
    assert answer.status == 200, content
    return content


def adopt(run: CommandLine, payment_id: str, *options: str) -> Ran:
    """Adopt a payment for the usual customer."""
    return run("adopt", "--payment", payment_id, *ACME, "--json", *options)


def run_money(store: PostgresStore) -> tuple[int, int]:
    """What the run holds and has charged."""
    run = store.get_run(PERIOD)
    assert run is not None
    return run.held_cents, run.charged_cents


@pytest.mark.parametrize("by_charge", [False, True])
def test_a_payment_without_a_record(
    deployed: CommandLine,
    customer: None,
    simulator: RunningSimulator,
    store: PostgresStore,
    deliver: Callable[..., Outcome],
    by_charge: bool,
) -> None:
    """Goal: recorded once under whichever id; the event that comes later charges nobody."""
    intent, charge = pay(simulator)
    given = charge if by_charge else intent
    planned = adopt(deployed, given, "--dry-run")
    assert (planned.code, planned.document["message"]) == (ExitCode.OK, "it would be recorded")
    assert store.get_record(RecordId("acme", PERIOD)) is None
    for verdict in ("recorded", "known"):
        ran = adopt(deployed, given)
        assert (ran.code, ran.document["verdict"]) == (ExitCode.OK, verdict)
        assert ran.document["record"]["payment_id"] == intent
    again = adopt(deployed, charge).document
    assert again["verdict"] == "known"
    assert again["payment"]["names"] == sorted([intent, charge])
    assert run_money(store) == (0, 5000)
    assert deliver() is Outcome.CHARGED
    assert len(simulator.control.ledger()) == 1


def test_a_payment_of_ours_names_its_record(
    deployed: CommandLine,
    customer: None,
    simulator: RunningSimulator,
    store: PostgresStore,
    deliver: Callable[..., Outcome],
) -> None:
    """Goal: after a lost record its payment needs no names, and refuses wrong ones."""
    assert deliver() is Outcome.CHARGED
    record = store.get_record(RecordId("acme", PERIOD))
    assert record is not None
    payment_id = record.payment_id or ""
    doubt_it(store)
    wrong = ("--customer", "bolt", "--period", PERIOD)
    assert deployed("adopt", "--payment", payment_id, *wrong).code == ExitCode.FAILED
    ran = deployed("adopt", "--payment", payment_id, "--json")
    assert (ran.code, ran.document["verdict"]) == (ExitCode.OK, "known")


def doubt_it(store: PostgresStore) -> None:
    """Leave an unfinished record of somebody else behind."""
    doubt(store, claim(store, "bolt"))


@pytest.mark.parametrize("state", [State.IN_DOUBT, State.DECLINED])
def test_a_record_that_is_behind(
    deployed: CommandLine,
    customer: None,
    simulator: RunningSimulator,
    store: PostgresStore,
    state: State,
) -> None:
    """Goal: proof of money ends the record, whatever it says."""
    intent, _ = pay(simulator)
    record = claim(store)
    if state is State.IN_DOUBT:
        doubt(store, record)
    else:
        end(store, record, state, "stolen_card")
    ran = adopt(deployed, intent)
    assert (ran.code, ran.document["verdict"]) == (ExitCode.OK, "recorded")
    assert ran.document["record"]["state"] == "charged"
    assert run_money(store) == (0, 5000)


def test_a_double_charge_is_told(
    deployed: CommandLine,
    customer: None,
    simulator: RunningSimulator,
    store: PostgresStore,
    deliver: Callable[..., Outcome],
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert deliver() is Outcome.CHARGED
    intent, _ = pay(simulator)
    ran = adopt(deployed, intent)
    assert (ran.code, ran.document["verdict"]) == (ExitCode.FAILED, "second_payment")
    assert "DOUBLE CHARGE" in ran.document["message"]
    assert ran.document["record"]["payment_id"] != intent
    assert any("double_charge_detected" in message for message in caplog.messages)
    assert run_money(store) == (0, 5000)


def test_what_is_refused(
    deployed: CommandLine, customer: None, simulator: RunningSimulator, store: PostgresStore
) -> None:
    """Goal: nothing is recorded, and each says why."""
    intent, charge = pay(simulator, amount=4999)
    doubt(store, claim(store))
    unpaid = post("/v1/payment_intents", amount="5000", currency="usd", customer="cus_acme")["id"]
    authorized = post(
        "/v1/charges", amount="5000", currency="usd", customer="cus_acme", capture="false"
    )["id"]
    nobodys = post("/v1/charges", amount="5000", currency="usd", source="tok_visa")["id"]
    expected = {
        intent: "differs",
        charge: "differs",
        unpaid: "no_money",
        authorized: "unknown_state",
        nobodys: "without_customer",
        "pi_missing": "not_at_stripe",
        "ch_missing": "not_at_stripe",
    }
    for payment_id, verdict in expected.items():
        ran = adopt(deployed, payment_id)
        assert (ran.code, ran.document["verdict"]) == (ExitCode.FAILED, verdict)
    assert deployed("adopt", "--payment", intent, "--json").document["verdict"] == "unnamed"
    record = store.get_record(RecordId("acme", PERIOD))
    assert record is not None
    assert record.state is State.IN_DOUBT
    assert run_money(store) == (5000, 0)


def test_a_payment_pays_for_one_customer(
    deployed: CommandLine, customer: None, simulator: RunningSimulator
) -> None:
    intent, charge = pay(simulator)
    adopt(deployed, intent)
    other = ("--customer", "bolt", "--period", PERIOD)
    ran = deployed("adopt", "--payment", charge, *other, "--json")
    assert (ran.code, ran.document["verdict"]) == (ExitCode.FAILED, "pays_elsewhere")


def test_past_the_cap(
    deployed: CommandLine, customer: None, simulator: RunningSimulator, store: PostgresStore
) -> None:
    """Goal: proof of money is recorded all the same; the run closes and the command says so."""
    intent, _ = pay(simulator, amount=100_001)
    ran = deployed("adopt", "--payment", intent, *ACME)
    assert ran.code == ExitCode.OK
    assert "the run is closed" in ran.stdout
    assert run_money(store) == (0, 100_001)


def test_another_mode(
    deployed: CommandLine, customer: None, simulator: RunningSimulator, store: PostgresStore
) -> None:
    """Goal: a test payment does not end up among live records."""
    intent, _ = pay(simulator)
    store.identify(None, True)
    ran = adopt(deployed, intent)
    assert ran.code == ExitCode.STRIPE
    assert "wrong_livemode" in ran.document["error"]["message"]


def test_refunds_are_shown_and_never_charged_again(
    deployed: CommandLine,
    customer: None,
    simulator: RunningSimulator,
    deliver: Callable[..., Outcome],
) -> None:
    """Goal: a refunded payment that is adopted, and one of ours, stay charged for good."""
    intent, _ = pay(simulator)
    post("/v1/refunds", payment_intent=intent)
    assert adopt(deployed, intent).document["payment"]["refunded_cents"] == 5000
    assert deliver() is Outcome.CHARGED
    one = ("show", *ACME)
    assert deployed(*one, "--stripe", "--json").document["stripe"]["refunded_cents"] == 5000
    assert "refunded 50.00 USD" in deployed(*one, "--stripe").stdout
    assert "stripe" not in deployed(*one, "--json").document
    assert deployed("retry", *ACME).code == ExitCode.FAILED
    assert [entry.kind for entry in simulator.control.ledger()] == ["charge", "refund"]


def test_wrong_command_lines(deployed: CommandLine) -> None:
    assert deployed("adopt", "--payment", "tok_1").code == ExitCode.USAGE
    half = deployed("adopt", "--payment", "pi_1", "--customer", "acme")
    assert "together" in half.stderr
    assert half.code == ExitCode.FAILED
    assert "chargeonce adopt --payment pi_123" in deployed("adopt", "--help").stdout
