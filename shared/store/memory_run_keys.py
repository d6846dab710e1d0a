"""Records in memory whose runs have vault keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from shared.ports import (
    BegunKey,
    ClaimedKey,
    ClaimRequest,
    ClaimResult,
    ClaimVerdict,
    Clock,
    Envelope,
    Run,
    RunMoney,
    StoredKey,
    WatchedRun,
)
from shared.record import UNFINISHED, Flow, RecordId
from shared.store.memory_operations import OperatedMemoryStore


@dataclass(slots=True)
class _Line:
    """A run's line: `key` is the one that was stored last, unless it is handed out no more."""

    generation: int
    key: StoredKey | None = None
    is_forgotten: bool = True
    refused_at: datetime | None = None


class KeyedMemoryStore(OperatedMemoryStore):
    """Adds the port `RunKeys` to the store in memory, and the run's key to its claims.

    Args:
        clock: stands in for the database's clock.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._run_keys: dict[str, _Line] = {}

    def claim(self, request: ClaimRequest) -> ClaimResult:
        """See `Records.claim`."""
        with self._lock:
            return self._with_key(super().claim(request), request.event.billing_period)

    def resume(
        self, record_id: RecordId, envelope: Envelope, lease_seconds: float, token: str
    ) -> ClaimResult:
        """See `Records.resume`."""
        with self._lock:
            claim = super().resume(record_id, envelope, lease_seconds, token)
            return self._with_key(claim, record_id.billing_period)

    def watch_runs(self) -> Sequence[WatchedRun]:
        """See `RunKeys.watch_runs`."""
        with self._lock:
            newest = max((run.opened_at for run in self._runs.values()), default=None)
            watched = [self._watch(run, newest) for _, run in sorted(self._runs.items())]
            return [run for run in watched if run.is_wanted or run.generation > 0]

    def begin_key(self, billing_period: str, generation: int) -> BegunKey | None:
        """See `RunKeys.begin_key`."""
        with self._lock:
            line = self._run_keys.setdefault(billing_period, _Line(0))
            if line.generation != generation:
                return None
            line.generation += 1
            return BegunKey(line.generation, line.key.key_id if line.key else None)

    def forget_key(self, billing_period: str, generation: int) -> RunMoney | None:
        """See `RunKeys.forget_key`."""
        with self._lock:
            line = self._line_of(billing_period, generation)
            if line is None:
                return None
            line.is_forgotten = True
            run = self._runs[billing_period]
            return RunMoney(run.cap_cents, run.charged_cents)

    def store_key(self, billing_period: str, generation: int, key: StoredKey) -> bool:
        """See `RunKeys.store_key`."""
        with self._lock:
            line = self._line_of(billing_period, generation)
            if line is None:
                return False
            line.key, line.is_forgotten, line.refused_at = key, False, None
            return True

    def refuse_key(self, billing_period: str, key_id: str) -> None:
        """See `RunKeys.refuse_key`."""
        with self._lock:
            line = self._run_keys.get(billing_period)
            if line is not None and line.key is not None and line.key.key_id == key_id:
                line.refused_at = line.refused_at or self._clock.now()

    def any_key(self) -> ClaimedKey | None:
        """See `RunKeys.any_key`."""
        with self._lock:
            live = [
                (line.refused_at is None, len(line.key.flows), line.key.minted_at, line.key)
                for line in self._run_keys.values()
                if line.key is not None and self._is_handed_out(line)
            ]
            if not live:
                return None
            key = max(live, key=lambda each: each[:3])[3]
            return ClaimedKey(key.key_id, key.sealed_text, key.is_whole)

    def _with_key(self, claim: ClaimResult, billing_period: str) -> ClaimResult:
        line, run = self._run_keys.get(billing_period), self._runs.get(billing_period)
        is_claimed = claim.verdict is ClaimVerdict.CLAIMED
        if not is_claimed or line is None or run is None or line.key is None:
            return claim
        if not self._is_handed_out(line):
            return claim
        is_whole = line.key.is_whole and line.key.run_cap_cents == run.cap_cents
        return replace(claim, vault_key=ClaimedKey(line.key.key_id, line.key.sealed_text, is_whole))

    def _watch(self, run: Run, newest_opened_at: datetime | None) -> WatchedRun:
        line = self._run_keys.get(run.billing_period, _Line(0))
        records = [
            record for record in self.records() if record.billing_period == run.billing_period
        ]
        flows: frozenset[Flow] = frozenset(
            record.flow for record in records if record.state in UNFINISHED
        )
        is_searched = (self.suspended and run.opened_at == newest_opened_at) or any(
            record.create_in_doubt for record in records
        )
        return WatchedRun(
            billing_period=run.billing_period,
            currency=run.currency,
            cap_cents=run.cap_cents,
            is_wanted=run.is_open or run.held_cents > 0 or bool(flows) or is_searched,
            is_searched=is_searched,
            unfinished_flows=flows,
            generation=line.generation,
            key=None if line.is_forgotten else line.key,
            refused_at=line.refused_at,
            database_time=self._clock.now(),
        )

    def _line_of(self, billing_period: str, generation: int) -> _Line | None:
        line = self._run_keys.get(billing_period)
        return line if line is not None and line.generation == generation else None

    def _is_handed_out(self, line: _Line) -> bool:
        is_live = line.key is not None and line.key.expires_at > self._clock.now()
        return is_live and not line.is_forgotten
