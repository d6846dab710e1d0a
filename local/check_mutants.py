"""`python -m local.check_mutants`: take each safety out of the code, and see that it is missed.

    python -m local.check_mutants
    python -m local.check_mutants --only "the cap is checked, then counted"
    python -m local.check_mutants --write        # docs/mutants.md, from this run

Exit code: 0 when every mutant was caught, 1 when one got away.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from local.mutants.catalogue import MUTANTS
from local.mutants.hunting import ROOT, SEEDS_AT_MOST, Catch, hunt
from local.mutants.mutant import Mutant
from local.mutants.page import mutants_page

Hunted = Sequence[tuple[Mutant, Catch]]


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _read(arguments)
    chosen = [mutant for mutant in MUTANTS if options.only in (None, mutant.name)]
    if not chosen:
        print(f"there is no mutant {options.only!r}", file=sys.stderr)
        return 2
    with ThreadPoolExecutor(options.workers) as pool:
        hunted = list(zip(chosen, pool.map(_hunt_loudly, chosen), strict=True))
    if options.json:
        print(json.dumps([_document(mutant, catch) for mutant, catch in hunted]))
    if options.write:
        (ROOT / "docs" / "mutants.md").write_text(mutants_page(hunted), "utf-8")
    escaped = [mutant.name for mutant, catch in hunted if catch.caught_by is None]
    print(f"{len(hunted) - len(escaped)} of {len(hunted)} mutants caught", file=sys.stderr)
    return 1 if escaped else 0


def _read(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m local.check_mutants",
        description="Take each safety out of a copy of the code, and see what notices.",
    )
    parser.add_argument("--only", metavar="NAME", help="one of them")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="at once (default: one per CPU)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument("--write", action="store_true", help="write docs/mutants.md")
    return parser.parse_args(arguments)


def _hunt_loudly(mutant: Mutant) -> Catch:
    catch = hunt(mutant)
    took = f"{catch.seconds:.0f} s"
    if catch.seeds is not None:
        took = f"{catch.seeds} seeds, {took}"
    verdict = catch.caught_by or f"GOT AWAY ({SEEDS_AT_MOST} seeds, or its tests)"
    print(f"{mutant.name}: {verdict} ({took})", file=sys.stderr, flush=True)
    return catch


def _document(mutant: Mutant, catch: Catch) -> dict[str, object]:
    return {
        "name": mutant.name,
        "path": mutant.path,
        "caught_by": catch.caught_by,
        "seeds": catch.seeds,
        "seconds": round(catch.seconds, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
