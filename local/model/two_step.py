"""The two-step charge of one customer, as a machine whose every state can be visited.

Workers stand for whatever holds a claim: a consumer of either cloud, reconcile, an operator. Fences
are compared for equality alone, so a worker only knows whether its own is still the row's; leases
are taken to run out at any moment. That keeps the machine finite without a bound on deliveries,
crashes or claims: what is found here holds for any number of them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple

from local.model.search import Step
from local.model.transitions import Cause, after
from shared.record import FINAL, UNFINISHED, State

NO_MONEY = frozenset({State.DECLINED, State.REJECTED, State.PARKED, State.CANCELED})


class Rule(StrEnum):
    """A rule of the design. The check is made with all of them, and once without each."""

    CANCEL_BEFORE_ENDING = "no declined or rejected record without a cancel that Stripe confirmed"
    CONFIRM_STORED = "only the stored PaymentIntent is confirmed"
    STORE_ONCE = "the first id that is stored stays"
    FENCE_ENDINGS = "an ending without money is written by the newest claim alone"
    FENCE_STORE = "a PaymentIntent is stored by the newest claim alone"
    STORE_VERDICT = "the verdict is written down before the cancel"
    RECORD_FIRST = "nothing is sent before the claim is durable"
    MISSING_IS_DOUBT = "a stored PaymentIntent that is not there is a doubt, no rejection"
    CHECK_ACCOUNT = "a consumer of another Stripe account sends nothing"
    ROW_DECIDES_FLOW = "the row says by which flow an attempt is charged, not the settings"
    SWEEP_DECIDED = "an orphan is swept only when its record names another or is final"
    SUSPEND_AFTER_LOSS = "nothing is charged after lost commits until Stripe's list was read"
    REBUILD_WHEN_QUIET = "Stripe's list is read when nothing sent before the loss can be under way"
    NEW_CREATE_KEY = "a parked record goes on with the next create key"


class Status(IntEnum):
    """How a PaymentIntent stands. FRESH awaits its first confirm, FAILED has an error to show."""

    FRESH = 0
    FAILED = 1
    PROCESSING = 2
    SUCCEEDED = 3
    CANCELED = 4


class At(IntEnum):
    """What a worker does next."""

    IDLE = 0
    CREATE = 1
    STORE = 2
    READ = 3
    CONFIRM = 4
    LOOK = 5
    JUDGE = 6
    CANCEL = 7
    END = 8
    CHARGE = 9


class Row(NamedTuple):
    """The record. `payment` is the place of its PaymentIntent, from 1; 0 is none."""

    state: State
    attempt: int = 1
    number: int = 0
    payment: int = 0
    verdict: State | None = None
    is_one_step: bool = False


class Intent(NamedTuple):
    """A PaymentIntent at Stripe."""

    status: Status
    attempt: int
    number: int
    is_foreign: bool = False


class Worker(NamedTuple):
    """Who holds a claim, or held one. `holds`: its fence is still the row's."""

    at: At = At.IDLE
    holds: bool = False
    attempt: int = 0
    number: int = 0
    payment: int = 0
    verdict: State | None = None


IDLE = Worker()


class Request(NamedTuple):
    """A request that Stripe has not executed yet although nobody waits for its answer."""

    kind: str
    attempt: int
    number: int
    payment: int


