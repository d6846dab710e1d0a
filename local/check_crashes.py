"""`python -m local.check_crashes`: kill the billing code at each port crossing, and again.

    python -m local.check_crashes                     # every crash, and every pair of crashes
    python -m local.check_crashes --singles           # every crash
    python -m local.check_crashes --scenario declined --flow charge --provider ledger \\
        --recovery reconcile --crash 7 --crash-again 3

Exit code: 0 when everything held, 1 when something did not.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from local.matrix.exploring import Case, Ran, Recovery, cases, run
from local.matrix.scenarios import SCENARIOS, Scenario
from local.matrix.world import Provider
from shared.record import Flow

PROBLEMS_SHOWN = 10
ONCE, TWICE = "crashes", "pairs of crashes"


@dataclass(slots=True)
class Tally:
    """What the cases of a scenario came to."""

    counts: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[str, Sequence[str]]] = field(default_factory=list)

    def add(self, ran: Ran, *, is_twice: bool) -> None:
        """Count one case in."""
        if ran.case.first is not None:
            self.counts[TWICE if is_twice else ONCE] += 1
            self.points[ran.first_names[ran.case.first]] += 1
        if ran.problems:
            self.failed.append((ran.case.replay, ran.problems))


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _read(arguments)
    chosen = [one for one in SCENARIOS if options.scenario in (None, one.name)]
    if not chosen:
        print(f"there is no scenario {options.scenario!r}", file=sys.stderr)
        return 2
    if options.crash is not None:
        return _show(chosen[0], options)
    started = time.monotonic()
    tallies = check(chosen, options, with_pairs=not options.singles)
    seconds = time.monotonic() - started
    print(_as_json(tallies, seconds) if options.json else _as_text(tallies, seconds))
    return 1 if any(tally.failed for tally in tallies.values()) else 0


def check(
    scenarios: Sequence[Scenario], options: argparse.Namespace, *, with_pairs: bool
) -> dict[str, Tally]:
    """Run the cases of scenarios.

    Args:
        scenarios: which.
        options: of the command line: the flow, the provider, how many processes share the work.
        with_pairs: kill the recoveries too.
    """
    flows = tuple(Flow) if options.flow is None else (options.flow,)
    providers = tuple(Provider) if options.provider is None else (options.provider,)
    tally = partial(_tally, flows=flows, providers=providers, with_pairs=with_pairs)
    names = [scenario.name for scenario in scenarios]
    if options.workers == 1:
        return dict(zip(names, map(tally, scenarios), strict=True))
    with ProcessPoolExecutor(options.workers) as pool:
        return dict(zip(names, pool.map(tally, scenarios), strict=True))


def _tally(
    scenario: Scenario,
    *,
    flows: Sequence[Flow],
    providers: Sequence[Provider],
    with_pairs: bool,
) -> Tally:
    # What the code under test logs about each delivery is not what is looked at.
    logging.disable()
    tally = Tally()
    for ran, is_twice in cases([scenario], flows, providers, with_pairs=with_pairs):
        tally.add(ran, is_twice=is_twice)
    return tally


def _read(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m local.check_crashes",
        description="Kill the billing code at each port crossing, recover, and kill it again.",
    )
    parser.add_argument("--scenario", metavar="NAME", help="one of them")
    parser.add_argument("--singles", action="store_true", help="kill once only")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per CPU)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--crash", type=int, metavar="N", help="show one case: where it dies")
    parser.add_argument("--crash-again", type=_number, metavar="N", help="where its recovery dies")
    parser.add_argument("--flow", type=Flow, choices=list(Flow), help="one of them")
    parser.add_argument("--provider", type=Provider, choices=list(Provider), help="one of them")
    parser.add_argument(
        "--recovery", type=Recovery, choices=list(Recovery), default=Recovery.REDELIVERY
    )
    return parser.parse_args(arguments)


def _number(text: str) -> int | None:
    return None if text == "None" else int(text)


def _show(scenario: Scenario, options: argparse.Namespace) -> int:
    case = Case(
        scenario,
        options.flow or Flow.PAYMENT_INTENT,
        options.provider or Provider.LEDGER,
        options.recovery,
        options.crash,
        options.crash_again,
    )
    ran = run(case)
    print("the first life:", *ran.first_names, sep="\n  ")
    print(f"the {case.recovery}:", *ran.second_names, sep="\n  ")
    print(*(ran.problems or ["everything held"]), sep="\n")
    return 1 if ran.problems else 0


def _as_json(tallies: dict[str, Tally], seconds: float) -> str:
    document = {
        "scenarios": {name: dict(tally.counts) for name, tally in tallies.items()},
        "points": len(_points(tallies)),
        "crashes": _total(tallies, ONCE),
        "pairs": _total(tallies, TWICE),
        "seconds": round(seconds, 1),
        "problems": [
            {"replay": replay, "problems": problems}
            for tally in tallies.values()
            for replay, problems in tally.failed
        ],
    }
    return json.dumps(document)


def _as_text(tallies: dict[str, Tally], seconds: float) -> str:
    lines = [
        f"{tally.counts[ONCE]:7,d} crashes {tally.counts[TWICE]:9,d} pairs  {name}"
        for name, tally in tallies.items()
    ]
    failed = [one for tally in tallies.values() for one in tally.failed]
    for replay, problems in failed[:PROBLEMS_SHOWN]:
        lines += ["", *problems, f"  {replay}"]
    lines += [
        "",
        f"crash points: {len(_points(tallies))}",
        f"crashes: {_total(tallies, ONCE):,d}",
        f"pairs: {_total(tallies, TWICE):,d}",
        f"seconds: {seconds:.0f}",
        f"problems: {len(failed)}",
    ]
    return "\n".join(lines)


def _points(tallies: dict[str, Tally]) -> set[str]:
    return {name for tally in tallies.values() for name in tally.points}


def _total(tallies: dict[str, Tally], name: str) -> int:
    return sum(tally.counts[name] for tally in tallies.values())


if __name__ == "__main__":
    sys.exit(main())
