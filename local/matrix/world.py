"""One database, one Stripe, one queue and one customer, in memory and in virtual time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from local.matrix.crossings import Crossings, Killed, Watched
from local.matrix.scenarios import MONEY, Scenario
from local.simulation.stripe_side import name_of
from local.stripe_simulator import Fault, FaultKind, Request, StripeModel
from local.stripe_simulator.keyring import DEFAULT_ACCOUNT
from local.stripe_simulator.world import Options
from shared.biller import Biller, BillingRules
from shared.canceling import Canceler
from shared.keyring import KeyedPayments, Keyring
from shared.ports import Delivery, Envelope, NoResponse, StripeRequest, StripeResponse
from shared.reconcile import reconcile
from shared.record import Flow, Record, RecordId
from shared.run_keys import KeyKeeper, KeyRules
from shared.store.memory_run_keys import KeyedMemoryStore
from shared.vault.keys import KeyRequest
from shared.vault.service import ListedKey, MintedKey

STARTED_AT = datetime(2026, 12, 1, tzinfo=UTC)
PERIOD = "2026-11"
CUSTOMER = "customer-1"
AMOUNT_CENTS = 5000
CAP_CENTS = 100_000
API_KEY = "rk_test_matrix"
NAMESPACE = "usage-billing"
DEBIT_SECONDS = 4 * 86_400.0
CLOUDS = ("servicebus", "pubsub-push")
REFUSED_KEY = b'{"error": {"type": "invalid_request_error", "code": "vault_key_invalid"}}'
_MONEY_REQUEST = {Flow.PAYMENT_INTENT: "confirm", Flow.CHARGE: "charge"}


class Provider(StrEnum):
    """How Stripe is called."""

    LEDGER = "ledger"
    PROXY = "proxy"


class VirtualClock:
    """Implements the port `Clock`; sleeping only moves the time on."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._tokens = 0

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self.seconds

    def now(self) -> datetime:
        """See `Clock.now`."""
        return STARTED_AT + timedelta(seconds=self.seconds)

    def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        self.seconds += seconds

    def random(self) -> float:
        """See `Clock.random`."""
        return 0.5

    def token(self) -> str:
        """See `Clock.token`."""
        self._tokens += 1
        return f"00000000-0000-4000-8000-{self._tokens:012d}"


class PlainSeal:
    """Implements the port `Seal`; nothing is secret here."""

    def close(self, text: str) -> str:
        """See `Seal.close`."""
        return text

    def open(self, sealed_text: str) -> str | None:
        """See `Seal.open`."""
        return sealed_text


