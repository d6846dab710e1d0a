"""The comparison from its first process to the scores."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import grpc

from local.demo.comparison.contestant import ENTRIES, Contestant, enter
from local.demo.comparison.schedule import ComparisonPlan, Schedule, write_schedule
from local.demo.comparison.score import Comparison, score
from local.demo.errors import DemoFailed
from local.demo.screen import Screen
from local.demo.waiting import wait_until
from local.postgres import database_server
from local.pubsub_emulator import Effect, EmulatorProcess, Fault, Target

PROJECT: Final = "chargeonce-comparison"
# Deliveries of which a second one comes while the first runs, as after a lost extension.
DELIVERED_TWICE: Final = 0.05
KILL_AFTER_SHARE: Final = 0.25
DAY_SECONDS: Final = 180.0
# In which the leases of workers lapse that are gone.
NIGHT_SECONDS: Final = 60.0
# Longer than the lease of a killed worker's messages, after which somebody else gets them.
QUIET_SECONDS: Final = 12.0
LATER_SECONDS: Final = 25 * 3600.0


def play_comparison(plan: ComparisonPlan, screen: Screen) -> Comparison:
    """Play the same schedule with every contestant.

    Args:
        plan: What was asked for.
        screen: Where it tells how far it is.

    Raises:
        DemoFailed: A contestant's workers do not work at all.
    """
    started = time.monotonic()
    schedule = write_schedule(plan)
    with _log_directory() as log_directory, ExitStack() as stack:
        screen.show_progress("starting three of everything", 0, len(ENTRIES))
        contestants = _enter_all(stack, plan, schedule, log_directory)
        _play_first_day(contestants, schedule, screen)
        _play_next_day(contestants, schedule, screen)
        scores = {
            each.entry.name: score(
                schedule,
                each.simulator.control.ledger(),
                each.workers_stuck,
                each.messages_stuck,
            )
            for each in contestants
        }
    seconds = round(time.monotonic() - started, 1)
    return Comparison(plan.seed, plan.customers, schedule.expected_cents, scores, seconds)


def _enter_all(
    stack: ExitStack, plan: ComparisonPlan, schedule: Schedule, log_directory: Path
) -> Sequence[Contestant]:
    databases = stack.enter_context(database_server(fsync=False))
    emulator = stack.enter_context(EmulatorProcess(project=PROJECT, seed=plan.seed))
    channel = stack.enter_context(grpc.insecure_channel(emulator.host_and_port))
    twice = Fault(Target.DELIVERY, Effect.DUPLICATE, probability=DELIVERED_TWICE)
    emulator.control.inject(twice)
    return [
        enter(stack, entry, schedule, databases.create_database(), emulator, channel, log_directory)
        for entry in ENTRIES
    ]


def _play_first_day(contestants: Sequence[Contestant], schedule: Schedule, screen: Screen) -> None:
    doing = "charging, with answers lost and messages delivered twice"
    for contestant in contestants:
        contestant.publish(schedule.first_day)
        contestant.workers.start()
    for contestant in contestants:
        enough = KILL_AFTER_SHARE * len(schedule.subjects)
        if not wait_until(_has_charged(contestant, enough), DAY_SECONDS):
            raise DemoFailed(f"the workers of {contestant.entry.title} charge nobody")
        contestant.workers.kill_one()
    screen.say("Killed one process of each (SIGKILL) while it was charging.")
    for contestant in _wait_for_evening(contestants, schedule, screen, doing):
        contestant.note_who_is_stuck()


def _play_next_day(contestants: Sequence[Contestant], schedule: Schedule, screen: Screen) -> None:
    for contestant in contestants:
        contestant.workers.stop()
        contestant.simulator.control.advance_clock(LATER_SECONDS)
    wait_until(lambda: not any(each.backlog().outstanding for each in contestants), NIGHT_SECONDS)
    for contestant in contestants:
        contestant.publish(schedule.next_day)
        contestant.workers.start()
    screen.say(
        f"Stripe's clock moved on by {LATER_SECONDS / 3600:.0f} hours; all workers were started "
        f"anew, and {len(schedule.next_day)} events were sent again under new message ids."
    )
    _wait_for_evening(contestants, schedule, screen, "the same, a day later")


def _has_charged(contestant: Contestant, enough: float) -> Callable[[], bool]:
    return lambda: contestant.charge_count() >= enough


def _wait_for_evening(
    contestants: Sequence[Contestant], schedule: Schedule, screen: Screen, doing: str
) -> Sequence[Contestant]:
    """Wait until everything is done with, or nothing moves; return those who stand still."""
    watches = [_Watch(contestant) for contestant in contestants]
    owing = len(schedule.subjects)

    def is_over() -> bool:
        ends = [watch.is_over() for watch in watches]
        done = sum(min(watch.charges, owing) for watch in watches)
        screen.show_progress(doing, done, owing * len(watches))
        return all(ends)

    wait_until(is_over, DAY_SECONDS)
    return [watch.contestant for watch in watches if watch.stands_still]


class _Watch:
    """Tells when a contestant has come to an end with its events, or to a standstill."""

    def __init__(self, contestant: Contestant) -> None:
        self.contestant = contestant
        self.charges = contestant.charge_count()
        self.stands_still = False
        self._deliveries = contestant.delivery_count()
        # Not before workers have started can they come to a standstill.
        self._moved_at: float | None = None

    def is_over(self) -> bool:
        """Whether nothing is left, or nobody was given or charged anything for a while."""
        is_drained = not self.contestant.backlog().messages
        now = time.monotonic()
        deliveries, charges = self.contestant.delivery_count(), self.contestant.charge_count()
        if (deliveries, charges) != (self._deliveries, self.charges):
            self._deliveries, self.charges, self._moved_at = deliveries, charges, now
        is_quiet = self._moved_at is not None and now - self._moved_at > QUIET_SECONDS
        self.stands_still = is_quiet and not is_drained
        return is_drained or is_quiet


@contextmanager
def _log_directory() -> Iterator[Path]:
    """Yield a directory for the workers' output; it stays when the comparison fails."""
    directory = Path(tempfile.mkdtemp(prefix="chargeonce-comparison-"))
    try:
        yield directory
    except DemoFailed as error:
        raise DemoFailed(f"{error}\nLogs are in {directory}") from error
    except BaseException:
        shutil.rmtree(directory)
        raise
    shutil.rmtree(directory)
