"""The ports of the core: what it asks of the world. Adapters and the simulator implement them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal, Protocol

from shared.event import Fingerprint, UsageEvent
from shared.record import Flow, Lease, Record, RecordId, State, Verdict


class Clock(Protocol):
    """Time and chance. Every wait and every random choice of the core goes through here."""

    def monotonic(self) -> float:
        """Seconds since some start; must go on while the machine is suspended."""

    def now(self) -> datetime:
        """The present moment in UTC."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def random(self) -> float:
        """A number in [0, 1)."""

    def token(self) -> str:
        """A fresh UUID in its usual form."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the broker says about a delivery. None of it ever decides a charge.

    Args:
        transport: `servicebus`, `pubsub-push`, `pubsub-pull`, or `reconcile`.
        message_id: as the broker gives it; empty when it gives none.
        delivery_count: 1 for the first delivery; None when the broker does not count.
        attributes: the message's own properties, kept with a parked event.
    """

    transport: str
    message_id: str = ""
    delivery_count: int | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of one message."""

    body: bytes
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the attempts table: which delivery, and what was decided about it."""

    envelope: Envelope
    decision: str
    code: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class ParkedEvent:
    """A message that is about to be dead-lettered, kept whole."""

    reason: str
    description: str
    body: bytes


@dataclass(frozen=True, slots=True)
class KeptMessage:
    """A message that its broker was about to give up on, and that reconcile delivers since.

    Args:
        number: its place among the kept messages.
        event_id: whom and what it bills.
        attempt: as its event says.
        delivery: its body and its envelope, which counts deliveries no more.
        age_seconds: since it was kept.
    """

    number: int
    event_id: RecordId
    attempt: int
    delivery: Delivery
    age_seconds: float


@dataclass(frozen=True, slots=True)
class DueRecord:
    """An unfinished record that a reconciler has taken up.

    Args:
        record: as it was then.
        age_seconds: since its attempt began.
    """

    record: Record
    age_seconds: float


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """Everything that the first claim of an attempt stores, and everything a later one is held to.

    Args:
        key: the idempotency key.
        event: the parsed event.
        body: the raw message, kept when the claim is refused.
        envelope: the delivery that asks.
        flow: the flow for a new attempt; an existing attempt keeps its own.
        create_parameters: the exact form of the create request for a new attempt.
        require_run: whether a period without a run has to wait.
        lease_seconds: how long the claim holds if nobody finishes or releases it.
        token: names this claim, so that sending it again after a lost answer changes nothing.
    """

    key: str
    event: UsageEvent
    body: bytes
    envelope: Envelope
    flow: Flow
    create_parameters: Mapping[str, str]
    require_run: bool
    lease_seconds: float
    token: str


class ClaimVerdict(StrEnum):
    """How a claim was answered."""

    CLAIMED = "claimed"
    SETTLED = "settled"
    BUSY = "busy"
    CONFLICT = "conflict"
    RUN_MISSING = "run_missing"
    RUN_CLOSED = "run_closed"
    WRONG_CURRENCY = "wrong_currency"
    CAP_REACHED = "cap_reached"
    SUSPENDED = "suspended"


