"""Handling one delivery: decide, write it down, settle the message. In that order, always."""

from __future__ import annotations

from dataclasses import dataclass, replace

from shared.breaker import Breaker
from shared.budget import Budget
from shared.charge_flow import charge_at_once
from shared.conclusion import Concluded, Conclusion
from shared.decision_log import DecisionEvent, describe_defect, log_decision
from shared.errors import InvalidEvent, RecordsUnavailable, SettlementFailed
from shared.event import UsageEvent, parse_event
from shared.identity import StripeIdentity
from shared.intent_flow import charge_by_intent
from shared.key import Namespaces, idempotency_key
from shared.keyring import Keyring, OpenKey, open_key
from shared.outcome import OUTCOME_OF_STATE, Disposition, Outcome
from shared.ports import (
    ClaimRequest,
    ClaimResult,
    ClaimVerdict,
    Clock,
    Delivery,
    Ending,
    Envelope,
    FinishResult,
    Note,
    ParkedEvent,
    Payments,
    Records,
    Release,
    Settlement,
)
from shared.record import FINAL, Flow, Record, RecordId, State
from shared.stripe_calls import StripeCalls
from shared.stripe_requests import create_parameters
from shared.throttle import Throttle
from shared.work import Work

RELEASE_PAUSE_SECONDS = 60.0
RECONCILE = "reconcile"


