"""What the timers of both clouds do. A lease in the database makes a doubled firing harmless."""

from __future__ import annotations

from datetime import datetime

from shared import notices
from shared.biller import Biller
from shared.errors import RunError
from shared.minting import ExpectedTotals, open_due_run
from shared.ports import Runs, Timers
from shared.reconcile import keep_up
from shared.run_keys import KeyKeeper
from shared.settings import Settings
from shared.upkeep import Upkeep

# Doubled firings come within seconds of each other; no schedule is finer than a minute.
LEASE_SECONDS = 50.0

# With the longest charge after it still within the five minutes that functions usually have.
RECONCILE_SECONDS = 120.0

MINT_TIMER = "mint_vault_key"
RECONCILE_TIMER = "reconcile"


def open_run_once(
    timers: Timers, totals: ExpectedTotals, runs: Runs, settings: Settings, now: datetime
) -> None:
    """Open the run of the period that is due, unless this firing is a double.

    Args:
        timers: knows who runs the timer now.
        totals: see `open_due_run`.
        runs: the runs.
        settings: checked.
        now: the present moment.

    Raises:
        RunError: no run was opened; the log says why, and the firing should count as failed.
        RecordsUnavailable: the database is away.
    """
    if not _uses_runs(settings) or not timers.take_timer_lease(MINT_TIMER, LEASE_SECONDS):
        return
    try:
        run, is_new = open_due_run(runs, totals, settings.run, settings.rules.currency, now)
    except RunError as error:
        notices.alarm(str(error))
        raise
    if is_new:
        cap = f"{run.cap_cents} {run.currency} (smallest unit)"
        notices.inform(f"opened run {run.billing_period} with a cap of {cap}")


def keep_keys(keeper: KeyKeeper | None) -> None:
    """Mint, replace and revoke vault keys, as is due; nothing where none are minted.

    Needs no lease: two that are at it at once leave one key.

    Args:
        keeper: of the keys.

    Raises:
        RecordsUnavailable: the database is away.
    """
    if keeper is not None:
        keeper.keep()


def reconcile_once(
    timers: Timers,
    biller: Biller,
    upkeep: Upkeep,
    seconds: float = RECONCILE_SECONDS,
    keeper: KeyKeeper | None = None,
) -> None:
    """Finish what no message drives on, unless this firing is a double. See `keep_up`.

    Begins nothing when its time is up: a function that is cut off takes with it whatever else
    its worker has in hand.

    Args:
        timers: knows who runs the timer now.
        biller: drives it on.
        upkeep: what the rebuild and the sweep work with, and the clock for the time limit.
        seconds: after so long nothing is begun any more.
        keeper: of the runs' vault keys, which work for hours only; None where none are minted.

    Raises:
        RecordsUnavailable: the database is away.
    """
    if timers.take_timer_lease(RECONCILE_TIMER, LEASE_SECONDS):
        give_up = upkeep.clock.monotonic() + seconds
        keep_keys(keeper)
        keep_up(biller, upkeep, is_time_up=lambda: upkeep.clock.monotonic() >= give_up)


def _uses_runs(settings: Settings) -> bool:
    run = settings.run
    expects = run.expected_total_cents is not None or run.expected_total_sql is not None
    return settings.rules.require_run or expects
