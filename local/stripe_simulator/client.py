"""A typed client of the control API, for tests and demos. Standard library only."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

from local.stripe_simulator.control import MAXIMUM_ENTRIES, PREFIX
from local.stripe_simulator.disputes import DisputeOpening
from local.stripe_simulator.faults import Fault
from local.stripe_simulator.keyring import DEFAULT_ACCOUNT, Permission
from local.stripe_simulator.ledger import (
    CurrencyTotal,
    DoubleCharge,
    LedgerEntry,
    LedgerSummary,
)
from local.stripe_simulator.seeding import (
    CustomerSeed,
    PaymentSeed,
    SeededCustomer,
    SeededPayment,
)
from local.stripe_simulator.wire import JsonObject

TIMEOUT_SECONDS = 30.0


class ControlError(Exception):
    """The simulator refused a control request; the message says why."""


class ControlClient:
    """Talks to a running simulator. Each call uses a connection of its own."""

    def __init__(self, base_url: str, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Remember where the simulator is.

        Args:
            base_url: For example `http://127.0.0.1:12111`.
            timeout_seconds: How long to wait for each answer.
        """
        parts = urlsplit(base_url)
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port
        self._timeout_seconds = timeout_seconds

    def is_healthy(self) -> bool:
        """Return whether the simulator answers."""
        try:
            return bool(self._call("GET", "health")["ok"])
        except OSError:
            return False

    def reset(self, seed: int | None = None) -> None:
        """Forget every object, key, fault and movement of money."""
        self._call("POST", "reset", {} if seed is None else {"seed": seed})

    def change_settings(self, **settings: float) -> JsonObject:
        """Change `idempotency`, `search_lag_seconds` or `settlement_seconds`; return them all."""
        return self._call("POST", "settings", settings)

    def now(self) -> float:
        """Return the simulator's time in seconds since the epoch."""
        return float(self._call("GET", "clock")["now"])

    def advance_clock(self, seconds: float) -> float:
        """Move the clock forward and return the new time."""
        return float(self._call("POST", "clock/advance", {"seconds": seconds})["now"])

    def set_clock(self, epoch_seconds: float) -> float:
        """Set the clock and return the new time."""
        return float(self._call("POST", "clock/set", {"now": epoch_seconds})["now"])

    def add_fault(self, fault: Fault) -> str:
        """Put a fault into force and return its id."""
        return str(self._call("POST", "faults", fault.to_json())["id"])

    def faults(self) -> list[JsonObject]:
        """Return the faults in force with how many requests each matched and struck."""
        return list(self._call("GET", "faults")["faults"])

    def remove_fault(self, fault_id: str) -> bool:
        """Take a fault out of force; return whether there was one."""
        return bool(self._call("DELETE", "faults", {"id": fault_id})["removed"])

    def clear_faults(self) -> None:
        """Take every fault out of force."""
        self._call("DELETE", "faults")

    def ledger(self, since: int = 0) -> list[LedgerEntry]:
        """Return every movement of money from the offset `since` on."""
        entries: list[LedgerEntry] = []
        total = since + 1
        while since < total:
            page = self._call("GET", "ledger", query={"since": since, "limit": MAXIMUM_ENTRIES})
            entries += [LedgerEntry(**entry) for entry in page["entries"]]
            since, total = page["next"], page["total"]
        return entries

    def ledger_summary(
        self, account: str | None = None, livemode: bool | None = None
    ) -> LedgerSummary:
        """Return totals and double charges, of one account and mode or of all."""
        query: dict[str, object] = {}
        if account is not None:
            query["account"] = account
        if livemode is not None:
            query["livemode"] = str(livemode).lower()
        found = self._call("GET", "ledger/summary", query=query)
        return LedgerSummary(
            {currency: CurrencyTotal(**total) for currency, total in found["totals"].items()},
            [DoubleCharge(**double) for double in found["double_charges"]],
        )

    def register_key(
        self,
        key: str,
        account: str = DEFAULT_ACCOUNT,
        permissions: Mapping[str, Permission] | None = None,
    ) -> None:
        """Let an API key open an account, with limited permissions when some are given."""
        given: JsonObject = {"key": key, "account": account}
        if permissions is not None:
            given["permissions"] = dict(permissions)
        self._call("POST", "keys", given)

    def revoke_key(self, key: str) -> None:
        """Make every further request with this API key fail with 401."""
        self._call("DELETE", "keys", {"key": key})

    def seed_customers(
        self, seed: CustomerSeed, account: str = DEFAULT_ACCOUNT, *, livemode: bool = False
    ) -> list[SeededCustomer]:
        """Make customers at once and return their ids in order."""
        given = {**asdict(seed), "account": account, "livemode": livemode}
        made = self._call("POST", "customers", given)["customers"]
        return [SeededCustomer(**customer) for customer in made]

    def seed_payments(self, seeds: Sequence[PaymentSeed]) -> list[SeededPayment]:
        """Make payments of the default account's test mode; return their ids in order."""
        given = {"payments": [asdict(seed) for seed in seeds]}
        made = self._call("POST", "payments", given)["payments"]
        return [SeededPayment(**payment) for payment in made]

    def open_dispute(self, opening: DisputeOpening) -> str:
        """Dispute a payment of the default account's test mode; return the dispute's id."""
        return str(self._call("POST", "disputes", asdict(opening))["dispute"])

    def settle(self, payment_intent: str | None = None, decline_code: str | None = None) -> int:
        """Settle pending payments of the default account's test mode; return how many.

        Args:
            payment_intent: Only this one.
            decline_code: Why the bank refuses, or None to follow each account's own behaviour.
        """
        given = {"payment_intent": payment_intent, "decline_code": decline_code}
        chosen = {name: value for name, value in given.items() if value is not None}
        return int(self._call("POST", "settle", chosen)["settled"])

    def authenticate(self, payment_intent: str, *, succeeds: bool = True) -> str:
        """Let the customer act on a PaymentIntent that requires it; return its new status."""
        given = {"payment_intent": payment_intent, "succeeds": succeeds}
        return str(self._call("POST", "authenticate", given)["status"])

    def statistics(self) -> JsonObject:
        """Return counts of requests by endpoint and status, and of connections."""
        return self._call("GET", "stats")

    def refuse_connections(self, seconds: float) -> None:
        """Close the listener and every connection for a while: connecting is refused."""
        self._call("POST", "listener/refuse", {"seconds": seconds})

    def close_connections(self) -> None:
        """Close every client's connection, so that pooled ones turn out to be stale."""
        self._call("POST", "connections/close")

    def _call(
        self,
        method: str,
        name: str,
        given: Mapping[str, object] | None = None,
        query: Mapping[str, object] | None = None,
    ) -> JsonObject:
        path = f"{PREFIX}{name}" + (f"?{urlencode(query)}" if query else "")
        body = None if given is None else json.dumps(given).encode()
        connection = HTTPConnection(self._host, self._port, timeout=self._timeout_seconds)
        try:
            connection.request(method, path, body, {"Connection": "close"})
            response = connection.getresponse()
            answer: Any = json.loads(response.read())
        finally:
            connection.close()
        if not isinstance(answer, dict) or response.status != 200:
            raise ControlError(f"{method} {path}: {answer}")
        return answer
