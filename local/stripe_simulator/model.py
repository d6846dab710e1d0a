"""The simulated Stripe as a pure state machine: no sockets, no threads, no wall clock.

One request goes through three steps, so that a scheduler can put anything between them:

    begin(request)      it arrives: key checked, idempotency key reserved, object locked
    act(running)        it takes effect
    complete(running)   key and object are free again; the answer is on its way

`handle` does all three at once.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from local.stripe_simulator.confirming import settle_charge
from local.stripe_simulator.errors import INVALID_REQUEST, StripeError, lock_timeout, server_error
from local.stripe_simulator.expanding import check_expandable, expand
from local.stripe_simulator.faults import Candidate, Fault, FaultKind, FaultPlan
from local.stripe_simulator.idempotency import KeyRecord, fingerprint
from local.stripe_simulator.ledger import Ledger
from local.stripe_simulator.parameters import (
    FormPairs,
    FormValue,
    Parameters,
    nest_pairs,
    read_pairs,
)
from local.stripe_simulator.payment_intents import authenticate
from local.stripe_simulator.records import Scope
from local.stripe_simulator.routes import Route, find_route
from local.stripe_simulator.wire import (
    DEFAULT_API_VERSION,
    WHOLE,
    JsonObject,
    Request,
    Response,
    encode_json,
)
from local.stripe_simulator.world import Call, Options, World

_JSON = "application/json"
_FORM_TYPE = "application/x-www-form-urlencoded"
_API_VERSION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(\.[a-z]{1,20})?\Z")
_BAD_GATEWAY = (
    b"<html><head><title>502 Bad Gateway</title></head><body>502 Bad Gateway</body></html>"
)
_NOT_JSON_PAGE = b"<!doctype html><title>Please wait...</title>"


@dataclass(frozen=True, slots=True)
class Answer:
    """What Stripe says. `stored` tells whether it is kept under the idempotency key."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    stored: bool = True


# The key of a request that never took effect stays free, whatever the client was told.
_NEVER_EXECUTED = Answer(500, b"", stored=False)


@dataclass(slots=True, eq=False)
class Running:
    """A request that Stripe is working on, between `begin` and `complete`."""

    request: Request
    request_id: str
    fault: Fault | None = None
    route: Route | None = None
    call: Call | None = None
    claimed_key: str | None = None
    locked_id: str | None = None
    answer: Answer | None = None
    completed: bool = False

    @property
    def before_seconds(self) -> float:
        """How long it should wait between `begin` and `act`."""
        return self.fault.before_seconds if self.fault else 0.0

    @property
    def after_seconds(self) -> float:
        """How long it should wait between `act` and `complete`."""
        return self.fault.after_seconds if self.fault else 0.0


