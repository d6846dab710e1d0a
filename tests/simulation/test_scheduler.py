"""Goal: exactly one task runs, in an order that the calls alone decide, and no thread stays."""

import threading
from collections.abc import Iterator

import pytest

from local.simulation.tasks import Interrupted, Scheduler, TooManySteps


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler(max_steps=1000)
    yield made
    made.close()


def test_tasks_take_turns_by_virtual_time(scheduler: Scheduler) -> None:
    order: list[tuple[str, float]] = []

    def tick(name: str, seconds: float) -> None:
        for _ in range(3):
            scheduler.pause(seconds)
            order.append((name, scheduler.now_seconds))

    scheduler.spawn("slow", lambda: tick("slow", 5.0))
    scheduler.spawn("fast", lambda: tick("fast", 2.0))
    scheduler.run()
    assert order == [
        ("fast", 2.0),
        ("fast", 4.0),
        ("slow", 5.0),
        ("fast", 6.0),
        ("slow", 10.0),
        ("slow", 15.0),
    ]


def test_what_is_due_at_once_runs_in_the_order_of_its_making(scheduler: Scheduler) -> None:
    order: list[int] = []
    for number in range(5):
        scheduler.call_after(1.0, lambda number=number: order.append(number))  # type: ignore[misc]
    scheduler.run()
    assert order == [0, 1, 2, 3, 4]


def test_a_waiting_task_can_be_woken(scheduler: Scheduler) -> None:
    woken_at_seconds: list[float] = []

    def wait() -> None:
        scheduler.pause(None)
        woken_at_seconds.append(scheduler.now_seconds)

    task = scheduler.spawn("waiting", wait)
    scheduler.call_after(3.0, lambda: scheduler.wake(task))
    scheduler.run()
    assert woken_at_seconds == [3.0]


def test_an_interrupted_task_ends_where_it_stands(scheduler: Scheduler) -> None:
    reached: list[str] = []

    def body() -> None:
        try:
            scheduler.pause(100.0)
        except Exception:  # noqa: BLE001 - what the code under test might do
            reached.append("caught")
        reached.append("went on")

    task = scheduler.spawn("doomed", body)
    scheduler.call_after(1.0, lambda: scheduler.interrupt(task))
    scheduler.run()
    assert reached == []
    assert task.is_done
    assert scheduler.now_seconds == 1.0


def test_an_interrupted_task_cannot_wait_any_more(scheduler: Scheduler) -> None:
    again: list[str] = []

    def body() -> None:
        try:
            scheduler.pause(100.0)
        finally:
            with pytest.raises(Interrupted):
                scheduler.pause(100.0)
            again.append("refused")

    task = scheduler.spawn("doomed", body)
    scheduler.call_after(1.0, lambda: scheduler.interrupt(task))
    scheduler.run()
    assert again == ["refused"]


def test_stop_lets_run_return_and_run_goes_on(scheduler: Scheduler) -> None:
    ticks: list[float] = []

    def tick() -> None:
        for _ in range(4):
            scheduler.pause(1.0)
            ticks.append(scheduler.now_seconds)

    scheduler.spawn("ticking", tick)
    scheduler.call_after(2.5, scheduler.stop)
    scheduler.run()
    assert ticks == [1.0, 2.0]
    scheduler.run()
    assert ticks == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("where", ["task", "action"])
def test_what_escapes_is_raised_by_run(scheduler: Scheduler, where: str) -> None:
    def fail() -> None:
        raise ValueError(where)

    if where == "task":
        scheduler.spawn("failing", fail)
    else:
        scheduler.call_after(1.0, fail)
    with pytest.raises(ValueError, match=where):
        scheduler.run()


def test_a_simulation_without_end_is_given_up(scheduler: Scheduler) -> None:
    def spin() -> None:
        while True:
            scheduler.pause(0.0)

    scheduler.spawn("spinning", spin)
    with pytest.raises(TooManySteps):
        scheduler.run()


def test_no_thread_outlives_close() -> None:
    before = threading.active_count()
    scheduler = Scheduler(max_steps=1000)
    for number in range(10):
        scheduler.spawn(f"waiting-{number}", lambda: scheduler.pause(None))
    scheduler.spawn("short", lambda: scheduler.pause(1.0))
    scheduler.run()
    scheduler.spawn("never started", lambda: scheduler.pause(None))
    scheduler.close()
    assert threading.active_count() == before
