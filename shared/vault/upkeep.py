"""What the proxy's timer does: it resolves holds, and forgets old calls."""

from __future__ import annotations

from shared import notices
from shared.ports import Clock, Timers
from shared.stripe_lists import StripeLists
from shared.timers import LEASE_SECONDS
from shared.vault.holds import resolve_holds
from shared.vault.ports import VaultRecords

HOLDS_TIMER = "vault_holds"
BATCH_CALLS = 1000
MAX_BATCHES = 10


def keep_up_once(
    timers: Timers,
    records: VaultRecords,
    lists: StripeLists,
    clock: Clock,
    seconds: float,
    retention_days: int = 0,
) -> None:
    """Ask Stripe about holds that are due and delete old calls, unless this firing is a double.

    Args:
        timers: knows who runs the timer now.
        records: the proxy's records.
        lists: the way to Stripe.
        clock: for the time limit.
        seconds: after so long nothing is begun any more.
        retention_days: how long the lines about calls are kept; 0 for ever.

    Raises:
        RecordsUnavailable: the database is away.
        StripeUnavailable: Stripe is.
    """
    if timers.take_timer_lease(HOLDS_TIMER, LEASE_SECONDS):
        give_up = clock.monotonic() + seconds
        resolve_holds(records, lists, lambda: clock.monotonic() >= give_up)
        if retention_days:
            delete_old_calls(records, retention_days)


def delete_old_calls(records: VaultRecords, retention_days: int) -> None:
    """Delete lines about calls that are older than they are kept, a bounded number of them.

    Args:
        records: the proxy's.
        retention_days: how long they are kept, at least a day.

    Raises:
        RecordsUnavailable: the database is away; what was deleted before stays so.
    """
    deleted = 0
    for _ in range(MAX_BATCHES):
        batch = records.delete_old_calls(retention_days, BATCH_CALLS)
        deleted += batch
        if batch < BATCH_CALLS:
            break
    if deleted:
        notices.inform(f"deleted {deleted} calls of vault keys older than {retention_days} days")