class World(NamedTuple):
    """Everything.

    `keys` are the create keys that Stripe remembers, each with its PaymentIntent; `charges` are the
    one-step charges, each with its attempt and whether it succeeded; `older` is what the database
    would be thrown back to.
    """

    row: Row | None = None
    intents: tuple[Intent, ...] = ()
    keys: tuple[tuple[int, int, int], ...] = ()
    late: tuple[Request, ...] = ()
    workers: tuple[Worker, ...] = (IDLE, IDLE)
    charges: tuple[tuple[int, bool], ...] = ()
    older: Row | None = None
    is_suspended: bool = False
    losses_left: int = 0
    is_canceled_outside: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """What may happen in one search.

    Args:
        workers: how many hold or have held a claim at once.
        attempts: the highest attempt that an event asks for.
        numbers: how often a parked record goes on.
        late: how many requests may be under way with nobody waiting.
        outsiders: others cancel PaymentIntents at Stripe.
        operator: an operator cancels records.
        sweeper: orphans are swept.
        foreign: the last worker is set to another Stripe account.
        switches: the last worker is set to the one-step flow.
        losses: how often the database loses its last commits.
        without: the rules that are left out.
    """

    workers: int = 2
    attempts: int = 1
    numbers: int = 0
    late: int = 1
    outsiders: bool = False
    operator: bool = False
    sweeper: bool = False
    foreign: bool = False
    switches: bool = False
    losses: int = 0
    without: frozenset[Rule] = field(default_factory=frozenset)

    def keeps(self, rule: Rule) -> bool:
        """Whether a rule is in force."""
        return rule not in self.without


