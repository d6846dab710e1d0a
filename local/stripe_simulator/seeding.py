"""Customers and payments by the thousand, made at once."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from local.stripe_simulator import payment_intents
from local.stripe_simulator.behaviours import Issued, issued
from local.stripe_simulator.model import StripeModel
from local.stripe_simulator.parameters import FormValue, Parameters
from local.stripe_simulator.payment_methods import issue
from local.stripe_simulator.records import Customer, Instrument, Scope
from local.stripe_simulator.wire import JsonObject
from local.stripe_simulator.world import Call

MAXIMUM_CUSTOMERS = 100_000
MAXIMUM_PAYMENTS = 10_000


@dataclass(frozen=True, slots=True)
class CustomerSeed:
    """What customers to make.

    Attributes:
        count: How many, when no `ids` are given.
        ids: Ids of your own choice, one customer each.
        payment_method: Test card that each has as its default for invoices, or None. A card that
            Stripe would refuse to save is saved here: it went bad later.
        source: Test token that each has as its default source (legacy), or None.
        metadata: What each carries.
    """

    count: int = 1
    ids: Sequence[str] = ()
    payment_method: str | None = "pm_card_visa"
    source: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= (len(self.ids) or self.count) <= MAXIMUM_CUSTOMERS:
            raise ValueError(f"between 1 and {MAXIMUM_CUSTOMERS} customers can be made at once")


@dataclass(frozen=True, slots=True)
class SeededCustomer:
    """A customer that was made, with the ids of what it pays with."""

    id: str
    payment_method: str | None
    source: str | None

    def to_json(self) -> JsonObject:
        """Return the ids as a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PaymentSeed:
    """A payment to make.

    Attributes:
        customer: Who pays, with the default payment method for invoices.
        amount: In the currency's smallest unit.
        currency: Lower case.
        description: What the customer reads.
        metadata: What the payment carries.
    """

    customer: str
    amount: int
    currency: str = "usd"
    description: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SeededPayment:
    """A payment that was made."""

    payment_intent: str
    charge: str


def seed_payments(
    model: StripeModel, scope: Scope, seeds: Sequence[PaymentSeed]
) -> list[SeededPayment]:
    """Make PaymentIntents that succeed now, with the API's own checks, and return their ids.

    Raises:
        ValueError: They are too many.
        StripeError: One cannot be made; those before it stay.
    """
    if len(seeds) > MAXIMUM_PAYMENTS:
        raise ValueError(f"at most {MAXIMUM_PAYMENTS} payments can be made at once")
    return [_pay(model.own_call(scope), seed) for seed in seeds]


def seed_customers(model: StripeModel, scope: Scope, seed: CustomerSeed) -> list[SeededCustomer]:
    """Make customers and return their ids in order.

    Raises:
        ValueError: An id is taken, or a test name is unknown.
    """
    call = model.own_call(scope)
    method_face = _face(seed.payment_method, "pm_")
    source_face = _face(seed.source, "tok_")
    ids = seed.ids or [model.world.identifiers.object_id("cus") for _ in range(seed.count)]
    if len(set(ids)) < len(ids) or any(scope.customers.get(each) for each in ids):
        raise ValueError("a customer id is taken")
    return [_seed(call, customer_id, seed, method_face, source_face) for customer_id in ids]


def _seed(
    call: Call,
    customer_id: str,
    seed: CustomerSeed,
    method_face: Issued | None,
    source_face: Issued | None,
) -> SeededCustomer:
    customer = Customer(
        id=customer_id,
        created=int(call.now),
        updated_at=call.now,
        metadata=dict(seed.metadata),
        invoice_prefix=customer_id[-8:].upper(),
    )
    method = _owned(call, customer_id, method_face, "pm")
    source = _owned(call, customer_id, source_face, "card")
    customer.default_payment_method = method.id if method else None
    customer.default_source = source.id if source else None
    call.scope.customers.add(customer)
    return SeededCustomer(customer_id, customer.default_payment_method, customer.default_source)


def _pay(call: Call, seed: PaymentSeed) -> SeededPayment:
    form: dict[str, FormValue] = {
        "amount": str(seed.amount),
        "currency": seed.currency,
        "customer": seed.customer,
        "metadata": dict(seed.metadata),
        "automatic_payment_methods": {"enabled": "true", "allow_redirects": "never"},
        "payment_method": call.customer(seed.customer).default_payment_method or "",
        "confirm": "true",
        "off_session": "true",
    }
    if seed.description is not None:
        form["description"] = seed.description
    call.parameters = Parameters(form)
    intent = payment_intents.create(call)
    return SeededPayment(intent["id"], intent["latest_charge"])


def _owned(call: Call, customer_id: str, face: Issued | None, prefix: str) -> Instrument | None:
    if face is None:
        return None
    instrument = issue(call, face, prefix)
    instrument.customer = customer_id
    call.scope.instruments.assign(instrument, customer_id)
    return instrument


def _face(name: str | None, prefix: str) -> Issued | None:
    if name is None:
        return None
    face = issued(name) if name.startswith(prefix) else None
    if face is None:
        raise ValueError(f"{name} is not a test name that starts with {prefix}")
    return face
