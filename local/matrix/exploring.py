"""Killing, recovering, killing again, and judging what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from local.matrix.scenarios import SCENARIOS, Scenario
from local.matrix.world import CLOUDS, PERIOD, Life, Provider, World
from shared.record import FINAL, Flow, State

HOUR_SECONDS = 3600.0
AFTER_THE_LOCK_SECONDS = 400.0
AFTER_THE_PAUSE_SECONDS = 1200.0
RESUBMITTED_AFTER_SECONDS = 26 * HOUR_SECONDS
ROUNDS_AT_MOST = 12


class Recovery(StrEnum):
    """Who goes on after a death."""

    REDELIVERY = "redelivery"
    RECONCILE = "reconcile"
    RESUBMISSION = "resubmission"


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of the matrix: what is charged, where it dies, who recovers, where that dies."""

    scenario: Scenario
    flow: Flow
    provider: Provider
    recovery: Recovery
    first: int | None
    second: int | None = None

    @property
    def replay(self) -> str:
        """The command that shows it again."""
        return (
            f"python -m local.check_crashes --scenario '{self.scenario.name}' --flow {self.flow} "
            f"--provider {self.provider} --recovery {self.recovery} "
            f"--crash {self.first} --crash-again {self.second}"
        )


@dataclass(slots=True)
class Ran:
    """What came of a case: the crossings of its lives, and what is wrong, if anything is."""

    case: Case
    first_names: Sequence[str] = ()
    second_names: Sequence[str] = ()
    problems: list[str] = field(default_factory=list)


def run(case: Case) -> Ran:
    """Run one case to its end, and judge it."""
    world = World(case.scenario, case.flow, case.provider)
    ran = Ran(case)
    life = Life(world, CLOUDS[0], case.first)
    life.live(*_first_actions(case.scenario))
    ran.first_names = life.crossings.names
    ran.second_names = _recover(world, case, case.second)
    if case.second is not None:
        _recover(world, case, None)
    _come_to_rest(world)
    ran.problems = list(_problems(world))
    return ran


def cases(
    scenarios: Sequence[Scenario] = SCENARIOS,
    flows: Sequence[Flow] = tuple(Flow),
    providers: Sequence[Provider] = tuple(Provider),
    *,
    with_pairs: bool = True,
) -> Iterator[tuple[Ran, bool]]:
    """Run every case, one after the other.

    Args:
        scenarios: which.
        flows: in which flows.
        providers: through what.
        with_pairs: kill the recoveries too.

    Yields:
        What came of each, and whether it was killed twice.
    """
    for scenario in scenarios:
        for flow in flows:
            for provider in providers:
                if flow in scenario.flows:
                    yield from _cases_of(scenario, flow, provider, with_pairs=with_pairs)


def _cases_of(
    scenario: Scenario, flow: Flow, provider: Provider, *, with_pairs: bool
) -> Iterator[tuple[Ran, bool]]:
    for recovery in Recovery:
        whole = run(Case(scenario, flow, provider, recovery, None))
        yield whole, False
        for first in range(len(whole.first_names)):
            once = run(Case(scenario, flow, provider, recovery, first))
            yield once, False
            for second in range(len(once.second_names) if with_pairs else 0):
                yield run(Case(scenario, flow, provider, recovery, first, second)), True


def _first_actions(scenario: Scenario) -> list[Callable[[Life], None]]:
    actions: list[Callable[[Life], None]] = [Life.mint, Life.deliver]
    return actions + _later_actions(scenario)


def _later_actions(scenario: Scenario) -> list[Callable[[Life], None]]:
    """What people do in a scenario; whoever died over it does it again."""
    actions: list[Callable[[Life], None]] = []
    if scenario.mends:
        actions += [Life.mend_card, Life.deliver]
    if scenario.cancels:
        actions += [Life.cancel]
    return actions


def _recover(world: World, case: Case, kill_at: int | None) -> Sequence[str]:
    """Let others go on after a death; the crossings that they came by."""
    if case.flow is Flow.CHARGE:
        # This flow does not stand a request that is later than two leases: docs/model.md.
        world.let_late_requests_arrive()
    if case.recovery is Recovery.RESUBMISSION:
        world.clock.seconds += RESUBMITTED_AFTER_SECONDS
        for message in world.messages:
            message.message_id += "-again"
    elif case.recovery is Recovery.RECONCILE:
        world.clock.seconds += AFTER_THE_PAUSE_SECONDS
    else:
        world.clock.seconds += AFTER_THE_LOCK_SECONDS
    goes_on = Life.reconcile if case.recovery is Recovery.RECONCILE else Life.deliver
    life = Life(world, CLOUDS[1], kill_at)
    life.live(Life.mint, goes_on, *_later_actions(case.scenario))
    world.let_late_requests_arrive()
    return life.crossings.names


def _come_to_rest(world: World) -> None:
    """Let days pass without another death, until nothing is left to do."""
    for _ in range(ROUNDS_AT_MOST):
        if _is_at_rest(world):
            return
        world.clock.seconds += RESUBMITTED_AFTER_SECONDS
        world.settle_debits()
        later = _later_actions(world.scenario)
        Life(world).live(Life.mint, Life.deliver, Life.reconcile, *later)


def _is_at_rest(world: World) -> bool:
    record = world.record()
    has_ended = record is not None and record.state in FINAL | {State.PARKED}
    is_done = not world.scenario.cancels or world.is_canceled
    has_mended = not world.scenario.mends or len(world.messages) > 1
    is_empty = all(message.settlement for message in world.messages)
    return has_ended and is_done and has_mended and is_empty and not world.store.kept_messages


def _problems(world: World) -> Iterator[str]:
    """Whatever is not as it must be, by Stripe's ledger first."""
    record, payments = world.record(), world.payments()
    if payments > 1:
        yield f"{payments} payments succeeded"
    if record is None or not _is_at_rest(world):
        yield "it does not come to rest"
        return
    if record.state not in world.scenario.ends:
        yield f"the record ended as {record.state} ({record.code})"
    if (payments == 1) is not (record.state is State.CHARGED):
        yield f"the record says {record.state}, and {payments} payments succeeded"
    run = world.store.get_run(PERIOD)
    assert run is not None
    if (run.held_cents, run.charged_cents) != (0, payments * record.fingerprint.amount_cents):
        yield f"the run holds {run.held_cents} and has charged {run.charged_cents}"
    is_parked = {line.envelope.message_id for line in world.store.parked_events}
    for message in world.messages:
        if message.settlement == "dead-lettered" and not is_parked:
            yield f"{message.message_id} was dead-lettered without a copy"
    if world.provider is Provider.PROXY:
        yield from _vault_problems(world)


def _vault_problems(world: World) -> Iterator[str]:
    """One live key for the run, the stored one, once the timer has come by in peace."""
    Life(world).live(Life.mint)
    live = [key for key in world.vault.list_keys(None) if key.is_live(world.clock.now())]
    (watched,) = world.store.watch_runs()
    stored_id = watched.key.key_id if watched.key else None
    if [key.key_id for key in live] != [stored_id]:
        yield f"{len(live)} vault keys live, and {stored_id} is stored"