@dataclass(frozen=True, slots=True)
class ClaimedKey:
    """The vault key of a claimed record's run.

    Args:
        key_id: names it.
        sealed_text: the encrypted key.
        is_whole: its cap is all that the run's cap leaves: what it refuses, the run's cap refuses.
    """

    key_id: str
    sealed_text: str = field(repr=False)
    is_whole: bool


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The answer to a claim.

    Args:
        verdict: how it was answered.
        record: the row as it now is; None when there is none.
        database_time: the database's clock, the only one that ages are counted by.
        vault_key: of the record's run; None when there is none, or the record is not claimed.
    """

    verdict: ClaimVerdict
    record: Record | None
    database_time: datetime
    vault_key: ClaimedKey | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """What a record ends as (or `processing`, or `parked`).

    Args:
        state: the state to write. `charged` is proof of money and is written whatever the fence.
        payment_id: the PaymentIntent or charge; None when there is none.
        code: a short machine-readable reason; None for a charge.
    """

    state: State
    payment_id: str | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class FinishResult:
    """What became of an ending.

    Args:
        record: the row as it now is; None when it is gone.
        written: False when the fence had moved on or the row was already final.
        second_payment: proof came of a payment other than the recorded one: a double charge.
        run_closed: recording the money passed the cap, so the run was closed.
    """

    record: Record | None
    written: bool
    second_payment: bool = False
    run_closed: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """Giving up the lease without an ending. The hold always stays.

    Args:
        doubt: Stripe may have acted: a row in progress becomes in doubt.
        create_in_doubt: a PaymentIntent may exist at Stripe that the row does not name.
        code: what stood in the way.
        due_in_seconds: when reconcile looks at the row at the earliest; None for never (an
            operator must).
    """

    doubt: bool
    create_in_doubt: bool
    code: str | None
    due_in_seconds: float | None


@dataclass(frozen=True, slots=True)
class Identity:
    """The Stripe account and mode that this database serves; None while not known."""

    account_id: str | None
    livemode: bool | None


class Records(Protocol):
    """The records, as the billing core needs them. Each call is one transaction.

    Every method may raise `RecordsUnavailable`: then the write may or may not have happened, and
    sending it again is safe.
    """

    def identify(self, account_id: str | None, livemode: bool | None) -> Identity:
        """Store what is not stored yet, and return what is stored. The first writer wins."""

    def claim(self, request: ClaimRequest) -> ClaimResult:
        """Insert the row or take it over, hold the amount against the cap, or say why not.

        A refusal that dead-letters the message keeps its body among the parked events.
        """

    def resume(
        self, record_id: RecordId, envelope: Envelope, lease_seconds: float, token: str
    ) -> ClaimResult:
        """Take over an unfinished row without a message. Checks nothing of the run."""

    def store_payment(self, lease: Lease, payment_id: str) -> str | None:
        """Store the id of a created PaymentIntent, unless one is stored already.

        Returns:
            The stored id, which alone may be confirmed; None when the lease is no longer ours.
        """

    def store_verdict(self, lease: Lease, verdict: Verdict) -> bool:
        """Store why the PaymentIntent is about to be canceled; False: the lease is not ours."""

    def finish(
        self, record: Record, ending: Ending, note: Note, parked: ParkedEvent | None
    ) -> FinishResult:
        """Write the ending and move the money in the run, in one transaction."""

    def release(
        self, lease: Lease, release: Release, note: Note, parked: ParkedEvent | None
    ) -> None:
        """End the lease at once. Does nothing when the lease is no longer ours."""

    def park(self, parked: ParkedEvent, note: Note) -> None:
        """Keep a message that has no record."""

    def keep(self, event: UsageEvent, body: bytes, note: Note) -> None:
        """Keep a whole message, to be delivered by reconcile in the broker's place."""

    def take_due(self, lease_seconds: float) -> DueRecord | None:
        """Take up the unfinished record that has been due for longest; None when none is.

        It rests from now on for as long as its work may take, and longer each time, so that no
        other reconciler takes it up meanwhile and one that dies loses nothing.

        Args:
            lease_seconds: how long the work may take.
        """

    def take_kept(self, lease_seconds: float) -> KeptMessage | None:
        """Take up the kept message that has been due for longest; see `take_due`."""

    def drop_kept(self, number: int) -> None:
        """Forget a kept message that is done with."""


@dataclass(frozen=True, slots=True)
class Run:
    """One billing period's spend. Amounts are in the currency's smallest unit."""

    billing_period: str
    currency: str
    expected_cents: int
    cap_cents: int
    held_cents: int
    charged_cents: int
    is_open: bool
    closed_reason: str | None
    opened_at: datetime


