"""What a mutant is, and what may catch it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from local.simulation import Flows

MIGRATIONS = "shared/store/sql/migrations"


class EditDoesNotFit(Exception):
    """The code that a mutant takes out is not there once: it has moved, and the mutant has to."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """The code without one of its safeties.

    Args:
        name: what is taken out, in words.
        path: the file, from the root.
        before: what stands there now; it must be there exactly once.
        after: what stands there in its place.
        tests: what must fail, for pytest; without any, the simulation must find a violation.
        flows: the flows that the simulation looks in; None lets the seeds choose.
    """

    name: str
    path: str
    before: str
    after: str
    tests: tuple[str, ...] = ()
    flows: Flows | None = None

    def apply(self, root: Path) -> None:
        """Edit the file below a root.

        Raises:
            EditDoesNotFit: what is to be taken out is not there once.
        """
        file = root / self.path
        file.write_text(self.edited(file.read_text("utf-8")), "utf-8")

    def edited(self, source: str) -> str:
        """The source without the safety.

        Raises:
            EditDoesNotFit: what is to be taken out is not there once.
        """
        count = source.count(self.before)
        if count != 1:
            raise EditDoesNotFit(f"{self.name}: found {count} times in {self.path}")
        return source.replace(self.before, self.after)
