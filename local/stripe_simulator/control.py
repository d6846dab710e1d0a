"""The control API under `/_control/`: what tests and demos ask of the simulator itself."""

import json
from collections.abc import Callable, Collection
from dataclasses import asdict
from typing import Any, Protocol, TypeAlias
from urllib.parse import parse_qsl

from local.stripe_simulator.behaviours import DECLINE_CODES
from local.stripe_simulator.clock import SettableClock
from local.stripe_simulator.disputes import DisputeOpening, open_dispute
from local.stripe_simulator.errors import StripeError
from local.stripe_simulator.faults import MAXIMUM_SECONDS, Fault
from local.stripe_simulator.keyring import DEFAULT_ACCOUNT, Permission
from local.stripe_simulator.model import StripeModel
from local.stripe_simulator.records import Scope
from local.stripe_simulator.seeding import (
    CustomerSeed,
    PaymentSeed,
    seed_customers,
    seed_payments,
)
from local.stripe_simulator.wire import JsonObject, Request, Response, encode_json

PREFIX = "/_control/"
MAXIMUM_ENTRIES = 10_000
DEFAULT_ENTRIES = 1_000

Handler: TypeAlias = Callable[[JsonObject], JsonObject]


class Listener(Protocol):
    """What the control API asks of the server around the model."""

    def refuse(self, seconds: float) -> None:
        """Refuse connections for a while, and close those that are open."""

    def close_connections(self) -> None:
        """Close every connection but those that carry control requests."""

    def statistics(self) -> JsonObject:
        """Return how many connections are open and were accepted."""