class Runs(Protocol):
    """The runs, as the mint timer and the operator's commands need them."""

    def open_run(
        self, billing_period: str, currency: str, expected_cents: int, cap_cents: int
    ) -> tuple[Run, bool]:
        """Open the period's run, counting what its records already hold and charged.

        The period's kept messages are due at once.

        Returns:
            The run, and whether this call opened it. An existing run is returned as it is.
        """

    def get_run(self, billing_period: str) -> Run | None:
        """The run, or None."""

    def close_run(self, billing_period: str, reason: str) -> Run:
        """Refuse new claims from now on. Raises `RunError` when there is no such run."""

    def reopen_run(self, billing_period: str) -> Run:
        """Accept claims again in a run that was closed by hand. An open run is returned as it is.

        The period's kept messages are due at once.

        Raises:
            RunError: no such run, or it closed because its cap was passed: raise the cap.
        """

    def raise_cap(self, billing_period: str, cap_cents: int) -> Run:
        """Set a higher cap and reopen a run that closed over its cap.

        A cap that is as high already is left as it is: asking again after a lost answer is safe.
        Where the run is open then, the period's kept messages are due at once.

        Raises:
            RunError: no such run, or the new cap is lower.
        """


@dataclass(frozen=True, slots=True)
class StoredKey:
    """The vault key of a run, as the database keeps it.

    Args:
        key_id: names it at its service.
        sealed_text: the encrypted key.
        flows: whose endpoints it may call.
        run_cap_cents: the run's cap when it was minted.
        is_whole: nothing was held at the proxy then: its cap is all that the run had left.
        minted_at: when it was minted.
        expires_at: when it stops working.
    """

    key_id: str
    sealed_text: str = field(repr=False)
    flows: frozenset[Flow]
    run_cap_cents: int
    is_whole: bool
    minted_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class WatchedRun:
    """A run that needs a vault key, or has one.

    Args:
        billing_period: the run's.
        currency: the run's.
        cap_cents: the run's cap now.
        is_wanted: it is open, or has unfinished records, or somebody has to search through it.
        is_searched: Stripe's lists have to be read with its key, for what the records do not know.
        unfinished_flows: the flows of its unfinished records.
        generation: raised by whoever replaces the key; 0 for a run that never had one.
        key: the stored one; None where there is none.
        refused_at: when the proxy refused it; None where it did not.
        database_time: the database's clock.
    """

    billing_period: str
    currency: str
    cap_cents: int
    is_wanted: bool
    is_searched: bool
    unfinished_flows: frozenset[Flow]
    generation: int
    key: StoredKey | None
    refused_at: datetime | None
    database_time: datetime


@dataclass(frozen=True, slots=True)
class BegunKey:
    """A key whose replacement was begun.

    Args:
        generation: under which alone something may be stored now.
        key_id: the key that was stored at that moment; None where there was none.
    """

    generation: int
    key_id: str | None


@dataclass(frozen=True, slots=True)
class RunMoney:
    """A run's cap, and what was charged under it."""

    cap_cents: int
    charged_cents: int


class RunKeys(Protocol):
    """The vault keys of the runs. Each call is one transaction.

    Every method may raise `RecordsUnavailable`: then the write may or may not have happened, and
    sending it again is safe.
    """

    def watch_runs(self) -> Sequence[WatchedRun]:
        """The runs that need a key or have one."""

    def begin_key(self, billing_period: str, generation: int) -> BegunKey | None:
        """Raise the generation, so that nobody stores a key under this one any more.

        Args:
            billing_period: the run's.
            generation: as it was seen.

        Returns:
            None when it is another one: somebody else is at it.
        """

    def forget_key(self, billing_period: str, generation: int) -> RunMoney | None:
        """Hand out the stored key no more, and read what its successor may spend.

        Returns:
            None when the generation is another one.
        """

    def store_key(self, billing_period: str, generation: int, key: StoredKey) -> bool:
        """Store a new key; False when the generation is another one."""

    def refuse_key(self, billing_period: str, key_id: str) -> None:
        """Note that the proxy refused a key; nothing if another one is stored by now."""

    def any_key(self) -> ClaimedKey | None:
        """A key to read Stripe with: of any run, the one that may call most."""


