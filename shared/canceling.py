"""Closing a record before any money moved: only when Stripe proves that none can."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from shared.biller import BillingRules
from shared.budget import Budget
from shared.charge_flow import find_charge
from shared.conclusion import Concluded, Conclusion
from shared.decision_log import DecisionEvent, log_decision
from shared.identity import StripeIdentity
from shared.intent_flow import charge_by_intent
from shared.keyring import Keyring, open_key
from shared.operations import OPERATOR, RETRYABLE, Examined, Operations
from shared.ports import (
    ClaimResult,
    ClaimVerdict,
    Clock,
    Ending,
    Envelope,
    FinishResult,
    Note,
    Payments,
    Records,
    Release,
)
from shared.record import Flow, Record, RecordId, State, Verdict
from shared.stripe_calls import StripeCalls
from shared.throttle import Throttle
from shared.work import Work

CODE = "canceled_by_operator"
CLOSABLE = RETRYABLE | {State.PARKED}
"""States in which no money can move any more, but a later delivery could open the record again."""

RELEASE_SECONDS = 60.0

_VERDICT = Verdict(State.CANCELED, CODE, "an operator canceled it")
_ENVELOPE = Envelope(OPERATOR)


class CancelVerdict(StrEnum):
    """What canceling came to."""

    CANCELED = "canceled"
    ALREADY_CANCELED = "already_canceled"
    CHARGED = "charged"
    PROCESSING = "processing"
    IN_DOUBT = "in_doubt"
    TRANSIENT = "transient"
    BUSY = "busy"
    MAY_BE_RUNNING = "may_be_running"
    SUSPENDED = "suspended"
    NO_RECORD = "no_record"

    @property
    def is_canceled(self) -> bool:
        """Whether the record is closed for good."""
        return self in (CancelVerdict.CANCELED, CancelVerdict.ALREADY_CANCELED)

    @property
    def sentence(self) -> str:
        """What it means and what to do, for people."""
        return _SENTENCES[self]


_SENTENCES = {
    CancelVerdict.CANCELED: "closed: no money moved, and none can",
    CancelVerdict.ALREADY_CANCELED: "was closed before",
    CancelVerdict.CHARGED: "the money has moved, and the record says so: refund it at Stripe",
    CancelVerdict.PROCESSING: "the money is on its way and cannot be stopped here; reconcile "
    "records what becomes of it",
    CancelVerdict.IN_DOUBT: "Stripe did not prove that no money can move: nothing is released; "
    "reconcile goes on with the cancel where it had begun; or cancel again later",
    CancelVerdict.TRANSIENT: "Stripe could not be asked: nothing has changed; cancel again later",
    CancelVerdict.BUSY: "somebody is at work on it: cancel again when the lease has run out",
    CancelVerdict.MAY_BE_RUNNING: "a request that charges may still be running: cancel again when "
    "the record was left alone for two leases",
    CancelVerdict.SUSPENDED: "the database may have lost commits: rebuild it first",
    CancelVerdict.NO_RECORD: "there is no such record",
}


@dataclass(frozen=True, slots=True)
class Canceled:
    """What canceling came to.

    Args:
        verdict: what became of it.
        record: the row as it now is; None when there is none.
        code: Stripe's code or ours, where Stripe was asked in vain.
    """

    verdict: CancelVerdict
    record: Record | None = None
    code: str | None = None


class Canceler:
    """Cancels records for an operator.

    Args:
        records: the records.
        operations: the same records, as an operator sees them.
        payments: Stripe.
        clock: time and chance.
        rules: the deployment's; its lease says how long a request may run.
        keyring: opens the runs' vault keys; None where Stripe is called without them.
    """

    def __init__(
        self,
        records: Records,
        operations: Operations,
        payments: Payments,
        clock: Clock,
        rules: BillingRules,
        keyring: Keyring | None = None,
    ) -> None:
        self._keyring = keyring
        self._records = records
        self._operations = operations
        self._clock = clock
        self._rules = rules
        throttle = Throttle(clock, rules.max_requests_per_second)
        self._calls = StripeCalls(payments, clock, throttle, rules.max_attempts)
        self._identity = StripeIdentity(records, self._calls, rules.key_livemode)

    def foresee(self, record_id: RecordId) -> Canceled:
        """Say what `cancel` would come to, as far as that can be told without asking Stripe.

        Raises:
            RecordsUnavailable: the database is away.
        """
        examined = self._operations.examine(record_id)
        if examined is None:
            return Canceled(CancelVerdict.NO_RECORD)
        verdict = self._obstacle(examined) or CancelVerdict.CANCELED
        return Canceled(verdict, examined.record)

    def cancel(self, record_id: RecordId) -> Canceled:
        """Close a record for good, or say why not. Safe to repeat, and to be killed in.

        Raises:
            RecordsUnavailable: the database went away; reconcile finishes what was begun.
        """
        foreseen = self.foresee(record_id)
        if foreseen.verdict is not CancelVerdict.CANCELED or foreseen.record is None:
            return foreseen
        if foreseen.record.state in CLOSABLE:
            return self._close(record_id)
        claim = self._records.resume(
            record_id, _ENVELOPE, self._rules.lease_seconds, self._clock.token()
        )
        if claim.verdict is not ClaimVerdict.CLAIMED or claim.record is None:
            return self._explain(claim, record_id)
        concluded = self._conclude(claim, claim.record)
        canceled = self._write_down(claim.record, concluded)
        if concluded.key_refused and self._keyring is not None:
            self._keyring.note_refusal(claim)
        return canceled

    def _obstacle(self, examined: Examined) -> CancelVerdict | None:
        record, now = examined.record, examined.database_time
        if record.state is State.CANCELED:
            return CancelVerdict.ALREADY_CANCELED
        if record.state is State.CHARGED:
            return CancelVerdict.CHARGED
        if record.state in CLOSABLE:
            return None
        if record.lease_until > now:
            return CancelVerdict.BUSY
        sends_nothing_unseen = record.flow is Flow.PAYMENT_INTENT or record.payment_id is not None
        quiet_seconds = 2 * self._rules.lease_seconds
        untouched_seconds = (now - record.updated_at).total_seconds()
        if not sends_nothing_unseen and untouched_seconds < quiet_seconds:
            return CancelVerdict.MAY_BE_RUNNING
        return None

    def _close(self, record_id: RecordId) -> Canceled:
        result = self._operations.close_record(record_id, Note(_ENVELOPE, "canceled", CODE))
        if result.closed:
            _log(DecisionEvent.RESOLVED, "an operator closed the record", result.record)
            return Canceled(CancelVerdict.CANCELED, result.record)
        # Another attempt began meanwhile.
        return Canceled(CancelVerdict.BUSY, result.record)

    def _explain(self, claim: ClaimResult, record_id: RecordId) -> Canceled:
        if claim.verdict is ClaimVerdict.SUSPENDED:
            return Canceled(CancelVerdict.SUSPENDED, claim.record)
        if claim.verdict is ClaimVerdict.BUSY:
            return Canceled(CancelVerdict.BUSY, claim.record)
        # It came to an end meanwhile.
        foreseen = self.foresee(record_id)
        is_open = foreseen.verdict is CancelVerdict.CANCELED
        return replace(foreseen, verdict=CancelVerdict.BUSY) if is_open else foreseen

    def _conclude(self, claim: ClaimResult, record: Record) -> Concluded:
        is_by_intent = record.flow is Flow.PAYMENT_INTENT
        if is_by_intent and record.payment_id is None:
            # None was ever confirmed, and under the fence that was raised just now none will be.
            return Concluded(Conclusion.CANCELED, code=CODE)
        key = open_key(self._keyring, claim)
        if isinstance(key, Concluded):
            return key
        work = Work(
            record=record,
            database_time=claim.database_time,
            budget=Budget(self._clock, self._rules.budget_seconds, self._rules.attempt_seconds),
            lease_seconds=self._rules.lease_seconds,
            records=self._records,
            calls=self._calls,
            identity=self._identity,
            vault_key=key.text,
            cap_is_whole=key.is_whole,
        )
        refused = self._identity.refuse(work.budget, work.vault_key)
        if refused is not None:
            return refused
        return self._cancel_intent(work) if is_by_intent else _look_for_charge(work)

    def _cancel_intent(self, work: Work) -> Concluded:
        """Store the verdict, then let the flow follow it: as whoever takes over would do."""
        record = work.record
        if not self._records.store_verdict(record.lease, _VERDICT):
            return Concluded(Conclusion.LEASE_LOST, record.payment_id)
        concluded = charge_by_intent(replace(work, record=replace(record, verdict=_VERDICT)))
        if concluded.conclusion is not Conclusion.TRANSIENT:
            return concluded
        # The verdict is stored: whoever goes on with the record cancels it.
        return replace(concluded, conclusion=Conclusion.IN_DOUBT)

    def _write_down(self, record: Record, concluded: Concluded) -> Canceled:
        conclusion, code = concluded.conclusion, concluded.code
        if conclusion is Conclusion.LEASE_LOST:
            return Canceled(CancelVerdict.BUSY, record, code)
        if conclusion in (Conclusion.IN_DOUBT, Conclusion.TRANSIENT, Conclusion.CONFLICT):
            is_doubt = conclusion is not Conclusion.TRANSIENT
            verdict = CancelVerdict.IN_DOUBT if is_doubt else CancelVerdict.TRANSIENT
            release = Release(is_doubt, concluded.create_in_doubt, code, RELEASE_SECONDS)
            note = Note(_ENVELOPE, verdict, code, concluded.request_id)
            self._records.release(record.lease, release, note, None)
            _log(DecisionEvent(verdict.value), concluded.message, record)
            return Canceled(verdict, record, code)
        state = State(conclusion)
        ending = Ending(state, concluded.payment_id, code)
        note = Note(_ENVELOPE, state, code, concluded.request_id)
        result = self._records.finish(record, ending, note, None)
        if not result.written and state is not State.CHARGED:
            return Canceled(CancelVerdict.BUSY, result.record, code)
        _log_ending(state, result)
        return Canceled(CancelVerdict(state.value), result.record, code)


def _look_for_charge(work: Work) -> Concluded:
    """The one-step flow has nothing to cancel: the charge is there, or provably never will be."""
    if work.record.payment_id is None and not work.is_quiet:
        return Concluded(Conclusion.IN_DOUBT, code="earlier_request_may_be_running")
    found = find_charge(work)
    if found is None or found.conclusion is Conclusion.DECLINED:
        return Concluded(Conclusion.CANCELED, code=CODE)
    return found


def _log_ending(state: State, result: FinishResult) -> None:
    record = result.record
    event = DecisionEvent.RESOLVED if state is State.CANCELED else DecisionEvent(state.value)
    _log(event, "what canceling came to", record)
    if result.second_payment:
        _log(
            DecisionEvent.DOUBLE_CHARGE_DETECTED,
            "a second payment succeeded beside the recorded one",
            record,
        )
    if result.run_closed:
        _log(DecisionEvent.BLOCKED_BY_CAP, "late proof of money passed the cap; run closed", record)


def _log(event: DecisionEvent, message: str, record: Record | None) -> None:
    log_decision(
        event,
        message,
        transport=OPERATOR,
        key=record.key if record else None,
        period=record.billing_period if record else None,
        attempt=record.attempt if record else None,
        payment=record.payment_id if record else None,
        outcome=str(record.state) if record else None,
    )
