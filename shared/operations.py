"""The ports of the operator's commands that act on records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from shared.ports import Envelope, FoundPayment, Note
from shared.record import Record, RecordId, State

OPERATOR = "operator"
"""The transport under which the attempts table and the log name what an operator did."""

RETRYABLE = frozenset({State.DECLINED, State.REJECTED})
"""States that end with a higher attempt."""


@dataclass(frozen=True, slots=True)
class Examined:
    """A record, and the database's clock when it was read."""

    record: Record
    database_time: datetime


@dataclass(frozen=True, slots=True)
class CloseResult:
    """What became of closing a record.

    Args:
        closed: it is canceled now, or was before.
        record: the row as it now is; None when there is none.
    """

    closed: bool
    record: Record | None


class Recording(StrEnum):
    """What a payment came to that an operator says belongs to a record."""

    RESTORED = "restored"
    BROUGHT_FORWARD = "brought_forward"
    KNOWN = "known"
    BESIDE = "beside"
    SECOND_PAYMENT = "second_payment"
    DIFFERS = "differs"
    PAYS_ELSEWHERE = "pays_elsewhere"
    RECORD_EXISTS = "record_exists"
    RECORD_UNFINISHED = "record_unfinished"


@dataclass(frozen=True, slots=True)
class RecordedPayment:
    """What became of a payment.

    Args:
        recording: restored: there was no record, now there is one. Brought forward: the record was
            behind. Known: nothing to do. Beside: the record is about another payment. Second
            payment: the record is charged with another one. Differs: in amount, currency or Stripe
            customer. Pays elsewhere: it pays for another record already. Record exists: and a mere
            word does not change it. Record unfinished: its own payment may yet succeed.
        record: the row as it now is; None when there is none.
        run_closed: recording the money passed the cap, so the run was closed.
    """

    recording: Recording
    record: Record | None
    run_closed: bool = False


class Operations(Protocol):
    """What an operator does to records. Each call is one transaction.

    Every method may raise `RecordsUnavailable`: then the write may or may not have happened, and
    sending it again is safe.
    """

    def examine(self, record_id: RecordId) -> Examined | None:
        """The record and the database's clock; None when there is no record."""

    def close_record(self, record_id: RecordId, note: Note) -> CloseResult:
        """Cancel a record in which no money can move: declined, rejected or parked.

        Any other state is left as it is.
        """

    def record_payment(
        self,
        found: FoundPayment,
        names: Sequence[str],
        envelope: Envelope,
        *,
        only_new: bool,
        dry_run: bool,
    ) -> RecordedPayment:
        """Record a payment that an operator says belongs to a record.

        Args:
            found: the payment.
            names: every id that Stripe has for it, sorted: a PaymentIntent and its charge.
            envelope: who says so.
            only_new: never change a record that is there; for what was not read at Stripe.
            dry_run: only say what it would come to.
        """

    def failed_records(
        self,
        billing_period: str,
        states: Sequence[State],
        codes: Sequence[str] | None,
        after_customer_id: str,
        limit: int,
    ) -> Sequence[Record]:
        """Records in some of the `RETRYABLE` states, in the order of their customers.

        Args:
            billing_period: the period.
            states: which of the states.
            codes: why they failed; None for whatever reason.
            after_customer_id: where the page before ended; empty for the first.
            limit: the most to return.
        """