class Timers(Protocol):
    """Keeps timers that fire twice, or in both clouds at once, from running twice."""

    def take_timer_lease(self, name: str, lease_seconds: float) -> bool:
        """Take a timer's lease; False when it was taken and has not run out.

        It ends by running out: shorter than the timer's interval, longer than the moment within
        which doubled firings come.

        Raises:
            RecordsUnavailable: the database is away.
        """


@dataclass(frozen=True, slots=True)
class AttemptLine:
    """One row of the attempts table."""

    noted_at: datetime
    attempt: int | None
    fence: int | None
    transport: str
    message_id: str
    delivery_count: int | None
    decision: str
    code: str | None
    request_id: str | None


@dataclass(frozen=True, slots=True)
class PeriodStatus:
    """A period at a glance."""

    billing_period: str
    run: Run | None
    count_by_state: Mapping[State, int]
    cents_by_state: Mapping[State, int]
    parked_event_count: int
    kept_message_count: int
    oldest_unfinished: Record | None
    database_time: datetime


class Reports(Protocol):
    """What the operator's commands read."""

    def status(self, billing_period: str) -> PeriodStatus:
        """Counts by state, the run, and the oldest record that is not finished."""

    def get_record(self, record_id: RecordId) -> Record | None:
        """The record, or None."""

    def attempts(self, record_id: RecordId, limit: int) -> Sequence[AttemptLine]:
        """The newest attempts of a record, oldest of them first."""

    def due(self, limit: int) -> Sequence[RecordId]:
        """What reconcile would take up now, records and kept messages, oldest first."""


@dataclass(frozen=True, slots=True)
class RecordLine:
    """What an audit compares of a record.

    Args:
        record_id: whose it is.
        fingerprint: what is to be paid by whom.
        state: where it stands.
        payment_id: the PaymentIntent or charge that it names.
        held_cents: what it holds against the cap.
        is_leased: somebody is at work on it.
        started_at: when its attempt was claimed.
    """

    record_id: RecordId
    fingerprint: Fingerprint
    state: State
    payment_id: str | None
    held_cents: int
    is_leased: bool
    started_at: datetime


@dataclass(frozen=True, slots=True)
class RunSums:
    """What a run says that it holds and has charged, and what its records add up to."""

    billing_period: str
    currency: str
    held_cents: int
    charged_cents: int
    records_held_cents: int
    records_charged_cents: int


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Some of the records, in the order of their primary key.

    Args:
        lines: those that were asked for.
        last: where the batch ends; None when nothing comes after it.
    """

    lines: Sequence[RecordLine]
    last: RecordId | None


class Books(Protocol):
    """The records as an audit reads them. Nothing can be written through it.

    Every method may raise `RecordsUnavailable`.
    """

    def known_identity(self) -> Identity:
        """The Stripe account and mode that the records belong to, as far as they are known."""

    def database_time(self) -> datetime:
        """The database's clock."""

    def beginning(self, billing_period: str) -> datetime | None:
        """When the period's run was opened or its first record claimed; None: never."""

    def batch(
        self, billing_period: str | None, since: datetime, after: RecordId | None, limit: int
    ) -> RecordBatch:
        """Read on through the records.

        Args:
            billing_period: only of this period; None for all.
            since: only records whose attempt was claimed since.
            after: the end of the batch before; None for the first.
            limit: look at no more records than that.
        """

    def line(self, record_id: RecordId) -> RecordLine | None:
        """One record as it is now, or None."""

    def named(self, payment_ids: frozenset[str]) -> frozenset[str]:
        """Those of some payments that any record names. Reads all records: few calls, many ids."""

    def run_sums(self, billing_period: str) -> RunSums | None:
        """A run and its records at one moment; None when there is no run."""


