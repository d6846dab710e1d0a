"""The vault key of each run: when it is replaced, and how, so that one of them is live.

The timers of both clouds may be at it in the same second, their answers may be lost, and they may
be killed between minting a key and storing it. Each step is safe because of the generation in the
database: it is raised before anything is done, and what was done under an earlier one is never
stored. A key that the service lists and that was minted under an earlier generation will therefore
never be handed to anybody, and can be revoked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from shared import notices
from shared.errors import VaultError
from shared.ports import RunKeys, RunMoney, StoredKey, WatchedRun
from shared.record import Flow
from shared.vault.catalogue import ENDPOINTS_OF_FLOW
from shared.vault.keys import KeyRequest
from shared.vault.service import ListedKey, VaultService

CURRENCY = "usd"
"""What a vault key's cap counts."""

# A clock that differs from the service's must not take a live key for an expired one.
CLOCK_MARGIN = timedelta(minutes=10)


class Seal(Protocol):
    """Encrypts vault keys for the database."""

    def close(self, text: str) -> str:
        """Encrypt a key."""

    def open(self, sealed_text: str) -> str | None:
        """Decrypt a key; None when it was encrypted with a key that is not known here."""


@dataclass(frozen=True, slots=True)
class KeyRules:
    """The settings that decide about vault keys.

    Args:
        key_namespace: begins each key's label.
        key_hours: how long a key works; it is replaced at half of it.
        flow: that new attempts are charged through.
    """

    key_namespace: str
    key_hours: float
    flow: Flow

    def label(self, billing_period: str) -> str:
        """The label of the keys of a run."""
        return f"{self.key_namespace}-{billing_period}"


def flows_to_cover(run: WatchedRun, flow: Flow) -> frozenset[Flow]:
    """The flows that a run's key has to serve.

    Args:
        run: the run.
        flow: that new attempts are charged through.
    """
    # Whoever looks for what the records do not know reads the lists of both.
    return frozenset(Flow) if run.is_searched else run.unfinished_flows | {flow}


def reason_to_replace(run: WatchedRun, flow: Flow) -> str | None:
    """Why a run's key must be replaced now; None while it need not.

    Args:
        run: the run and its key.
        flow: that new attempts are charged through.
    """
    key = run.key
    if key is None:
        return "there is none" if run.is_wanted else None
    if not run.is_wanted:
        return "the run is done with"
    if run.refused_at is not None:
        return "the proxy refused it"
    if run.database_time >= key.minted_at + (key.expires_at - key.minted_at) / 2:
        return "half of its time is over"
    if key.run_cap_cents != run.cap_cents:
        return "the run's cap was changed"
    if not flows_to_cover(run, flow) <= key.flows:
        return "a flow is in use that it does not serve"
    return None


@dataclass(frozen=True, slots=True)
class Room:
    """What a new key may spend.

    Args:
        cap_cents: its cap.
        is_whole: the proxy holds nothing, so that the cap is all that the run has left.
    """

    cap_cents: int
    is_whole: bool


def room_of_new_key(money: RunMoney, listed: Sequence[ListedKey] | None) -> Room:
    """What is left of a run's cap.

    Args:
        money: the run's, as the ledger counts it.
        listed: the keys that it had; None where the service does not list any. The ledger alone
            bounds the run then.
    """
    keys = listed or ()
    spent_cents = sum(key.spent_cents or 0 for key in keys)
    held_cents = sum(key.held_cents or 0 for key in keys)
    left_cents = money.cap_cents - max(money.charged_cents, spent_cents) - held_cents
    # Reading and canceling take a key too, and no service mints one with a cap of nothing.
    return Room(max(left_cents, 1), is_whole=held_cents == 0)


