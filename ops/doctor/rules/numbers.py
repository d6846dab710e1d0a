"""The numbers that hang together are written in several places: they must be the same."""

from __future__ import annotations

from collections.abc import Iterator

from ops.doctor.facts import Facts
from ops.doctor.numbers import NUMBERS
from ops.doctor.rule import warning


@warning(
    "A number that is changed in one place alone breaks what holds the places together.",
    "Change it everywhere that docs/numbers.md names, and there.",
)
def number_differs(facts: Facts) -> Iterator[str]:
    """Each place against the table."""
    for number in NUMBERS:
        for place, name, value in number.places:
            written = facts.numbers.get((place, name))
            if written is not None and written != value:
                yield f"{name} in {place} is {written:g}, and {value:g} in the table of numbers"


RULES = (number_differs,)
