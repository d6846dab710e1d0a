"""The billing code with one safety removed at a time, for the simulation to catch.

Each mutant changes the real code in place, through pytest's `monkeypatch`.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from local.simulation import Flows
from shared import biller, charge_flow, intent_flow, stripe_answers
from shared.biller import Biller, Decision
from shared.budget import Budget
from shared.conclusion import Concluded
from shared.intent_flow import Intent
from shared.outcome import Disposition, Outcome
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
)
from shared.record import UNFINISHED, Flow, Lease, Record, State, Verdict
from shared.store.memory import MemoryStore, _Row
from shared.stripe_answers import Answer, AnswerKind
from shared.work import Work

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """The code without one of its safeties.

    Args:
        name: what is removed.
        apply: removes it.
        flows: where it matters; None lets the seeds choose.
        seeds_at_most: it must be caught within so many.
    """

    name: str
    apply: Patch
    flows: Flows | None
    seeds_at_most: int


def _no_cancel_before_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    def conclude_at_once(
        charge: intent_flow._IntentCharge, intent: Intent, verdict: Verdict
    ) -> Concluded:
        return charge._conclude_canceled(intent, verdict)

    monkeypatch.setattr(intent_flow._IntentCharge, "_cancel", conclude_at_once)


def _confirm_what_was_just_created(monkeypatch: pytest.MonkeyPatch) -> None:
    def store(charge: intent_flow._IntentCharge, answer: Answer) -> Intent | Concluded:
        created = intent_flow._read_intent_object(answer)
        assert created is not None
        charge._work.records.store_payment(charge._record.lease, created.id)
        return created

    monkeypatch.setattr(intent_flow._IntentCharge, "_store", store)


def _confirm_without_storing(monkeypatch: pytest.MonkeyPatch) -> None:
    def store(charge: intent_flow._IntentCharge, answer: Answer) -> Intent | Concluded:
        created = intent_flow._read_intent_object(answer)
        assert created is not None
        return created

    monkeypatch.setattr(intent_flow._IntentCharge, "_store", store)


def _no_stored_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def store_verdict(store: MemoryStore, lease: Lease, verdict: Verdict) -> bool:
        return store._held(lease) is not None

    monkeypatch.setattr(MemoryStore, "store_verdict", store_verdict)


def _server_error_is_a_decline(monkeypatch: pytest.MonkeyPatch) -> None:
    classify_error = stripe_answers._classify_error

    def classify(status: int, error: stripe_answers._Error) -> AnswerKind:
        return AnswerKind.DECLINED if status >= 500 else classify_error(status, error)

    monkeypatch.setattr(stripe_answers, "_classify_error", classify)


def _lost_answer_is_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def conclude(result: object, *, create: bool = False) -> Concluded:
        from shared.conclusion import Conclusion

        return Concluded(Conclusion.REJECTED, code="no_answer")

    monkeypatch.setattr(charge_flow, "conclude_unclear", conclude)


def _message_id_in_key(monkeypatch: pytest.MonkeyPatch) -> None:
    follow_claim = Biller._follow_claim

    def follow(
        self: Biller, claim: ClaimResult, envelope: Envelope, budget: Budget, body: bytes
    ) -> Decision:
        if claim.record is not None:
            volatile = f"{claim.record.key}{envelope.message_id}".encode()
            key = hashlib.sha256(volatile).hexdigest()[:32]
            claim = replace(claim, record=replace(claim.record, key=key))
        return follow_claim(self, claim, envelope, budget, body)

    monkeypatch.setattr(Biller, "_follow_claim", follow)


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


def _no_fence_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def held(store: MemoryStore, lease: Lease) -> _Row | None:
        row = store._rows.get(lease.record_id)
        return row if row is not None and row.record.state in UNFINISHED else None

    monkeypatch.setattr(MemoryStore, "_held", held)


def _release_hold_on_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
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


def _check_cap_without_holding(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = MemoryStore._hold

    def check(store: MemoryStore, request: ClaimRequest) -> tuple[ClaimVerdict | None, int]:
        before = dict(store._runs)
        refusal, _ = hold(store, request)
        store._runs = before
        return refusal, 0

    monkeypatch.setattr(MemoryStore, "_hold", check)


def _flow_from_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    drive = Biller._drive

    def drive_by_setting(
        self: Biller, claim: ClaimResult, record: Record, budget: Budget
    ) -> Concluded:
        flow = self._rules.flow
        parameters = dict(record.create_parameters)
        for name in ("enabled", "allow_redirects"):
            parameters.pop(f"automatic_payment_methods[{name}]", None)
        if flow is Flow.PAYMENT_INTENT:
            parameters["automatic_payment_methods[enabled]"] = "true"
            parameters["automatic_payment_methods[allow_redirects]"] = "never"
        record = replace(record, flow=flow, create_parameters=parameters)
        return drive(self, claim, record, budget)

    monkeypatch.setattr(Biller, "_drive", drive_by_setting)


def _settle_before_record(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = Biller.handle

    def settle_first(self: Biller, delivery: Delivery, settlement: Settlement) -> Outcome:
        self._settle(
            delivery.envelope, Decision(Outcome.CHARGED, biller.DecisionEvent.CHARGED), settlement
        )
        return handle(self, delivery, settlement)

    monkeypatch.setattr(Biller, "handle", settle_first)


def _trust_key_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def charge(work: Work, replay_hours: float) -> Concluded:
        return charge_flow.charge_at_once(work, 1e9)

    monkeypatch.setattr(biller, "charge_at_once", charge)


def _final_rows_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = MemoryStore._decide_claim

    def decide_claim(store: MemoryStore, request: ClaimRequest) -> ClaimVerdict:
        verdict = decide(store, request)
        for row in store._rows.values():
            if row.record.key == request.key and row.record.state is State.CHARGED:
                return store._start_attempt(row, request)
        return verdict

    monkeypatch.setattr(MemoryStore, "_decide_claim", decide_claim)


def _rekey_on_takeover(monkeypatch: pytest.MonkeyPatch) -> None:
    create_charge = charge_flow.create_charge

    def rekeyed(record: Record) -> object:
        request = create_charge(record)
        return replace(request, idempotency_key=f"{request.idempotency_key}:{record.fence}")

    monkeypatch.setattr(charge_flow, "create_charge", rekeyed)


MUTANTS = (
    Mutant("no cancel before declined", _no_cancel_before_declined, None, 200),
    Mutant("confirm what was just created", _confirm_what_was_just_created, None, 500),
    Mutant("confirm without storing", _confirm_without_storing, None, 200),
    Mutant("no stored verdict", _no_stored_verdict, None, 200),
    Mutant("a server error is a decline", _server_error_is_a_decline, None, 200),
    Mutant("message id in the key", _message_id_in_key, None, 200),
    Mutant("no fence on finish", _no_fence_on_finish, None, 200),
    Mutant("no fence at all", _no_fence_at_all, None, 200),
    Mutant("hold released on doubt", _release_hold_on_doubt, None, 200),
    Mutant("cap checked, not held", _check_cap_without_holding, None, 200),
    Mutant("flow from the settings", _flow_from_settings, None, 200),
    Mutant("settled before the record", _settle_before_record, None, 200),
    Mutant("key trusted for ever", _trust_key_for_ever, None, 200),
    Mutant("final rows expire", _final_rows_expire, None, 200),
    Mutant("new key on takeover", _rekey_on_takeover, None, 200),
)
