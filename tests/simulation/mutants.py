"""The billing code with one safety removed at a time, for the simulation to catch.

Each mutant changes the real code in place, through pytest's `monkeypatch`.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from local.simulation import Flows, Invariant
from shared import biller, charge_flow, intent_flow, stripe_answers
from shared.biller import Biller, Decision
from shared.budget import Budget
from shared.conclusion import Concluded, Conclusion
from shared.decision_log import DecisionEvent
from shared.event import UsageEvent
from shared.intent_flow import Intent
from shared.keyring import OpenKey
from shared.outcome import Outcome
from shared.ports import (
    ClaimRequest,
    ClaimResult,
    ClaimVerdict,
    Delivery,
    Ending,
    Envelope,
    FinishResult,
    Note,
    ParkedEvent,
    Release,
    Settlement,
    StripeRequest,
)
from shared.reconcile import KeptSettlement
from shared.record import UNFINISHED, Flow, Lease, Record, RecordId, State, Verdict
from shared.store.memory import MemoryStore, _Row
from shared.stripe_answers import Answer, AnswerKind
from shared.stripe_calls import CallResult
from shared.stripe_requests import create_charge
from shared.work import Work


@dataclass(frozen=True, slots=True)
class Mutant:
    """The code without one of its safeties.

    Args:
        name: what is removed.
        apply: removes it.
        violates: the invariants that can break first.
        flows: the flows to look in; None lets the seeds choose.
    """

    name: str
    apply: Callable[[pytest.MonkeyPatch], None]
    violates: tuple[Invariant, ...]
    flows: Flows | None = None


def _no_cancel_before_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    def conclude_at_once(
        charge: intent_flow._IntentCharge, intent: Intent, verdict: Verdict
    ) -> Concluded:
        return charge._conclude_canceled(intent, verdict)

    monkeypatch.setattr(intent_flow._IntentCharge, "_cancel", conclude_at_once)


def _confirm_what_was_just_created(monkeypatch: pytest.MonkeyPatch) -> None:
    def store(charge: intent_flow._IntentCharge, answer: Answer) -> Intent | None:
        created = intent_flow._read_intent_object(answer)
        if created is not None:
            charge._work.records.store_payment(charge._record.lease, created.id)
        return created

    monkeypatch.setattr(intent_flow._IntentCharge, "_store", store)


def _confirm_without_storing(monkeypatch: pytest.MonkeyPatch) -> None:
    def store(_: intent_flow._IntentCharge, answer: Answer) -> Intent | None:
        return intent_flow._read_intent_object(answer)

    monkeypatch.setattr(intent_flow._IntentCharge, "_store", store)


def _no_stored_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(store: MemoryStore, lease: Lease, verdict: Verdict) -> bool:
        return store._held(lease) is not None

    monkeypatch.setattr(MemoryStore, "store_verdict", forget)


def _server_error_is_a_decline(monkeypatch: pytest.MonkeyPatch) -> None:
    classify_error = stripe_answers._classify_error

    def classify(status: int, error: stripe_answers._Error) -> AnswerKind:
        return AnswerKind.DECLINED if status >= 500 else classify_error(status, error)

    monkeypatch.setattr(stripe_answers, "_classify_error", classify)


def _lost_answer_counts_as_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(charge: intent_flow._IntentCharge, intent: Intent, doubt: Concluded) -> Concluded:
        return Concluded(Conclusion.CHARGED, intent.id)

    monkeypatch.setattr(intent_flow._IntentCharge, "_look_after_doubt", look)


def _message_id_in_the_key_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    follow_claim = Biller._follow_claim

    def follow(
        self: Biller, claim: ClaimResult, envelope: Envelope, budget: Budget, body: bytes
    ) -> Decision:
        if claim.record is not None:
            key = _volatile_key(claim.record.key, envelope)
            claim = replace(claim, record=replace(claim.record, key=key))
        return follow_claim(self, claim, envelope, budget, body)

    monkeypatch.setattr(Biller, "_follow_claim", follow)


def _message_id_in_the_key_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = MemoryStore.claim

    def claim_under_volatile_key(store: MemoryStore, request: ClaimRequest) -> ClaimResult:
        key = _volatile_key(request.key, request.envelope)
        return claim(store, replace(request, key=key))

    monkeypatch.setattr(MemoryStore, "claim", claim_under_volatile_key)


def _volatile_key(key: str, envelope: Envelope) -> str:
    return hashlib.sha256(f"{key}{envelope.message_id}".encode()).hexdigest()[:32]


def _no_fence_on_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    write_ending = MemoryStore._write_ending

    def write_anyway(
        store: MemoryStore, row: _Row | None, record: Record, ending: Ending
    ) -> FinishResult:
        if row is None or row.record.state not in UNFINISHED or ending.state is State.CHARGED:
            return write_ending(store, row, record, ending)
        store._end(row, ending)
        return FinishResult(row.record, written=True)

    monkeypatch.setattr(MemoryStore, "_write_ending", write_anyway)


def _hold_released_on_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    release = MemoryStore.release

    def release_all(
        store: MemoryStore, lease: Lease, given: Release, note: Note, parked: ParkedEvent | None
    ) -> None:
        release(store, lease, given, note, parked)
        row = store._rows[lease.record_id]
        run = store._runs.get(lease.record_id.billing_period)
        if given.doubt and run is not None and row.record.state in UNFINISHED:
            held_cents = run.held_cents - row.record.held_cents
            store._runs[run.billing_period] = replace(run, held_cents=held_cents)
            store._update(row, held_cents=0)

    monkeypatch.setattr(MemoryStore, "release", release_all)


def _cap_checked_but_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = MemoryStore._hold

    def check(store: MemoryStore, request: ClaimRequest) -> tuple[ClaimVerdict | None, int]:
        runs = dict(store._runs)
        refusal, _ = hold(store, request)
        store._runs = runs
        return refusal, 0

    monkeypatch.setattr(MemoryStore, "_hold", check)


def _held_beyond_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = MemoryStore._hold

    def hold_anyway(store: MemoryStore, request: ClaimRequest) -> tuple[ClaimVerdict | None, int]:
        refusal, held_cents = hold(store, request)
        if refusal is not ClaimVerdict.CAP_REACHED:
            return refusal, held_cents
        amount_cents = request.event.amount_cents
        run = store._runs[request.event.billing_period]
        store._runs[run.billing_period] = replace(run, held_cents=run.held_cents + amount_cents)
        return None, amount_cents

    monkeypatch.setattr(MemoryStore, "_hold", hold_anyway)


def _money_forgotten_in_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    end = MemoryStore._end

    def end_without_run(store: MemoryStore, row: _Row, ending: Ending) -> bool:
        runs = dict(store._runs)
        end(store, row, ending)
        store._runs = runs
        return False

    monkeypatch.setattr(MemoryStore, "_end", end_without_run)


def _flow_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    drive = Biller._drive

    def drive_by_setting(
        self: Biller, claim: ClaimResult, record: Record, budget: Budget, key: OpenKey
    ) -> Concluded:
        methods = ("enabled", "true"), ("allow_redirects", "never")
        parameters = dict(record.create_parameters)
        for name, value in methods:
            parameters.pop(f"automatic_payment_methods[{name}]", None)
            if self._rules.flow is Flow.PAYMENT_INTENT:
                parameters[f"automatic_payment_methods[{name}]"] = value
        record = replace(record, flow=self._rules.flow, create_parameters=parameters)
        return drive(self, claim, record, budget, key)

    monkeypatch.setattr(Biller, "_drive", drive_by_setting)


def _settled_before_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = Biller.handle

    def settle_first(self: Biller, delivery: Delivery, settlement: Settlement) -> Outcome:
        charged = Decision(Outcome.CHARGED, DecisionEvent.CHARGED)
        self._settle(delivery.envelope, charged, settlement)
        return handle(self, delivery, settlement)

    monkeypatch.setattr(Biller, "handle", settle_first)


def _dead_lettered_without_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(store: MemoryStore, parked: ParkedEvent, note: Note) -> None:
        """Keep nothing of the message."""

    monkeypatch.setattr(MemoryStore, "park", lose)


def _key_trusted_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    charge_at_once = charge_flow.charge_at_once

    def charge(work: Work, replay_hours: float) -> Concluded:
        return charge_at_once(work, 24.0 * 365)

    monkeypatch.setattr(biller, "charge_at_once", charge)


def _new_key_on_takeover(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_anew(record: Record) -> StripeRequest:
        request = create_charge(record)
        return replace(request, idempotency_key=f"{request.idempotency_key}:{record.fence}")

    monkeypatch.setattr(charge_flow, "create_charge", create_anew)


def _final_rows_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    decide_claim = MemoryStore._decide_claim

    def decide_anew(store: MemoryStore, request: ClaimRequest) -> ClaimVerdict:
        row = store._rows.get(RecordId(request.event.customer_id, request.event.billing_period))
        if row is not None and row.record.state is State.CHARGED:
            return store._start_attempt(row, request)
        return decide_claim(store, request)

    monkeypatch.setattr(MemoryStore, "_decide_claim", decide_anew)


def _doubt_is_left_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def due_never(concluded: Concluded) -> Release:
        return Release(doubt=True, create_in_doubt=False, code=None, due_in_seconds=None)

    monkeypatch.setattr(biller, "_release_of", due_never)


def _defect(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(result: CallResult, *, create: bool = False) -> Concluded:
        raise KeyError("a defect")

    monkeypatch.setattr(intent_flow, "conclude_unclear", fail)


def _defect_in_reconcile(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Biller, record_id: RecordId) -> Outcome:
        raise KeyError("a defect")

    monkeypatch.setattr(Biller, "resume", fail)


def _settled_without_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep_nothing(store: MemoryStore, event: UsageEvent, body: bytes, note: Note) -> None:
        """Keep nothing of the message."""

    monkeypatch.setattr(MemoryStore, "keep", keep_nothing)


def _kept_message_dropped_when_it_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeptSettlement, "leave", KeptSettlement.complete)


def _higher_attempt_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle_anyway(decision: Decision, event: UsageEvent) -> Decision:
        return decision

    monkeypatch.setattr(biller, "_leave_higher_attempt", settle_anyway)


_TWO_STEPS = Flows.PAYMENT_INTENT

MUTANTS = (
    Mutant(
        "no cancel before declined",
        _no_cancel_before_declined,
        (Invariant.NO_MONEY, Invariant.RECORD_FIRST, Invariant.ONE_CHARGE),
        _TWO_STEPS,
    ),
    Mutant(
        "confirm what was just created, not what is stored",
        _confirm_what_was_just_created,
        (Invariant.ONE_CHARGE, Invariant.RECORD_FIRST),
        _TWO_STEPS,
    ),
    Mutant("confirm without storing", _confirm_without_storing, (Invariant.RECORD_FIRST,)),
    Mutant("no stored verdict", _no_stored_verdict, (Invariant.RIGHTLY_PARKED,), _TWO_STEPS),
    Mutant(
        "a server error is a decline",
        _server_error_is_a_decline,
        (Invariant.NO_MONEY, Invariant.RIGHTLY_REFUSED),
    ),
    Mutant(
        "a lost answer counts as charged",
        _lost_answer_counts_as_charged,
        (Invariant.PAID_AS_RECORDED,),
        _TWO_STEPS,
    ),
    Mutant(
        "the message id in the key that is sent",
        _message_id_in_the_key_sent,
        (Invariant.ONE_CHARGE, Invariant.NO_MONEY),
        Flows.CHARGE,
    ),
    Mutant(
        "the message id in the key that is stored",
        _message_id_in_the_key_stored,
        (Invariant.BUSINESS_KEY,),
    ),
    Mutant(
        "no fence on finish",
        _no_fence_on_finish,
        (
            Invariant.FORWARD,
            Invariant.NO_MONEY,
            Invariant.OWN_PAYMENT,
            Invariant.RIGHTLY_PARKED,
        ),
    ),
    Mutant("the hold released on doubt", _hold_released_on_doubt, (Invariant.HOLD_STAYS,)),
    Mutant("the cap checked but not held", _cap_checked_but_not_held, (Invariant.HOLD_STAYS,)),
    Mutant("held beyond the cap", _held_beyond_the_cap, (Invariant.WITHIN_CAP,)),
    Mutant(
        "the run's money not moved with the record",
        _money_forgotten_in_the_run,
        (Invariant.BOOKS_AGREE,),
    ),
    Mutant(
        "the flow from the settings, not from the row",
        _flow_from_the_settings,
        (Invariant.ONE_CHARGE, Invariant.RECORD_FIRST, Invariant.COMES_TO_REST),
        Flows.MIXED,
    ),
    Mutant("settled before the record", _settled_before_the_record, (Invariant.DURABLE,)),
    Mutant(
        "dead-lettered without a copy", _dead_lettered_without_a_copy, (Invariant.PARKED_WHOLE,)
    ),
    Mutant(
        "the idempotency key trusted for ever",
        _key_trusted_for_ever,
        (Invariant.ONE_CHARGE, Invariant.NO_MONEY),
        Flows.CHARGE,
    ),
    Mutant(
        "a new key on takeover",
        _new_key_on_takeover,
        (Invariant.ONE_CHARGE, Invariant.NO_MONEY),
        Flows.CHARGE,
    ),
    Mutant("final rows expire", _final_rows_expire, (Invariant.FORWARD,)),
    Mutant("doubt is left to nobody", _doubt_is_left_to_nobody, (Invariant.COMES_TO_REST,)),
    Mutant(
        "a higher attempt swallowed by an earlier one",
        _higher_attempt_swallowed,
        (Invariant.DURABLE,),
    ),
    Mutant(
        "settled near the limit without keeping", _settled_without_keeping, (Invariant.DURABLE,)
    ),
    Mutant(
        "a kept message dropped when it is left",
        _kept_message_dropped_when_it_is_left,
        (Invariant.DURABLE,),
    ),
    Mutant("a defect", _defect, (Invariant.NO_DEFECT,), _TWO_STEPS),
    Mutant("a defect in reconcile", _defect_in_reconcile, (Invariant.NO_DEFECT,)),
)
