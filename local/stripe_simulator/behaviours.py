"""What happens when a payment method is charged, and Stripe's test cards by name.

The names are Stripe's own (`pm_card_visa`, `tok_chargeDeclined`, ...), with one addition:
`pm_card_simulated_<decline code>` and `tok_simulated_<decline code>` decline with any code that
Stripe documents.
"""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """What becomes of an attempt to move money."""

    SUCCEEDS = "succeeds"
    DECLINES = "declines"
    NEEDS_ACTION = "needs_action"
    PROCESSES = "processes"


class MethodType(StrEnum):
    """The kinds of payment method that the simulator knows."""

    CARD = "card"
    US_BANK_ACCOUNT = "us_bank_account"
    SEPA_DEBIT = "sepa_debit"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a payment method answers when it is charged.

    `decline_code` is the code of the refusal: at once for `DECLINES`, after authentication for
    `NEEDS_ACTION`, at settlement for `PROCESSES`; None where it ends well. `attachable` is
    False for cards whose saving Stripe already refuses.
    """

    outcome: Outcome = Outcome.SUCCEEDS
    decline_code: str | None = None
    attachable: bool = True


@dataclass(frozen=True, slots=True)
class Issued:
    """The face of a payment method and how it behaves."""

    behaviour: Behaviour
    brand: str = "visa"
    last4: str = "4242"
    funding: str = "credit"
    method_type: MethodType = MethodType.CARD


# The rest of the documented decline codes have `card_declined` as their error code.
_OWN_ERROR_CODE_WORDS = """
authentication_required expired_card incorrect_cvc incorrect_number invalid_cvc
invalid_expiry_month invalid_expiry_year invalid_number processing_error
"""
_OWN_ERROR_CODES = frozenset(_OWN_ERROR_CODE_WORDS.split())

_CARD_DECLINED_WORDS = """
approve_with_id call_issuer card_not_supported card_velocity_exceeded currency_not_supported
do_not_honor do_not_try_again duplicate_transaction fraudulent generic_decline
incorrect_address incorrect_pin incorrect_zip insufficient_funds invalid_account invalid_amount
invalid_pin issuer_not_available lost_card merchant_blacklist new_account_information_available
no_action_taken not_permitted offline_pin_required online_or_offline_pin_required pickup_card
pin_try_exceeded reenter_transaction restricted_card revocation_of_all_authorizations
revocation_of_authorization security_violation service_not_allowed stolen_card
stop_payment_order testmode_decline transaction_not_allowed try_again_later
withdrawal_count_limit_exceeded account_closed debit_not_authorized no_account
"""
DECLINE_CODES = _OWN_ERROR_CODES | frozenset(_CARD_DECLINED_WORDS.split())

_BANK_CODES = frozenset({"account_closed", "debit_not_authorized", "no_account"})

_TRY_AGAIN_LATER_WORDS = """
approve_with_id insufficient_funds issuer_not_available processing_error reenter_transaction
try_again_later card_velocity_exceeded
"""
_TRY_AGAIN_LATER = frozenset(_TRY_AGAIN_LATER_WORDS.split())
_CONFIRM_CARD_DATA_WORDS = """
expired_card incorrect_cvc incorrect_number invalid_cvc invalid_expiry_month
invalid_expiry_year invalid_number incorrect_zip incorrect_address
"""
_CONFIRM_CARD_DATA = frozenset(_CONFIRM_CARD_DATA_WORDS.split())
_DO_NOT_TRY_AGAIN_WORDS = """
do_not_try_again fraudulent lost_card stolen_card pickup_card restricted_card
revocation_of_all_authorizations revocation_of_authorization stop_payment_order
card_not_supported
"""
_DO_NOT_TRY_AGAIN = frozenset(_DO_NOT_TRY_AGAIN_WORDS.split())

_MESSAGES = {
    "authentication_required": "Your card was declined. This transaction requires authentication.",
    "expired_card": "Your card has expired.",
    "incorrect_cvc": "Your card's security code is incorrect.",
    "incorrect_number": "Your card number is incorrect.",
    "insufficient_funds": "Your card has insufficient funds.",
    "processing_error": (
        "An error occurred while processing your card. Try again in a little bit."
    ),
    "duplicate_transaction": (
        "A transaction with identical amount and credit card information was submitted very "
        "recently."
    ),
}


def error_code(decline_code: str) -> str:
    """Return the error `code` that goes with a decline code."""
    if decline_code in _OWN_ERROR_CODES:
        return decline_code
    return f"payment_method_{decline_code}" if decline_code in _BANK_CODES else "card_declined"


def decline_message(decline_code: str) -> str:
    """Return the message that goes with a decline code."""
    return _MESSAGES.get(decline_code, "Your card was declined.")


def advice_code(decline_code: str) -> str | None:
    """Return Stripe's advice for a decline code, or None when it gives none."""
    if decline_code in _TRY_AGAIN_LATER:
        return "try_again_later"
    if decline_code in _CONFIRM_CARD_DATA:
        return "confirm_card_data"
    return "do_not_try_again" if decline_code in _DO_NOT_TRY_AGAIN else None


