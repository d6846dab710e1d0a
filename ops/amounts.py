"""Amounts for people. Everything else counts in the currency's smallest unit, as Stripe does."""

from __future__ import annotations

# As Stripe counts them, which is not ISO 4217 throughout: it takes ISK and UGX in hundredths.
_NO_DECIMALS = frozenset(
    "bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf".split()  # noqa: SIM905
)
_THREE_DECIMALS = frozenset({"bhd", "jod", "kwd", "omr", "tnd"})


def decimals_of(currency: str) -> int:
    """How many decimals an amount of this currency has."""
    if currency in _NO_DECIMALS:
        return 0
    return 3 if currency in _THREE_DECIMALS else 2


def format_amount(amount_cents: int, currency: str | None) -> str:
    """Write an amount out: `1,234.50 USD`, `1,234 JPY`.

    Args:
        amount_cents: in the currency's smallest unit.
        currency: lower case; None where no single currency is known.
    """
    if currency is None:
        return f"{amount_cents:,} smallest units"
    decimals = decimals_of(currency)
    whole, fraction = divmod(abs(amount_cents), 10**decimals)
    sign = "-" if amount_cents < 0 else ""
    cents = f".{fraction:0{decimals}d}" if decimals else ""
    return f"{sign}{whole:,}{cents} {currency.upper()}"
