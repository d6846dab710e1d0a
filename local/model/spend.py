"""The spend of one run: the ledger's cap, the proxy's cap, and a vault key that is replaced.

Two customers owe one unit each, and the run's cap has room for one of them until it is raised. The
ledger and the proxy guard the same cap by themselves, so each is checked without the other.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

from local.model.search import Step

CUSTOMERS = 2


class Rule(StrEnum):
    """A rule about the cap."""

    HOLD_AND_CHECK = "the claim checks the cap and holds its amount in one statement"
    RESERVE_AND_CHECK = "the proxy checks its cap and reserves in one statement"
    KEEP_DOUBTFUL = "a hold whose outcome is unknown stays"
    REVOKE_FIRST = "the old vault key is revoked before the books are read for the new one"
    COUNT_HELD = "the new key's cap leaves out what the proxy still holds"
    END_BY_CANCEL = "a record gives its hold back only when its PaymentIntent is canceled"


class Status(IntEnum):
    """How a customer's PaymentIntent stands."""

    FRESH = 0
    SUCCEEDED = 1
    CANCELED = 2


class Row(IntEnum):
    """How a customer's record stands."""

    NONE = 0
    CHECKED = 1
    OPEN = 2
    CHARGED = 3
    ENDED = 4


class Count(IntEnum):
    """How the proxy counts a customer's PaymentIntent."""

    NOT = 0
    CHECKED = 1
    HELD = 2
    SPENT = 3


class Customer(NamedTuple):
    """One customer: its record, its PaymentIntent, how the proxy counts it, requests under way."""

    row: Row = Row.NONE
    status: Status = Status.FRESH
    counted: Count = Count.NOT
    key: int = 0
    late: int = 0


class Rotation(IntEnum):
    """How far the replacement of the vault key has come."""

    NONE = 0
    REVOKED = 1
    READ = 2


class World(NamedTuple):
    """Everything. `keys` are the caps of the vault keys so far, the newest last."""

    cap: int = 1
    customers: tuple[Customer, ...] = (Customer(),) * CUSTOMERS
    keys: tuple[int, ...] = (1,)
    is_live: bool = True
    rotation: Rotation = Rotation.NONE
    next_cap: int = 0


@dataclass(frozen=True, slots=True)
class Scope:
    """What may happen in one search.

    Args:
        has_ledger: the claim guards the cap.
        has_proxy: every confirm goes through the proxy.
        rotations: how often the vault key is replaced.
        without: the rules that are left out.
    """

    has_ledger: bool = True
    has_proxy: bool = True
    rotations: int = 2
    without: frozenset[Rule] = field(default_factory=frozenset)

    def keeps(self, rule: Rule) -> bool:
        """Whether a rule is in force."""
        return rule not in self.without


