"""Many seeds over several processes, and what they reached together."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from local.simulation.hazards import Hazard
from local.simulation.peer import PeerSummary, run_peer
from local.simulation.plan import PLACES, Flows, InterventionKind
from local.simulation.world import simulate
from shared.outcome import Outcome
from shared.ports import ClaimVerdict
from shared.record import State

Result = TypeVar("Result")

SEEDS_PER_BATCH = 20
SECONDS_BETWEEN_TELLING = 0.2

_UNREACHED_OUTCOMES = frozenset({Outcome.CANCELED, Outcome.WRONG_CURRENCY})
_UNREACHED_VERDICTS = frozenset({ClaimVerdict.WRONG_CURRENCY, ClaimVerdict.SUSPENDED})

WORTH_REACHING: Sequence[str] = (
    *(f"crash {place}" for place in PLACES),
    *(f"hazard {hazard}" for hazard in Hazard),
    *(f"intervention {kind}" for kind in InterventionKind),
    *(f"outcome {outcome}" for outcome in Outcome if outcome not in _UNREACHED_OUTCOMES),
    *(f"claim {verdict}" for verdict in ClaimVerdict if verdict not in _UNREACHED_VERDICTS),
    *(
        f"ending {state}"
        for state in (
            State.CHARGED,
            State.PROCESSING,
            State.DECLINED,
            State.REJECTED,
            State.PARKED,
        )
    ),
    "another attempt",
    "authenticated",
    "cap refusal beside unfinished holds",
    "dead letter MaxDeliveryCountExceeded",
    "decision breaker_open",
    "decision resolved",
    "late cancel",
    "late charge",
    "late charge moved money",
    "late confirm",
    "late confirm moved money",
    "late create",
    "lock lost",
    "pruned key",
    "redelivery",
    "resubmission",
    "stale finish of an earlier attempt",
    "stale finish of an unfinished record",
    "takeover",
)
"""What the seeds of the test suite must reach, or they prove less than they seem to."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A seed in which an invariant did not hold."""

    seed: int
    flows: Flows
    invariant: str
    detail: str
    without_idempotency: bool = False

    @property
    def replay(self) -> str:
        """The command that shows it again."""
        command = f"python -m local.simulate --trace {self.seed} --flow {self.flows}"
        return f"{command} --without-idempotency" if self.without_idempotency else command


@dataclass(slots=True)
class Summary:
    """What came of many seeds."""

    seed_count: int = 0
    seconds: float = 0.0
    coverage: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    @property
    def unreached(self) -> list[str]:
        """What was worth reaching and was not."""
        return [name for name in WORTH_REACHING if self.coverage[name] == 0]

    def add(self, other: "Summary") -> None:
        """Count another batch in."""
        self.seed_count += other.seed_count
        self.coverage += other.coverage
        self.failures += other.failures


def run_campaign(
    seeds: range,
    flows: Flows | None,
    workers: int,
    tell: Callable[[Summary], None],
    *,
    without_idempotency: bool = False,
) -> Summary:
    """Simulate every seed.

    Args:
        seeds: which.
        flows: which flows to use; None lets each seed choose.
        workers: processes to share the work.
        tell: told how it goes, now and then.
        without_idempotency: see `simulate`.
    """
    run = partial(_run_batch, flows=flows, without_idempotency=without_idempotency)
    summary = Summary()
    started = told = time.monotonic()
    for batch in _run_batches(run, _in_batches(seeds), workers):
        summary.add(batch)
        summary.seconds = time.monotonic() - started
        if time.monotonic() - told > SECONDS_BETWEEN_TELLING:
            told = time.monotonic()
            tell(summary)
    return summary


def run_peer_campaign(seeds: range, workers: int) -> PeerSummary:
    """Let the usual recipe live through every seed.

    Args:
        seeds: which.
        workers: processes to share the work.
    """
    summary = PeerSummary()
    for batch in _run_batches(run_peer, _in_batches(seeds), workers):
        summary.add(batch)
    return summary


def _in_batches(seeds: range) -> list[range]:
    return [
        seeds[first : first + SEEDS_PER_BATCH] for first in range(0, len(seeds), SEEDS_PER_BATCH)
    ]


def _run_batches(
    run: Callable[[range], Result], batches: Sequence[range], workers: int
) -> Iterable[Result]:
    if workers == 1:
        yield from map(run, batches)
        return
    # Not forked: the simulation makes threads, and a fork copies whatever they hold.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield from pool.map(run, batches)


def _run_batch(seeds: range, flows: Flows | None, *, without_idempotency: bool) -> Summary:
    summary = Summary(seed_count=len(seeds))
    for seed in seeds:
        report = simulate(seed, flows, without_idempotency=without_idempotency)
        summary.coverage.update(report.coverage)
        violation = report.violation
        if violation is not None:
            summary.failures.append(
                Failure(
                    seed,
                    report.plan.flows,
                    violation.invariant,
                    violation.detail,
                    without_idempotency,
                )
            )
    return summary