class StripeModel:
    """A Stripe that does what it is told, and remembers which money really moved.

    Everything random comes from the seed and all time from `now`, so the same requests in the
    same order have the same answers.
    """

    def __init__(self, seed: int, now: Callable[[], float], options: Options | None = None) -> None:
        """Make a Stripe without any object.

        Args:
            seed: Decides every id and which requests a fault with a probability strikes.
            now: Returns seconds since the epoch.
            options: How it behaves; may be changed later.
        """
        self.seed = seed
        self.now = now
        self.options = options or Options()
        self.reset()

    def reset(self, seed: int | None = None) -> None:
        """Forget every object, key, fault and movement of money; options stay.

        Args:
            seed: A new seed, or None to start over with the old one.
        """
        self.seed = self.seed if seed is None else seed
        self.world = World(self.seed, self.options)
        self.faults = FaultPlan(self.seed)
        self.statistics: Counter[tuple[str, int]] = Counter()

    @property
    def ledger(self) -> Ledger:
        """The money that really moved."""
        return self.world.ledger

    def handle(self, request: Request) -> Response:
        """Serve a request at once: begin, act and complete."""
        running = self.begin(request)
        self.act(running)
        return self.complete(running)

    def begin(self, request: Request) -> Running:
        """Let a request arrive. It is refused here, replayed, or left to `act`."""
        self.settle_due()
        running = Running(request, self.world.identifiers.request_id())
        try:
            self._admit(running)
        except StripeError as error:
            running.answer = _error_answer(error)
        return running

    def act(self, running: Running) -> None:
        """Let the request take effect, once. Does nothing for a refused or replayed one."""
        if running.answer is not None:
            return
        fault = running.fault
        if fault is None or fault.executes:
            running.answer = self._execute(running)
        if fault is not None:
            running.answer = _outcome(fault, running.answer)

    def complete(self, running: Running) -> Response:
        """Finish the request: keep its answer under the key, free the object, answer.

        Raises:
            ValueError: The request was completed before.
        """
        if running.completed:
            raise ValueError("the request was completed before")
        self.act(running)
        answer = running.answer
        if answer is None:
            raise AssertionError("a request that acted has an answer")
        running.completed = True
        self._free(running, answer)
        self._count(running, answer)
        return _response(running, answer)

    def settle_due(self) -> None:
        """Settle the bank debits whose time has come; each request does so when it arrives."""
        for settlement in self.world.due_settlements(self.now()):
            charge = settlement.charge
            if charge.status == "pending":
                code = charge.instrument.issued.behaviour.decline_code
                settle_charge(self.world, settlement.scope, charge, code, settlement.due_at)

    def settle(
        self, scope: Scope, *, intent_id: str | None = None, decline_code: str | None = None
    ) -> int:
        """Settle pending charges now and return how many there were.

        Args:
            scope: The account and mode.
            intent_id: Only the charge of this PaymentIntent.
            decline_code: Why the bank refuses, or None to follow each account's own behaviour.
        """
        pending = [
            charge
            for charge in scope.charges
            if charge.status == "pending" and intent_id in (None, charge.payment_intent)
        ]
        for charge in pending:
            code = decline_code or charge.instrument.issued.behaviour.decline_code
            settle_charge(self.world, scope, charge, code, self.now())
        return len(pending)

    def authenticate(self, scope: Scope, intent_id: str, *, succeeds: bool) -> JsonObject:
        """Let the customer finish or fail what a PaymentIntent in `requires_action` asks for.

        Returns:
            The PaymentIntent.

        Raises:
            StripeError: There is no such PaymentIntent, it needs no action, or the payment is
                declined after all.
        """
        return authenticate(self.own_call(scope, intent_id), succeeds=succeeds)

    def own_call(self, scope: Scope, object_id: str = "") -> Call:
        """Return a call that no client made, for what happens at Stripe by itself."""
        return Call(
            world=self.world,
            scope=scope,
            parameters=Parameters({}),
            now=self.now(),
            request_id=None,
            object_id=object_id,
        )

    def _admit(self, running: Running) -> None:
        request = running.request
        grant = self.world.keys.authenticate(request.headers)
        route, object_id = _find_route(request)
        grant.check(route.resource, route.permission)
        pairs = _read_request(request)
        form = nest_pairs(pairs)
        scope = self.world.scope(grant.account, grant.livemode)
        running.route = route
        running.fault = self._choose_fault(request, route, object_id, form, scope)
        key = request.headers.get("idempotency-key") if request.method == "POST" else None
        refusal = running.fault.refusal(key) if running.fault else None
        if refusal is not None:
            raise refusal
        if running.fault is not None and running.fault.kind is FaultKind.SPEND_CAP:
            running.answer = _spend_cap_answer(running.fault)
            return
        running.call = self._call(running, form, scope, object_id, key)
        if self._replays(running, scope, pairs, key):
            return
        self._lock(running, route, scope, object_id)

    def _choose_fault(
        self,
        request: Request,
        route: Route,
        object_id: str,
        form: Mapping[str, FormValue],
        scope: Scope,
    ) -> Fault | None:
        if not self.faults:
            return None
        customer, metadata = _subject(scope, object_id)
        given_customer, given_metadata = form.get("customer"), form.get("metadata")
        if isinstance(given_customer, str):
            customer = given_customer
        if isinstance(given_metadata, dict):
            given = {key: text for key, text in given_metadata.items() if isinstance(text, str)}
            metadata = {**metadata, **given}
        return self.faults.choose(
            Candidate(request.method, request.path, customer, metadata, route.charges(form))
        )

    def _call(
        self,
        running: Running,
        form: Mapping[str, FormValue],
        scope: Scope,
        object_id: str,
        key: str | None,
    ) -> Call:
        return Call(
            world=self.world,
            scope=scope,
            parameters=Parameters(form),
            now=self.now(),
            request_id=running.request_id,
            object_id=object_id,
            idempotency_key=key,
            api_version=running.request.headers.get("stripe-version", DEFAULT_API_VERSION),
            forced=running.fault.forced_behaviour() if running.fault else None,
        )

    def _replays(self, running: Running, scope: Scope, pairs: FormPairs, key: str | None) -> bool:
        if key is None or not self.options.idempotency:
            return False
        record = KeyRecord(running.request.path, fingerprint(pairs), self.now(), running.request_id)
        known = scope.idempotency.claim(key, record)
        if known is None:
            running.claimed_key = key
            return False
        if known.status is None:
            raise AssertionError("only a finished request can be replayed")
        replayed = {"Idempotent-Replayed": "true", "Original-Request": known.request_id}
        running.answer = Answer(known.status, known.body, replayed)
        if running.fault is not None:
            running.answer = _outcome(running.fault, running.answer)
        return True

    def _lock(self, running: Running, route: Route, scope: Scope, object_id: str) -> None:
        if not route.locks:
            return
        if object_id in scope.locked_ids:
            raise lock_timeout()
        scope.locked_ids.add(object_id)
        running.locked_id = object_id

    def _execute(self, running: Running) -> Answer:
        call, route = running.call, running.route
        if call is None or route is None:
            raise AssertionError("only an admitted request is executed")
        call.now = self.now()
        try:
            paths = call.parameters.texts("expand") or []
            check_expandable(paths)
            body = route.handler(call)
            expand(body, paths, call.scope)
        except StripeError as error:
            return _error_answer(error)
        return Answer(200, encode_json(body))

    def _free(self, running: Running, answer: Answer) -> None:
        call = running.call
        if call is None:
            return
        if running.locked_id is not None:
            call.scope.locked_ids.discard(running.locked_id)
        if running.claimed_key is None:
            return
        fault = running.fault
        kept = answer.stored and (fault is None or fault.stored)
        if kept:
            call.scope.idempotency.store(running.claimed_key, answer.status, answer.body)
        else:
            call.scope.idempotency.release(running.claimed_key)

    def _count(self, running: Running, answer: Answer) -> None:
        template = running.route.template if running.route else "unknown"
        self.statistics[f"{running.request.method} {template}", answer.status] += 1


