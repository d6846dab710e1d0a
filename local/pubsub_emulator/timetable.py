"""What is due when: a priority queue whose entries can be moved and cancelled."""

import heapq
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

# Below this many, entries that were moved or cancelled are not worth sweeping out.
_SWEEP_FROM: Final = 64

Key = TypeVar("Key", bound=Hashable)


class Timetable(Generic[Key]):
    """Keys, each with the time at which it is due."""

    def __init__(self) -> None:
        self._due_at: dict[Key, float] = {}
        # The number breaks ties, first come first served, so that keys are never compared.
        self._heap: list[tuple[float, int, Key]] = []
        self._numbered = 0

    def __contains__(self, key: Key) -> bool:
        return key in self._due_at

    def __len__(self) -> int:
        return len(self._due_at)

    def put(self, key: Key, due_at: float) -> None:
        """Enter a key, or move one that is there."""
        self._due_at[key] = due_at
        self._numbered += 1
        heapq.heappush(self._heap, (due_at, self._numbered, key))
        self._sweep()

    def cancel(self, key: Key) -> bool:
        """Take a key out; return whether it was there."""
        return self._due_at.pop(key, None) is not None

    def next_at(self) -> float | None:
        """Return when the first key is due, or None when there is none."""
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Key | None:
        """Take out one key that is due by now, the earliest first; None when none is."""
        next_at = self.next_at()
        if next_at is None or next_at > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due_at[key]
        return key

    def _is_current(self, item: tuple[float, int, Key]) -> bool:
        due_at, _, key = item
        return self._due_at.get(key) == due_at

    def _sweep(self) -> None:
        # What was moved or cancelled stays in the heap until it surfaces: keep that in bounds.
        if len(self._heap) > max(_SWEEP_FROM, 2 * len(self._due_at)):
            self._heap = [item for item in self._heap if self._is_current(item)]
            heapq.heapify(self._heap)
