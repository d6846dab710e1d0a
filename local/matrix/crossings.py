"""Where the code under test leaves its own memory, and can die."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Killed(BaseException):
    """Stands in for the death of a process: nothing catches it, nothing is cleaned up."""


class Crossings:
    """Counts the crossings of one life of a process, and ends it at one of them.

    Args:
        kill_at: the number of the crossing to die at, from 0; None to live.
    """

    def __init__(self, kill_at: int | None = None) -> None:
        self._kill_at = kill_at
        self.names: list[str] = []

    def cross(self, name: str) -> None:
        """Come by a place, such as `records.claim.before`.

        Raises:
            Killed: this is the one to die at.
        """
        self.names.append(name)
        if len(self.names) - 1 == self._kill_at:
            raise Killed


class Watched:
    """A port: each call of it is a crossing before its effect and one after it.

    Args:
        port: does the work.
        name: of the port.
        crossings: of the present life.
    """

    def __init__(self, port: object, name: str, crossings: Crossings) -> None:
        self._port = port
        self._name = name
        self._crossings = crossings

    def __getattr__(self, name: str) -> Callable[..., Any]:
        actual = getattr(self._port, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self._crossings.cross(f"{self._name}.{name}.before")
            result = actual(*arguments, **named)
            self._crossings.cross(f"{self._name}.{name}.after")
            return result

        return call
