"""`python -m local.check_model`: visit every state of the protocol, with its rules and without.

    python -m local.check_model
    python -m local.check_model --quick --trace

Exit code: 0 when each search found what it was to find, 1 when one did not.
"""

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from local.model.checks import BROKEN, WHOLE, Checked, run

CHECKS = (*WHOLE, *BROKEN)


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _read(arguments)
    places = [
        place
        for place, check in enumerate(CHECKS)
        if options.only in check.name and not (options.quick and check.is_long)
    ]
    results = []
    for result in _run_all(places, options.workers):
        results.append(result)
        if not options.json:
            print(_as_text(result, with_trace=options.trace), flush=True)
    print(json.dumps(_as_document(results)) if options.json else _summary(results))
    return 0 if all(result.is_as_expected for result in results) else 1


def _read(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m local.check_model",
        description="Visit every state of the protocol, with all of its rules and without each.",
    )
    parser.add_argument(
        "--quick", action="store_true", help="leave out the searches that take long"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="searches with this in their name"
    )
    parser.add_argument("--trace", action="store_true", help="show the way to what goes wrong")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per CPU)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(arguments)


def _run_all(places: Sequence[int], workers: int) -> Iterator[Checked]:
    if workers == 1:
        yield from map(_run, places)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield from pool.map(_run, places)


def _run(place: int) -> Checked:
    return run(CHECKS[place])


def _as_text(result: Checked, *, with_trace: bool) -> str:
    check = result.check
    mark = "ok" if result.is_as_expected else "NOT AS EXPECTED"
    without = "".join(f"\n      without: {rule}" for rule in check.without)
    found = "no violation, no dead end"
    if result.broken is not None:
        found = f"{result.broken.invariant}: broken in {len(result.broken.steps)} steps"
    elif result.stuck_count:
        found = f"{result.stuck_count} states from which nothing comes to rest"
    counts = f"{result.state_count:,} states, {result.step_count:,} steps, {result.seconds:.1f} s"
    lines = [f"{mark}  {check.name}{without}", f"      {found}; {counts}"]
    if with_trace and result.broken is not None:
        lines += [f"        {step}" for step in result.broken.steps]
    return "\n".join(lines)


def _summary(results: Sequence[Checked]) -> str:
    states = sum(result.state_count for result in results)
    judgments = sum(result.judgment_count for result in results)
    failures = sum(not result.is_as_expected for result in results)
    return (
        f"\n{len(results)} searches, {states:,} states, {judgments:,} looks at an invariant: "
        f"{failures or 'none'} not as expected"
    )


def _as_document(results: Sequence[Checked]) -> dict[str, object]:
    return {
        "searches": [
            {
                "name": result.check.name,
                "without": [str(rule) for rule in result.check.without],
                "states": result.state_count,
                "steps": result.step_count,
                "stuck": result.stuck_count,
                "broken": result.broken.invariant if result.broken else None,
                "trace": list(result.broken.steps) if result.broken else [],
                "as_expected": result.is_as_expected,
                "seconds": round(result.seconds, 1),
            }
            for result in results
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