def _find_route(request: Request) -> tuple[Route, str]:
    found = find_route(request.method, request.path)
    if found is None:
        raise StripeError(
            404,
            INVALID_REQUEST,
            f"Unrecognized request URL ({request.method}: {request.path[:200]}). Please see "
            "https://stripe.com/docs or we can help at https://support.stripe.com/.",
            stored=False,
        )
    return found


def _read_request(request: Request) -> FormPairs:
    version = request.headers.get("stripe-version", DEFAULT_API_VERSION)
    if not _API_VERSION.match(version):
        raise StripeError(
            400, INVALID_REQUEST, f"Invalid Stripe API version: {version[:40]}", stored=False
        )
    pairs = read_pairs(request.query)
    if not request.body:
        return pairs
    content_type = request.headers.get("content-type", _FORM_TYPE).partition(";")[0].strip()
    if request.method != "POST" or content_type.lower() != _FORM_TYPE or not request.body.isascii():
        raise StripeError(
            400,
            INVALID_REQUEST,
            f"Invalid request: the body of a POST is {_FORM_TYPE}.",
            stored=False,
        )
    return pairs + read_pairs(request.body.decode("ascii"))


def _subject(scope: Scope, object_id: str) -> tuple[str | None, Mapping[str, str]]:
    if not object_id:
        return None, {}
    payment = scope.payment_intents.get(object_id) or scope.charges.get(object_id)
    if payment is not None:
        return payment.customer, payment.metadata
    customer = scope.customers.get(object_id)
    return (None, {}) if customer is None else (customer.id, customer.metadata)


def _outcome(fault: Fault, answer: Answer | None) -> Answer:
    if fault.kind is FaultKind.SERVER_ERROR:
        return _error_answer(server_error())
    return _NEVER_EXECUTED if answer is None else answer


def _error_answer(error: StripeError) -> Answer:
    headers = dict(error.headers)
    if error.status < 500 and error.status not in (409, 429):
        headers["Stripe-Should-Retry"] = "false"
    return Answer(error.status, encode_json(error.body()), headers, error.stored)


def _spend_cap_answer(fault: Fault) -> Answer:
    body = {
        "error": f"Daily spend cap of ${fault.spent_today_usd:g} reached",
        "spent_today_usd": fault.spent_today_usd,
    }
    return Answer(429, encode_json(body), stored=False)


def _response(running: Running, answer: Answer) -> Response:
    request, fault = running.request, running.fault
    headers = {
        "Content-Type": _JSON,
        "Request-Id": running.request_id,
        "Stripe-Version": request.headers.get("stripe-version", DEFAULT_API_VERSION),
    }
    if request.method == "POST" and "idempotency-key" in request.headers:
        headers["Idempotency-Key"] = request.headers["idempotency-key"]
    headers.update(answer.headers)
    if fault is None:
        return Response(answer.status, headers, answer.body, WHOLE)
    if fault.kind is FaultKind.HTML_502:
        return Response(502, {"Content-Type": "text/html"}, _BAD_GATEWAY, fault.delivery())
    if fault.kind is FaultKind.NOT_JSON:
        return Response(200, {"Content-Type": "text/html"}, _NOT_JSON_PAGE, fault.delivery())
    return Response(answer.status, headers, answer.body, fault.delivery())