class Vault:
    """Implements the port `VaultService` in memory: which keys there are, and which work."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._keys: dict[str, ListedKey] = {}

    def mint(self, request: KeyRequest) -> MintedKey:
        """See `VaultService.mint`."""
        number = f"key-{len(self._keys) + 1}"
        cap_cents = request.total_cap_cents
        self._keys[number] = ListedKey(
            number,
            request.label,
            request.daily_cap_cents,
            cap_cents,
            0,
            0,
            0,
            request.expires_at,
            self._clock.now(),
            None,
        )
        return MintedKey(number, f"vault_key_{number}")

    def list_keys(self, label: str | None) -> list[ListedKey]:
        """See `VaultService.list_keys`."""
        return [key for key in self._keys.values() if label in (None, key.label)]

    def revoke(self, key_id: str) -> bool:
        """See `VaultService.revoke`."""
        return self._keys.pop(key_id, None) is not None

    def list_calls(self, key_id: str, limit: int) -> None:  # noqa: ARG002
        """See `VaultService.list_calls`."""
        return

    def takes(self, text: str | None) -> bool:
        """Whether a key works."""
        return any(
            text == f"vault_key_{key.key_id}" and key.is_live(self._clock.now())
            for key in self._keys.values()
        )


@dataclass(slots=True)
class Message:
    """One message in the queue."""

    message_id: str
    attempt: int
    deliveries: int = 0
    settlement: str | None = None


class Settling:
    """Implements the port `Settlement` for one delivery."""

    def __init__(self, message: Message) -> None:
        self._message = message

    def complete(self) -> None:
        """See `Settlement.complete`."""
        self._message.settlement = "completed"

    def dead_letter(self, reason: str, description: str) -> None:  # noqa: ARG002
        """See `Settlement.dead_letter`."""
        self._message.settlement = "dead-lettered"

    def leave(self) -> None:
        """See `Settlement.leave`."""


class World:
    """All that outlives a process.

    Args:
        scenario: who is charged, and what befalls it.
        flow: how.
        provider: through what.
    """

    def __init__(self, scenario: Scenario, flow: Flow, provider: Provider) -> None:
        self.scenario = scenario
        self.flow = flow
        self.provider = provider
        self.clock = VirtualClock()
        self.store = KeyedMemoryStore(self.clock)
        self.store.open_run(PERIOD, "usd", CAP_CENTS, CAP_CENTS)
        self.vault = Vault(self.clock)
        options = Options(settlement_seconds=DEBIT_SECONDS)
        self.model = StripeModel(1, lambda: self.clock.now().timestamp(), options)
        self._customer_id = self._make_customer()
        self._lost = dict(scenario.lost)
        self._faults = dict(scenario.faults)
        self._late: list[StripeRequest] = []
        self.is_canceled = False
        self.messages = [Message("message-1", 1)]

    def payments(self) -> int:
        """How many payments succeeded."""
        return sum(entry.kind == "charge" for entry in self.model.ledger.entries(0))

    def record(self) -> Record | None:
        """The customer's record."""
        return self.store.get_record(RecordId(CUSTOMER, PERIOD))

    def mend_card(self) -> None:
        """Give the customer a good card, and publish the event that asks for another attempt."""
        form = {"source": "tok_visa", "payment_method": "pm_card_visa"}
        path = f"/v1/customers/{self._customer_id}"
        if self.flow is Flow.CHARGE:
            self._handle("POST", path, {"source": form["source"]})
        else:
            self._handle(
                "POST",
                f"/v1/payment_methods/{form['payment_method']}/attach",
                {"customer": self._customer_id},
            )
            cards = self._handle("GET", f"{path}/payment_methods")
            newest = json.loads(cards.body)["data"][0]["id"]
            self._handle("POST", path, {"invoice_settings[default_payment_method]": newest})
        self.messages.append(Message("message-2", 2))

    def let_late_requests_arrive(self) -> None:
        """Execute what was sent by processes that did not live to see the answer."""
        late, self._late = self._late, []
        for request in late:
            self._execute(request)

    def body(self, message: Message) -> bytes:
        """The event of a message."""
        event = {
            "customer_id": CUSTOMER,
            "billing_period": PERIOD,
            "stripe_customer_id": self._customer_id,
            "amount_cents": AMOUNT_CENTS,
            "attempt": message.attempt,
        }
        return json.dumps(event).encode()

    def execute(
        self, request: StripeRequest, crossings: Crossings, vault_key: str | None
    ) -> StripeResponse | NoResponse:
        """Answer one request of a process."""
        name = name_of(request)
        crossings.cross(f"stripe.{name}.before")
        if self.provider is Provider.PROXY and not self.vault.takes(vault_key):
            crossings.cross(f"stripe.{name}.refused")
            return StripeResponse(401, {}, REFUSED_KEY)
        if request.method == "post":
            try:
                crossings.cross(f"stripe.{name}.late")
            except Killed:
                self._late.append(request)
                raise
        place = MONEY if name == _MONEY_REQUEST[self.flow] else name
        has_acted = self._lost.pop(place, None)
        if has_acted is False:
            response: StripeResponse | NoResponse = NoResponse(sent=True, problem="lost")
        else:
            response = self._execute(request, self._faults.pop(place, None))
        crossings.cross(f"stripe.{name}.after")
        return response if has_acted is None else NoResponse(sent=True, problem="lost")

    def _execute(self, request: StripeRequest, fault: FaultKind | None = None) -> StripeResponse:
        fault_id = None if fault is None else self.model.faults.add(Fault(fault))
        response = self.model.handle(
            Request.build(
                request.method.upper(),
                request.path,
                request.parameters,
                api_key=API_KEY,
                idempotency_key=request.idempotency_key,
            )
        )
        if fault_id is not None:
            self.model.faults.remove(fault_id)
        headers = {name.lower(): value for name, value in response.headers.items()}
        return StripeResponse(response.status, headers, response.body)

    def settle_debits(self) -> None:
        """Let the banks have their say."""
        self.model.settle(self.model.world.scope(DEFAULT_ACCOUNT, livemode=False))

    def _make_customer(self) -> str:
        form = {}
        if self.scenario.method is not None:
            form = {
                "source": self.scenario.source,
                "payment_method": self.scenario.method,
                "invoice_settings[default_payment_method]": self.scenario.method,
            }
        return str(json.loads(self._handle("POST", "/v1/customers", form).body)["id"])

    def _handle(self, method: str, path: str, form: Any = None) -> Any:
        response = self.model.handle(Request.build(method, path, form, api_key=API_KEY))
        assert response.status == 200, response.body
        return response