class Finding(StrEnum):
    """What a payment that was found at Stripe proves."""

    CHARGED = "charged"
    PROCESSING = "processing"
    UNCONFIRMED = "unconfirmed"


@dataclass(frozen=True, slots=True)
class FoundPayment:
    """A payment of ours, as one of Stripe's lists shows it.

    Args:
        payment_id: the PaymentIntent or charge.
        finding: what it proves.
        record_id: whose it is, by its metadata.
        key: the idempotency key in its metadata.
        attempt: the attempt that it was made for.
        fingerprint: amount, currency and Stripe customer of the payment itself.
        flow: how it was made.
        create_parameters: what its create request was, as far as it can still be seen.
        payment_method_id: what it is to be paid with; None for the customer's default.
        created_at: by Stripe's clock.
        is_own: its metadata name the record; else an operator does.
    """

    payment_id: str
    finding: Finding
    record_id: RecordId
    key: str
    attempt: int
    fingerprint: Fingerprint
    flow: Flow
    create_parameters: Mapping[str, str]
    payment_method_id: str | None
    created_at: datetime
    is_own: bool = True


class Adoption(StrEnum):
    """What a found payment came to."""

    RESTORED = "restored"
    BROUGHT_FORWARD = "brought_forward"
    KNOWN = "known"
    BESIDE = "beside"
    SECOND_PAYMENT = "second_payment"


@dataclass(frozen=True, slots=True)
class AdoptResult:
    """What became of a found payment.

    Args:
        adoption: restored: there was no record, now there is one. Brought forward: the record was
            behind. Known: nothing to do. Beside: the record is about another payment, and keeps it.
            Second payment: money moved twice.
        record: the row as it now is; None where a dry run found none.
        run_closed: recording the money passed the cap, so the run was closed.
    """

    adoption: Adoption
    record: Record | None
    run_closed: bool = False


class Adoptions(Protocol):
    """Payments that Stripe knows better than the records. Each call is one transaction."""

    def adopt(self, found: FoundPayment, envelope: Envelope, *, dry_run: bool) -> AdoptResult:
        """Record what a found payment proves. Doing it again changes nothing.

        A record is never moved backwards: proof of money is always written, anything less only
        where the record knows less.

        Args:
            found: the payment.
            envelope: who found it.
            dry_run: only say what it would come to.

        Raises:
            RecordsUnavailable: it may or may not be recorded; doing it again is safe.
        """


@dataclass(frozen=True, slots=True)
class Rebuild:
    """The rebuild of a database that lost commits, as far as it got.

    Args:
        id: its number.
        history: the server and timeline that it is about.
        noticed_at: when the loss was noticed, by the database's clock.
        since: nothing older than this is lost.
        list_path: the list that is being read; None before the first.
        cursor: where the reading of it got to; None for its beginning.
        database_time: the database's clock now.
    """

    id: int
    history: str
    noticed_at: datetime
    since: datetime
    list_path: str | None
    cursor: str | None
    database_time: datetime


class Rebuilds(Adoptions, Protocol):
    """A database that may have lost commits, and how it becomes whole again."""

    def begin_rebuild(self, told_since: datetime | None, margin_seconds: float) -> Rebuild | None:
        """Begin a rebuild, or go on with the one that was begun.

        Args:
            told_since: an operator's word that commits after this moment are lost; suspends the
                database, whatever its timeline says. None goes by the timeline alone.
            margin_seconds: how much further back to look.

        Returns:
            None when the database is whole.
        """

    def note_rebuild_place(self, rebuild: Rebuild, list_path: str, cursor: str | None) -> None:
        """Remember that every page before this place is adopted."""

    def finish_rebuild(self, rebuild: Rebuild) -> bool:
        """Declare the history whole. False when it is not the one any more that was rebuilt."""


@dataclass(frozen=True, slots=True)
class DoubtedCreate:
    """A record for which a PaymentIntent may exist that it does not name.

    Args:
        record_id: the record.
        since: no PaymentIntent of it is older.
        database_time: the database's clock, read before Stripe is asked.
    """

    record_id: RecordId
    since: datetime
    database_time: datetime


