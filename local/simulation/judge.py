"""The judge: looks at Stripe's ledger and at the database after every effect.

It believes neither what the code under test says nor what it logs.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from local.simulation.broker import Message, MessageState
from local.simulation.plan import KEY_NAMESPACE, PERIOD, EventKind, Plan, customer_id_of
from local.simulation.stage import Stage
from local.stripe_simulator import LedgerEntry, StripeModel
from local.stripe_simulator.keyring import DEFAULT_ACCOUNT
from shared.key import idempotency_key
from shared.ports import Run
from shared.record import FINAL, UNFINISHED, Flow, Record, RecordId, State
from shared.runs import CLOSED_OVER_CAP
from shared.store.memory import KeptLine, MemoryStore

NO_MONEY = frozenset({State.DECLINED, State.REJECTED, State.PARKED, State.CANCELED})
NEEDS_NO_MESSAGE = FINAL | {State.PROCESSING, State.PARKED}


class Invariant(StrEnum):
    """What must hold, in words."""

    ONE_CHARGE = "at most one payment for each customer and period"
    WITHIN_CAP = "charged and held money stays within the cap"
    RECORD_FIRST = "every payment is the one that a record named before"
    OWN_PAYMENT = "a record names a payment of its own attempt"
    NO_MONEY = "a record that says that no money moved is right for ever"
    DURABLE = "a completed message has a record that needs it no more, or is kept"
    PARKED_WHOLE = "a dead-lettered message lies whole among the parked events"
    HOLD_STAYS = "an unfinished record keeps its hold"
    BOOKS_AGREE = "a run's sums are those of its records"
    FORWARD = "a record never moves backwards"
    BUSINESS_KEY = "a key comes from business fields alone"
    NO_DEFECT = "nothing unexpected happens in the code under test"
    COMES_TO_REST = "once faults stop, everything ends"
    PAID_AS_RECORDED = "a charged record has its one payment, of the right amount and customer"
    RIGHTLY_REFUSED = "whoever can pay is charged"
    RIGHTLY_PARKED = "a payment that we canceled is not taken for somebody else's doing"


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold, and where."""

    invariant: Invariant
    detail: str


