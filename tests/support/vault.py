"""The proxy on the desk: real HTTP on both sides, real PostgreSQL, simulated Stripe."""

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import psycopg
from werkzeug.serving import make_server

from local.stripe_simulator import ControlClient, CustomerSeed, Fault
from local.stripe_simulator.ledger import LedgerEntry
from shared.clock import SystemClock
from shared.ports import NoResponse, StripeResponse
from shared.store.caller import Caller
from shared.store.vault import PostgresVault
from shared.stripe_lists import StripeLists
from shared.stripe_payments import StripePayments
from shared.throttle import Throttle
from shared.vault.admin import VaultAdmin
from shared.vault.application import VaultApplication
from shared.vault.holds import resolve_holds
from shared.vault.keys import VaultKey
from shared.vault.ports import Upstream
from shared.vault.proxy import Proxy
from shared.vault.upstream import StripeUpstream
from shared.vault.wsgi import as_wsgi

STRIPE_KEY = "rk_test_of_the_vault"
ADMIN_TOKEN = "admin-token-of-the-test"
PATIENCE_SECONDS = 20.0
SECONDS_PER_HOUR = 3600.0
ENDPOINTS = [
    "/v1/account",
    "/v1/charges",
    "/v1/charges/*",
    "/v1/customers/*",
    "/v1/payment_intents",
    "/v1/payment_intents/*",
    "/v1/payment_intents/*/confirm",
    "/v1/payment_intents/*/capture",
    "/v1/payment_intents/*/cancel",
]
CHARGE = {"amount": "1000", "currency": "usd", "customer": "cus_1"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back over HTTP."""

    status: int
    headers: Mapping[str, str]
    document: Any

    @property
    def code(self) -> str | None:
        """The error's code."""
        error = self.document.get("error") if isinstance(self.document, dict) else None
        return error.get("code") if isinstance(error, dict) else None


class TappedUpstream:
    """Stripe with taps: `before` may answer in its place or raise, `after` sees the answer."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self.sent: list[tuple[str, str, str]] = []
        self.reset()

    def reset(self) -> None:
        """Take the taps off, and forget what was sent."""
        self.before: Callable[[str, str], StripeResponse | NoResponse | None] | None = None
        self.after: Callable[[str, str], StripeResponse | NoResponse | None] | None = None
        self.sent.clear()

    def send(
        self, method: str, path: str, form: str, headers: Mapping[str, str]
    ) -> StripeResponse | NoResponse:
        """See `Upstream.send`."""
        instead = self.before(method, path) if self.before else None
        if instead is not None:
            return instead
        self.sent.append((method, path, form))
        response = self._upstream.send(method, path, form, headers)
        instead = self.after(method, path) if self.after else None
        return instead or response


class VaultBench:
    """A proxy with one customer at Stripe who pays with a good card.

    Args:
        database_url: a migrated database.
        stripe: the simulator's control.
        stripe_url: where the simulator serves.
    """

    def __init__(self, database_url: str, stripe: ControlClient, stripe_url: str) -> None:
        self.stripe = stripe
        self.stripe_url = stripe_url
        self.database_url = database_url
        self._connection = psycopg.connect(database_url, autocommit=True)
        self.records = PostgresVault(Caller(database_url, 64))
        self._real = StripeUpstream(
            STRIPE_KEY, stripe_url, PATIENCE_SECONDS, PATIENCE_SECONDS, PATIENCE_SECONDS
        )
        self.upstream = TappedUpstream(self._real)
        self._payments = StripePayments(STRIPE_KEY, stripe_url, PATIENCE_SECONDS, PATIENCE_SECONDS)
        self._clock = SystemClock()
        self._proxy = Proxy(self.records, self.upstream, self._clock)
        self._admin = VaultAdmin(self.records, ADMIN_TOKEN, self._clock)
        self._own_port = self.port = 0

    def reset(self) -> None:
        """Begin anew, with the good customer and without a key."""
        self._connection.execute(
            """
            DELETE FROM chargeonce.vault_calls;
            DELETE FROM chargeonce.vault_payments;
            DELETE FROM chargeonce.vault_keys
            """
        )
        self.stripe.reset()
        self.stripe.seed_customers(CustomerSeed(ids=["cus_1"], source="tok_visa"))
        self.upstream.reset()
        self.restart_admin()
        self.port = self._own_port

    def restart_admin(self) -> None:
        """Let the admin API forget how many requests came of late."""
        self._admin = VaultAdmin(self.records, ADMIN_TOKEN, self._clock)

    @contextmanager
    def served(self) -> Iterator[None]:
        """Serve the proxy on loopback."""
        application = VaultApplication(lambda: self._proxy, lambda: self._admin)
        server = make_server("127.0.0.1", 0, as_wsgi(application), threaded=True)
        self._own_port = self.port = server.server_port
        serving = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        serving.start()
        try:
            yield
        finally:
            server.shutdown()
            serving.join(10)
            server.server_close()

    def close(self) -> None:
        """Close every connection."""
        self.records.close()
        self._real.close()
        self._payments.close()
        self._connection.close()

    def mint(self, daily_usd: float = 100.0, **fields: Any) -> str:
        """A new key."""
        asked = {
            "vendor": "stripe",
            "label": "usage-billing-2026-11",
            "daily_usd_cap": daily_usd,
            "allowed_endpoints": ENDPOINTS,
            "expires_at": (datetime.now(UTC) + timedelta(hours=6)).isoformat(),
            **fields,
        }
        answer = self.admin("POST", "/vault/keys", asked)
        assert answer.status == 201, answer
        return str(answer.document["vault_key"])

    def admin(self, method: str, path: str, document: object = None) -> Answer:
        """Call the admin API."""
        body = None if document is None else json.dumps(document).encode()
        return self.raw(method, path, {"Authorization": f"Bearer {ADMIN_TOKEN}"}, body)

    def post(
        self,
        key: str,
        path: str,
        parameters: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        idempotency_key: str | None = None,
        **headers: str,
    ) -> Answer:
        """Send a form as a Stripe SDK does."""
        sent = {"Authorization": f"Bearer {key}", **headers}
        sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        if idempotency_key is not None:
            sent["Idempotency-Key"] = idempotency_key
        return self.raw("POST", f"/stripe{path}", sent, urlencode(parameters).encode())

    def get(self, key: str, path: str) -> Answer:
        """Read something at Stripe."""
        return self.raw("GET", f"/stripe{path}", {"Authorization": f"Bearer {key}"})

    def raw(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Answer:
        """Send a request as it stands."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, target, body, dict(headers))
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        names = {name.lower(): value for name, value in response.getheaders()}
        document = json.loads(content) if content else None
        return Answer(response.status, names, document)

    def key_row(self) -> VaultKey:
        """The only key, as the records have it."""
        (key,) = self.records.list_keys(None, 10)
        return key

    def money(self) -> tuple[int, int]:
        """What the only key has held and spent, in cents."""
        key = self.key_row()
        return key.held_cents, key.spent_cents

    def charges(self) -> Sequence[LedgerEntry]:
        """The money that really moved."""
        return [entry for entry in self.stripe.ledger() if entry.kind == "charge"]

    def moved_cents(self) -> int:
        """How much of it."""
        return sum(entry.amount for entry in self.charges())

    def fault(self, fault: Fault) -> None:
        """Put a fault into force."""
        self.stripe.add_fault(fault)

    def resolve(self) -> int:
        """Ask Stripe about every hold, now."""
        self.make_due()
        lists = StripeLists(self._payments, self._clock, Throttle(self._clock, 0), PATIENCE_SECONDS)
        return resolve_holds(self.records, lists)

    def make_due(self) -> None:
        """Let every hold be one that Stripe should be asked about, and no timer be at it."""
        self._connection.execute(
            "UPDATE chargeonce.vault_payments SET due_at = now() WHERE due_at IS NOT NULL"
        )
        self._connection.execute("DELETE FROM chargeonce.timers")

    def let_hours_pass(self, hours: float) -> None:
        """Move the database's and Stripe's time on."""
        self._connection.execute(
            """
            UPDATE chargeonce.vault_payments
            SET opened_at = opened_at - make_interval(secs => %(seconds)s),
                sent_at = sent_at - make_interval(secs => %(seconds)s)
            """,
            {"seconds": hours * SECONDS_PER_HOUR},
        )
        self.stripe.advance_clock(hours * SECONDS_PER_HOUR)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Do something to the database by hand."""
        cursor = self._connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []
