"""The one-step charge of one customer, with a clock that counts hours.

The older Charges API has no object that succeeds at most once: Stripe's idempotency window guards,
and after it Stripe's own list. So time matters here, and so does how late a request may reach
Stripe: the check finds the smallest lateness that brings a second charge.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple

from local.model.search import Step
from shared.record import State

WINDOW_HOURS = 24
"""How long Stripe keeps an idempotency key at the least."""

REPLAY_HOURS = 23
"""The default of `STRIPE_REPLAY_HOURS`."""


class Rule(StrEnum):
    """A rule of the one-step flow."""

    LIST_WHEN_OLD = (
        "after STRIPE_REPLAY_HOURS Stripe's list is read before the charge is sent again"
    )
    WAIT_UNTIL_QUIET = "an absent charge proves nothing while an earlier request may be running"
    SAME_KEY = "the charge is sent again under the same key"
    LIST_NOT_SEARCH = "the charge is looked up by list, which is immediately consistent"


class At(IntEnum):
    """What a worker does next."""

    IDLE = 0
    LIST = 1
    SEND = 2
    LOOK = 3
    END_CHARGED = 4
    END_REFUSED = 5


class Worker(NamedTuple):
    """Who holds a claim, or held one; `key` tells apart what must be one key.

    `is_first`: nobody can have sent anything before. `is_quiet`: nothing that was sent before can
    still be running, as far as leases tell.
    """

    at: At = At.IDLE
    holds: bool = False
    key: int = 0
    is_first: bool = False
    is_quiet: bool = False


IDLE = Worker()


class Key(NamedTuple):
    """An idempotency key that Stripe remembers."""

    key: int
    arrived_hour: int
    paid: bool


class Late(NamedTuple):
    """A request that is still under way."""

    key: int
    sent_hour: int


class World(NamedTuple):
    """Everything. Hours count from the first claim.

    `paid` counts the charges that succeeded, `has_failed` says that one failed, and `is_listed`
    that a look-up shows them. `claimed_hour` is when the newest claim was made.
    """

    hour: int = 0
    state: State | None = None
    claimed_hour: int = 0
    paid: int = 0
    has_failed: bool = False
    is_listed: bool = False
    keys: tuple[Key, ...] = ()
    late: tuple[Late, ...] = ()
    workers: tuple[Worker, ...] = (IDLE, IDLE)


@dataclass(frozen=True, slots=True)
class Scope:
    """What may happen in one search.

    Args:
        latest_hours: how many hours after it was sent a request may still reach Stripe.
        replay_hours: the setting.
        last_hour: when time ends.
        without: the rules that are left out.
    """

    latest_hours: int = WINDOW_HOURS - REPLAY_HOURS
    replay_hours: int = REPLAY_HOURS
    last_hour: int = WINDOW_HOURS + 4
    without: frozenset[Rule] = field(default_factory=frozenset)

    def keeps(self, rule: Rule) -> bool:
        """Whether a rule is in force."""
        return rule not in self.without


class OneStep:
    """The machine.

    Args:
        scope: what may happen in it.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    @property
    def start(self) -> World:
        """Nothing has happened yet."""
        return World()

    @property
    def invariants(self) -> dict[str, Callable[[World], bool]]:
        """What must hold in every state."""
        return {
            "at most one payment succeeds": lambda world: world.paid <= 1,
            "a record without money is right for ever": lambda world: (
                world.state is not State.DECLINED or world.paid == 0
            ),
            "a charged record has its payment": lambda world: (
                world.state is not State.CHARGED or world.paid == 1
            ),
        }

    def is_at_rest(self, world: World) -> bool:
        """Whether the record needs nobody any more; what comes after the last hour is not seen."""
        has_ended = world.state in (State.CHARGED, State.DECLINED)
        return has_ended or world.hour >= self._scope.last_hour

    def steps(self, world: World) -> Iterator[Step[World]]:
        """Everything that can happen now."""
        for label, after_it, is_fault in self._raw_steps(world):
            workers = tuple(sorted(after_it.workers))
            late = tuple(sorted(after_it.late))
            yield Step(label, after_it._replace(workers=workers, late=late), is_fault)

    def _raw_steps(self, world: World) -> Iterator[tuple[str, World, bool]]:
        yield from self._of_time(world)
        yield from self._of_stripe(world)
        for place, worker in enumerate(world.workers):
            if worker.at is At.IDLE:
                yield from self._claim(world, place)
                continue
            yield f"worker {place} dies", _with_worker(world, place, IDLE), True
            yield from self._act(world, place, worker)

    def _of_time(self, world: World) -> Iterator[tuple[str, World, bool]]:
        oldest = min((request.sent_hour for request in world.late), default=world.hour)
        # A worker's budget is minutes: none is at work for an hour.
        is_idle = all(worker.at is At.IDLE for worker in world.workers)
        is_late_enough = bool(world.late) and world.hour - oldest >= self._scope.latest_hours
        if is_idle and not is_late_enough and world.hour < self._scope.last_hour:
            yield "an hour passes", world._replace(hour=world.hour + 1), False
        if not world.is_listed:
            yield "the look-up catches up", world._replace(is_listed=True), False

    def _of_stripe(self, world: World) -> Iterator[tuple[str, World, bool]]:
        for key in world.keys:
            if world.hour - key.arrived_hour >= WINDOW_HOURS:
                keys = tuple(other for other in world.keys if other != key)
                yield f"Stripe forgets key {key.key}", world._replace(keys=keys), True
        for request in world.late:
            late = list(world.late)
            late.remove(request)
            without = world._replace(late=tuple(late))
            yield "a late request is lost", without, False
            for executed, _ in self._execute(without, request.key):
                yield "a late request arrives", executed, False

    def _execute(self, world: World, key: int) -> Iterator[tuple[World, bool]]:
        for known in world.keys:
            if known.key == key:
                yield world, known.paid
                return
        for paid in (True, False):
            keys = tuple(sorted((*world.keys, Key(key, world.hour, paid))))
            executed = world._replace(
                keys=keys,
                paid=world.paid + paid,
                has_failed=world.has_failed or not paid,
                is_listed=self._scope.keeps(Rule.LIST_NOT_SEARCH),
            )
            yield executed, paid

    def _claim(self, world: World, place: int) -> Iterator[tuple[str, World, bool]]:
        if world.state in (State.CHARGED, State.DECLINED):
            return
        scope = self._scope
        is_takeover = world.state is not None
        is_old = is_takeover and world.hour >= scope.replay_hours
        is_quiet = world.hour > world.claimed_hour or not scope.keeps(Rule.WAIT_UNTIL_QUIET)
        key = 0 if scope.keeps(Rule.SAME_KEY) or not is_takeover else 1
        worker = Worker(At.SEND, True, key, not is_takeover, is_quiet)
        workers = tuple(worker._replace(holds=False) for worker in world.workers)
        claimed = world._replace(
            state=world.state or State.IN_PROGRESS, claimed_hour=world.hour, workers=workers
        )
        if is_old and scope.keeps(Rule.LIST_WHEN_OLD):
            if is_quiet or self._found(world) is not None:
                reading = worker._replace(at=At.LIST, is_first=is_quiet)
                yield "the list is read", _with_worker(claimed, place, reading), False
            else:
                yield "absent, but not for certain", claimed, False
            return
        yield f"worker {place} claims", _with_worker(claimed, place, worker), False

    def _act(self, world: World, place: int, worker: Worker) -> Iterator[tuple[str, World, bool]]:
        if worker.at is At.LIST:
            found = worker._replace(at=self._found(world) or At.SEND)
            yield f"worker {place} has read the list", _with_worker(world, place, found), False
        elif worker.at is At.SEND:
            yield from self._send(world, place, worker)
        elif worker.at is At.LOOK:
            yield from self._look(world, place, worker)
        else:
            yield f"worker {place} writes the ending", self._end(world, place, worker), False

    def _found(self, world: World) -> At | None:
        """What the look-up leads to; None: it shows nothing."""
        if not world.is_listed:
            return None
        if world.paid:
            return At.END_CHARGED
        return At.END_REFUSED if world.has_failed else None

    def _look(self, world: World, place: int, worker: Worker) -> Iterator[tuple[str, World, bool]]:
        """A refusal says nothing about an earlier request; the list may."""
        found = self._found(world) or (At.END_REFUSED if worker.is_quiet else None)
        label = f"worker {place} looks after its refusal"
        if found is None:
            yield label, self._doubt(_with_worker(world, place, IDLE), worker), False
        else:
            yield label, _with_worker(world, place, worker._replace(at=found)), False

    def _send(self, world: World, place: int, worker: Worker) -> Iterator[tuple[str, World, bool]]:
        for executed, paid in self._execute(world, worker.key):
            at = At.END_CHARGED if paid else At.END_REFUSED
            ending = _with_worker(executed, place, worker._replace(at=at))
            yield f"worker {place}: answered", ending, False
            lost = self._doubt(_with_worker(executed, place, IDLE), worker)
            yield f"worker {place}: the answer is lost", lost, True
        refused = worker._replace(at=At.END_REFUSED if worker.is_first else At.LOOK)
        yield f"worker {place}: refused", _with_worker(world, place, refused), False
        if len(world.late) < 2 and self._scope.latest_hours:
            late = world._replace(late=(*world.late, Late(worker.key, world.hour)))
            yield (
                f"worker {place}: late",
                self._doubt(_with_worker(late, place, IDLE), worker),
                True,
            )

    def _doubt(self, world: World, worker: Worker) -> World:
        if worker.holds and world.state is State.IN_PROGRESS:
            return world._replace(state=State.IN_DOUBT)
        return world

    def _end(self, world: World, place: int, worker: Worker) -> World:
        world = _with_worker(world, place, IDLE)
        if worker.at is At.END_CHARGED:
            return world._replace(state=State.CHARGED)
        is_open = world.state in (State.IN_PROGRESS, State.IN_DOUBT)
        return world._replace(state=State.DECLINED) if worker.holds and is_open else world


def _with_worker(world: World, place: int, worker: Worker) -> World:
    workers = world.workers
    return world._replace(workers=(*workers[:place], worker, *workers[place + 1 :]))
