"""What every part of a simulation shares, and the processes that act in it."""

import random
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from local.simulation.hazards import Chance, Hazard
from local.simulation.tasks import Interrupted, Scheduler, Task
from local.simulation.trace import Trace, TraceLine

STARTED_AT = datetime(2026, 12, 1, tzinfo=UTC)

WAIT_SECONDS_AT_MOST = 7200.0

ANOTHER_ATTEMPT = "another attempt"

RACING_PLACES = (
    *(ANOTHER_ATTEMPT,) * 10,
    "records.claim.after",
    "records.resume.after",
    "records.store_payment.before",
    "records.store_payment.after",
    "records.finish.before",
    "records.finish.after",
    "stripe.create.before",
    "stripe.confirm.before",
    "stripe.confirm.after",
    "stripe.cancel.before",
    "stripe.charge.before",
)
"""Where others are when it hurts most that a process wakes up which stood still."""


@dataclass(slots=True)
class Stage:
    """Whose turn it is, what time it is, chance, and what is written down.

    Args:
        seed: names the simulation.
        scheduler: virtual time and turns.
        chance: every choice.
        trace: what happened.
        coverage: how often each thing happened that a simulation is meant to reach.
        is_database_away: nobody reaches the database now.
    """

    seed: int
    scheduler: Scheduler
    chance: Chance
    trace: Trace = field(default_factory=Trace)
    coverage: Counter[str] = field(default_factory=Counter)
    is_database_away: bool = False
    _waiting: dict[Task, "Wait"] = field(default_factory=dict)
    _ambushes: dict[str, list[Callable[[], None]]] = field(default_factory=dict)

    @property
    def now_seconds(self) -> float:
        """Virtual time since the start."""
        return self.scheduler.now_seconds

    def now(self) -> datetime:
        """Virtual time as the database and Stripe tell it."""
        return STARTED_AT + timedelta(seconds=self.scheduler.now_seconds)

    def pass_place(self, process: "Process", place: str) -> None:
        """Let a process come by a place; what waits for that happens, who waits for it goes on."""
        for action in self._ambushes.pop(place, ()):
            self.scheduler.call_after(0.0, action)
        for task, wait in self._waiting.items():
            if wait.place == place and wait.process is not process:
                wait.passes -= 1
                if wait.passes == 0:
                    self.scheduler.wake(task)

    def ambush(self, place: str, action: Callable[[], None]) -> None:
        """Do something as soon as any process comes by a place. The action must not wait."""
        self._ambushes.setdefault(place, []).append(action)

    @property
    def is_somebody_waiting(self) -> bool:
        """Whether a process lies in wait for others."""
        return bool(self._waiting)

    def lie_in_wait(self, wait: "Wait") -> None:
        """Stand still until others have come by a place, or not for hours."""
        task = self.scheduler.current
        self._waiting[task] = wait
        try:
            self.scheduler.pause(WAIT_SECONDS_AT_MOST)
        finally:
            del self._waiting[task]

    def tell(self, who: str, what: str, detail: str = "") -> None:
        """Write down that something happened."""
        self.trace.lines.append(TraceLine(self.scheduler.now_seconds, who, what, detail))

    def cover(self, name: str) -> None:
        """Count something that simulations are meant to reach."""
        self.coverage[name] += 1


@dataclass(slots=True)
class Wait:
    """A process that stands still until others have come by a place so many times."""

    process: "Process"
    place: str
    passes: int


class Process:
    """One instance of the service: its tasks live and die together. Also its clock port.

    Args:
        stage: where it acts.
        name: in the trace.
        incarnation: how often it was started; a process that comes back draws other numbers.
    """

    def __init__(self, stage: Stage, name: str, incarnation: int = 1) -> None:
        self.stage = stage
        self.name = name
        self.on_crash: Callable[[], None] = lambda: None
        self._random = random.Random(f"process:{stage.seed}:{name}:{incarnation}")
        self._tasks: list[Task] = []

    def spawn(self, body: Callable[[], None]) -> None:
        """Start one more worker in this process."""
        self._tasks.append(self.stage.scheduler.spawn(self.name, body))

    def tell(self, what: str, detail: str = "") -> None:
        """Write down what this process does."""
        self.stage.tell(self.name, what, detail)

    def cross(self, place: str) -> None:
        """Leave the code under test at a port: others may run, and this process may die here.

        Args:
            place: port, method and side, such as `records.claim.before`.
        """
        self.risk_crash(place)
        chance = self.stage.chance
        # While one lies in wait the others go on, or nothing would ever come by.
        if chance.strikes_at(Hazard.FREEZE, place) and not self.stage.is_somebody_waiting:
            self._freeze(place)
        self.stage.scheduler.pause(chance.latency_seconds())

    def risk_crash(self, place: str) -> None:
        """Leave the code under test at a port where it will wait anyway.

        Args:
            place: port, method and side.
        """
        self.stage.coverage["crossings"] += 1
        self.stage.pass_place(self, place)
        if self.stage.chance.strikes_at(Hazard.CRASH, place):
            self._crash(place)

    def kill(self) -> None:
        """End all tasks, wherever they stand; the running one at its next pause."""
        for task in self._tasks:
            self.stage.scheduler.interrupt(task)
        self._tasks.clear()

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self.stage.now_seconds

    def now(self) -> datetime:
        """See `Clock.now`."""
        return self.stage.now()

    def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        self.cross("clock.sleep.before")
        self.stage.scheduler.pause(seconds)

    def random(self) -> float:
        """See `Clock.random`."""
        return self._random.random()

    def token(self) -> str:
        """See `Clock.token`."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _crash(self, place: str) -> None:
        """Die with all tasks, wherever they stand. The running one dies at this line.

        Raises:
            Interrupted: in the task that runs.
        """
        self.tell("crash", f"at {place}")
        self.stage.cover(f"crash {place}")
        self.stage.cover("hazard crash")
        self.kill()
        self.on_crash()
        raise Interrupted

    def _freeze(self, place: str) -> None:
        """Stand still: for a time, or until another process is where it hurts most."""
        stage, chance = self.stage, self.stage.chance
        stage.cover("hazard freeze")
        if chance.happens(0.3):
            seconds = chance.freeze_seconds()
            self.tell("freeze", f"at {place} for {seconds:.0f} s")
            stage.scheduler.pause(seconds)
            return
        wait = Wait(self, chance.choose(RACING_PLACES), chance.choose((1, 1, 2, 3, 5)))
        self.tell("freeze", f"at {place} until others pass {wait.place} {wait.passes} times")
        stage.lie_in_wait(wait)
        self.tell("go on", f"at {place}")
