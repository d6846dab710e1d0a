"""The whole system in one process: the real billing code over simulated ports, run from a seed.

Consumers, reconcilers, brokers, the database, Stripe and the network between them share one virtual
clock. At every port crossing the seed decides who goes on, what breaks and who dies. A judge
compares Stripe's ledger with the database after every effect.
"""

from local.simulation.campaign import Failure, Summary, run_campaign, run_peer_campaign
from local.simulation.judge import Invariant, Violation
from local.simulation.plan import Flows
from local.simulation.world import Report, simulate

__all__ = [
    "Failure",
    "Flows",
    "Invariant",
    "Report",
    "Summary",
    "Violation",
    "run_campaign",
    "run_peer_campaign",
    "simulate",
]