SUCCEEDS = Behaviour()
PROCESSES = Behaviour(Outcome.PROCESSES)
NEEDS_ACTION = Behaviour(Outcome.NEEDS_ACTION)


def declines(decline_code: str, *, attachable: bool = True) -> Behaviour:
    """Return a behaviour that refuses every payment with this code."""
    return Behaviour(Outcome.DECLINES, decline_code, attachable)


def issued(name: str) -> Issued | None:
    """Return what Stripe's test name stands for, such as `pm_card_visa` or `tok_visa`.

    Returns:
        None when it is no such name.
    """
    if name in _BANK_ACCOUNTS:
        return _BANK_ACCOUNTS[name]
    for prefix in ("pm_card_", "tok_"):
        if name.startswith(prefix):
            return _issued_card(name.removeprefix(prefix))
    return None


def issued_by_number(number: str) -> Issued | None:
    """Return what a test card number stands for, or None when it is not one of Stripe's."""
    name = _CARD_NUMBERS.get(number.replace(" ", ""))
    return None if name is None else _issued_card(name)


def issued_by_bank_number(method_type: MethodType, number: str) -> Issued | None:
    """Return what a test account number or IBAN stands for, or None when it is unknown."""
    name = _BANK_NUMBERS.get((method_type, number.replace(" ", "")))
    return None if name is None else _BANK_ACCOUNTS[name]


def _issued_card(name: str) -> Issued | None:
    if name.startswith("simulated_"):
        code = name.removeprefix("simulated_")
        return Issued(declines(code), last4="0002") if code in DECLINE_CODES else None
    return _CARDS.get(name) or _CARDS.get(name.removeprefix("visa_"))


_CARDS = {
    "visa": Issued(SUCCEEDS),
    "visa_debit": Issued(SUCCEEDS, last4="5556", funding="debit"),
    "mastercard": Issued(SUCCEEDS, "mastercard", "4444"),
    "mastercard_debit": Issued(SUCCEEDS, "mastercard", "3222", "debit"),
    "mastercard_prepaid": Issued(SUCCEEDS, "mastercard", "5100", "prepaid"),
    "amex": Issued(SUCCEEDS, "amex", "8431"),
    "discover": Issued(SUCCEEDS, "discover", "1117"),
    "diners": Issued(SUCCEEDS, "diners", "0004"),
    "jcb": Issued(SUCCEEDS, "jcb", "0505"),
    "unionpay": Issued(SUCCEEDS, "unionpay", "0005"),
    "chargeCustomerFail": Issued(declines("generic_decline"), last4="0341"),
    "chargeDeclined": Issued(declines("generic_decline", attachable=False), last4="0002"),
    "chargeDeclinedInsufficientFunds": Issued(
        declines("insufficient_funds", attachable=False), last4="9995"
    ),
    "chargeDeclinedLostCard": Issued(declines("lost_card", attachable=False), last4="9987"),
    "chargeDeclinedStolenCard": Issued(declines("stolen_card", attachable=False), last4="9979"),
    "chargeDeclinedExpiredCard": Issued(declines("expired_card", attachable=False), last4="0069"),
    "chargeDeclinedIncorrectCvc": Issued(declines("incorrect_cvc", attachable=False), last4="0127"),
    "chargeDeclinedProcessingError": Issued(
        declines("processing_error", attachable=False), last4="0119"
    ),
    "chargeDeclinedFraudulent": Issued(declines("fraudulent", attachable=False), last4="0019"),
    "chargeDeclinedVelocityLimitExceeded": Issued(
        declines("card_velocity_exceeded", attachable=False), last4="6975"
    ),
    "authenticationRequired": Issued(NEEDS_ACTION, last4="3184"),
    "threeDSecure2Required": Issued(NEEDS_ACTION, last4="3220"),
    "threeDSecureRequired": Issued(NEEDS_ACTION, last4="3063"),
    "authenticationRequiredOnSetup": Issued(SUCCEEDS, last4="3155"),
    "authenticationRequiredChargeDeclinedInsufficientFunds": Issued(
        Behaviour(Outcome.NEEDS_ACTION, "insufficient_funds"), last4="8260"
    ),
}

