"""The append-only list of money that really moved, whatever the clients were told."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias

from local.stripe_simulator.wire import JsonObject

Kind: TypeAlias = Literal["charge", "refund"]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One movement of money.

    `metadata` is what the payment carried when the money moved. `idempotency_key` and
    `request_id` name the request that moved it, or that started it when it settled later.
    """

    moved_at: float
    kind: Kind
    amount: int
    currency: str
    customer: str | None
    payment_intent: str | None
    charge: str
    description: str | None
    metadata: Mapping[str, str]
    account: str
    livemode: bool
    idempotency_key: str | None
    request_id: str | None

    def to_json(self) -> JsonObject:
        """Return the entry as a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class CurrencyTotal:
    """What moved in one currency."""

    charges: int = 0
    charged: int = 0
    refunds: int = 0
    refunded: int = 0


@dataclass(frozen=True, slots=True)
class DoubleCharge:
    """Several charges for what should have been one.

    `group` says what they have in common: customer and billing period of the metadata or, where
    these are missing, Stripe customer, amount and description. `excess` is what was charged
    beyond the first charge.
    """

    group: Mapping[str, str | int | None]
    charges: Sequence[str]
    excess: int
    currency: str


@dataclass(frozen=True, slots=True)
class LedgerSummary:
    """Totals by currency, and every double charge."""

    totals: Mapping[str, CurrencyTotal] = field(default_factory=dict)
    double_charges: Sequence[DoubleCharge] = ()

    def to_json(self) -> JsonObject:
        """Return the summary as a JSON object."""
        return {
            "totals": {currency: asdict(total) for currency, total in self.totals.items()},
            "double_charges": [asdict(double) for double in self.double_charges],
        }


class Ledger:
    """Every movement of money in its order. Nothing is ever changed or taken away."""

    def __init__(self) -> None:
        self._entries: list[LedgerEntry] = []

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, entry: LedgerEntry) -> None:
        """Record that money moved."""
        self._entries.append(entry)

    def entries(self, since: int = 0, limit: int | None = None) -> list[LedgerEntry]:
        """Return entries from the offset `since` on, at most `limit`, or all when it is None."""
        end = None if limit is None else since + limit
        return self._entries[since:end]

    def summary(self, account: str | None = None, livemode: bool | None = None) -> LedgerSummary:
        """Return totals and double charges, of one account and mode or of all."""
        chosen = [
            entry
            for entry in self._entries
            if account in (None, entry.account) and livemode in (None, entry.livemode)
        ]
        return LedgerSummary(_totals(chosen), _double_charges(chosen))


def _totals(entries: Iterable[LedgerEntry]) -> dict[str, CurrencyTotal]:
    totals: dict[str, CurrencyTotal] = {}
    for entry in entries:
        total = totals.get(entry.currency, CurrencyTotal())
        is_charge = entry.kind == "charge"
        totals[entry.currency] = CurrencyTotal(
            charges=total.charges + is_charge,
            charged=total.charged + (entry.amount if is_charge else 0),
            refunds=total.refunds + (not is_charge),
            refunded=total.refunded + (0 if is_charge else entry.amount),
        )
    return totals


def _double_charges(entries: Iterable[LedgerEntry]) -> list[DoubleCharge]:
    groups: defaultdict[tuple[object, ...], list[LedgerEntry]] = defaultdict(list)
    for entry in entries:
        if entry.kind == "charge":
            group = (entry.account, entry.livemode, *_group(entry).values())
            groups[group].append(entry)
    return [
        DoubleCharge(
            group=_group(charges[0]),
            charges=[entry.charge for entry in charges],
            excess=sum(entry.amount for entry in charges[1:]),
            currency=charges[0].currency,
        )
        for charges in groups.values()
        if len(charges) > 1
    ]


def _group(entry: LedgerEntry) -> dict[str, str | int | None]:
    customer_id = entry.metadata.get("customer_id")
    billing_period = entry.metadata.get("billing_period")
    if customer_id and billing_period:
        return {"customer_id": customer_id, "billing_period": billing_period}
    return {
        "customer": entry.customer,
        "amount": entry.amount,
        "description": entry.description,
    }
