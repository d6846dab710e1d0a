"""Tasks that take turns: real threads, of which exactly one runs, in an order that is decided here.

The code under test is plain and synchronous, so each task needs a stack of its own. A thread has
one without any dependency, and it runs only while it holds the baton. Handing the baton over costs
some tens of microseconds, a tenth of what one simulated request does, so that a library of faster
switches would buy little.
"""

import heapq
import threading
from collections.abc import Callable
from dataclasses import dataclass

JOIN_SECONDS = 10.0


class Interrupted(BaseException):
    """Ends a task where it stands. Not an `Exception`: the code under test must not catch it."""


class TooManySteps(Exception):
    """The simulation does not come to rest."""


@dataclass(slots=True, eq=False)
class _Appointment:
    """A task to be resumed, or else something to be done."""

    task: "Task | None"
    action: Callable[[], None] | None
    is_canceled: bool = False


class Task:
    """One line of execution. It runs only when the scheduler lets it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_done = False
        self.is_interrupted = False
        self.gate = threading.Lock()
        self.gate.acquire()
        self.appointment: _Appointment | None = None
        self.thread: threading.Thread | None = None


class Scheduler:
    """Virtual time, and who runs when. Whoever waits runs the world until somebody is due.

    Appointments are kept in the order of their time, then of their making, so the same calls give
    the same order for ever.

    Args:
        max_steps: more appointments than this, and the simulation is given up.
    """

    def __init__(self, max_steps: int) -> None:
        self.now_seconds = 0.0
        self._steps = 0
        self._max_steps = max_steps
        self._made = 0
        self._due: list[tuple[float, int, _Appointment]] = []
        self._main = Task("main")
        self._current = self._main
        self._tasks: list[Task] = []
        self._failure: BaseException | None = None
        self._is_stopped = False

    @property
    def current(self) -> Task:
        """The task that runs now."""
        return self._current

    def spawn(self, name: str, body: Callable[[], None]) -> Task:
        """Make a task that starts as soon as it is its turn."""
        task = Task(name)
        thread = threading.Thread(target=self._live, args=(task, body), name=name, daemon=True)
        task.thread = thread
        self._tasks.append(task)
        task.appointment = self._appoint(0.0, task, None)
        thread.start()
        return task

    def call_after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something later. The action must not wait."""
        self._appoint(seconds, None, action)

    def pause(self, seconds: float | None) -> None:
        """Let the others run.

        Args:
            seconds: how long, in virtual time; None to wait until somebody calls `wake`.

        Raises:
            Interrupted: the task is to end here.
        """
        task = self._current
        if not task.is_interrupted:
            task.appointment = None if seconds is None else self._appoint(seconds, task, None)
            self._hand_over(task)
        if task.is_interrupted:
            raise Interrupted

    def wake(self, task: Task) -> None:
        """Resume a task that pauses, now."""
        if task.is_done or task is self._current:
            return
        if task.appointment is not None:
            task.appointment.is_canceled = True
        task.appointment = self._appoint(0.0, task, None)

    def interrupt(self, task: Task) -> None:
        """End a task where it pauses; the running one at its next pause."""
        task.is_interrupted = True
        self.wake(task)

    def stop(self) -> None:
        """Let `run` return at the next pause of whatever runs."""
        self._is_stopped = True

    def run(self) -> None:
        """Run until `stop` is called, or until nothing is due any more.

        Raises:
            TooManySteps: there were more appointments than allowed.
            BaseException: whatever a task or an action let escape.
        """
        self._is_stopped = False
        self._hand_over(self._main)
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """End every task and its thread."""
        self._is_stopped = True
        for task in self._tasks:
            if not task.is_done:
                task.is_interrupted = True
                self._current = task
                task.gate.release()
                self._main.gate.acquire()
        for task in self._tasks:
            if task.thread is not None:
                task.thread.join(JOIN_SECONDS)

    def _live(self, task: Task, body: Callable[[], None]) -> None:
        task.gate.acquire()
        try:
            if not task.is_interrupted:
                body()
        except Interrupted:
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised again by `run`
            self._fail(error)
        task.is_done = True
        self._hand_over(None)

    def _hand_over(self, me: Task | None) -> None:
        """Give the baton to whoever is next and wait to get it back; None never gets it back."""
        following = self._choose()
        self._current = following
        if following is me:
            return
        following.gate.release()
        if me is not None:
            me.gate.acquire()

    def _choose(self) -> Task:
        while self._due and not self._is_stopped:
            due_at, _, appointment = heapq.heappop(self._due)
            if appointment.is_canceled:
                continue
            self.now_seconds = due_at
            self._count_step()
            if appointment.task is not None:
                return appointment.task
            if appointment.action is not None:
                self._act(appointment.action)
        return self._main

    def _act(self, action: Callable[[], None]) -> None:
        self._current = self._main
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - it is raised again by `run`
            self._fail(error)

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > self._max_steps:
            self._fail(TooManySteps(f"{self._max_steps} steps"))

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._is_stopped = True

    def _appoint(
        self, seconds: float, task: Task | None, action: Callable[[], None] | None
    ) -> _Appointment:
        appointment = _Appointment(task, action)
        self._made += 1
        heapq.heappush(self._due, (self.now_seconds + seconds, self._made, appointment))
        return appointment