class TwoStep:
    """The machine.

    Args:
        scope: what may happen in it.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    @property
    def start(self) -> World:
        """Nothing has happened yet."""
        return World(workers=(IDLE,) * self._scope.workers, losses_left=self._scope.losses)

    @property
    def invariants(self) -> dict[str, Callable[[World], bool]]:
        """What must hold in every state."""
        return {
            "at most one payment succeeds": lambda world: _paid(world) <= 1,
            "a record without money is right for ever": _is_right_without_money,
            "a charged record has its payment": _is_right_with_money,
            "no money without a record that names its payment": _is_named,
            "only somebody else's cancel parks a record": self._is_rightly_parked,
            "money moves in our own account": _is_own,
        }

    def is_at_rest(self, world: World) -> bool:
        """Whether the record needs nobody any more, and the books say what Stripe says."""
        row = world.row
        is_settled = row is not None and (row.state in FINAL or row.state is State.PARKED)
        return is_settled and not world.is_suspended

    def steps(self, world: World) -> Iterator[Step[World]]:
        """Everything that can happen now."""
        for label, after_it, is_fault in self._raw_steps(world):
            yield Step(label, self._canonical(after_it), is_fault)

    def _raw_steps(self, world: World) -> Iterator[tuple[str, World, bool]]:
        yield from self._of_stripe(world)
        yield from self._of_others(world)
        for place, worker in enumerate(world.workers):
            if worker.at is At.IDLE:
                yield from self._of_idle(world, place)
                continue
            yield f"worker {place} dies", _with_worker(world, place, IDLE), True
            yield from self._of_busy(world, place, worker)

    def _of_stripe(self, world: World) -> Iterator[tuple[str, World, bool]]:
        for key in world.keys:
            keys = tuple(other for other in world.keys if other != key)
            yield f"Stripe forgets create key {key[:2]}", world._replace(keys=keys), True
        for request in world.late:
            late = list(world.late)
            late.remove(request)
            without = world._replace(late=tuple(late))
            yield f"a late {request.kind} is lost", without, False
            for executed, _ in self._execute(without, request, is_foreign=False):
                yield f"a late {request.kind} arrives", executed, False
        for place, intent in enumerate(world.intents, 1):
            if intent.status is Status.PROCESSING:
                for status in (Status.SUCCEEDED, Status.FAILED):
                    yield (
                        f"the bank answers: {status.name}",
                        _with_status(world, place, status),
                        False,
                    )

    def _of_others(self, world: World) -> Iterator[tuple[str, World, bool]]:
        scope = self._scope
        for place, intent in enumerate(world.intents, 1):
            if intent.status not in (Status.FRESH, Status.FAILED):
                continue
            canceled = _with_status(world, place, Status.CANCELED)
            if scope.outsiders:
                outside = canceled._replace(is_canceled_outside=True)
                yield f"somebody cancels PaymentIntent {place}", outside, True
            if scope.sweeper and self._is_swept(world.row, place, intent):
                yield f"the sweep cancels PaymentIntent {place}", canceled, False
                if len(world.late) < scope.late:
                    request = Request("cancel", 0, 0, place)
                    yield "the sweep's cancel is late", _with_late(world, request), True
        if scope.losses:
            yield from self._of_loss(world)

    def _is_swept(self, row: Row | None, place: int, intent: Intent) -> bool:
        if row is None or row.payment == place or intent.attempt > row.attempt:
            return False
        is_decided = row.payment != 0 or row.state in FINAL
        return is_decided or not self._scope.keeps(Rule.SWEEP_DECIDED)

    def _of_loss(self, world: World) -> Iterator[tuple[str, World, bool]]:
        if world.losses_left and world.row != world.older:
            yield "the database is backed up", world._replace(older=world.row), True
            lost = _fence_off(world, world.older)._replace(
                losses_left=world.losses_left - 1,
                is_suspended=self._scope.keeps(Rule.SUSPEND_AFTER_LOSS),
                older=None,
            )
            yield "the database loses commits", lost, True
        if world.is_suspended:
            is_quiet = not world.late and all(worker.at is At.IDLE for worker in world.workers)
            if is_quiet or not self._scope.keeps(Rule.REBUILD_WHEN_QUIET):
                yield "the database is rebuilt from Stripe's list", _rebuild(world), False

    def _of_idle(self, world: World, place: int) -> Iterator[tuple[str, World, bool]]:
        if world.is_suspended:
            return
        yield from self._reconciled(world, place)
        for attempt in range(1, self._scope.attempts + 1):
            label = f"worker {place} gets attempt {attempt}'s event"
            row = self._claim(world.row, attempt, place)
            if row is not None:
                yield label, self._begin(world, place, row), False
            elif not self._scope.keeps(Rule.RECORD_FIRST) and world.row is None:
                ahead = Worker(At.CREATE, holds=True, attempt=attempt)
                yield label, _with_worker(world, place, ahead), False
        if self._scope.operator and world.row is not None:
            yield from self._canceled(world, place, world.row)

    def _claim(self, row: Row | None, attempt: int, place: int) -> Row | None:
        """The row after an event's claim; None when the claim gets nothing."""
        is_one_step = self._scope.switches and place == self._scope.workers - 1
        if row is None:
            if not self._scope.keeps(Rule.RECORD_FIRST):
                return None
            state = _after(None, Cause.CLAIMED)
            return Row(state, attempt, is_one_step=is_one_step)
        if row.state in (State.DECLINED, State.REJECTED) and attempt > row.attempt:
            state = _after(row.state, Cause.ASKED_AGAIN)
            return Row(state, attempt, is_one_step=is_one_step)
        if row.state is State.PARKED and row.number < self._scope.numbers:
            number = row.number + self._scope.keeps(Rule.NEW_CREATE_KEY)
            state = _after(row.state, Cause.DELIVERED_AGAIN)
            return Row(state, row.attempt, number, is_one_step=row.is_one_step)
        if row.state in (State.IN_PROGRESS, State.IN_DOUBT):
            return row._replace(state=_after(row.state, Cause.TAKEN_OVER))
        return None

    def _reconciled(self, world: World, place: int) -> Iterator[tuple[str, World, bool]]:
        row = world.row
        if row is not None and row.state is State.PROCESSING:
            taken = row._replace(state=_after(row.state, Cause.TAKEN_OVER))
            yield f"worker {place} reconciles", self._begin(world, place, taken), False

    def _canceled(self, world: World, place: int, row: Row) -> Iterator[tuple[str, World, bool]]:
        label = f"an operator cancels at worker {place}"
        if row.state in (State.DECLINED, State.REJECTED, State.PARKED):
            closed = row._replace(state=_after(row.state, Cause.CLOSED))
            yield label, _fence_off(world, closed), False
        elif row.state in UNFINISHED and not row.is_one_step:
            if row.payment == 0:
                ended = row._replace(state=_after(row.state, Cause.CANCELED))
                yield label, _fence_off(world, ended), False
            else:
                judged = row._replace(verdict=State.CANCELED)
                yield label, self._begin(world, place, judged), False

    def _begin(self, world: World, place: int, row: Row) -> World:
        """Give the newest claim to a worker; everybody else's fence is old from now on."""
        fenced = _fence_off(world, row)
        is_foreign = self._is_foreign(place)
        if is_foreign and self._scope.keeps(Rule.CHECK_ACCOUNT):
            return fenced
        charges_at_once = row.is_one_step
        if not self._scope.keeps(Rule.ROW_DECIDES_FLOW):
            charges_at_once = self._scope.switches and place == self._scope.workers - 1
        at = At.READ if row.payment else At.CREATE
        worker = Worker(
            At.CHARGE if charges_at_once else at,
            holds=True,
            attempt=row.attempt,
            number=row.number,
            payment=row.payment,
            verdict=row.verdict if self._scope.keeps(Rule.STORE_VERDICT) else None,
        )
        return _with_worker(fenced, place, worker)

    def _of_busy(
        self, world: World, place: int, worker: Worker
    ) -> Iterator[tuple[str, World, bool]]:
        if worker.at is At.STORE:
            yield f"worker {place} stores", self._store(world, place, worker), False
        elif worker.at is At.JUDGE:
            yield f"worker {place} stores its verdict", self._judge(world, place, worker), False
        elif worker.at is At.END:
            yield f"worker {place} writes the ending", self._end(world, place, worker), False
        elif worker.at is At.CHARGE:
            yield from self._charge_at_once(world, place, worker)
        else:
            yield from self._call(world, place, worker)
            yield from self._refusals(world, place, worker)

    def _call(self, world: World, place: int, worker: Worker) -> Iterator[tuple[str, World, bool]]:
        """A request whose answer comes, is lost, or comes to nobody because Stripe is late."""
        kind = _KIND_OF_STEP[worker.at]
        request = Request(kind, worker.attempt, worker.number, worker.payment)
        is_foreign = self._is_foreign(place)
        for executed, answer in self._execute(world, request, is_foreign=is_foreign):
            next_worker = self._next(worker, answer)
            label = f"worker {place}: {kind} answered"
            yield label, _with_worker(executed, place, next_worker), False
            if kind != "read":
                doubtful = self._doubt(executed, place, worker)
                yield f"worker {place}: the answer to {kind} is lost", doubtful, True
        if kind == "read":
            yield f"worker {place}: no answer to read", _with_worker(world, place, IDLE), True
        elif len(world.late) < self._scope.late and not is_foreign:
            late = self._doubt(_with_late(world, request), place, worker)
            yield f"worker {place}: {kind} is late", late, True

    def _execute(
        self, world: World, request: Request, *, is_foreign: bool
    ) -> Iterator[tuple[World, tuple[int, Status] | None]]:
        """What Stripe does with a request, and which PaymentIntent its answer shows."""
        if request.kind == "create":
            yield self._create(world, request, is_foreign=is_foreign)
            return
        place = request.payment
        intent = world.intents[place - 1]
        if intent.is_foreign != is_foreign:
            yield world, None
            return
        status = intent.status
        if request.kind == "confirm" and status in (Status.FRESH, Status.FAILED):
            for result in (Status.SUCCEEDED, Status.FAILED, Status.PROCESSING):
                yield _with_status(world, place, result), (place, result)
        elif request.kind == "cancel" and status in (Status.FRESH, Status.FAILED):
            yield _with_status(world, place, Status.CANCELED), (place, Status.CANCELED)
        else:
            yield world, (place, status)

    def _create(
        self, world: World, request: Request, *, is_foreign: bool
    ) -> tuple[World, tuple[int, Status]]:
        key = (request.attempt, request.number)
        if not is_foreign:
            for *known, place in world.keys:
                if tuple(known) == key:
                    return world, (place, Status.FRESH)
        made = Intent(Status.FRESH, *key, is_foreign)
        place = len(world.intents) + 1
        keys = world.keys if is_foreign else tuple(sorted((*world.keys, (*key, place))))
        return world._replace(intents=(*world.intents, made), keys=keys), (place, Status.FRESH)

    def _next(self, worker: Worker, answer: tuple[int, Status] | None) -> Worker:
        """What a worker does with an answer."""
        if answer is None:
            if self._scope.keeps(Rule.MISSING_IS_DOUBT):
                return IDLE
            return worker._replace(at=At.END, verdict=State.REJECTED)
        place, status = answer
        worker = worker._replace(payment=place)
        if worker.at is At.CREATE:
            return worker._replace(at=At.STORE)
        if status is Status.SUCCEEDED:
            return worker._replace(at=At.END, verdict=State.CHARGED)
        if status is Status.PROCESSING:
            return worker._replace(at=At.END, verdict=State.PROCESSING)
        if status is Status.CANCELED:
            return worker._replace(at=At.END, verdict=worker.verdict or State.PARKED)
        if worker.at is At.LOOK and status is Status.FRESH:
            return IDLE
        if worker.verdict is not None:
            return worker._replace(at=At.CANCEL)
        if status is Status.FAILED:
            return self._give_up(worker, State.DECLINED)
        return worker._replace(at=At.CONFIRM)

    def _give_up(self, worker: Worker, verdict: State) -> Worker:
        skips_cancel = not self._scope.keeps(Rule.CANCEL_BEFORE_ENDING)
        return worker._replace(at=At.END if skips_cancel else At.JUDGE, verdict=verdict)

    def _refusals(
        self, world: World, place: int, worker: Worker
    ) -> Iterator[tuple[str, World, bool]]:
        """A request that Stripe or a proxy refuses, so that nothing is executed."""
        verdicts = (State.REJECTED, State.PARKED) if self._scope.numbers else (State.REJECTED,)
        for verdict in verdicts:
            label = f"worker {place}: refused, {verdict}"
            if worker.at is At.CREATE:
                ending = worker._replace(at=At.END, verdict=verdict)
                yield label, _with_worker(world, place, ending), False
            elif worker.at is At.CONFIRM:
                given_up = self._give_up(worker, verdict)
                yield label, _with_worker(world, place, given_up), False

    def _doubt(self, world: World, place: int, worker: Worker) -> World:
        """Nobody can say what became of the request: the row is left as it is, in doubt."""
        row = world.row
        if worker.holds and row is not None and row.state in UNFINISHED:
            world = world._replace(row=row._replace(state=_after(row.state, Cause.ANSWER_LOST)))
        looks = worker.at is At.CONFIRM
        next_worker = worker._replace(at=At.LOOK) if looks else IDLE
        return _with_worker(world, place, next_worker)

    def _store(self, world: World, place: int, worker: Worker) -> World:
        row = world.row
        may_store = worker.holds or not self._scope.keeps(Rule.FENCE_STORE)
        if not self._scope.keeps(Rule.RECORD_FIRST) and row is None:
            row = Row(State.IN_PROGRESS, worker.attempt)
        if row is None or row.state not in UNFINISHED or not may_store:
            if self._scope.keeps(Rule.CONFIRM_STORED):
                return _with_worker(world, place, IDLE)
            return _with_worker(world, place, worker._replace(at=At.CONFIRM))
        if row.payment in (0, worker.payment) or not self._scope.keeps(Rule.STORE_ONCE):
            stored = world._replace(row=row._replace(payment=worker.payment))
            return _with_worker(stored, place, worker._replace(at=At.CONFIRM))
        if not self._scope.keeps(Rule.CONFIRM_STORED):
            return _with_worker(world, place, worker._replace(at=At.CONFIRM))
        other = worker._replace(at=At.READ, payment=row.payment)
        return _with_worker(world, place, other)

    def _judge(self, world: World, place: int, worker: Worker) -> World:
        if not worker.holds or world.row is None:
            return _with_worker(world, place, IDLE)
        if self._scope.keeps(Rule.STORE_VERDICT):
            world = world._replace(row=world.row._replace(verdict=worker.verdict))
        return _with_worker(world, place, worker._replace(at=At.CANCEL))

    def _end(self, world: World, place: int, worker: Worker) -> World:
        world = _with_worker(world, place, IDLE)
        row, ending = world.row, worker.verdict
        assert ending is not None
        if ending is State.CHARGED:
            return self._prove(world, worker)
        may_write = worker.holds or not self._scope.keeps(Rule.FENCE_ENDINGS)
        if row is None or row.state not in UNFINISHED or not may_write:
            return world
        state = _after(row.state, _CAUSE_OF_ENDING[ending])
        payment = worker.payment or row.payment
        return _fence_off(world, row._replace(state=state, payment=payment))

    def _prove(self, world: World, worker: Worker) -> World:
        row = world.row
        if row is not None and row.state is State.CHARGED:
            return world
        cause = Cause.SUCCEEDED if worker.holds else Cause.PROVEN
        before = row or Row(State.IN_PROGRESS, worker.attempt, worker.number)
        state = _after(row.state if row else None, cause if row else Cause.PROVEN)
        payment = worker.payment or before.payment
        charged = before._replace(state=state, payment=payment, verdict=None)
        return _fence_off(world, charged)

    def _charge_at_once(
        self, world: World, place: int, worker: Worker
    ) -> Iterator[tuple[str, World, bool]]:
        """The one-step flow within Stripe's idempotency window: once per attempt at the most."""
        known = dict(world.charges)
        for paid in (True, False):
            if known.get(worker.attempt, paid) is not paid:
                continue
            charges = tuple(sorted({**known, worker.attempt: paid}.items()))
            charged = world._replace(charges=charges)
            verdict = State.CHARGED if paid else State.DECLINED
            ending = worker._replace(at=At.END, verdict=verdict)
            label = f"worker {place}: {verdict} in one step"
            yield label, _with_worker(charged, place, ending), False
            lost = self._doubt(charged, place, worker)
            yield f"worker {place}: the answer to charge is lost", lost, True

    def _is_foreign(self, place: int) -> bool:
        return self._scope.foreign and place == self._scope.workers - 1

    def _is_rightly_parked(self, world: World) -> bool:
        row = world.row
        if row is None or row.state is not State.PARKED or row.verdict is State.PARKED:
            return True
        if row.payment == 0:
            return True
        return world.is_canceled_outside or self._scope.losses > 0

    def _canonical(self, world: World) -> World:
        """One world for all that differ in names alone, without what nobody can reach again."""
        named = _named(world)
        keeps = [
            place
            for place, intent in enumerate(world.intents, 1)
            if place in named or intent.status in (Status.SUCCEEDED, Status.PROCESSING)
        ]
        keeps.sort(
            key=lambda place: (place not in named, named.get(place, 0), world.intents[place - 1])
        )
        names = {0: 0, **{place: name for name, place in enumerate(keeps, 1)}}
        row, older = world.row, world.older
        if row is not None:
            row = row._replace(payment=names.get(row.payment, 0))
        if older is not None:
            older = older._replace(payment=names.get(older.payment, 0))
        workers = [worker._replace(payment=names[worker.payment]) for worker in world.workers]
        if not (self._scope.foreign or self._scope.switches):
            workers.sort(key=_order)
        return world._replace(
            row=row,
            older=older,
            intents=tuple(world.intents[place - 1] for place in keeps),
            keys=tuple(
                sorted((attempt, number, names[place]) for attempt, number, place in world.keys)
            ),
            late=tuple(
                sorted(request._replace(payment=names[request.payment]) for request in world.late)
            ),
            workers=tuple(workers),
        )


