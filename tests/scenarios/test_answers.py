"""Every kind of answer that Stripe can give, over real HTTP, at each request of both flows."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from local.stripe_simulator import FaultKind
from shared.outcome import Outcome
from shared.ports import NoResponse, StripeRequest, StripeResponse
from shared.record import Flow
from tests.support.bench import (
    CREATE_PATHS,
    MONEY_PATHS,
    Bench,
    RecordedSettlement,
    TappedPayments,
    matches,
)


@dataclass(frozen=True)
class Trouble:
    """One way in which an answer goes wrong, and what the first delivery may come to."""

    kind: FaultKind
    first: frozenset[Outcome]
    options: dict[str, Any] = field(default_factory=dict)


DOUBT = frozenset({Outcome.IN_DOUBT, Outcome.CHARGED})
CLEAR_WAIT = frozenset({Outcome.TRANSIENT})

TROUBLES = {
    "500 that acted": Trouble(FaultKind.SERVER_ERROR, DOUBT),
    "500 that did not": Trouble(FaultKind.SERVER_ERROR, DOUBT, {"acts": False}),
    "500 that did not and is not stored": Trouble(
        FaultKind.SERVER_ERROR, DOUBT, {"acts": False, "stored": False}
    ),
    "HTML 502 that acted": Trouble(FaultKind.HTML_502, DOUBT),
    "HTML 502 that did not": Trouble(FaultKind.HTML_502, DOUBT, {"acts": False}),
    "truncated 200": Trouble(FaultKind.TRUNCATED, DOUBT),
    "200 that is not JSON": Trouble(FaultKind.NOT_JSON, DOUBT),
    "reset before acting": Trouble(FaultKind.RESET, DOUBT, {"acts": False}),
    "reset after acting": Trouble(FaultKind.RESET, DOUBT),
    "silence beyond the deadline": Trouble(FaultKind.HANG, DOUBT),
    "dripping headers": Trouble(FaultKind.DRIP_HEADERS, DOUBT, {"interval_seconds": 0.1}),
    "dripping body": Trouble(FaultKind.DRIP_BODY, DOUBT, {"interval_seconds": 0.1}),
    "rate limit": Trouble(FaultKind.RATE_LIMIT, CLEAR_WAIT),
    "key in use": Trouble(FaultKind.KEY_IN_USE, CLEAR_WAIT),
    "lock timeout": Trouble(FaultKind.LOCK_TIMEOUT, CLEAR_WAIT),
    "401": Trouble(FaultKind.UNAUTHORIZED, CLEAR_WAIT),
    "403": Trouble(FaultKind.FORBIDDEN, CLEAR_WAIT),
    "duplicate transaction": Trouble(
        FaultKind.DECLINE,
        frozenset({Outcome.IN_DOUBT, Outcome.DECLINED}),
        {"code": "duplicate_transaction"},
    ),
}


NEVER_ANSWERS = frozenset({FaultKind.HANG, FaultKind.DRIP_HEADERS, FaultKind.DRIP_BODY})
DEADLINE_SECONDS = 1.5


def rules_for(trouble: Trouble) -> dict[str, Any]:
    """Patience, but not with an answer that never comes."""
    return {"attempt_seconds": DEADLINE_SECONDS} if trouble.kind in NEVER_ANSWERS else {}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES.keys())
def test_trouble_at_the_request_that_moves_money(
    bench: Bench, flow: Flow, trouble: Trouble
) -> None:
    """Goal: the first delivery is left or ends; later ones end it; the ledger holds one charge."""
    bench.customer()
    bench.fault(trouble.kind, MONEY_PATHS[flow], **trouble.options)
    settlement = RecordedSettlement()
    biller = bench.biller(flow=flow, **rules_for(trouble))
    outcome = bench.deliver(biller, settlement=settlement)
    assert outcome in trouble.first
    if outcome in (Outcome.IN_DOUBT, Outcome.TRANSIENT):
        assert settlement.calls == [("leave",)]
        bench.assert_run(held=5000, charged=0)
    bench.let_hours_pass(25)
    final = bench.deliver(bench.biller(flow=flow), message_id="a day later")
    if final is Outcome.DECLINED:
        assert trouble.options == {"code": "duplicate_transaction"}
        bench.assert_nothing_charged()
    else:
        assert final is Outcome.CHARGED
        bench.assert_charged_once()


def test_an_answer_about_another_payment_proves_nothing(bench: Bench) -> None:
    """Goal: what was mixed up on the way, by a proxy or a cache, is no proof of this charge."""
    bench.customer()

    def mix_up(
        request: StripeRequest, response: StripeResponse | NoResponse
    ) -> StripeResponse | NoResponse:
        if not matches(request, MONEY_PATHS[Flow.PAYMENT_INTENT]):
            return response
        assert isinstance(response, StripeResponse)
        document = {**json.loads(response.body), "id": "pi_of_somebody_else"}
        return replace(response, body=json.dumps(document).encode())

    mixed_up = TappedPayments(bench.payments, after=mix_up)
    assert bench.deliver(bench.biller(mixed_up)) is Outcome.IN_DOUBT
    bench.assert_run(held=5000, charged=0)
    assert bench.deliver(message_id="later") is Outcome.CHARGED
    bench.assert_charged_once()


@pytest.mark.parametrize(
    "trouble",
    [trouble for name, trouble in TROUBLES.items() if "duplicate" not in name],
    ids=[name for name in TROUBLES if "duplicate" not in name],
)
def test_trouble_at_create(bench: Bench, trouble: Trouble) -> None:
    """Goal: whatever happens to create, the next delivery goes on at once and charges once."""
    bench.customer()
    bench.fault(trouble.kind, CREATE_PATHS[Flow.PAYMENT_INTENT], **trouble.options)
    outcome = bench.deliver(bench.biller(**rules_for(trouble)))
    assert outcome in trouble.first
    assert bench.deliver(message_id="again") is Outcome.CHARGED
    bench.assert_charged_once()


def test_retry_inside_the_delivery_is_enough(bench: Bench, flow: Flow) -> None:
    """Goal: with two attempts, one lost answer does not even cost a redelivery."""
    bench.customer()
    bench.fault(FaultKind.CLOSE, MONEY_PATHS[flow], acts=False)
    assert bench.deliver(bench.biller(flow=flow, max_attempts=2)) is Outcome.CHARGED
    bench.assert_charged_once()


def test_hang_beyond_the_budget_leaves_the_message(bench: Bench, flow: Flow) -> None:
    """Goal: a Stripe that never answers uses up the budget and no more; one charge in the end."""
    bench.customer()
    bench.fault(FaultKind.HANG, MONEY_PATHS[flow], count=10)
    slow = bench.new_payments(read_timeout_seconds=30)
    biller = bench.biller(slow, flow=flow, attempt_seconds=0.5, budget_seconds=1.2, max_attempts=10)
    outcome = bench.deliver(biller)
    slow.close()
    assert outcome in DOUBT
    bench.stripe.clear_faults()
    bench.let_hours_pass(25)
    assert bench.deliver(bench.biller(flow=flow), message_id="again") is Outcome.CHARGED
    bench.assert_charged_once()


def test_cap_of_a_proxy_parks_and_releases(bench: Bench) -> None:
    """Goal: a spend-cap proxy's refusal at confirm is proven by a cancel, then parked."""
    bench.customer()
    bench.fault(FaultKind.SPEND_CAP, MONEY_PATHS[Flow.PAYMENT_INTENT])
    settlement = RecordedSettlement()
    assert bench.deliver(settlement=settlement) is Outcome.CAP_REACHED
    assert settlement.calls[0][:2] == ("dead_letter", "CapReached")
    bench.assert_nothing_charged()
    assert bench.deliver(message_id="resubmitted") is Outcome.CHARGED
    bench.assert_charged_once()


