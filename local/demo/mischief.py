"""What goes wrong at Stripe while the demo runs."""

from collections.abc import Sequence
from typing import Final

from local.demo.plan import Customer
from local.stripe_simulator import Fault, FaultKind, Match

# Shorter than a hang, so that the answer never comes in time; longer than a late answer.
READ_TIMEOUT_SECONDS: Final = 1.0
HANG_SECONDS: Final = 2.0
LATE_ANSWER_SECONDS: Final = 0.7
# Service Bus consumers are patient: they wait for Stripe longer than their locks last.
PATIENT_READ_TIMEOUT_SECONDS: Final = 3.0
SLOW_ANSWER_SECONDS: Final = 2.6

CREATE: Final = "/v1/payment_intents"
CONFIRM: Final = "/v1/payment_intents/*/confirm"
CANCEL: Final = "/v1/payment_intents/*/cancel"


def faults() -> Sequence[Fault]:
    """Faults by chance: about one request in five that moves money goes wrong somehow."""
    return [
        _fault(FaultKind.HANG, CONFIRM, 0.04, acts=True),
        _fault(FaultKind.SERVER_ERROR, CONFIRM, 0.03, acts=True),
        _fault(FaultKind.SERVER_ERROR, CONFIRM, 0.03, acts=False),
        _fault(FaultKind.RESET, CONFIRM, 0.03, acts=True),
        _fault(FaultKind.RESET, CONFIRM, 0.03, acts=False),
        _fault(FaultKind.TRUNCATED, CONFIRM, 0.03, acts=True),
        _fault(FaultKind.HTML_502, CONFIRM, 0.02, acts=True),
        _fault(FaultKind.HANG, CREATE, 0.02, acts=True),
        _fault(FaultKind.SERVER_ERROR, CREATE, 0.02, acts=True),
        _fault(FaultKind.RESET, CREATE, 0.02, acts=True),
        _fault(FaultKind.RATE_LIMIT, CREATE, 0.02, acts=False),
        _fault(FaultKind.SERVER_ERROR, CANCEL, 0.1, acts=True),
        _fault(FaultKind.RESET, CANCEL, 0.1, acts=False),
    ]


def late_answers() -> Fault:
    """Confirms act at once and are answered late: whoever is killed now was just charging."""
    return Fault(
        FaultKind.DELAY, Match(method="POST", path=CONFIRM), answer_seconds=LATE_ANSWER_SECONDS
    )


def slow_answers(customers: Sequence[Customer]) -> Sequence[Fault]:
    """Customers whose confirms act at once and are answered when the lock has long run out."""
    return [
        Fault(
            FaultKind.DELAY,
            Match(method="POST", path=CONFIRM, customer=customer.stripe_customer_id),
            answer_seconds=SLOW_ANSWER_SECONDS,
        )
        for customer in customers
    ]


def _fault(kind: FaultKind, path: str, probability: float, *, acts: bool) -> Fault:
    match = Match(method="POST", path=path, probability=probability)
    return Fault(kind, match, acts=acts, hang_seconds=HANG_SECONDS)