_CARD_NUMBERS = {
    "4242424242424242": "visa",
    "4000056655665556": "visa_debit",
    "5555555555554444": "mastercard",
    "378282246310005": "amex",
    "4000000000000341": "chargeCustomerFail",
    "4000000000000002": "chargeDeclined",
    "4000000000009995": "chargeDeclinedInsufficientFunds",
    "4000000000009987": "chargeDeclinedLostCard",
    "4000000000009979": "chargeDeclinedStolenCard",
    "4000000000000069": "chargeDeclinedExpiredCard",
    "4000000000000127": "chargeDeclinedIncorrectCvc",
    "4000000000000119": "chargeDeclinedProcessingError",
    "4100000000000019": "chargeDeclinedFraudulent",
    "4000000000006975": "chargeDeclinedVelocityLimitExceeded",
    "4000002760003184": "authenticationRequired",
    "4000000000003220": "threeDSecure2Required",
    "4000002500003155": "authenticationRequiredOnSetup",
    "4000008260003178": "authenticationRequiredChargeDeclinedInsufficientFunds",
}


def _bank(method_type: MethodType, last4: str, decline_code: str | None = None) -> Issued:
    behaviour = Behaviour(Outcome.PROCESSES, decline_code)
    return Issued(behaviour, "STRIPE TEST BANK", last4, "checking", method_type)


_BANK_ACCOUNTS = {
    "pm_usBankAccount_success": _bank(MethodType.US_BANK_ACCOUNT, "6789"),
    "pm_usBankAccount_accountClosed": _bank(MethodType.US_BANK_ACCOUNT, "1113", "account_closed"),
    "pm_usBankAccount_noAccount": _bank(MethodType.US_BANK_ACCOUNT, "1116", "no_account"),
    "pm_usBankAccount_debitNotAuthorized": _bank(
        MethodType.US_BANK_ACCOUNT, "3335", "debit_not_authorized"
    ),
    "pm_usBankAccount_insufficientFunds": _bank(
        MethodType.US_BANK_ACCOUNT, "2227", "insufficient_funds"
    ),
    "pm_sepaDebit_success": _bank(MethodType.SEPA_DEBIT, "3000"),
    "pm_sepaDebit_failed": _bank(MethodType.SEPA_DEBIT, "3001", "debit_not_authorized"),
}

_BANK_NUMBERS = {
    (MethodType.US_BANK_ACCOUNT, "000123456789"): "pm_usBankAccount_success",
    (MethodType.US_BANK_ACCOUNT, "000111111113"): "pm_usBankAccount_accountClosed",
    (MethodType.US_BANK_ACCOUNT, "000111111116"): "pm_usBankAccount_noAccount",
    (MethodType.US_BANK_ACCOUNT, "000333333335"): "pm_usBankAccount_debitNotAuthorized",
    (MethodType.US_BANK_ACCOUNT, "000222222227"): "pm_usBankAccount_insufficientFunds",
    (MethodType.SEPA_DEBIT, "DE89370400440532013000"): "pm_sepaDebit_success",
    (MethodType.SEPA_DEBIT, "DE62370400440532013001"): "pm_sepaDebit_failed",
}
