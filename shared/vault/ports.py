"""The ports of the proxy: its records, and the way to Stripe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from shared.ports import NoResponse, StripeResponse
from shared.vault.keys import KeyRequest, Token, VaultKey


class Admission(StrEnum):
    """How a call was judged by the records."""

    ADMITTED = "admitted"
    KEY_UNKNOWN = "key_unknown"
    KEY_REVOKED = "key_revoked"
    KEY_EXPIRED = "key_expired"
    OVER_DAILY_CAP = "over_daily_cap"
    OVER_TOTAL_CAP = "over_total_cap"
    AMOUNT_CHANGED = "amount_changed"


@dataclass(frozen=True, slots=True)
class Spending:
    """The money that a call may move.

    Args:
        payment_id: the PaymentIntent that its path names; None for a request that makes a payment.
        request_key: else the idempotency key of that request.
        request_mark: what that payment will carry in its metadata.
        amount_cents: how much.
    """

    payment_id: str | None
    request_key: str | None
    request_mark: str | None
    amount_cents: int


@dataclass(frozen=True, slots=True)
class AdmissionResult:
    """The answer to `VaultRecords.admit`.

    Args:
        verdict: whether the call may be forwarded.
        payment_row: names what was counted; None when it moves no money.
        cap_cents: the cap that stood in the way.
        used_cents: what is held and spent against it.
    """

    verdict: Admission
    payment_row: int | None
    cap_cents: int | None
    used_cents: int | None


class Effect(StrEnum):
    """What a call, or a look at Stripe, proves about a payment."""

    NONE = "none"
    KNOWN = "known"
    SPENT = "spent"
    PENDING = "pending"
    FAILED = "failed"
    IMPOSSIBLE = "impossible"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Proof:
    """An effect, and what it is about.

    Args:
        effect: see `Effect`; the SQL says what each does.
        payment_id: the PaymentIntent or charge; None when it is not known.
        amount_cents: what was spent, or what an unconfirmed PaymentIntent is for.
    """

    effect: Effect
    payment_id: str | None = None
    amount_cents: int | None = None


@dataclass(frozen=True, slots=True)
class CallEnd:
    """How a forwarded call ended, for its audit row."""

    call_id: str
    status: int | None
    request_id: str | None
    milliseconds: int


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold that Stripe should be asked about.

    Args:
        payment_row: names it.
        payment_id: the PaymentIntent or charge; None when it is not known.
        request_mark: what that payment carries in its metadata.
        amount_cents: how much is held.
        opened_at: no earlier did it come into being.
        taken_at: the database's time when it was handed out: before Stripe is asked.
    """

    payment_row: int
    payment_id: str | None
    request_mark: str | None
    amount_cents: int
    opened_at: datetime
    taken_at: datetime


@dataclass(frozen=True, slots=True)
class CallLine:
    """One row of the audit log."""

    call_id: str
    called_at: datetime
    key_id: str
    endpoint: str
    amount_cents: int | None
    verdict: str
    effect: str | None
    status: int | None
    request_id: str | None
    milliseconds: int | None


class VaultRecords(Protocol):
    """The proxy's records. Each call is one transaction.

    Every method may raise `RecordsUnavailable`; then nothing may be forwarded.
    """

    def create_key(self, token: Token, request: KeyRequest) -> VaultKey:
        """Store a new key, by its hash."""

    def list_keys(self, label: str | None, limit: int) -> Sequence[VaultKey]:
        """The newest keys first."""

    def revoke_key(self, key_id: str) -> bool:
        """Stop a key at once; False when there is none. Revoking twice is the same."""

    def list_calls(self, key_id: str, before: datetime | None, limit: int) -> Sequence[CallLine]:
        """A key's calls, newest first, made before a moment."""

    def find_key(self, key_id: str) -> VaultKey | None:
        """The key; None when there is none. Whether it still works, `admit` says."""

    def find_amount(self, payment_id: str) -> int | None:
        """What a PaymentIntent is for, in cents; None where it is not known."""

    def refuse(self, call_id: str, key_id: str, endpoint: str, verdict: str) -> None:
        """Note a call that was refused without a look at its amount."""

    def admit(
        self, call_id: str, key_id: str, endpoint: str, spending: Spending | None
    ) -> AdmissionResult:
        """Let a call pass and count what it may spend, in one atomic step, or say why not.

        A payment that is held or spent already is not counted again. Asking again with the same
        `call_id` changes nothing.
        """

    def settle(self, key_id: str, payment_row: int | None, proof: Proof, end: CallEnd) -> None:
        """Write what a call proved about a payment.

        Args:
            key_id: the key that called.
            payment_row: from `admit`; None for the payment that the proof names.
            proof: what is known.
            end: of the call.
        """

    def conclude(self, hold: Hold, proof: Proof, gone_after_seconds: float) -> None:
        """Write what a look at Stripe proved about a hold.

        Args:
            hold: from `take_due_holds`.
            proof: what is known. A failure ends the hold only when no call can still be under way.
            gone_after_seconds: so long after it was sent, no request can still arrive.
        """

    def take_due_holds(self, limit: int, pause_seconds: float) -> Sequence[Hold]:
        """Holds that nobody has proven anything about for a while, each given to one asker."""

    def delete_old_calls(self, retention_days: int, limit: int) -> int:
        """Delete some of the lines about calls that are older; what they spent stays counted.

        Args:
            retention_days: how long they are kept; at least one day, so that none is under way.
            limit: the most to delete.

        Returns:
            How many were deleted.
        """


class Upstream(Protocol):
    """Stripe, with the real key."""

    def send(
        self, method: str, path: str, form: str, headers: Mapping[str, str]
    ) -> StripeResponse | NoResponse:
        """Send one request and never again.

        Args:
            method: `GET` or `POST`.
            path: `/v1/...`.
            form: the encoded parameters.
            headers: those of the caller that pass through.
        """