class Judge:
    """Watches one simulation; keeps the first violation and stops it.

    Args:
        stage: the trace, and the scheduler to stop.
        plan: who is billed what.
        store: the database.
        model: Stripe, for its ledger.
    """

    def __init__(self, stage: Stage, plan: Plan, store: MemoryStore, model: StripeModel) -> None:
        self._stage = stage
        self._plan = plan
        self._store = store
        self._model = model
        self._ledger = model.ledger
        self._seen_entries = 0
        self._paid_cents = 0
        self._payments: dict[RecordId, LedgerEntry] = {}
        self._records: dict[RecordId, Record] = {}
        self._tried: Counter[RecordId] = Counter()
        self._kept: dict[int, KeptLine] = {}
        self._run: Run | None = None
        self._excused: set[str] = set()
        self._canceled_elsewhere: set[str] = set()
        self.violation: Violation | None = None
        self.on_refused: Callable[[Record], None] = lambda _: None

    def excuse(self, stripe_customer_id: str | None) -> None:
        """Note that this customer has been refused for a reason, or may yet be."""
        if stripe_customer_id is not None:
            self._excused.add(stripe_customer_id)

    def note_cancel(self, payment_id: str) -> None:
        """Note that somebody else cancels this payment."""
        self._canceled_elsewhere.add(payment_id)

    def condemn(self, invariant: Invariant, detail: str) -> None:
        """Note a violation. Only the first counts; the simulation stops."""
        if self.violation is None:
            self.violation = Violation(invariant, detail)
            self._stage.tell("judge", "violation", f"{invariant}: {detail}")
        self._stage.scheduler.stop()

    def look(self) -> None:
        """Judge what has changed since the last look."""
        run = self._store.get_run(PERIOD)
        has_changed = run is not self._run or len(self._ledger) > self._seen_entries
        for entry in self._ledger.entries(self._seen_entries):
            self._judge_payment(entry)
        self._seen_entries = len(self._ledger)
        for record in self._store.records():
            before = self._records.get(record.record_id)
            if record is not before:
                has_changed = True
                self._judge_record(before, record)
                self._records[record.record_id] = record
                if record.state in (State.DECLINED, State.REJECTED):
                    self.on_refused(record)
        if run is not None and has_changed:
            self._judge_run(run)
        self._run = run
        self._look_at_kept()

    def judge_settlement(self, message: Message) -> None:
        """Judge a message that the broker has just let go."""
        if message.state is MessageState.DEAD:
            if not self._is_parked(message):
                self.condemn(Invariant.PARKED_WHOLE, message.message_id)
            return
        is_kept = any(
            line.body == message.body and line.envelope.message_id == message.message_id
            for line in self._kept.values()
        )
        if not is_kept:
            record_id = _record_id(message.about.customer)
            self._judge_durable(message.message_id, record_id, message.about.attempt)

    def judge_end(self, messages: list[Message]) -> None:
        """Judge what is left when all has come to rest."""
        for record in self._store.records():
            self._judge_ended(record)
        for record_id in self._payments:
            if record_id not in self._records:
                self.condemn(Invariant.PAID_AS_RECORDED, f"{record_id.customer_id} has no record")
        for message in messages:
            self._judge_message_end(message)
        for line in self._kept.values():
            self.condemn(Invariant.COMES_TO_REST, f"{line.envelope.message_id} is still kept")

    def _look_at_kept(self) -> None:
        """Judge the kept messages that are gone since the last look."""
        kept = {line.number: line for line in self._store.kept_messages}
        for number in self._kept.keys() - kept.keys():
            line, event = self._kept[number], self._kept[number].event
            if not self._is_body_parked(line.body):
                record_id = RecordId(event.customer_id, event.billing_period)
                self._judge_durable(line.envelope.message_id, record_id, event.attempt)
        self._kept = kept

    def _judge_durable(self, message_id: str, record_id: RecordId, attempt: int) -> None:
        record = self._store.get_record(record_id)
        if record is None:
            self.condemn(Invariant.DURABLE, f"{message_id} has no record")
        elif record.state is not State.CHARGED and attempt > self._tried[record_id]:
            self.condemn(Invariant.DURABLE, f"{message_id} was not tried: {record.state}")

    def _judge_payment(self, entry: LedgerEntry) -> None:
        record_id = RecordId(entry.metadata["customer_id"], entry.metadata["billing_period"])
        shown = f"{record_id.customer_id} {entry.charge[-6:]}"
        attempt = entry.metadata["attempt"]
        self._stage.tell("ledger", "payment", f"{shown} {entry.amount} attempt {attempt}")
        record = self._store.get_record(record_id)
        if record_id in self._payments:
            self.condemn(Invariant.ONE_CHARGE, shown)
        self._payments[record_id] = entry
        self._paid_cents += entry.amount
        if record is None:
            self.condemn(Invariant.RECORD_FIRST, shown)
        elif record.state in NO_MONEY:
            self.condemn(Invariant.NO_MONEY, f"{shown} {record.state}")
        elif not _is_named(entry, record):
            self.condemn(Invariant.RECORD_FIRST, f"{shown} is not the one that the record names")

    def _judge_record(self, before: Record | None, record: Record) -> None:
        shown = f"{record.customer_id} {record.state}"
        if record.state in NEEDS_NO_MESSAGE:
            self._tried[record.record_id] = record.attempt
        if record.state in NO_MONEY and record.record_id in self._payments:
            self.condemn(Invariant.NO_MONEY, shown)
        if record.state is State.CHARGED and record.record_id not in self._payments:
            self.condemn(Invariant.PAID_AS_RECORDED, f"{shown} but nothing was paid")
        if record.key != idempotency_key(record.customer_id, PERIOD, KEY_NAMESPACE):
            self.condemn(Invariant.BUSINESS_KEY, shown)
        if record.state in UNFINISHED and record.held_cents != self._hold_due(record):
            self.condemn(Invariant.HOLD_STAYS, f"{shown} holds {record.held_cents}")
        is_ours = record.payment_id not in self._canceled_elsewhere
        if record.code == "canceled_elsewhere" and is_ours:
            self.condemn(Invariant.RIGHTLY_PARKED, shown)
        if record.payment_id is not None and not self._is_own(record.payment_id, record):
            self.condemn(Invariant.OWN_PAYMENT, f"{shown} {record.payment_id[-6:]}")
        if before is not None and not _is_forward(before, record):
            self.condemn(Invariant.FORWARD, f"{shown} after {before.state}")

    def _is_own(self, payment_id: str, record: Record) -> bool:
        scope = self._model.world.scope(DEFAULT_ACCOUNT, livemode=False)
        payment = scope.payment_intents.get(payment_id) or scope.charges.get(payment_id)
        return payment is not None and payment.metadata == {
            "chargeonce_key": record.key,
            "attempt": str(record.attempt),
            "customer_id": record.customer_id,
            "billing_period": record.billing_period,
        }

    def _hold_due(self, record: Record) -> int:
        return record.fingerprint.amount_cents if self._plan.require_run else 0

    def _judge_run(self, run: Run) -> None:
        records = self._records.values()
        held_cents = sum(record.held_cents for record in records)
        charged_cents = sum(
            record.fingerprint.amount_cents for record in records if record.state is State.CHARGED
        )
        if (held_cents, charged_cents) != (run.held_cents, run.charged_cents):
            shown = f"{run.held_cents} held, {run.charged_cents} charged"
            self.condemn(Invariant.BOOKS_AGREE, shown)
        spent_cents = max(charged_cents + held_cents, self._paid_cents)
        if spent_cents > run.cap_cents and run.closed_reason != CLOSED_OVER_CAP:
            self.condemn(Invariant.WITHIN_CAP, f"{spent_cents} of {run.cap_cents}")

    def _is_parked(self, message: Message) -> bool:
        return any(
            line.body == message.body and line.envelope.message_id == message.message_id
            for line in self._store.parked_events
        )

    def _is_body_parked(self, body: bytes) -> bool:
        return any(line.body == body for line in self._store.parked_events)

    def _judge_ended(self, record: Record) -> None:
        entry = self._payments.get(record.record_id)
        shown = f"{record.customer_id} {record.state}"
        if record.state not in FINAL and record.state is not State.PARKED:
            self.condemn(Invariant.COMES_TO_REST, shown)
        if (entry is not None) != (record.state is State.CHARGED):
            self.condemn(Invariant.PAID_AS_RECORDED, shown)
        if entry is not None and not _is_right(entry, record):
            self.condemn(Invariant.PAID_AS_RECORDED, f"{shown} {entry.charge[-6:]}")
        stripe_customer_id = record.fingerprint.stripe_customer_id
        if record.state in NO_MONEY and stripe_customer_id not in self._excused:
            self.condemn(Invariant.RIGHTLY_REFUSED, f"{shown} {record.code}")

    def _judge_message_end(self, message: Message) -> None:
        """Its event has a record, or lies among the parked events, under whatever message id."""
        has_record = (
            message.about.kind is not EventKind.INVALID
            and _record_id(message.about.customer) in self._records
        )
        if not has_record and not self._is_body_parked(message.body):
            self.condemn(Invariant.COMES_TO_REST, f"{message.message_id} was forgotten")


def _record_id(customer: int) -> RecordId:
    return RecordId(customer_id_of(customer), PERIOD)


def _is_named(entry: LedgerEntry, record: Record) -> bool:
    if record.flow is Flow.CHARGE:
        return entry.metadata["attempt"] == str(record.attempt)
    return entry.payment_intent == record.payment_id


def _is_right(entry: LedgerEntry, record: Record) -> bool:
    expected = record.fingerprint
    return (entry.amount, entry.currency, entry.customer) == (
        expected.amount_cents,
        expected.currency,
        expected.stripe_customer_id,
    ) and record.payment_id in (entry.payment_intent, entry.charge)


def _is_forward(before: Record, record: Record) -> bool:
    same_attempt = before.attempt_fence == record.attempt_fence
    return (
        record.fence >= before.fence
        and record.attempt >= before.attempt
        and before.state is not State.CHARGED
        and not (same_attempt and before.state in FINAL and record.state in UNFINISHED)
        and not (same_attempt and before.payment_id not in (None, record.payment_id))
    )
