"""Which currencies Stripe takes, and the bounds of an amount in each."""

from local.stripe_simulator.errors import invalid_parameter

_ZERO_DECIMAL_WORDS = """
bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf
"""
ZERO_DECIMAL_CURRENCIES = frozenset(_ZERO_DECIMAL_WORDS.split())

# Minimum charge in the smallest unit as Stripe counts it; other currencies have no own minimum.
_MINIMUM_AMOUNTS = {
    "usd": 50,
    "aed": 200,
    "aud": 50,
    "bgn": 100,
    "brl": 50,
    "cad": 50,
    "chf": 50,
    "czk": 1500,
    "dkk": 250,
    "eur": 50,
    "gbp": 30,
    "hkd": 400,
    "huf": 17500,
    "inr": 50,
    "jpy": 50,
    "mxn": 1000,
    "myr": 200,
    "nok": 300,
    "nzd": 50,
    "pln": 200,
    "ron": 200,
    "sek": 300,
    "sgd": 50,
    "thb": 1000,
}

_OTHER_CURRENCY_WORDS = """
afn all amd ang aoa ars awg azn bam bbd bdt bhd bmd bnd bob bsd bwp byn bzd cdf cop crc cve dop
dzd egp etb fjd fkp gel gip gmd gtq gyd hnl htg idr ils isk jmd jod kes kgs khr kwd kyd kzt lak
lbp lkr lrd lsl mad mdl mkd mmk mnt mop mur mvr mwk mzn nad ngn nio npr omr pab pen pgk php pkr
qar rsd rub sar sbd scr shp sle sos srd std szl tjs tnd top try ttd twd tzs uah ugx uyu uzs wst
xcd xcg yer zar zmw
"""
_OTHER_CURRENCIES = frozenset(_OTHER_CURRENCY_WORDS.split())

CURRENCIES = frozenset(_MINIMUM_AMOUNTS) | ZERO_DECIMAL_CURRENCIES | _OTHER_CURRENCIES

_MAXIMUM_DIGITS = {"inr": 9, "idr": 12}
_DEFAULT_MAXIMUM_DIGITS = 8
_REQUIRED_MULTIPLES = {
    "isk": 100,
    "ugx": 100,
    "bhd": 10,
    "jod": 10,
    "kwd": 10,
    "omr": 10,
    "tnd": 10,
}
_THREE_DECIMAL_CURRENCIES = frozenset({"bhd", "jod", "kwd", "omr", "tnd"})


def check_currency(currency: str) -> str:
    """Return the currency in lower case.

    Raises:
        StripeError: Stripe does not take this currency.
    """
    lowered = currency.lower()
    if lowered not in CURRENCIES:
        raise invalid_parameter(
            f"Invalid currency: {lowered}. Stripe currently supports these currencies: "
            f"{', '.join(sorted(CURRENCIES))}",
            "currency",
        )
    return lowered


def check_amount(amount: int, currency: str, param: str = "amount") -> int:
    """Return the amount when Stripe would charge it.

    Args:
        amount: In the currency's smallest unit as Stripe counts it.
        currency: A currency that `check_currency` returned.
        param: The parameter that the error names.

    Raises:
        StripeError: Too small, too large, or not a multiple that the currency demands.
    """
    if amount < 1:
        raise invalid_parameter(
            "This value must be greater than or equal to 1.", param, "parameter_invalid_integer"
        )
    minimum = _MINIMUM_AMOUNTS.get(currency, 1)
    if amount < minimum:
        raise invalid_parameter(
            f"Amount must be at least {display_amount(minimum, currency)}",
            param,
            "amount_too_small",
        )
    maximum = 10 ** _MAXIMUM_DIGITS.get(currency, _DEFAULT_MAXIMUM_DIGITS) - 1
    if amount > maximum:
        raise invalid_parameter(
            f"Amount must be no more than {display_amount(maximum, currency)}",
            param,
            "amount_too_large",
        )
    multiple = _REQUIRED_MULTIPLES.get(currency, 1)
    if amount % multiple:
        raise invalid_parameter(
            f"Invalid amount: amounts in {currency} must be a multiple of {multiple}.",
            param,
            "parameter_invalid_integer",
        )
    return amount


def display_amount(amount: int, currency: str) -> str:
    """Return the amount for people, such as `0.50 usd`."""
    if currency in ZERO_DECIMAL_CURRENCIES:
        return f"{amount} {currency}"
    decimals = 3 if currency in _THREE_DECIMAL_CURRENCIES else 2
    return f"{amount / 10**decimals:.{decimals}f} {currency}"