class KeyKeeper:
    """Keeps one live vault key for each run that needs one.

    Args:
        keys: the keys in the database.
        service: mints and revokes them.
        seal: encrypts them.
        rules: the settings.
    """

    def __init__(self, keys: RunKeys, service: VaultService, seal: Seal, rules: KeyRules) -> None:
        self._keys = keys
        self._service = service
        self._seal = seal
        self._rules = rules

    def keep(self, billing_period: str | None = None) -> bool:
        """Replace what must be replaced, and revoke what nobody stored.

        Args:
            billing_period: of one run alone; None for all.

        Returns:
            False when a key could not be kept; the log says why, and the next time may do.

        Raises:
            RecordsUnavailable: the database is away; what was begun is begun anew the next time.
        """
        is_kept = True
        for run in self._keys.watch_runs():
            if billing_period in (None, run.billing_period):
                is_kept = self._keep_safely(run) and is_kept
        return is_kept

    def _keep_safely(self, run: WatchedRun) -> bool:
        if run.is_wanted and run.currency != CURRENCY:
            notices.alarm(
                f"run {run.billing_period} gets no vault key: its currency is "
                f"{run.currency.upper()}, and a vault key's cap counts US dollars"
            )
            return False
        try:
            self._keep(run)
        except VaultError as error:
            notices.alarm(f"the vault key of run {run.billing_period} could not be kept: {error}")
            return False
        return True

    def _keep(self, run: WatchedRun) -> None:
        reason = reason_to_replace(run, self._rules.flow)
        if reason is None and run.key is not None and self._seal.open(run.key.sealed_text) is None:
            reason = "it cannot be decrypted here"
        if reason is None:
            self._revoke_strays(run)
        else:
            self._replace(run, reason)

    def _replace(self, run: WatchedRun, reason: str) -> None:
        begun = self._keys.begin_key(run.billing_period, run.generation)
        if begun is None:
            return
        if begun.key_id is not None:
            self._service.revoke(begun.key_id)
        listed = self._service.list_keys(self._rules.label(run.billing_period))
        # Only now is it certain that nobody stores any of the listed keys any more.
        money = self._keys.forget_key(run.billing_period, begun.generation)
        if money is None:
            return
        for stray in _live(listed, run.database_time):
            if stray.key_id != begun.key_id:
                self._service.revoke(stray.key_id)
        if run.is_wanted:
            self._mint(run, begun.generation, money, room_of_new_key(money, listed))
        notices.inform(f"the vault key of run {run.billing_period} was replaced: {reason}")

    def _mint(self, run: WatchedRun, generation: int, money: RunMoney, room: Room) -> None:
        flows = flows_to_cover(run, self._rules.flow)
        expires_at = run.database_time + timedelta(hours=self._rules.key_hours)
        minted = self._service.mint(
            KeyRequest(
                label=self._rules.label(run.billing_period),
                allowed_endpoints=_endpoints(flows),
                daily_cap_cents=room.cap_cents,
                total_cap_cents=room.cap_cents,
                expires_at=expires_at,
            )
        )
        key = StoredKey(
            key_id=minted.key_id,
            sealed_text=self._seal.close(minted.text),
            flows=flows,
            run_cap_cents=money.cap_cents,
            is_whole=room.is_whole,
            minted_at=run.database_time,
            expires_at=expires_at,
        )
        if not self._keys.store_key(run.billing_period, generation, key):
            self._service.revoke(minted.key_id)

    def _revoke_strays(self, run: WatchedRun) -> None:
        """Revoke live keys that nobody stored: whoever minted them was killed before."""
        listed = self._service.list_keys(self._rules.label(run.billing_period))
        stored_id = run.key.key_id if run.key else None
        strays = [key.key_id for key in _live(listed, run.database_time) if key.key_id != stored_id]
        if not strays:
            return
        # One of them may have been minted just now: from here on it is not stored any more.
        begun = self._keys.begin_key(run.billing_period, run.generation)
        if begun is None:
            return
        for key_id in strays:
            if key_id != begun.key_id:
                self._service.revoke(key_id)
        notices.warn(f"run {run.billing_period} had vault keys that nobody stored; revoked")


def _live(listed: Sequence[ListedKey] | None, now: datetime) -> Sequence[ListedKey]:
    return [key for key in listed or () if key.is_live(now - CLOCK_MARGIN)]


def _endpoints(flows: frozenset[Flow]) -> tuple[str, ...]:
    """What the flows call, each path once."""
    paths = [path for flow in Flow if flow in flows for path in ENDPOINTS_OF_FLOW[flow]]
    return tuple(dict.fromkeys(paths))