class Spend:
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
        invariants: dict[str, Callable[[World], bool]] = {
            "the money that moved stays within the cap": lambda world: _moved(world) <= world.cap,
        }
        if self._scope.has_ledger:
            invariants["what is charged and held stays within the cap"] = lambda world: (
                _booked(world) <= world.cap
            )
        return invariants

    def is_at_rest(self, world: World) -> bool:
        """Whether no record is under way; one that found no room has not begun."""
        under_way = (Row.CHECKED, Row.OPEN)
        return not any(customer.row in under_way for customer in world.customers)

    def steps(self, world: World) -> Iterator[Step[World]]:
        """Everything that can happen now."""
        if world.cap < CUSTOMERS:
            yield Step("the cap is raised", world._replace(cap=world.cap + 1), is_fault=True)
        if self._scope.has_proxy:
            yield from self._rotate(world)
        for place, customer in enumerate(world.customers):
            yield from self._of_record(world, place, customer)
            yield from self._of_stripe(world, place, customer)

    def _of_record(self, world: World, place: int, customer: Customer) -> Iterator[Step[World]]:
        has_room = _booked(world) < world.cap or not self._scope.has_ledger
        if customer.row is Row.NONE and has_room:
            is_atomic = self._scope.keeps(Rule.HOLD_AND_CHECK)
            row = Row.OPEN if is_atomic else Row.CHECKED
            yield Step(f"customer {place} is claimed", _with(world, place, row=row))
        elif customer.row is Row.CHECKED:
            yield Step(f"customer {place} is held", _with(world, place, row=Row.OPEN))
        elif customer.row is Row.OPEN:
            yield from self._confirm(world, place, customer)
            yield from self._end(world, place, customer)

    def _confirm(self, world: World, place: int, customer: Customer) -> Iterator[Step[World]]:
        if not self._scope.has_proxy or customer.counted in (Count.HELD, Count.SPENT):
            if self._scope.has_proxy and not world.is_live:
                return
            yield from self._forward(world, place)
            return
        if not world.is_live:
            return
        key = len(world.keys)
        if customer.counted is Count.CHECKED:
            held = _with(world, place, counted=Count.HELD, key=key)
            yield Step(f"the proxy counts customer {place}", held)
        elif _counted(world, key) < world.keys[-1]:
            is_atomic = self._scope.keeps(Rule.RESERVE_AND_CHECK)
            count = Count.HELD if is_atomic else Count.CHECKED
            yield Step(
                f"the proxy admits customer {place}", _with(world, place, counted=count, key=key)
            )

    def _forward(self, world: World, place: int) -> Iterator[Step[World]]:
        customer = world.customers[place]
        if customer.late < 1:
            late = _with(world, place, late=customer.late + 1)
            yield Step(f"customer {place}'s confirm is under way", late)

    def _of_stripe(self, world: World, place: int, customer: Customer) -> Iterator[Step[World]]:
        if customer.late:
            gone = _with(world, place, late=customer.late - 1)
            yield Step(f"customer {place}'s confirm is lost", gone, is_fault=True)
            if not self._scope.keeps(Rule.KEEP_DOUBTFUL) and customer.counted is Count.HELD:
                timed_out = _with(world, place, counted=Count.NOT)
                yield Step(f"customer {place}'s confirm times out", timed_out, is_fault=True)
            if customer.status is Status.FRESH:
                paid = _with(gone, place, status=Status.SUCCEEDED)
                yield Step(f"customer {place} pays", paid)
        if customer.counted is Count.HELD and customer.status is not Status.FRESH:
            is_paid = customer.status is Status.SUCCEEDED
            count = Count.SPENT if is_paid else Count.NOT
            yield Step(f"the proxy settles customer {place}", _with(world, place, counted=count))

    def _end(self, world: World, place: int, customer: Customer) -> Iterator[Step[World]]:
        if customer.status is Status.SUCCEEDED:
            yield Step(f"customer {place} is charged", _with(world, place, row=Row.CHARGED))
        elif customer.status is Status.CANCELED:
            yield Step(f"customer {place} is declined", _with(world, place, row=Row.ENDED))
        else:
            canceled = _with(world, place, status=Status.CANCELED)
            yield Step(f"customer {place}'s PaymentIntent is canceled", canceled)
            if not self._scope.keeps(Rule.END_BY_CANCEL):
                ended = _with(world, place, row=Row.ENDED)
                yield Step(f"customer {place} is declined without a cancel", ended)

    def _rotate(self, world: World) -> Iterator[Step[World]]:
        if world.rotation is Rotation.NONE and len(world.keys) <= self._scope.rotations:
            is_live = not self._scope.keeps(Rule.REVOKE_FIRST)
            begun = world._replace(is_live=is_live, rotation=Rotation.REVOKED)
            yield Step("the vault key is revoked", begun)
        elif world.rotation is Rotation.REVOKED:
            held = _with_count(world, Count.HELD) if self._scope.keeps(Rule.COUNT_HELD) else 0
            room = world.cap - max(_charged(world), _with_count(world, Count.SPENT)) - held
            read = world._replace(rotation=Rotation.READ, next_cap=max(room, 0))
            yield Step("the books are read", read)
        elif world.rotation is Rotation.READ:
            minted = world._replace(
                keys=(*world.keys, world.next_cap),
                is_live=True,
                rotation=Rotation.NONE,
                next_cap=0,
            )
            yield Step("the next vault key is minted", minted)


def _with(world: World, place: int, **changes: Any) -> World:
    customers = list(world.customers)
    customers[place] = customers[place]._replace(**changes)
    return world._replace(customers=tuple(customers))


def _moved(world: World) -> int:
    return sum(customer.status is Status.SUCCEEDED for customer in world.customers)


def _booked(world: World) -> int:
    return sum(customer.row in (Row.OPEN, Row.CHARGED) for customer in world.customers)


def _charged(world: World) -> int:
    return sum(customer.row is Row.CHARGED for customer in world.customers)


def _with_count(world: World, count: Count) -> int:
    return sum(customer.counted is count for customer in world.customers)


def _counted(world: World, key: int) -> int:
    return sum(
        customer.counted in (Count.HELD, Count.SPENT) and customer.key == key
        for customer in world.customers
    )
