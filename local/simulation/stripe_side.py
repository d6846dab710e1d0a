"""Stripe and the network before it: requests that are lost, late, slow, or wrongly answered."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from local.simulation.hazards import (
    ANSWER_HAZARDS,
    SECONDS_PER_DAY,
    TRAVEL_HAZARDS,
    Hazard,
)
from local.simulation.judge import Judge
from local.simulation.plan import Funding
from local.simulation.stage import Process, Stage
from local.simulation.tasks import Task
from local.stripe_simulator import Fault, FaultKind, Request, Response, Running, StripeModel
from local.stripe_simulator.keyring import DEFAULT_ACCOUNT
from local.stripe_simulator.records import Scope
from shared.ports import NoResponse, StripeRequest, StripeResponse

API_KEY = "rk_test_simulation"
FOREIGN_API_KEY = "rk_test_foreign"
FOREIGN_ACCOUNT = "acct_1Foreign"

SLOW_SECONDS_AT_MOST = 900.0
LATE_SECONDS_AT_MOST = 3 * SECONDS_PER_DAY
KEY_RETENTION_SECONDS = SECONDS_PER_DAY
CHARGES_PATH = "/v1/charges"

_FAULTS: Mapping[Hazard, Fault] = {
    Hazard.STORED_500_ACTED: Fault(FaultKind.SERVER_ERROR),
    Hazard.STORED_500_IDLE: Fault(FaultKind.SERVER_ERROR, acts=False),
    Hazard.UNSTORED_500_ACTED: Fault(FaultKind.SERVER_ERROR, stored=False),
    Hazard.UNSTORED_500_IDLE: Fault(FaultKind.SERVER_ERROR, acts=False, stored=False),
    Hazard.HTML_502_ACTED: Fault(FaultKind.HTML_502),
    Hazard.HTML_502_IDLE: Fault(FaultKind.HTML_502, acts=False, stored=False),
    Hazard.NOT_JSON: Fault(FaultKind.NOT_JSON),
    Hazard.RATE_LIMIT: Fault(FaultKind.RATE_LIMIT),
    Hazard.KEY_IN_USE: Fault(FaultKind.KEY_IN_USE),
    Hazard.LOCK_TIMEOUT: Fault(FaultKind.LOCK_TIMEOUT),
    Hazard.UNAUTHORIZED: Fault(FaultKind.UNAUTHORIZED),
    Hazard.FORBIDDEN: Fault(FaultKind.FORBIDDEN),
    Hazard.SPEND_CAP: Fault(FaultKind.SPEND_CAP),
    Hazard.DECLINE: Fault(FaultKind.DECLINE),
    Hazard.DUPLICATE_TRANSACTION: Fault(FaultKind.DECLINE, code="duplicate_transaction"),
    Hazard.AUTHENTICATION: Fault(FaultKind.REQUIRES_ACTION),
    Hazard.PROCESSING: Fault(FaultKind.PROCESSING),
}
_REFUSALS = frozenset(
    {Hazard.SPEND_CAP, Hazard.DECLINE, Hazard.DUPLICATE_TRANSACTION, Hazard.AUTHENTICATION}
)
_LOST_ON_THE_WAY = frozenset({Hazard.REQUEST_LOST, Hazard.REQUEST_LATE, Hazard.ANSWER_LOST})


@dataclass(slots=True, eq=False)
class Exchange:
    """One request on its way, and whoever may still wait for its answer."""

    sender: str
    request: StripeRequest
    api_key: str
    task: Task
    travel: Hazard | None
    outcome: StripeResponse | NoResponse | None = None
    is_waiting: bool = True

    @property
    def shown(self) -> str:
        """The request for the trace, with identifiers cut short."""
        path = "/".join(_shorten(part) for part in self.request.path.split("/")[2:])
        key = self.request.idempotency_key
        suffix = f" key {key[:4]}{key[32:]}" if key else ""
        return f"{self.request.method} {path}{suffix}"


class StripeSide:
    """The simulated Stripe as all processes reach it.

    Args:
        stage: time, chance and the trace.
        model: Stripe itself.
        judge: looks at the ledger after every effect, and hears who may rightly be refused.
        late_charge_seconds: how long after it was sent a one-step charge may still be executed.
    """

    def __init__(
        self, stage: Stage, model: StripeModel, judge: Judge, late_charge_seconds: float
    ) -> None:
        self._stage = stage
        self._judge = judge
        self._late_charge_seconds = late_charge_seconds
        self._first_used_at_seconds: dict[str, float] = {}
        self.model = model
        self._fundings: dict[str | None, Funding] = {}
        self.is_away = False
        self.in_flight = 0
        model.world.keys.register(FOREIGN_API_KEY, FOREIGN_ACCOUNT, None)

    @property
    def scope(self) -> Scope:
        """The objects of our account."""
        return self.model.world.scope(DEFAULT_ACCOUNT, livemode=False)

    def handle(self, method: str, path: str, form: Mapping[str, object] | None = None) -> Response:
        """Let somebody else use Stripe: the Dashboard, the customer, another system."""
        response = self.model.handle(Request.build(method, path, form, api_key=API_KEY))
        self._judge.look()
        return response

    def note_funding(self, stripe_customer_id: str, funding: Funding) -> None:
        """Note how a customer's bank behaves, where its payment method does not tell."""
        self._fundings[stripe_customer_id] = funding

    def go_away(self) -> None:
        """Answer nobody for a while."""

        def come_back() -> None:
            self.is_away = False

        self.is_away = True
        away_seconds = self._stage.chance.log_uniform(60.0, 2 * SECONDS_PER_DAY)
        self._stage.tell("stripe", "away", f"for {away_seconds:.0f} s")
        self._stage.scheduler.call_after(away_seconds, come_back)

    def exchange(
        self, process: Process, request: StripeRequest, api_key: str, timeout_seconds: float
    ) -> StripeResponse | NoResponse:
        """Send a request for a process and wait for what comes back."""
        stage = self._stage
        travel = self._choose_travel()
        exchange = Exchange(process.name, request, api_key, stage.scheduler.current, travel)
        process.tell("stripe.send", f"{exchange.shown}{f' ({travel})' if travel else ''}")
        if travel is Hazard.REFUSED:
            return NoResponse(sent=False, problem="connection_refused")
        if travel is not Hazard.REQUEST_LOST:
            self.in_flight += 1
            travel_seconds = self._travel_seconds(exchange, timeout_seconds)
            stage.scheduler.call_after(travel_seconds, partial(self._arrive, exchange))
        try:
            stage.scheduler.pause(self._patience_seconds(exchange, timeout_seconds))
        finally:
            exchange.is_waiting = False
        outcome = exchange.outcome or NoResponse(sent=True, problem="no_answer")
        process.tell("stripe.answer", f"{exchange.shown} -> {_show(outcome)}")
        return outcome

    def _choose_travel(self) -> Hazard | None:
        travel = self._stage.chance.strike(TRAVEL_HAZARDS)
        if self.is_away:
            travel = self._stage.chance.choose((Hazard.REFUSED, Hazard.REQUEST_LOST))
        if travel is not None:
            self._stage.cover(f"hazard {travel}")
        return travel

    def _travel_seconds(self, exchange: Exchange, timeout_seconds: float) -> float:
        chance = self._stage.chance
        if exchange.travel is not Hazard.REQUEST_LATE:
            return chance.log_uniform(0.02, 1.0)
        is_charge = exchange.request.path == CHARGES_PATH
        latest_seconds = self._late_charge_seconds if is_charge else LATE_SECONDS_AT_MOST
        return chance.log_uniform(timeout_seconds, latest_seconds)

    def _patience_seconds(self, exchange: Exchange, timeout_seconds: float) -> float:
        """How long the client waits: it may hear of a cut connection before its deadline."""
        chance = self._stage.chance
        if exchange.travel in _LOST_ON_THE_WAY and chance.happens(0.5):
            return chance.log_uniform(1.0, timeout_seconds)
        return timeout_seconds

    def _arrive(self, exchange: Exchange) -> None:
        hazard = self._choose_answer(exchange)
        running = self._begin(exchange, hazard)
        finish = partial(self._finish, exchange, running)
        if exchange.travel not in (Hazard.SLOW_TO_ACT, Hazard.SLOW_TO_ANSWER):
            finish()
            return
        if exchange.travel is Hazard.SLOW_TO_ANSWER:
            self._act(exchange, running)
        slowest_seconds = min(SLOW_SECONDS_AT_MOST, self._late_charge_seconds)
        slow_seconds = self._stage.chance.log_uniform(1.0, slowest_seconds)
        self._stage.scheduler.call_after(slow_seconds, finish)

    def _choose_answer(self, exchange: Exchange) -> Hazard | None:
        # A foreign key that may not read its account cannot be told from ours: a stated limit.
        if exchange.api_key == FOREIGN_API_KEY:
            return None
        hazard = self._stage.chance.strike(ANSWER_HAZARDS)
        is_charge = exchange.request.path == CHARGES_PATH
        # A charge whose key is forgotten at once would break Stripe's own promise, and the
        # one-step flow rests on nothing else.
        if is_charge and hazard is Hazard.UNSTORED_500_ACTED:
            hazard = None
        return hazard or self._choose_bank_answer(exchange.request, is_charge=is_charge)

    def _choose_bank_answer(self, request: StripeRequest, *, is_charge: bool) -> Hazard | None:
        funding = self._fundings.get(self._customer_of(request))
        if funding is Funding.FICKLE_CARD and self._stage.chance.happens(0.5):
            return Hazard.DECLINE
        # The Charges API of the simulated Stripe knows cards alone.
        is_debit = funding in (Funding.BANK_DEBIT, Funding.FAILING_BANK_DEBIT)
        return Hazard.PROCESSING if is_charge and is_debit else None

    def _begin(self, exchange: Exchange, hazard: Hazard | None) -> Running:
        request = exchange.request
        self._note_key(request.idempotency_key)
        fault_id = None if hazard is None else self.model.faults.add(_FAULTS[hazard])
        running = self.model.begin(
            Request.build(
                request.method.upper(),
                request.path,
                request.parameters,
                api_key=exchange.api_key,
                idempotency_key=request.idempotency_key,
            )
        )
        if fault_id is not None:
            self.model.faults.remove(fault_id)
        # A hazard of payments passes by a request that pays nothing.
        if running.fault is not None:
            self._stage.cover(f"hazard {hazard}")
            if hazard in _REFUSALS:
                self._judge.excuse(self._customer_of(request))
        self._judge.look()
        return running

    def _note_key(self, key: str | None) -> None:
        if key is None:
            return
        now_seconds = self._stage.now_seconds
        first_used_at_seconds = self._first_used_at_seconds.setdefault(key, now_seconds)
        if now_seconds - first_used_at_seconds >= KEY_RETENTION_SECONDS:
            self._stage.cover("pruned key")
            self._first_used_at_seconds[key] = now_seconds

    def _customer_of(self, request: StripeRequest) -> str | None:
        parts = request.path.split("/")
        intent = self.scope.payment_intents.get(parts[3]) if len(parts) > 3 else None
        return intent.customer if intent else request.parameters.get("customer")

    def _act(self, exchange: Exchange, running: Running) -> None:
        paid_before = len(self.model.ledger)
        self.model.act(running)
        moved = len(self.model.ledger) > paid_before
        if not exchange.is_waiting and exchange.request.method == "post":
            name = name_of(exchange.request)
            self._stage.cover(f"late {name}")
            if moved:
                self._stage.cover(f"late {name} moved money")
        self._judge.look()

    def _finish(self, exchange: Exchange, running: Running) -> None:
        if running.answer is None:
            self._act(exchange, running)
        response = self.model.complete(running)
        self.in_flight -= 1
        answer = _convert(response)
        executed = f"executed {exchange.sender}"
        self._stage.tell("stripe", executed, f"{exchange.shown} -> {_show(answer)}")
        self._judge.look()
        outcome: StripeResponse | NoResponse = answer
        if exchange.travel in (Hazard.ANSWER_LOST, Hazard.ANSWER_TRUNCATED):
            outcome = NoResponse(sent=True, problem="connection_lost")
            # Answers are lost when Stripe goes away, and doubt lasts when it stays away.
            if self._stage.chance.happens(0.1):
                self.go_away()
        travel_seconds = self._stage.chance.log_uniform(0.02, 1.0)
        self._stage.scheduler.call_after(travel_seconds, partial(self._deliver, exchange, outcome))

    def _deliver(self, exchange: Exchange, outcome: StripeResponse | NoResponse) -> None:
        if exchange.is_waiting:
            exchange.outcome = outcome
            self._stage.scheduler.wake(exchange.task)


