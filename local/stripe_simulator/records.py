"""What the simulated Stripe remembers: the objects of one account in one mode."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from local.stripe_simulator.behaviours import Issued
from local.stripe_simulator.idempotency import IdempotencyTable
from local.stripe_simulator.wire import JsonObject


class Stored(Protocol):
    """What every record has."""

    id: str
    created: int
    updated_at: float
    sequence: int


@dataclass(slots=True, eq=False)
class Customer:
    """A customer. A deleted one stays as a tombstone."""

    id: str
    created: int
    updated_at: float
    sequence: int = 0
    email: str | None = None
    name: str | None = None
    description: str | None = None
    phone: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    default_payment_method: str | None = None
    default_source: str | None = None
    invoice_prefix: str = ""
    deleted: bool = False


@dataclass(slots=True, eq=False)
class Instrument:
    """A payment method (`pm_...`) or a legacy card (`card_...`).

    `used` is True once it was charged without a customer or taken from one: Stripe then refuses
    to use it again.
    """

    id: str
    created: int
    updated_at: float
    issued: Issued
    fingerprint: str
    sequence: int = 0
    customer: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    billing_email: str | None = None
    billing_name: str | None = None
    exp_month: int = 12
    exp_year: int = 2034
    used: bool = False

    @property
    def is_source(self) -> bool:
        """Whether this is a legacy card, usable as a source of the Charges API."""
        return self.id.startswith("card_")


@dataclass(slots=True, eq=False)
class PaymentIntent:
    """A PaymentIntent. It leads to at most one successful charge."""

    id: str
    created: int
    updated_at: float
    amount: int
    currency: str
    client_secret: str
    sequence: int = 0
    status: str = "requires_payment_method"
    customer: str | None = None
    payment_method: str | None = None
    source: str | None = None
    description: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    capture_method: str = "automatic_async"
    confirmation_method: str = "automatic"
    automatic_payment_methods: JsonObject | None = None
    allowed_payment_method_types: list[str] | None = None
    requires_return_url: bool = True
    payment_method_types: list[str] = field(default_factory=list)
    amount_received: int = 0
    amount_capturable: int = 0
    latest_charge: str | None = None
    last_payment_error: JsonObject | None = None
    next_action: JsonObject | None = None
    canceled_at: int | None = None
    cancellation_reason: str | None = None
    echoed: JsonObject = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Charge:
    """A charge, be it made directly or by a PaymentIntent; failed ones are kept too."""

    id: str
    created: int
    updated_at: float
    amount: int
    currency: str
    status: str
    instrument: Instrument
    sequence: int = 0
    captured: bool = False
    amount_captured: int = 0
    amount_refunded: int = 0
    customer: str | None = None
    payment_intent: str | None = None
    description: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    balance_transaction: str | None = None
    decline_code: str | None = None
    canceled: bool = False
    disputed: bool = False
    echoed: JsonObject = field(default_factory=dict)
    request_id: str | None = None
    idempotency_key: str | None = None


@dataclass(slots=True, eq=False)
class Refund:
    """A refund of a charge, in full or in part."""

    id: str
    created: int
    updated_at: float
    amount: int
    currency: str
    charge: str
    balance_transaction: str
    sequence: int = 0
    payment_intent: str | None = None
    reason: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)


Record = TypeVar("Record", bound=Stored)


@dataclass(slots=True, eq=False)
class Dispute:
    """A customer's objection to a charge, raised with the bank."""

    id: str
    created: int
    updated_at: float
    amount: int
    currency: str
    charge: str
    reason: str
    status: str
    sequence: int = 0
    card_brand: str | None = None
    payment_intent: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)


class Table(Generic[Record]):
    """Records in the order of their creation, found by id or by customer."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._by_id: dict[str, Record] = {}
        self._by_customer: dict[str, list[Record]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def add(self, record: Record, customer: str | None = None) -> Record:
        """Append a record, found under its customer too when it has one."""
        record.sequence = len(self._records)
        self._records.append(record)
        self._by_id[record.id] = record
        if customer is not None:
            self.assign(record, customer)
        return record

    def assign(self, record: Record, customer: str) -> None:
        """Let a record be found under a customer that it did not have before."""
        self._by_customer.setdefault(customer, []).append(record)

    def unassign(self, record: Record, customer: str) -> None:
        """Stop finding a record under a customer."""
        self._by_customer[customer].remove(record)

    def get(self, record_id: str) -> Record | None:
        """Return the record with this id, or None."""
        return self._by_id.get(record_id)

    def of_customer(self, customer: str) -> Sequence[Record]:
        """Return the records of one customer, oldest first."""
        return self._by_customer.get(customer, ())

    def all(self) -> Sequence[Record]:
        """Return every record, oldest first."""
        return self._records


@dataclass(slots=True, eq=False)
class Scope:
    """Everything of one account in one mode: a test key never sees what a live key made."""

    account: str
    livemode: bool
    idempotency: IdempotencyTable
    customers: Table[Customer] = field(default_factory=Table)
    instruments: Table[Instrument] = field(default_factory=Table)
    payment_intents: Table[PaymentIntent] = field(default_factory=Table)
    charges: Table[Charge] = field(default_factory=Table)
    refunds: Table[Refund] = field(default_factory=Table)
    disputes: Table[Dispute] = field(default_factory=Table)
    locked_ids: set[str] = field(default_factory=set)