@dataclass(frozen=True, slots=True)
class BillingRules:
    """The settings that decide something, for new attempts only. See `shared.settings`."""

    flow: Flow = Flow.PAYMENT_INTENT
    key_namespace: str = "usage-billing"
    former_namespaces: tuple[str, ...] = ()
    other_namespaces: tuple[str, ...] = ()
    currency: str = "usd"
    require_run: bool = True
    budget_seconds: float = 120.0
    lease_seconds: float = 180.0
    attempt_seconds: float = 35.0
    max_attempts: int = 2
    replay_hours: float = 23.0
    max_deliveries: int = 10
    max_requests_per_second: float = 0.0
    key_livemode: bool | None = None

    @property
    def namespaces(self) -> Namespaces:
        """What keys in the Stripe account may have been made under."""
        return Namespaces(self.key_namespace, self.former_namespaces, self.other_namespaces)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a delivery came to.

    Args:
        outcome: decides the settlement.
        event: the name under which it is logged and counted.
        record: the row behind it; None when there is none.
        code: Stripe's code, or ours.
        message: one sentence for people.
        resolved: a doubt ended here.
    """

    outcome: Outcome
    event: DecisionEvent
    record: Record | None = None
    code: str | None = None
    message: str = ""
    resolved: bool = False


class Biller:
    """Turns deliveries into charges for one worker process. Safe to share between threads.

    Args:
        records: the records.
        payments: Stripe.
        clock: time and chance.
        rules: the settings that decide something.
        breaker: shared by all that this instance does; made here if not given.
        keyring: opens the runs' vault keys; None where Stripe is called without them.
    """

    def __init__(
        self,
        records: Records,
        payments: Payments,
        clock: Clock,
        rules: BillingRules,
        breaker: Breaker | None = None,
        keyring: Keyring | None = None,
    ) -> None:
        self._keyring = keyring
        self._records = records
        self._clock = clock
        self._rules = rules
        self._breaker = breaker or Breaker(clock)
        throttle = Throttle(clock, rules.max_requests_per_second)
        self._calls = StripeCalls(payments, clock, throttle, rules.max_attempts)
        self._identity = StripeIdentity(records, self._calls, rules.key_livemode)

    @property
    def lease_seconds(self) -> float:
        """How long a delivery may take."""
        return self._rules.lease_seconds

    def handle(self, delivery: Delivery, settlement: Settlement) -> Outcome:
        """Handle one delivery to its settlement.

        Raises nothing that an event, Stripe, the database or the broker can cause: on Azure an
        exception would abandon the message at once, and on Pub/Sub it would be a nack.

        Args:
            delivery: the message as it came.
            settlement: called exactly once, after the record is durable.
        """
        started = self._clock.monotonic()
        decision = self._keep_if_near_limit(delivery, self._decide_safely(delivery))
        self._log(delivery.envelope, decision, self._clock.monotonic() - started)
        self._settle(delivery.envelope, decision, settlement)
        return decision.outcome

    def resume(self, record_id: RecordId) -> Outcome:
        """Drive an unfinished record on without a message, through the same code path.

        Raises:
            RecordsUnavailable: the database is away.
        """
        envelope = Envelope(RECONCILE)
        started = self._clock.monotonic()
        budget = self._new_budget()
        claim = self._records.resume(
            record_id, envelope, self._rules.lease_seconds, self._clock.token()
        )
        decision = self._follow_claim(claim, envelope, budget, body=b"")
        self._log(envelope, decision, self._clock.monotonic() - started)
        return decision.outcome

    def _decide_safely(self, delivery: Delivery) -> Decision:
        try:
            return self._decide(delivery)
        except RecordsUnavailable as error:
            return _transient("database_unavailable", str(error))
        except Exception as error:  # noqa: BLE001 (a defect must not become an abandon)
            return _transient("unexpected_error", describe_defect(error))

    def _decide(self, delivery: Delivery) -> Decision:
        try:
            event = parse_event(delivery.body, self._rules.currency)
        except InvalidEvent as error:
            return self._refuse_invalid(delivery, error)
        if self._breaker.is_open:
            return Decision(
                Outcome.TRANSIENT,
                DecisionEvent.BREAKER_OPEN,
                code="breaker_open",
                message="Stripe gives no clear answers; asking again in a while",
            )
        budget = self._new_budget()
        claim = self._records.claim(self._claim_request(event, delivery))
        decision = self._follow_claim(claim, delivery.envelope, budget, delivery.body)
        return _leave_higher_attempt(decision, event)

    def _refuse_invalid(self, delivery: Delivery, error: InvalidEvent) -> Decision:
        outcome = Outcome.INVALID_EVENT
        parked = ParkedEvent(outcome.reason, str(error), delivery.body)
        note = Note(delivery.envelope, DecisionEvent.INVALID_EVENT, code=error.field)
        self._records.park(parked, note)
        return Decision(outcome, DecisionEvent.INVALID_EVENT, code=error.field, message=str(error))

    def _claim_request(self, event: UsageEvent, delivery: Delivery) -> ClaimRequest:
        rules = self._rules
        key = idempotency_key(event.customer_id, event.billing_period, rules.key_namespace)
        return ClaimRequest(
            key=key,
            event=event,
            body=delivery.body,
            envelope=delivery.envelope,
            flow=rules.flow,
            create_parameters=create_parameters(event, key, rules.flow),
            require_run=rules.require_run,
            lease_seconds=rules.lease_seconds,
            token=self._clock.token(),
        )

    def _follow_claim(
        self, claim: ClaimResult, envelope: Envelope, budget: Budget, body: bytes
    ) -> Decision:
        if claim.verdict is not ClaimVerdict.CLAIMED or claim.record is None:
            return _decision_on_refused_claim(claim)
        key = open_key(self._keyring, claim)
        if isinstance(key, Concluded):
            concluded = key
        elif self._breaker.allows():
            concluded = self._drive(claim, claim.record, budget, key)
            self._tell_breaker(concluded)
        else:
            concluded = Concluded(Conclusion.TRANSIENT, code="breaker_open")
        decision = self._write_down(claim.record, concluded, envelope, body)
        if concluded.key_refused and self._keyring is not None:
            self._keyring.note_refusal(claim)
        return decision

    def _drive(self, claim: ClaimResult, record: Record, budget: Budget, key: OpenKey) -> Concluded:
        work = Work(
            record=record,
            database_time=claim.database_time,
            budget=budget,
            lease_seconds=self._rules.lease_seconds,
            records=self._records,
            calls=self._calls,
            identity=self._identity,
            vault_key=key.text,
            cap_is_whole=key.is_whole,
        )
        refused = self._identity.refuse(budget, work.vault_key)
        if refused is not None:
            return refused
        if record.flow is Flow.PAYMENT_INTENT:
            return charge_by_intent(work)
        return charge_at_once(work, self._rules.replay_hours)

    def _tell_breaker(self, concluded: Concluded) -> None:
        if concluded.conclusion not in (Conclusion.IN_DOUBT, Conclusion.TRANSIENT):
            self._breaker.note_clear()
        elif self._breaker.note_unclear():
            log_decision(
                DecisionEvent.BREAKER_OPEN,
                "no clear answers from Stripe; pausing",
                code=concluded.code,
            )

    def _write_down(
        self, record: Record, concluded: Concluded, envelope: Envelope, body: bytes
    ) -> Decision:
        conclusion = concluded.conclusion
        if conclusion is Conclusion.LEASE_LOST:
            return Decision(
                Outcome.IN_PROGRESS_ELSEWHERE,
                DecisionEvent.IN_PROGRESS_ELSEWHERE,
                record=record,
                code=concluded.code,
            )
        if conclusion in (Conclusion.IN_DOUBT, Conclusion.TRANSIENT, Conclusion.CONFLICT):
            return self._write_release(record, concluded, envelope, body)
        return self._write_ending(record, concluded, envelope, body)

    def _write_ending(
        self, record: Record, concluded: Concluded, envelope: Envelope, body: bytes
    ) -> Decision:
        state = State(concluded.conclusion)
        ending = Ending(state, concluded.payment_id, concluded.code)
        outcome = _outcome_of_ending(concluded)
        parked = _parked(outcome, concluded, envelope, body)
        event = _event_of(outcome)
        note = Note(envelope, event, concluded.code, concluded.request_id)
        result = self._records.finish(record, ending, note, parked)
        self._log_alarms(envelope, record, concluded, result)
        if not result.written and state is not State.CHARGED:
            return _decision_on_lost_write(result, is_parked=parked is not None)
        return Decision(
            outcome,
            event,
            result.record or record,
            concluded.code,
            _describe(concluded),
            resolved=record.doubts > 0,
        )

    def _write_release(
        self, record: Record, concluded: Concluded, envelope: Envelope, body: bytes
    ) -> Decision:
        decision = _decision_on_release(record, concluded)
        parked = _parked(decision.outcome, concluded, envelope, body)
        note = Note(envelope, decision.event, concluded.code, concluded.request_id)
        self._records.release(record.lease, _release_of(concluded), note, parked)
        return decision

    def _keep_if_near_limit(self, delivery: Delivery, decision: Decision) -> Decision:
        """Keep a message that its broker is about to give up on: reconcile delivers it since."""
        leaves = decision.outcome.disposition is Disposition.LEAVE
        if not (leaves and self._is_near_limit(delivery.envelope)):
            return decision
        try:
            event = parse_event(delivery.body, self._rules.currency)
            note = Note(delivery.envelope, DecisionEvent.HANDED_OVER, decision.code)
            self._records.keep(event, delivery.body, note)
        except (InvalidEvent, RecordsUnavailable):
            return decision
        except Exception as error:  # noqa: BLE001 (a defect must not become an abandon)
            return _transient("unexpected_error", describe_defect(error))
        return replace(decision, outcome=Outcome.HANDED_OVER, event=DecisionEvent.HANDED_OVER)

    def _is_near_limit(self, envelope: Envelope) -> bool:
        count = envelope.delivery_count
        return count is not None and count >= self._rules.max_deliveries - 1

    def _new_budget(self) -> Budget:
        return Budget(self._clock, self._rules.budget_seconds, self._rules.attempt_seconds)

    def _settle(self, envelope: Envelope, decision: Decision, settlement: Settlement) -> None:
        outcome = decision.outcome
        try:
            if outcome.disposition is Disposition.COMPLETE:
                settlement.complete()
            elif outcome.disposition is Disposition.DEAD_LETTER:
                settlement.dead_letter(outcome.reason, decision.message)
            else:
                settlement.leave()
        except SettlementFailed as error:
            event = DecisionEvent.LOCK_LOST if error.lock_lost else DecisionEvent.SETTLEMENT_FAILED
            log_decision(event, str(error), **_log_fields(envelope, decision))
        except Exception as error:  # noqa: BLE001 (the record is durable)
            log_decision(
                DecisionEvent.SETTLEMENT_FAILED,
                describe_defect(error),
                **_log_fields(envelope, decision),
            )

    def _log(self, envelope: Envelope, decision: Decision, seconds: float) -> None:
        fields = _log_fields(envelope, decision)
        log_decision(decision.event, decision.message, seconds=round(seconds, 3), **fields)
        if decision.resolved:
            log_decision(DecisionEvent.RESOLVED, f"a doubt ended as {decision.outcome}", **fields)

    def _log_alarms(
        self, envelope: Envelope, record: Record, concluded: Concluded, result: FinishResult
    ) -> None:
        fields = {
            "transport": envelope.transport,
            "key": record.key,
            "period": record.billing_period,
            "payment": concluded.payment_id,
        }
        if result.second_payment:
            log_decision(
                DecisionEvent.DOUBLE_CHARGE_DETECTED,
                "a second payment succeeded beside the recorded one",
                **fields,
            )
        if result.run_closed:
            log_decision(
                DecisionEvent.BLOCKED_BY_CAP,
                "late proof of money passed the cap; run closed",
                **fields,
            )


def _transient(code: str, message: str) -> Decision:
    return Decision(Outcome.TRANSIENT, DecisionEvent.TRANSIENT, code=code, message=message)


_ENDS_OF_AN_EARLIER_ATTEMPT = frozenset({Outcome.DECLINED, Outcome.REJECTED, Outcome.PROCESSING})


def _leave_higher_attempt(decision: Decision, event: UsageEvent) -> Decision:
    """Leave an event that asks for a later attempt than the one that has just been dealt with.

    It came before the earlier attempt was known to have failed; its next delivery opens its own.
    """
    record = decision.record
    asks_more = record is not None and event.attempt > record.attempt
    if not asks_more or decision.outcome not in _ENDS_OF_AN_EARLIER_ATTEMPT:
        return decision
    return replace(
        decision,
        outcome=Outcome.IN_PROGRESS_ELSEWHERE,
        event=DecisionEvent.IN_PROGRESS_ELSEWHERE,
        code="earlier_attempt_first",
    )


_OUTCOME_OF_REFUSAL = {
    ClaimVerdict.CONFLICT: Outcome.CONFLICT,
    ClaimVerdict.RUN_MISSING: Outcome.RUN_MISSING,
    ClaimVerdict.RUN_CLOSED: Outcome.RUN_CLOSED,
    ClaimVerdict.WRONG_CURRENCY: Outcome.WRONG_CURRENCY,
    ClaimVerdict.CAP_REACHED: Outcome.CAP_REACHED,
    ClaimVerdict.SUSPENDED: Outcome.TRANSIENT,
    ClaimVerdict.BUSY: Outcome.IN_PROGRESS_ELSEWHERE,
}

REFUSAL_MESSAGES = {
    ClaimVerdict.CONFLICT: "the event differs from the record, or another request has its key",
    ClaimVerdict.RUN_MISSING: "no run is open for this period yet",
    ClaimVerdict.RUN_CLOSED: "the run of this period is closed",
    ClaimVerdict.WRONG_CURRENCY: "the run of this period is in another currency",
    ClaimVerdict.CAP_REACHED: "the run's cap does not leave room for this amount",
    ClaimVerdict.SUSPENDED: "the database may have lost commits; nothing is charged until it is "
    "rebuilt from Stripe's list",
    ClaimVerdict.BUSY: "another consumer holds the record",
}
"""Why a claim was refused; the stores keep the same sentences with parked events."""


def _decision_on_refused_claim(claim: ClaimResult) -> Decision:
    if claim.verdict is ClaimVerdict.SETTLED and claim.record is not None:
        record = claim.record
        event = (
            DecisionEvent.PROCESSING
            if record.state is State.PROCESSING
            else DecisionEvent.DUPLICATE_PREVENTED
        )
        return Decision(
            OUTCOME_OF_STATE[record.state],
            event,
            record,
            record.code,
            f"already {record.state}",
        )
    outcome = _OUTCOME_OF_REFUSAL[claim.verdict]
    return Decision(
        outcome,
        _event_of(outcome),
        claim.record,
        code=str(claim.verdict),
        message=REFUSAL_MESSAGES[claim.verdict],
    )


def _decision_on_lost_write(result: FinishResult, *, is_parked: bool) -> Decision:
    """Somebody else moved the row on; what it says now is what this delivery comes to.

    Unless it would be dead-lettered without its copy, which its next delivery stores.
    """
    found = result.record
    if found is not None and found.state in FINAL:
        outcome = OUTCOME_OF_STATE[found.state]
        if is_parked or outcome.disposition is not Disposition.DEAD_LETTER:
            return Decision(outcome, DecisionEvent.DUPLICATE_PREVENTED, found)
    return Decision(
        Outcome.IN_PROGRESS_ELSEWHERE,
        DecisionEvent.IN_PROGRESS_ELSEWHERE,
        found,
        code="lease_lost",
    )


_OUTCOME_OF_RELEASE = {
    Conclusion.IN_DOUBT: Outcome.IN_DOUBT,
    Conclusion.TRANSIENT: Outcome.TRANSIENT,
    Conclusion.CONFLICT: Outcome.CONFLICT,
}


def _decision_on_release(record: Record, concluded: Concluded) -> Decision:
    outcome = _OUTCOME_OF_RELEASE[concluded.conclusion]
    event = _event_of(outcome)
    if concluded.misconfigured:
        event = DecisionEvent.STRIPE_AUTH_FAILED
    return Decision(outcome, event, record, concluded.code, _describe(concluded))


def _release_of(concluded: Concluded) -> Release:
    conclusion = concluded.conclusion
    doubt = conclusion is not Conclusion.TRANSIENT
    # Where the key is taken by another request, only an operator can tell what it was.
    due_in_seconds = None if conclusion is Conclusion.CONFLICT else RELEASE_PAUSE_SECONDS
    return Release(doubt, concluded.create_in_doubt, concluded.code, due_in_seconds)


def _outcome_of_ending(concluded: Concluded) -> Outcome:
    if concluded.conclusion is Conclusion.PARKED and concluded.code == "cap_reached":
        return Outcome.CAP_REACHED
    return OUTCOME_OF_STATE[State(concluded.conclusion)]


_EVENT_OF_OUTCOME = {
    Outcome.CAP_REACHED: DecisionEvent.BLOCKED_BY_CAP,
    Outcome.RUN_CLOSED: DecisionEvent.PARKED,
    Outcome.WRONG_CURRENCY: DecisionEvent.PARKED,
    Outcome.RUN_MISSING: DecisionEvent.TRANSIENT,
    Outcome.CANCELED: DecisionEvent.DUPLICATE_PREVENTED,
}


def _event_of(outcome: Outcome) -> DecisionEvent:
    return _EVENT_OF_OUTCOME.get(outcome) or DecisionEvent(outcome.value)


def _parked(
    outcome: Outcome, concluded: Concluded, envelope: Envelope, body: bytes
) -> ParkedEvent | None:
    """The message to keep whole beside its dead-lettering; reconcile has none."""
    if outcome.disposition is not Disposition.DEAD_LETTER or envelope.transport == RECONCILE:
        return None
    return ParkedEvent(outcome.reason, _describe(concluded), body)


def _describe(concluded: Concluded) -> str:
    parts = [part for part in (concluded.code, concluded.message) if part]
    return ": ".join(parts)


def _log_fields(envelope: Envelope, decision: Decision) -> dict[str, str | int | None]:
    record = decision.record
    return {
        "transport": envelope.transport,
        "message_id": envelope.message_id or None,
        "delivery_count": envelope.delivery_count,
        "outcome": str(decision.outcome),
        "code": decision.code,
        "key": record.key if record else None,
        "period": record.billing_period if record else None,
        "attempt": record.attempt if record else None,
        "payment": record.payment_id if record else None,
    }
