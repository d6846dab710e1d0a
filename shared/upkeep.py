"""What works beside the deliveries has in hand: the rebuild and the sweep of orphans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from shared.biller import BillingRules
from shared.budget import Budget
from shared.conclusion import Concluded
from shared.errors import StripeUnavailable
from shared.housekeeping import OldLines
from shared.identity import StripeIdentity
from shared.ports import Clock, Orphanage, Payments, Rebuilds, Records
from shared.spend_watch import RunsNearCap
from shared.stripe_calls import StripeCalls
from shared.stripe_lists import StripeLists
from shared.throttle import Throttle


class UpkeepRecords(Records, Rebuilds, Orphanage, OldLines, RunsNearCap, Protocol):
    """The records, as upkeep needs them."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The parts.

    Args:
        records: the records.
        lists: Stripe's lists.
        calls: the way to Stripe for what changes something.
        identity: the account and mode that the records belong to.
        clock: the time.
        rules: the deployment's.
        retention_days: how long attempts and parked events are kept; 0 for ever.
    """

    records: UpkeepRecords
    lists: StripeLists
    calls: StripeCalls
    identity: StripeIdentity
    clock: Clock
    rules: BillingRules
    retention_days: int = 0

    @property
    def quiet_seconds(self) -> float:
        """After so long no request is running any more that was sent under an earlier lease.

        A holder sends nothing after its lease, and a request takes less than another one.
        """
        return 2 * self.rules.lease_seconds

    def new_budget(self) -> Budget:
        """Time for one request, sent at once; none for an instance that was frozen meanwhile."""
        attempt_seconds = self.rules.attempt_seconds
        return Budget(self.clock, 2 * attempt_seconds, attempt_seconds)

    def check_identity(self) -> None:
        """Make sure that Stripe's lists are those of the records' own account and mode.

        Raises:
            RecordsUnavailable: the database is away.
            StripeUnavailable: they are not, or Stripe does not say.
        """
        _raise_if(self.identity.refuse(self.new_budget(), None))

    def check_mode(self, livemode: object) -> None:
        """Make sure that an object is of the records' own mode.

        Raises:
            RecordsUnavailable: the database is away.
            StripeUnavailable: it is not.
        """
        _raise_if(self.identity.refuse_answer(livemode))


def build_upkeep(
    records: UpkeepRecords,
    payments: Payments,
    clock: Clock,
    rules: BillingRules,
    retention_days: int = 0,
) -> Upkeep:
    """Put the parts together; all of them share one request rate."""
    throttle = Throttle(clock, rules.max_requests_per_second)
    calls = StripeCalls(payments, clock, throttle, rules.max_attempts)
    return Upkeep(
        records=records,
        lists=StripeLists(payments, clock, throttle, rules.attempt_seconds),
        calls=calls,
        identity=StripeIdentity(records, calls, rules.key_livemode),
        clock=clock,
        rules=rules,
        retention_days=retention_days,
    )


def _raise_if(refused: Concluded | None) -> None:
    if refused is not None:
        raise StripeUnavailable(f"Stripe cannot be read ({refused.code}): {refused.message}")
