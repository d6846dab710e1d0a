"""`python -m local.simulate`: run seeds, or show what happened in one.

    python -m local.simulate --seeds 1000
    python -m local.simulate --trace 17 --flow payment_intent

Exit code: 0 when every invariant held, 1 when one did not, or when a long campaign never came to
something that it is there to reach.
"""

import argparse
import json
import os
import sys

from local.simulation import Flows, Summary, run_campaign, run_peer_campaign, simulate

FAILURES_SHOWN = 10
# So many seeds reach all that is worth reaching, or something is wrong with them.
SEEDS_THAT_REACH_ALL = 1000


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _read(arguments)
    flows = None if options.flow is None else Flows(options.flow)
    if options.without_idempotency and flows is not Flows.PAYMENT_INTENT:
        print("--without-idempotency needs --flow payment_intent: the other flow rests on keys")
        return 2
    if options.trace is not None:
        return _show_trace(options.trace, flows, without_idempotency=options.without_idempotency)
    seeds = range(options.first, options.first + options.seeds)
    if options.peer:
        return _show_peer(seeds, options)
    is_told = sys.stderr.isatty() and not options.json
    summary = run_campaign(
        seeds,
        flows,
        options.workers,
        _tell if is_told else lambda _: None,
        without_idempotency=options.without_idempotency,
    )
    if is_told:
        print("\r\x1b[K", end="", file=sys.stderr)
    print(_as_json(summary) if options.json else _as_text(summary))
    is_blind = flows is None and options.seeds >= SEEDS_THAT_REACH_ALL and summary.unreached
    return 1 if summary.failures or is_blind else 0


def _read(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m local.simulate",
        description="Interleave consumers, crashes and lost answers, and judge by Stripe's ledger.",
    )
    parser.add_argument("--seeds", type=int, default=1000, help="how many (default 1000)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument(
        "--flow", choices=list(Flows), help="which flow (default: each seed chooses)"
    )
    parser.add_argument(
        "--without-idempotency",
        action="store_true",
        help="Stripe knows no idempotency keys (with --flow payment_intent)",
    )
    parser.add_argument(
        "--peer", action="store_true", help="run the usual recipe in place of our own consumers"
    )
    parser.add_argument("--trace", type=int, metavar="SEED", help="show one seed step by step")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per CPU)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(arguments)


def _show_trace(seed: int, flows: Flows | None, *, without_idempotency: bool) -> int:
    report = simulate(seed, flows, without_idempotency=without_idempotency)
    print(report.trace.render(), end="")
    if report.violation is None:
        print(f"\nseed {seed} ({report.plan.flows}): every invariant held")
        return 0
    print(f"\nseed {seed} ({report.plan.flows}): VIOLATED: {report.violation.invariant}")
    print(f"  {report.violation.detail}")
    return 1


def _show_peer(seeds: range, options: argparse.Namespace) -> int:
    """Show what the usual recipe costs; it always ends with 0, because it promises nothing."""
    summary = run_peer_campaign(seeds, options.workers)
    causes = {str(cause): count for cause, count in sorted(summary.double_charges.items())}
    total = sum(causes.values())
    if options.json:
        document = {
            "schedules": summary.schedules,
            "customers": summary.customers,
            "double_charges": total,
            "culprits": summary.culprits,
            "causes": causes,
        }
        print(json.dumps(document))
        return 0
    print(f"{total:,d} double charges of {summary.customers:,d} customers")
    print(f"in {len(summary.culprits):,d} of {summary.schedules:,d} schedules")
    for cause, count in causes.items():
        print(f"{count:7,d}  {cause}")
    return 0


def _tell(summary: Summary) -> None:
    failed = len(summary.failures)
    print(f"\r{summary.seed_count} seeds, {failed} violations", end="", file=sys.stderr, flush=True)


def _as_json(summary: Summary) -> str:
    violations = [
        {
            "seed": failure.seed,
            "flow": failure.flows,
            "invariant": failure.invariant,
            "detail": failure.detail,
            "replay": failure.replay,
        }
        for failure in summary.failures
    ]
    return json.dumps(
        {
            "seeds": summary.seed_count,
            "seconds": round(summary.seconds, 1),
            "crossings": summary.coverage["crossings"],
            "violations": violations,
            "unreached": summary.unreached,
            "coverage": dict(sorted(summary.coverage.items())),
        }
    )


def _as_text(summary: Summary) -> str:
    seeds = max(summary.seed_count, 1)
    rate = seeds / max(summary.seconds, 0.001)
    crossings = summary.coverage["crossings"] / seeds
    lines = [f"{count:9,d}  {name}" for name, count in sorted(summary.coverage.items())]
    if summary.unreached:
        lines += ["", "never reached: " + ", ".join(summary.unreached)]
    for failure in summary.failures[:FAILURES_SHOWN]:
        lines.append("")
        lines.append(f"VIOLATED in seed {failure.seed}: {failure.invariant}")
        lines.append(f"  {failure.detail}")
        lines.append(f"  {failure.replay}")
    lines.append("")
    lines.append(f"seeds: {seeds:,d} in {summary.seconds:.1f} s ({rate:.0f}/s)")
    lines.append(f"port crossings in each: {crossings:.0f}")
    lines.append(f"violations: {len(summary.failures)}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
