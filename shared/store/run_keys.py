"""The vault keys of the runs in PostgreSQL. See `shared.ports.RunKeys`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared.ports import BegunKey, ClaimedKey, RunMoney, StoredKey, WatchedRun
from shared.record import Flow
from shared.store.caller import Caller

# Unfinished records are found by when they are due: there is no other index of them. Those that
# only an operator may drive on are not among them; their run still holds their amounts.
_WATCH = """
WITH unfinished AS (
    SELECT record.billing_period, array_agg(DISTINCT record.flow) AS flows
    FROM chargeonce.records AS record
    WHERE record.due_at IS NOT NULL
    GROUP BY record.billing_period
), present AS (
    SELECT
        chargeonce.is_suspended() AS is_suspended,
        clock_timestamp() AS database_time,
        (SELECT max(run.opened_at) FROM chargeonce.runs AS run) AS newest_opened_at
), watched AS (
    SELECT
        run.billing_period, run.currency, run.cap_cents,
        (present.is_suspended AND run.opened_at = present.newest_opened_at)
            OR EXISTS (
                SELECT FROM chargeonce.records AS doubted
                WHERE doubted.create_in_doubt AND doubted.billing_period = run.billing_period
            ) AS is_searched,
        run.is_open OR run.held_cents > 0 OR unfinished.flows IS NOT NULL AS is_in_use,
        coalesce(unfinished.flows, '{}') AS unfinished_flows,
        present.database_time
    FROM chargeonce.runs AS run
    CROSS JOIN present
    LEFT JOIN unfinished ON unfinished.billing_period = run.billing_period
)
SELECT
    watched.billing_period, watched.currency, watched.cap_cents,
    watched.is_in_use OR watched.is_searched, watched.is_searched, watched.unfinished_flows,
    coalesce(kept.generation, 0), kept.refused_at, watched.database_time,
    kept.key_id, kept.sealed_key, kept.flows, kept.run_cap_cents, kept.is_whole, kept.minted_at,
    kept.expires_at
FROM watched
LEFT JOIN chargeonce.run_keys AS kept ON kept.billing_period = watched.billing_period
WHERE watched.is_in_use
   OR watched.is_searched
   OR kept.sealed_key IS NOT NULL
   -- Somebody may have been killed who was minting: what was minted lives on for hours.
   OR kept.begun_at > watched.database_time - interval '2 days'
ORDER BY watched.billing_period
"""

_BEGIN = """
INSERT INTO chargeonce.run_keys AS target (billing_period, generation)
VALUES (%(billing_period)s, %(generation)s + 1)
ON CONFLICT (billing_period) DO UPDATE
SET generation = target.generation + 1, begun_at = clock_timestamp()
WHERE target.generation = %(generation)s
RETURNING target.generation, target.key_id
"""

_FORGET = """
UPDATE chargeonce.run_keys AS target
SET sealed_key = NULL
FROM chargeonce.runs AS run
WHERE target.billing_period = %s
  AND target.generation = %s
  AND run.billing_period = target.billing_period
RETURNING run.cap_cents, run.charged_cents
"""

_STORE = """
UPDATE chargeonce.run_keys AS target
SET key_id = %s, sealed_key = %s, flows = %s, run_cap_cents = %s, is_whole = %s, minted_at = %s,
    expires_at = %s, refused_at = NULL
WHERE target.billing_period = %s AND target.generation = %s
RETURNING target.generation
"""

_REFUSE = """
UPDATE chargeonce.run_keys AS target
SET refused_at = clock_timestamp()
WHERE target.billing_period = %s AND target.key_id = %s AND target.refused_at IS NULL
RETURNING target.key_id
"""

_ANY = """
SELECT kept.key_id, kept.sealed_key, kept.is_whole
FROM chargeonce.run_keys AS kept
WHERE kept.sealed_key IS NOT NULL AND kept.expires_at > clock_timestamp()
ORDER BY kept.refused_at IS NOT NULL, cardinality(kept.flows) DESC, kept.minted_at DESC
LIMIT 1
"""


class PostgresRunKeys:
    """Implements the port `RunKeys`. Safe for threads.

    Args:
        database_url: libpq connection string or URL.

    Raises:
        SettingsError: the connection string cannot be read.
    """

    def __init__(self, database_url: str) -> None:
        self._caller = Caller(database_url, pool_size=1)
        # Sent again after a lost answer, a statement finds its own generation or none.
        self._run = self._caller.run

    def close(self) -> None:
        """Close the connection."""
        self._caller.close()

    def watch_runs(self) -> Sequence[WatchedRun]:
        """See `RunKeys.watch_runs`."""
        return [_read_run(row) for row in self._run(_WATCH, [])]

    def begin_key(self, billing_period: str, generation: int) -> BegunKey | None:
        """See `RunKeys.begin_key`."""
        parameters = {"billing_period": billing_period, "generation": generation}
        begun = self._run(_BEGIN, parameters)
        return BegunKey(*begun[0]) if begun else None

    def forget_key(self, billing_period: str, generation: int) -> RunMoney | None:
        """See `RunKeys.forget_key`."""
        money = self._run(_FORGET, [billing_period, generation])
        return RunMoney(*money[0]) if money else None

    def store_key(self, billing_period: str, generation: int, key: StoredKey) -> bool:
        """See `RunKeys.store_key`."""
        parameters = [
            key.key_id,
            key.sealed_text,
            sorted(key.flows),
            key.run_cap_cents,
            key.is_whole,
            key.minted_at,
            key.expires_at,
            billing_period,
            generation,
        ]
        return bool(self._run(_STORE, parameters))

    def refuse_key(self, billing_period: str, key_id: str) -> None:
        """See `RunKeys.refuse_key`."""
        self._run(_REFUSE, [billing_period, key_id])

    def any_key(self) -> ClaimedKey | None:
        """See `RunKeys.any_key`."""
        found = self._run(_ANY, [])
        return ClaimedKey(*found[0]) if found else None


def _read_run(row: Sequence[Any]) -> WatchedRun:
    period, currency, cap_cents, is_wanted, is_searched, unfinished, *rest = row
    generation, refused_at, database_time, key_id, sealed_text, flows, *last = rest
    key = None
    if sealed_text is not None:
        key = StoredKey(key_id, sealed_text, _flows(flows), *last)
    return WatchedRun(
        billing_period=period,
        currency=currency,
        cap_cents=cap_cents,
        is_wanted=is_wanted,
        is_searched=is_searched,
        unfinished_flows=_flows(unfinished),
        generation=generation,
        key=key,
        refused_at=refused_at,
        database_time=database_time,
    )


def _flows(names: Sequence[str]) -> frozenset[Flow]:
    return frozenset(Flow(name) for name in names)
