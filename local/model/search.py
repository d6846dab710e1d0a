"""Breadth-first search of everything that can happen, and the shortest way to what must not."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

World = TypeVar("World", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Broken:
    """An invariant that does not hold.

    Args:
        invariant: which one.
        steps: the shortest way there, as the labels of its steps.
    """

    invariant: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Searched(Generic[World]):
    """What a search has seen.

    Args:
        worlds: every state that can be reached.
        step_count: how many steps lead from one to another.
        judgment_count: how often an invariant was looked at.
        broken: the first violation; None when there is none, and then the search was exhaustive.
    """

    worlds: frozenset[World]
    step_count: int
    judgment_count: int
    broken: Broken | None


@dataclass(frozen=True, slots=True)
class Step(Generic[World]):
    """One thing that can happen.

    Args:
        label: what it is, for a trace.
        world: what it leads to.
        is_fault: only a fault, or somebody from outside, brings it about.
    """

    label: str
    world: World
    is_fault: bool = False


def search(
    start: World,
    steps: Callable[[World], Iterable[Step[World]]],
    invariants: dict[str, Callable[[World], bool]],
) -> Searched[World]:
    """Visit every state that can be reached, nearest first, and judge each.

    Args:
        start: where it begins.
        steps: what can happen in a state.
        invariants: what must hold in every state, by name.
    """
    came_from: dict[World, tuple[World, str] | None] = {start: None}
    queue = deque([start])
    step_count = judgment_count = 0
    while queue:
        world = queue.popleft()
        for name, holds in invariants.items():
            judgment_count += 1
            if not holds(world):
                broken = Broken(name, _way_to(world, came_from))
                return Searched(frozenset(came_from), step_count, judgment_count, broken)
        for step in steps(world):
            step_count += 1
            if step.world not in came_from:
                came_from[step.world] = (world, step.label)
                queue.append(step.world)
    return Searched(frozenset(came_from), step_count, judgment_count, None)


def stuck(
    searched: Searched[World],
    steps: Callable[[World], Iterable[Step[World]]],
    is_at_rest: Callable[[World], bool],
) -> frozenset[World]:
    """The states from which no way without further faults leads to rest.

    Args:
        searched: an exhaustive search.
        steps: as there.
        is_at_rest: nothing remains to be done.
    """
    sources: dict[World, list[World]] = {world: [] for world in searched.worlds}
    for world in searched.worlds:
        for step in steps(world):
            if not step.is_fault:
                sources[step.world].append(world)
    coming_to_rest = {world for world in searched.worlds if is_at_rest(world)}
    queue = deque(coming_to_rest)
    while queue:
        for source in sources[queue.popleft()]:
            if source not in coming_to_rest:
                coming_to_rest.add(source)
                queue.append(source)
    return searched.worlds - coming_to_rest


def _way_to(world: World, came_from: dict[World, tuple[World, str] | None]) -> tuple[str, ...]:
    labels: list[str] = []
    here = came_from[world]
    while here is not None:
        source, label = here
        labels.append(label)
        here = came_from[source]
    return tuple(reversed(labels))
