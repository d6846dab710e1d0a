"""The state behind the API: options, accounts, the ledger, and the request being served."""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from local.stripe_simulator.behaviours import Behaviour
from local.stripe_simulator.errors import resource_missing
from local.stripe_simulator.idempotency import RETENTION_SECONDS, IdempotencyTable
from local.stripe_simulator.identifiers import IdentifierSource
from local.stripe_simulator.keyring import KeyRing
from local.stripe_simulator.ledger import Ledger
from local.stripe_simulator.parameters import Parameters
from local.stripe_simulator.records import (
    Charge,
    Customer,
    Dispute,
    Instrument,
    PaymentIntent,
    Record,
    Refund,
    Scope,
    Table,
)


@dataclass(slots=True)
class Options:
    """How this Stripe behaves. May be changed while it runs.

    `idempotency` off makes it ignore every key. Search does not see what changed within the
    last `search_lag_seconds`. A bank debit settles by itself after `settlement_seconds`.
    """

    idempotency: bool = True
    idempotency_retention_seconds: float = RETENTION_SECONDS
    search_lag_seconds: float = 60.0
    settlement_seconds: float = 4 * 24 * 3600.0


@dataclass(order=True, slots=True)
class Settlement:
    """A bank debit that will be settled at a time."""

    due_at: float
    sequence: int
    scope: Scope = field(compare=False)
    charge: Charge = field(compare=False)


class World:
    """All accounts of the simulated Stripe."""

    def __init__(self, seed: int, options: Options) -> None:
        self.options = options
        self.identifiers = IdentifierSource(seed)
        self.ledger = Ledger()
        self.keys = KeyRing()
        self._scopes: dict[tuple[str, bool], Scope] = {}
        self._settlements: list[Settlement] = []
        self._settlement_count = 0

    def scope(self, account: str, livemode: bool) -> Scope:
        """Return the objects of an account in a mode, none at first."""
        found = self._scopes.get((account, livemode))
        if found is None:
            found = Scope(
                account, livemode, IdempotencyTable(self.options.idempotency_retention_seconds)
            )
            self._scopes[account, livemode] = found
        return found

    def twin(self, scope: Scope) -> Scope | None:
        """Return the same account's other mode, or None when it was never used."""
        return self._scopes.get((scope.account, not scope.livemode))

    def settle_later(self, due_at: float, scope: Scope, charge: Charge) -> None:
        """Remember that a pending charge settles at `due_at`."""
        self._settlement_count += 1
        heapq.heappush(self._settlements, Settlement(due_at, self._settlement_count, scope, charge))

    def due_settlements(self, now: float) -> Iterator[Settlement]:
        """Take out the settlements that are due, oldest first."""
        while self._settlements and self._settlements[0].due_at <= now:
            yield heapq.heappop(self._settlements)


@dataclass(slots=True)
class Call:
    """One request that reached an endpoint.

    `forced` replaces the behaviour of whatever payment method is charged. `object_id` is the id
    in the path, or empty.
    """

    world: World
    scope: Scope
    parameters: Parameters
    now: float
    request_id: str | None
    object_id: str = ""
    idempotency_key: str | None = None
    api_version: str = ""
    forced: Behaviour | None = None

    def customer(self, customer_id: str, param: str = "customer") -> Customer:
        """Return a customer, deleted or not; a `StripeError` when there is none."""
        return self._find(lambda scope: scope.customers, "customer", customer_id, param)

    def live_customer(self, customer_id: str, param: str = "customer") -> Customer:
        """Return a customer that was not deleted; a `StripeError` when there is none."""
        found = self.customer(customer_id, param)
        if found.deleted:
            raise resource_missing("customer", customer_id, param)
        return found

    def instrument(self, instrument_id: str, param: str) -> Instrument:
        """Return a payment method or legacy card; a `StripeError` when there is none."""
        label = "source" if param == "source" else "PaymentMethod"
        return self._find(lambda scope: scope.instruments, label, instrument_id, param)

    def intent(self, intent_id: str, param: str = "intent") -> PaymentIntent:
        """Return a PaymentIntent; a `StripeError` when there is none."""
        return self._find(lambda scope: scope.payment_intents, "payment_intent", intent_id, param)

    def charge(self, charge_id: str, param: str = "id") -> Charge:
        """Return a charge; a `StripeError` when there is none."""
        return self._find(lambda scope: scope.charges, "charge", charge_id, param)

    def refund(self, refund_id: str, param: str = "id") -> Refund:
        """Return a refund; a `StripeError` when there is none."""
        return self._find(lambda scope: scope.refunds, "refund", refund_id, param)

    def dispute(self, dispute_id: str, param: str = "id") -> Dispute:
        """Return a dispute; a `StripeError` when there is none."""
        return self._find(lambda scope: scope.disputes, "dispute", dispute_id, param)

    def _find(
        self, table: Callable[[Scope], Table[Record]], label: str, record_id: str, param: str
    ) -> Record:
        found = table(self.scope).get(record_id)
        if found is not None:
            return found
        twin = self.world.twin(self.scope)
        if twin is None or table(twin).get(record_id) is None:
            raise resource_missing(label, record_id, param)
        mode, other = ("live", "test") if self.scope.livemode else ("test", "live")
        hint = (
            f"; a similar object exists in {other} mode, but a {mode} mode key was used to make "
            "this request."
        )
        raise resource_missing(label, record_id, param, hint=hint)
