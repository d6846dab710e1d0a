"""A Stripe on the desk that tells the truth about money, and goes wrong on demand."""

from local.stripe_simulator.client import ControlClient, ControlError
from local.stripe_simulator.clock import SettableClock
from local.stripe_simulator.disputes import DisputeOpening
from local.stripe_simulator.faults import Fault, FaultKind, Match
from local.stripe_simulator.keyring import DEFAULT_ACCOUNT, Permission
from local.stripe_simulator.ledger import (
    CurrencyTotal,
    DoubleCharge,
    Ledger,
    LedgerEntry,
    LedgerSummary,
)
from local.stripe_simulator.model import Running, StripeModel
from local.stripe_simulator.running import RunningSimulator, SimulatorProcess, serve_in_thread
from local.stripe_simulator.seeding import (
    CustomerSeed,
    PaymentSeed,
    SeededCustomer,
    SeededPayment,
    seed_customers,
)
from local.stripe_simulator.wire import Delivery, DeliveryKind, Request, Response
from local.stripe_simulator.world import Options

__all__ = [
    "DEFAULT_ACCOUNT",
    "ControlClient",
    "ControlError",
    "CurrencyTotal",
    "CustomerSeed",
    "Delivery",
    "DeliveryKind",
    "DisputeOpening",
    "DoubleCharge",
    "Fault",
    "FaultKind",
    "Ledger",
    "LedgerEntry",
    "LedgerSummary",
    "Match",
    "Options",
    "PaymentSeed",
    "Permission",
    "Request",
    "Response",
    "Running",
    "RunningSimulator",
    "SeededCustomer",
    "SeededPayment",
    "SettableClock",
    "SimulatorProcess",
    "StripeModel",
    "seed_customers",
    "serve_in_thread",
]
