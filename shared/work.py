"""One claimed record on its way to an end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from shared.budget import Budget
from shared.identity import StripeIdentity
from shared.ports import Records, StripeRequest
from shared.record import Record
from shared.stripe_answers import under_partial_cap
from shared.stripe_calls import CallResult, StripeCalls


@dataclass(frozen=True, slots=True)
class Work:
    """A claimed record with what it takes to drive it.

    Args:
        record: as the claim returned it.
        database_time: the database's clock at the claim.
        budget: this delivery's.
        lease_seconds: how long a holder may act; two of them bound how long its requests can run.
        records: the port to the records.
        calls: the way to Stripe.
        identity: the account and mode that answers must come from.
        vault_key: the run's vault key, where calls go through a spend-cap proxy.
        cap_is_whole: that key's cap is all that the run has left.
    """

    record: Record
    database_time: datetime
    budget: Budget
    lease_seconds: float
    records: Records
    calls: StripeCalls
    identity: StripeIdentity
    vault_key: str | None = None
    cap_is_whole: bool = True

    @property
    def age_seconds(self) -> float:
        """How long ago the first claim of this attempt was made, by the database's clock."""
        return (self.database_time - self.record.attempt_started_at).total_seconds()

    @property
    def is_quiet(self) -> bool:
        """Whether no request of an earlier holder can be running any more.

        A holder sends nothing after its lease, so two leases after the claim before this one
        every request of this attempt has come to its end.
        """
        before = self.record.previous_claim_at
        if before is None:
            return True
        return (self.database_time - before).total_seconds() >= 2 * self.lease_seconds

    def send(self, request: StripeRequest) -> CallResult:
        """Send a request to Stripe inside this delivery's budget."""
        result = self.calls.send(request, self.budget, self.vault_key)
        if self.cap_is_whole:
            return result
        return replace(result, answer=under_partial_cap(result.answer))