class Orphanage(Adoptions, Protocol):
    """The records that may have left PaymentIntents behind."""

    def doubted_creates(self, limit: int, quiet_seconds: float) -> Sequence[DoubtedCreate]:
        """Some of the records whose create was in doubt, in no order; none while suspended.

        Args:
            limit: the most to return.
            quiet_seconds: only records that were not touched for so long.
        """

    def get_record(self, record_id: RecordId) -> Record | None:
        """The record, or None."""

    def clear_create_doubt(self, record: Record) -> bool:
        """Note that nothing was left behind, unless the record was touched meanwhile."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """What the database holds for one customer and period: all that a claim would look at.

    Args:
        record: the row; None when there is none.
        run: the period's; None when there is none.
        awaits_operator: the row is unfinished, and reconcile does not look at it either.
        is_suspended: the database may have lost commits, so that nothing is charged.
        database_time: its clock.
    """

    record: Record | None
    run: Run | None
    awaits_operator: bool
    is_suspended: bool
    database_time: datetime


class Prospects(Protocol):
    """What a delivery would find, without delivering anything."""

    def prospects(self, record_ids: Sequence[RecordId]) -> Mapping[RecordId, Prospect]:
        """One for each id, all of them of one moment."""


@dataclass(frozen=True, slots=True)
class ParkedMessage:
    """A dead-lettered message as our own table keeps it.

    Args:
        number: its place in the table.
        parked: why it was dead-lettered, and its body.
        envelope: how it came.
        parked_at: when.
        resubmitted_at: when it was last delivered again from the table; None for never.
    """

    number: int
    parked: ParkedEvent
    envelope: Envelope
    parked_at: datetime
    resubmitted_at: datetime | None


class ParkedMessages(Protocol):
    """The table of dead-lettered messages, as the operator's commands need it."""

    def parked_messages(self, after_number: int, limit: int) -> Sequence[ParkedMessage]:
        """The next ones behind a number, oldest first."""

    def resubmit_parked(self, number: int, event: UsageEvent) -> bool:
        """Have reconcile deliver it as if it had just come, and note the moment.

        Both or neither is done, and doing it twice has it delivered once.

        Returns:
            False when it is not there any more.
        """

    def drop_parked(self, number: int) -> bool:
        """Remove it; False when it is not there any more."""


@dataclass(frozen=True, slots=True)
class StripeRequest:
    """One request to Stripe's API.

    Args:
        method: HTTP method.
        path: begins with `/v1/`.
        parameters: flat form fields in Stripe's bracket notation.
        idempotency_key: for POST; None for GET.
    """

    method: Literal["get", "post"]
    path: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class StripeResponse:
    """What came back over HTTP, unread. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class NoResponse:
    """Nothing complete came back.

    Args:
        sent: False only when it is certain that Stripe got nothing (refused, DNS, connect timeout).
        problem: the kind of transport error, in a word or two.
    """

    sent: bool
    problem: str


class Payments(Protocol):
    """One HTTP attempt at Stripe. Reads nothing into the answer and never retries."""

    def send(
        self, request: StripeRequest, timeout_seconds: float, vault_key: str | None = None
    ) -> StripeResponse | NoResponse:
        """Send the request once.

        Args:
            request: what to send.
            timeout_seconds: the total time for connecting and the whole answer; cut off after it.
            vault_key: used in place of the configured API key; None for that one.
        """


class Settlement(Protocol):
    """The broker's side of one delivery. The core calls exactly one of these, after the record."""

    def complete(self) -> None:
        """The message is done with. Raises `SettlementFailed`."""

    def dead_letter(self, reason: str, description: str) -> None:
        """Move the message to the dead letters. Raises `SettlementFailed`."""

    def leave(self) -> None:
        """Let the broker deliver it again after its own pause: no abandon, no nack, no error."""