def test_cap_of_a_proxy_in_the_one_step_flow(bench: Bench) -> None:
    """Goal: refused before anything was sent to Stripe, the charge is parked and holds nothing."""
    bench.customer()
    bench.fault(FaultKind.SPEND_CAP, MONEY_PATHS[Flow.CHARGE])
    assert bench.deliver(bench.biller(flow=Flow.CHARGE)) is Outcome.CAP_REACHED
    bench.assert_nothing_charged()


def test_one_step_refusal_after_a_lost_answer_is_no_proof(bench: Bench) -> None:
    """Goal: a lost answer, then a refusal of the same request: the first may have charged.

    Method: the charge acts and its answer is lost; the next request meets a proxy's cap. Only
    Stripe's list decides.
    """
    bench.customer()
    biller = bench.biller(flow=Flow.CHARGE, max_attempts=2)
    bench.fault(FaultKind.CLOSE, MONEY_PATHS[Flow.CHARGE])
    bench.fault(FaultKind.SPEND_CAP, MONEY_PATHS[Flow.CHARGE])
    assert bench.deliver(biller) is Outcome.CHARGED
    bench.assert_charged_once()


def test_one_step_refusal_while_an_earlier_request_may_run_keeps_the_hold(bench: Bench) -> None:
    """Goal: absence on the list proves nothing as long as an earlier request may still arrive.

    Method: the second delivery's request is held back on the wire and its answer lost; the third
    meets a proxy's cap. Then the held-back request arrives and moves the money.
    """
    bench.customer()
    held_back: list[StripeRequest] = []

    def before(request: StripeRequest) -> NoResponse | None:
        if not matches(request, MONEY_PATHS[Flow.CHARGE]):
            return None
        held_back.append(request)
        return NoResponse(sent=True, problem="read_timeout")

    biller = bench.biller(flow=Flow.CHARGE)
    silent = bench.biller(TappedPayments(bench.payments, before=before), flow=Flow.CHARGE)
    assert bench.deliver(silent) is Outcome.IN_DOUBT
    bench.let_hours_pass(1)
    assert bench.deliver(silent) is Outcome.IN_DOUBT
    bench.fault(FaultKind.SPEND_CAP, MONEY_PATHS[Flow.CHARGE])
    assert bench.deliver(biller) is Outcome.IN_DOUBT
    bench.assert_nothing_charged(held=5000)
    bench.payments.send(held_back[-1], 5)
    assert bench.deliver(biller) is Outcome.CHARGED
    bench.assert_charged_once()


def test_one_step_absence_is_no_proof_just_after_a_request(bench: Bench) -> None:
    """Goal: a day later, too, the list is believed only once no request can be on its way."""
    bench.customer()
    bench.fault(FaultKind.CLOSE, MONEY_PATHS[Flow.CHARGE], acts=False, count=2)
    biller = bench.biller(flow=Flow.CHARGE)
    assert bench.deliver(biller) is Outcome.IN_DOUBT
    bench.let_hours_pass(25)
    assert bench.deliver(biller) is Outcome.IN_DOUBT
    payments = TappedPayments(bench.payments)
    assert bench.deliver(bench.biller(payments, flow=Flow.CHARGE)) is Outcome.IN_DOUBT
    assert [request for request in payments.sent if request.method == "post"] == []
    bench.let_hours_pass(1)
    assert bench.deliver(biller) is Outcome.CHARGED
    bench.assert_charged_once()