_KIND_OF_STEP = {
    At.CREATE: "create",
    At.READ: "read",
    At.LOOK: "read",
    At.CONFIRM: "confirm",
    At.CANCEL: "cancel",
}

_CAUSE_OF_ENDING = {
    State.PROCESSING: Cause.ON_ITS_WAY,
    State.DECLINED: Cause.DECLINED,
    State.REJECTED: Cause.REJECTED,
    State.PARKED: Cause.PARKED,
    State.CANCELED: Cause.CANCELED,
}


def _after(source: State | None, cause: Cause) -> State:
    target = after(source, cause)
    assert target is not None
    return target


def _with_worker(world: World, place: int, worker: Worker) -> World:
    workers = world.workers
    return world._replace(workers=(*workers[:place], worker, *workers[place + 1 :]))


def _with_status(world: World, place: int, status: Status) -> World:
    intents = world.intents
    changed = intents[place - 1]._replace(status=status)
    return world._replace(intents=(*intents[: place - 1], changed, *intents[place:]))


def _with_late(world: World, request: Request) -> World:
    return world._replace(late=(*world.late, request))


def _fence_off(world: World, row: Row | None) -> World:
    """Write the row under a new fence: whoever held it before holds it no more."""
    workers = tuple(worker._replace(holds=False) for worker in world.workers)
    return world._replace(row=row, workers=workers)


