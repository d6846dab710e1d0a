"""The vault keys of the runs, as the database keeps them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from ops.doctor.facts import Facts, RunKey
from shared.errors import ChargeonceError

if TYPE_CHECKING:
    from shared.ports import WatchedRun
    from shared.record import Flow
    from shared.sealing import FernetSeal


def add_run_keys(facts: Facts) -> Facts:
    """The same facts, with the keys of the runs that are in use; none where none are minted."""
    settings = facts.settings
    assert settings is not None, "settings are read first"
    if settings.run_keys is None:
        return facts
    from shared.sealing import FernetSeal
    from shared.store.run_keys import PostgresRunKeys

    try:
        seal = FernetSeal(settings.run_keys.encryption_keys)
        with closing(PostgresRunKeys(settings.database_url)) as keys:
            watched = keys.watch_runs()
    except (ChargeonceError, ValueError):
        # Each is a finding of its own: the database, or the settings.
        return facts
    flow = settings.rules.flow
    return replace(
        facts, run_keys=tuple(_plain(run, flow, seal) for run in watched if run.is_wanted)
    )


def _plain(run: WatchedRun, flow: Flow, seal: FernetSeal) -> RunKey:
    from shared.run_keys import reason_to_replace

    key = run.key
    if key is None:
        return RunKey(run.billing_period, None, None, None)
    left = (key.expires_at - run.database_time) / timedelta(hours=1)
    opens = seal.open(key.sealed_text) is not None
    return RunKey(run.billing_period, left, reason_to_replace(run, flow), opens)
