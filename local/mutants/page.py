"""The text of docs/mutants.md, from a run of all mutants."""

from __future__ import annotations

from collections.abc import Sequence

from local.mutants.hunting import Catch
from local.mutants.mutant import Mutant

_PAGE = """\
# Mutants

A test that cannot fail proves nothing. So each safety is taken out of the real code, one at a time,
in a copy of the project, and something has to notice: the
[simulation](../local/simulation/__init__.py), by an invariant that it finds violated, or the tests
that guard what lives in SQL, in a trigger or beside the protocol. An edit that no longer fits the
code fails too.

`python -m local.check_mutants --write` hunts all of them and writes this page; `--only NAME` hunts
one. Seeds are counted from 1 to the first that finds a violation.

{count} mutants, {caught} caught: {by_seeds} by seeds, {by_tests} by tests.

| taken out | in | caught by | seeds |
|---|---|---|---|
{rows}
"""


def mutants_page(hunted: Sequence[tuple[Mutant, Catch]]) -> str:
    """The page.

    Args:
        hunted: each mutant, and how its hunt ended.
    """
    caught = [catch for _, catch in hunted if catch.caught_by is not None]
    by_seeds = sum(catch.seeds is not None for catch in caught)
    return _PAGE.format(
        count=len(hunted),
        caught=len(caught),
        by_seeds=by_seeds,
        by_tests=len(caught) - by_seeds,
        rows="\n".join(_row(mutant, catch) for mutant, catch in hunted),
    )


def _row(mutant: Mutant, catch: Catch) -> str:
    caught_by = catch.caught_by or "**nothing**"
    if catch.seeds is None and catch.caught_by is not None:
        caught_by = f"`{caught_by}`"
    seeds = "" if catch.seeds is None else str(catch.seeds)
    return f"| {mutant.name} | `{mutant.path}` | {caught_by} | {seeds} |"
