"""Amounts for people: as many decimals as Stripe's smallest unit stands for."""

import pytest

from ops.amounts import format_amount


@pytest.mark.parametrize(
    ("amount_cents", "currency", "written"),
    [
        (0, "usd", "0.00 USD"),
        (5, "usd", "0.05 USD"),
        (123_456_789, "eur", "1,234,567.89 EUR"),
        (-150, "usd", "-1.50 USD"),
        (5000, "jpy", "5,000 JPY"),
        (5000, "krw", "5,000 KRW"),
        # Stripe counts these two in hundredths, although they have none.
        (5000, "isk", "50.00 ISK"),
        (5000, "ugx", "50.00 UGX"),
        (12_340, "kwd", "12.340 KWD"),
        (1234, None, "1,234 smallest units"),
    ],
)
def test_amounts(amount_cents: int, currency: str | None, written: str) -> None:
    assert format_amount(amount_cents, currency) == written