class Control:
    """Answers control requests. Every answer is JSON; a mistake is a 400 that says what it is."""

    def __init__(self, model: StripeModel, clock: SettableClock, listener: Listener) -> None:
        self._model = model
        self._clock = clock
        self._listener = listener
        self._handlers: dict[tuple[str, str], Handler] = {
            ("GET", "health"): self._health,
            ("POST", "reset"): self._reset,
            ("GET", "settings"): self._settings,
            ("POST", "settings"): self._change_settings,
            ("GET", "clock"): self._read_clock,
            ("POST", "clock/advance"): self._advance_clock,
            ("POST", "clock/set"): self._set_clock,
            ("GET", "faults"): self._list_faults,
            ("POST", "faults"): self._add_fault,
            ("DELETE", "faults"): self._clear_faults,
            ("GET", "ledger"): self._ledger,
            ("GET", "ledger/summary"): self._ledger_summary,
            ("POST", "keys"): self._register_key,
            ("DELETE", "keys"): self._revoke_key,
            ("POST", "customers"): self._seed_customers,
            ("POST", "payments"): self._seed_payments,
            ("POST", "disputes"): self._open_dispute,
            ("POST", "settle"): self._settle,
            ("POST", "authenticate"): self._authenticate,
            ("GET", "stats"): self._statistics,
            ("POST", "listener/refuse"): self._refuse,
            ("POST", "connections/close"): self._close_connections,
        }

    @property
    def calls(self) -> Collection[tuple[str, str]]:
        """Method and name of every call."""
        return self._handlers.keys()

    def handle(self, request: Request) -> Response:
        """Answer one control request."""
        self._model.settle_due()
        handler = self._handlers.get((request.method, request.path.removeprefix(PREFIX)))
        if handler is None:
            return _answer(404, {"error": f"no such control: {request.method} {request.path}"})
        try:
            return _answer(200, handler(_arguments(request)))
        except (ValueError, TypeError, KeyError) as error:
            return _answer(400, {"error": f"{type(error).__name__}: {error}"})
        except StripeError as error:
            return _answer(error.status, error.body())

    def _health(self, given: JsonObject) -> JsonObject:
        _refuse_unknown(given)
        return {"ok": True}

    def _reset(self, given: JsonObject) -> JsonObject:
        _refuse_unknown(given, "seed")
        self._model.reset(given.get("seed"))
        return {"seed": self._model.seed}

    def _settings(self, given: JsonObject) -> JsonObject:
        _refuse_unknown(given)
        options = self._model.options
        return {
            "idempotency": options.idempotency,
            "search_lag_seconds": options.search_lag_seconds,
            "settlement_seconds": options.settlement_seconds,
        }

    def _change_settings(self, given: JsonObject) -> JsonObject:
        _refuse_unknown(given, "idempotency", "search_lag_seconds", "settlement_seconds")
        options = self._model.options
        options.idempotency = bool(given.get("idempotency", options.idempotency))
        options.search_lag_seconds = float(
            given.get("search_lag_seconds", options.search_lag_seconds)
        )
        options.settlement_seconds = float(
            given.get("settlement_seconds", options.settlement_seconds)
        )
        return self._settings({})

    def _read_clock(self, given: JsonObject) -> JsonObject:
        _refuse_unknown(given)
        return {"now": self._clock.now()}

    def _advance_clock(self, given: JsonObject) -> JsonObject:
        _refuse_unknown(given, "seconds")
        self._clock.advance(float(given["seconds"]))
        return self._read_clock({})

    def _set_clock(self, given: JsonObject) -> JsonObject:
        _refuse_unknown(given, "now")
        self._clock.set(float(given["now"]))
        return self._read_clock({})

    def _list_faults(self, given: JsonObject) -> JsonObject:
        _refuse_unknown(given)
        return {"faults": [planned.to_json() for planned in self._model.faults.planned()]}

    def _add_fault(self, given: JsonObject) -> JsonObject:
        return {"id": self._model.faults.add(Fault.from_json(given))}

    def _clear_faults(self, given: JsonObject) -> JsonObject:
        _refuse_unknown(given, "id")
        if "id" in given:
            return {"removed": int(self._model.faults.remove(str(given["id"])))}
        count = len(self._model.faults.planned())
        self._model.faults.clear()
        return {"removed": count}

    def _ledger(self, given: JsonObject) -> JsonObject:
        _refuse_unknown(given, "since", "limit")
        since, limit = int(given.get("since", 0)), int(given.get("limit", DEFAULT_ENTRIES))
        if since < 0 or not 1 <= limit <= MAXIMUM_ENTRIES:
            raise ValueError(f"since starts at 0, limit lies between 1 and {MAXIMUM_ENTRIES}")
        entries = self._model.ledger.entries(since, limit)
        return {
            "entries": [entry.to_json() for entry in entries],
            "next": since + len(entries),
            "total": len(self._model.ledger),
        }

    def _ledger_summary(self, given: JsonObject) -> JsonObject:
        _refuse_unknown(given, "account", "livemode")
        livemode = _boolean(given["livemode"]) if "livemode" in given else None
        return self._model.ledger.summary(given.get("account"), livemode).to_json()

    def _register_key(self, given: JsonObject) -> JsonObject:
        _refuse_unknown(given, "key", "account", "permissions")
        permissions = given.get("permissions")
        self._model.world.keys.register(
            str(given["key"]),
            str(given.get("account", DEFAULT_ACCOUNT)),
            None
            if permissions is None
            else {resource: Permission(held) for resource, held in permissions.items()},
        )
        return {"registered": True}

    def _revoke_key(self, given: JsonObject) -> JsonObject:
        _refuse_unknown(given, "key")
        self._model.world.keys.revoke(str(given["key"]))
        return {"revoked": True}

    def _seed_customers(self, given: JsonObject) -> JsonObject:
        scope = self._scope(given)
        seed = CustomerSeed(**_without_scope(given))
        seeded = seed_customers(self._model, scope, seed)
        return {"customers": [customer.to_json() for customer in seeded]}

    def _seed_payments(self, given: JsonObject) -> JsonObject:
        scope = self._scope(given)
        given = _without_scope(given)
        _refuse_unknown(given, "payments")
        seeds = [PaymentSeed(**seed) for seed in given["payments"]]
        seeded = seed_payments(self._model, scope, seeds)
        return {"payments": [asdict(payment) for payment in seeded]}

    def _open_dispute(self, given: JsonObject) -> JsonObject:
        scope = self._scope(given)
        opening = DisputeOpening(**_without_scope(given))
        dispute = open_dispute(self._model.own_call(scope), opening)
        return {"dispute": dispute["id"]}

    def _settle(self, given: JsonObject) -> JsonObject:
        scope = self._scope(given)
        given = _without_scope(given)
        _refuse_unknown(given, "payment_intent", "decline_code")
        code = given.get("decline_code")
        if code is not None and code not in DECLINE_CODES:
            raise ValueError(f"{code} is not a decline code")
        intent_id = given.get("payment_intent")
        return {"settled": self._model.settle(scope, intent_id=intent_id, decline_code=code)}

    def _authenticate(self, given: JsonObject) -> JsonObject:
        scope = self._scope(given)
        given = _without_scope(given)
        _refuse_unknown(given, "payment_intent", "succeeds")
        succeeds = bool(given.get("succeeds", True))
        intent = self._model.authenticate(scope, str(given["payment_intent"]), succeeds=succeeds)
        return {"status": intent["status"]}

    def _statistics(self, given: JsonObject) -> JsonObject:
        _refuse_unknown(given)
        requests = [
            {"endpoint": endpoint, "status": status, "count": count}
            for (endpoint, status), count in sorted(self._model.statistics.items())
        ]
        return {"requests": requests, "connections": self._listener.statistics()}

    def _refuse(self, given: JsonObject) -> JsonObject:
        _refuse_unknown(given, "seconds")
        seconds = float(given["seconds"])
        if not 0.0 < seconds <= MAXIMUM_SECONDS:
            raise ValueError(f"seconds lie between 0 and {MAXIMUM_SECONDS:.0f}")
        self._listener.refuse(seconds)
        return {"seconds": seconds}

    def _close_connections(self, given: JsonObject) -> JsonObject:
        _refuse_unknown(given)
        self._listener.close_connections()
        return {"closed": True}

    def _scope(self, given: JsonObject) -> Scope:
        account = str(given.get("account", DEFAULT_ACCOUNT))
        return self._model.world.scope(account, bool(given.get("livemode", False)))


def _arguments(request: Request) -> JsonObject:
    arguments: JsonObject = dict(parse_qsl(request.query))
    if request.body:
        decoded: Any = json.loads(request.body)
        if not isinstance(decoded, dict):
            raise TypeError("the body is a JSON object")
        arguments.update(decoded)
    return arguments


def _without_scope(given: JsonObject) -> JsonObject:
    return {name: value for name, value in given.items() if name not in ("account", "livemode")}


def _refuse_unknown(given: JsonObject, *known: str) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"unknown: {', '.join(unknown)}")


def _boolean(value: object) -> bool:
    if value in (True, "true"):
        return True
    if value in (False, "false"):
        return False
    raise ValueError("livemode is true or false")


def _answer(status: int, body: JsonObject) -> Response:
    return Response(status, {"Content-Type": "application/json"}, encode_json(body))
