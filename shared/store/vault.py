"""The proxy's records in PostgreSQL. See `shared.vault.ports`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from shared.store.caller import Caller
from shared.vault.keys import KeyRequest, Token, VaultKey
from shared.vault.ports import (
    Admission,
    AdmissionResult,
    CallEnd,
    CallLine,
    Hold,
    Proof,
    Spending,
)

REPLAY_SECONDS = 23 * 3600.0
"""For how long a request with a known idempotency key counts as the same payment: Stripe keeps keys
for at least 24 hours (https://docs.stripe.com/api/idempotent_requests)."""

_KEY_COLUMNS = """
    source.key_id, source.secret_hash, source.label, source.allowed_endpoints,
    source.daily_cap_cents, source.total_cap_cents, source.expires_at, source.revoked_at,
    source.created_at, source.held_cents, source.spent_cents,
    CASE WHEN source.day >= chargeonce.vault_today() THEN source.day_cents ELSE 0 END
"""
_CREATE_KEY = f"""
INSERT INTO chargeonce.vault_keys AS source (
    key_id, secret_hash, label, allowed_endpoints, daily_cap_cents, total_cap_cents, expires_at
)
VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (key_id) DO UPDATE SET label = excluded.label
RETURNING {_KEY_COLUMNS}
"""
_LIST_KEYS = f"""
SELECT {_KEY_COLUMNS} FROM chargeonce.vault_keys AS source
WHERE %s::text IS NULL OR source.label = %s
ORDER BY source.created_at DESC
LIMIT %s
"""
_REVOKE_KEY = """
UPDATE chargeonce.vault_keys AS target
SET revoked_at = coalesce(target.revoked_at, clock_timestamp())
WHERE target.key_id = %s
RETURNING target.key_id
"""
_LIST_CALLS = """
SELECT
    made.call_id::text, made.called_at, made.key_id, made.endpoint, made.amount_cents,
    made.verdict, made.effect, made.status, made.request_id, made.milliseconds
FROM chargeonce.vault_calls AS made
WHERE made.key_id = %s AND (%s::timestamptz IS NULL OR made.called_at < %s)
ORDER BY made.called_at DESC
LIMIT %s
"""
_FIND_KEY = f"SELECT {_KEY_COLUMNS} FROM chargeonce.vault_keys AS source WHERE source.key_id = %s"
# Not of one that was given back: it may have been changed where nobody here has seen it.
_FIND_AMOUNT = """
SELECT amount_cents FROM chargeonce.vault_payments WHERE payment_id = %s AND state <> 'released'
"""
_REFUSE = "SELECT chargeonce.vault_refuse(%s, %s, %s, %s)"
_ADMIT = """
SELECT verdict, payment_row, cap_cents, used_cents
FROM chargeonce.vault_admit(%s, %s, %s, %s, %s, %s, %s, %s)
"""
# For this transaction alone. A hold is durable before the call is forwarded; should the database
# lose what ended it, the hold is still there and Stripe is asked again.
_SETTLE = """
SELECT chargeonce.vault_settle(%s, %s, %s, %s, %s, %s, %s, %s, %s)
FROM set_config('synchronous_commit', 'off', true)
"""
_CONCLUDE = "SELECT chargeonce.vault_conclude(%s, %s, %s, %s, %s, %s)"
# Key by key, since that is how calls are found.
_DELETE_OLD_CALLS = """
DELETE FROM chargeonce.vault_calls AS target
WHERE target.call_id IN (
    SELECT old.call_id
    FROM chargeonce.vault_keys AS source
    CROSS JOIN LATERAL (
        SELECT made.call_id FROM chargeonce.vault_calls AS made
        WHERE made.key_id = source.key_id
          AND made.called_at < clock_timestamp() - make_interval(days => %(days)s)
        LIMIT %(limit)s
    ) AS old
    WHERE source.created_at < clock_timestamp() - make_interval(days => %(days)s)
    LIMIT %(limit)s
)
RETURNING target.call_id
"""
_TAKE_DUE = "SELECT * FROM chargeonce.vault_take_due(%s, %s)"


class PostgresVault:
    """Implements the port `VaultRecords`. Safe for threads.

    Args:
        caller: runs the statements.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def close(self) -> None:
        """Close the connections."""
        self._caller.close()

    def create_key(self, token: Token, request: KeyRequest) -> VaultKey:
        """See `VaultRecords.create_key`."""
        parameters = [
            token.key_id,
            token.secret_hash,
            request.label,
            list(request.allowed_endpoints),
            request.daily_cap_cents,
            request.total_cap_cents,
            request.expires_at,
        ]
        (row,) = self._caller.run(_CREATE_KEY, parameters)
        return _read_key(row)

    def list_keys(self, label: str | None, limit: int) -> Sequence[VaultKey]:
        """See `VaultRecords.list_keys`."""
        return [_read_key(row) for row in self._caller.run(_LIST_KEYS, [label, label, limit])]

    def revoke_key(self, key_id: str) -> bool:
        """See `VaultRecords.revoke_key`."""
        return bool(self._caller.run(_REVOKE_KEY, [key_id]))

    def list_calls(self, key_id: str, before: datetime | None, limit: int) -> Sequence[CallLine]:
        """See `VaultRecords.list_calls`."""
        found = self._caller.run(_LIST_CALLS, [key_id, before, before, limit])
        return [CallLine(*row) for row in found]

    def find_key(self, key_id: str) -> VaultKey | None:
        """See `VaultRecords.find_key`."""
        found = self._caller.run(_FIND_KEY, [key_id])
        return _read_key(found[0]) if found else None

    def find_amount(self, payment_id: str) -> int | None:
        """See `VaultRecords.find_amount`."""
        found = self._caller.run(_FIND_AMOUNT, [payment_id])
        return int(found[0][0]) if found else None

    def refuse(self, call_id: str, key_id: str, endpoint: str, verdict: str) -> None:
        """See `VaultRecords.refuse`."""
        self._caller.run(_REFUSE, [call_id, key_id, endpoint, verdict])

    def admit(
        self, call_id: str, key_id: str, endpoint: str, spending: Spending | None
    ) -> AdmissionResult:
        """See `VaultRecords.admit`."""
        spent: Sequence[Any] = [None, None, None, None]
        if spending is not None:
            spent = [
                spending.payment_id,
                spending.request_key,
                spending.request_mark,
                spending.amount_cents,
            ]
        (row,) = self._caller.run(_ADMIT, [call_id, key_id, endpoint, *spent, REPLAY_SECONDS])
        verdict, *rest = row
        return AdmissionResult(Admission(verdict), *rest)

    def settle(self, key_id: str, payment_row: int | None, proof: Proof, end: CallEnd) -> None:
        """See `VaultRecords.settle`."""
        self._caller.run(
            _SETTLE,
            [
                end.call_id,
                payment_row,
                proof.payment_id,
                key_id,
                proof.effect,
                proof.amount_cents,
                end.status,
                end.request_id,
                end.milliseconds,
            ],
        )

    def conclude(self, hold: Hold, proof: Proof, gone_after_seconds: float) -> None:
        """See `VaultRecords.conclude`."""
        self._caller.run(
            _CONCLUDE,
            [
                hold.payment_row,
                hold.taken_at,
                proof.payment_id,
                proof.effect,
                proof.amount_cents,
                gone_after_seconds,
            ],
        )

    def take_due_holds(self, limit: int, pause_seconds: float) -> Sequence[Hold]:
        """See `VaultRecords.take_due_holds`."""
        return [Hold(*row) for row in self._caller.run(_TAKE_DUE, [limit, pause_seconds])]

    def delete_old_calls(self, retention_days: int, limit: int) -> int:
        """See `VaultRecords.delete_old_calls`."""
        parameters = {"days": retention_days, "limit": limit}
        return len(self._caller.run(_DELETE_OLD_CALLS, parameters))


def _read_key(row: Sequence[Any]) -> VaultKey:
    key_id, secret_hash, label, allowed, *rest = row
    return VaultKey(key_id, bytes(secret_hash), label, tuple(allowed), *rest)
