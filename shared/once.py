"""A part of the process that is made when it is first needed, and then kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Part = TypeVar("Part")


class Once(Generic[Part]):
    """Makes a part once for all threads; a failure is not kept, so a later caller tries again.

    Threads that wait while another one tries share its failure: where making takes long, as with
    a database that is away, they must not queue up to fail one after another.

    Args:
        make: makes the part, which is never None; may raise.
    """

    def __init__(self, make: Callable[[], Part]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._part: Part | None = None
        self._tries = 0
        self._failure: Exception | None = None

    def get(self) -> Part:
        """The part.

        Raises:
            Exception: whatever making it raised.
        """
        tries_before = self._tries
        part = self._part
        return self._make_in_turn(tries_before) if part is None else part

    def _make_in_turn(self, tries_before: int) -> Part:
        with self._lock:
            if self._part is not None:
                return self._part
            if self._failure is not None and self._tries != tries_before:
                raise self._failure
            return self._try()

    def _try(self) -> Part:
        self._tries += 1
        try:
            part = self._make()
        except Exception as error:
            self._failure = error
            raise
        self._part = part
        return part