class SimulatedPayments:
    """The payments port of one process.

    Args:
        process: whose connection it is.
        stripe: what it leads to.
        api_key: the key that the process holds.
    """

    def __init__(self, process: Process, stripe: StripeSide, api_key: str) -> None:
        self._process = process
        self._stripe = stripe
        self._api_key = api_key

    def send(
        self, request: StripeRequest, timeout_seconds: float, vault_key: str | None = None
    ) -> StripeResponse | NoResponse:
        """See `Payments.send`."""
        name = name_of(request)
        self._process.risk_crash(f"stripe.{name}.before")
        outcome = self._stripe.exchange(
            self._process, request, vault_key or self._api_key, timeout_seconds
        )
        self._process.cross(f"stripe.{name}.after")
        return outcome


def name_of(request: StripeRequest) -> str:
    """The name of a request in crash points and counts: `create`, `confirm`, `read`, ..."""
    parts = request.path.split("/")[2:]
    if len(parts) == 3:
        return parts[2]
    names = {
        ("post", "payment_intents"): "create",
        ("get", "payment_intents"): "read",
        ("post", "charges"): "charge",
        ("get", "charges"): "list_charges" if len(parts) == 1 else "read_charge",
        ("get", "customers"): "read_customer",
        ("get", "account"): "read_account",
    }
    return names[request.method, parts[0]]


def _shorten(part: str) -> str:
    return f"..{part[-6:]}" if part.startswith(("pi_", "ch_", "cus_")) else part


def _convert(response: Response) -> StripeResponse:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return StripeResponse(response.status, headers, response.body)


def _show(outcome: StripeResponse | NoResponse) -> str:
    if isinstance(outcome, NoResponse):
        return outcome.problem
    replayed = " replayed" if "idempotent-replayed" in outcome.headers else ""
    return f"{outcome.status}{replayed}"