def _rebuild(world: World) -> World:
    """Adopt what moved money, or is about to, and let the consumers go on."""
    row = world.row
    for place, intent in enumerate(world.intents, 1):
        if intent.status not in (Status.SUCCEEDED, Status.PROCESSING):
            continue
        paid = intent.status is Status.SUCCEEDED
        if row is not None and row.state is State.CHARGED:
            continue
        if not paid and row is not None and row.attempt > intent.attempt:
            continue
        state = State.CHARGED if paid else State.PROCESSING
        row = Row(state, intent.attempt, intent.number, place)
    return _fence_off(world, row)._replace(is_suspended=False)


def _paid(world: World) -> int:
    succeeded = sum(intent.status is Status.SUCCEEDED for intent in world.intents)
    return succeeded + sum(paid for _, paid in world.charges)


def _is_right_without_money(world: World) -> bool:
    row = world.row
    if row is None or world.is_suspended or row.state not in NO_MONEY:
        return True
    return _paid(world) == 0


def _is_right_with_money(world: World) -> bool:
    row = world.row
    if row is None or row.state is not State.CHARGED:
        return True
    return _paid(world) == 1


def _is_named(world: World) -> bool:
    if world.is_suspended:
        return True
    for place, intent in enumerate(world.intents, 1):
        is_paid = intent.status is Status.SUCCEEDED
        if is_paid and (world.row is None or world.row.payment != place):
            return False
    return world.row is not None or not any(paid for _, paid in world.charges)


def _is_own(world: World) -> bool:
    return not any(
        intent.is_foreign and intent.status is Status.SUCCEEDED for intent in world.intents
    )


def _order(worker: Worker) -> tuple[int, bool, int, int, int, str]:
    return (*worker[:5], worker.verdict or "")


def _named(world: World) -> dict[int, int]:
    """The PaymentIntents that somebody can still reach, in the order of who does."""
    named: dict[int, int] = {}
    reaching: Iterable[int] = (
        world.row.payment if world.row else 0,
        world.older.payment if world.older else 0,
        *(place for *_, place in world.keys),
        *(worker.payment for worker in world.workers),
        *(request.payment for request in world.late),
    )
    for place in reaching:
        if place:
            named.setdefault(place, len(named))
    return named