class Life:
    """One process: what it does, until it dies or is done.

    Args:
        world: what it acts on.
        cloud: whose consumer it is.
        kill_at: the number of the crossing that it dies at; None to live.
    """

    def __init__(self, world: World, cloud: str = CLOUDS[0], kill_at: int | None = None) -> None:
        self._world = world
        self._cloud = cloud
        self.crossings = Crossings(kill_at)
        self._records: Any = Watched(world.store, "records", self.crossings)
        self._keyring: Keyring | None = None
        self._payments: Any = self
        rules = BillingRules(
            flow=world.flow, key_namespace=NAMESPACE, max_attempts=1, max_deliveries=1000
        )
        if world.provider is Provider.PROXY:
            keys: Any = Watched(world.store, "run_keys", self.crossings)
            self._keyring = Keyring(keys, PlainSeal())
            self._payments = KeyedPayments(self, self._keyring)
            service: Any = Watched(world.vault, "vault", self.crossings)
            key_rules = KeyRules(NAMESPACE, 6.0, world.flow)
            self._keeper = KeyKeeper(keys, service, PlainSeal(), key_rules)
        clock, payments = world.clock, self._payments
        self._biller = Biller(self._records, payments, clock, rules, keyring=self._keyring)
        self._canceler = Canceler(
            self._records, self._records, payments, clock, rules, self._keyring
        )

    def send(
        self,
        request: StripeRequest,
        timeout_seconds: float,  # noqa: ARG002 (nothing is slow here)
        vault_key: str | None = None,
    ) -> StripeResponse | NoResponse:
        """See `Payments.send`."""
        return self._world.execute(request, self.crossings, vault_key)

    def live(self, *actions: Callable[[Life], None]) -> bool:
        """Do one thing after the other; False when it died over one of them."""
        try:
            for action in actions:
                action(self)
        except Killed:
            return False
        return True

    def mint(self) -> None:
        """The timer that keeps vault keys."""
        if self._world.provider is Provider.PROXY:
            self._keeper.keep()

    def deliver(self) -> None:
        """The queue delivers what is not settled, oldest first."""
        for message in self._world.messages:
            if message.settlement is None:
                message.deliveries += 1
                settlement: Any = Watched(Settling(message), "settlement", self.crossings)
                envelope = Envelope(self._cloud, message.message_id, message.deliveries)
                body = self._world.body(message)
                self._biller.handle(Delivery(body, envelope), settlement)

    def reconcile(self) -> None:
        """The timer that finishes what is unfinished."""
        reconcile(self._biller, self._records)

    def mend_card(self) -> None:
        """The customer has paid attention, once."""
        if len(self._world.messages) == 1:
            self._world.mend_card()

    def cancel(self) -> None:
        """An operator cancels, once its command has come to an end."""
        if not self._world.is_canceled:
            self._canceler.cancel(RecordId(CUSTOMER, PERIOD))
            self._world.is_canceled = True
