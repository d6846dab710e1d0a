"""The demo from its first process to its books: publish, break things, wait, read the ledger."""

import logging
import os
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Final

import psutil

from local.demo.books import Books
from local.demo.errors import DemoFailed
from local.demo.judge import Evidence, judge
from local.demo.mischief import faults, late_answers
from local.demo.plan import CAP_PERCENT, CURRENCY, PERIOD, DemoPlan, resend, resubmit, write_script
from local.demo.screen import Screen
from local.demo.stage import PROCESSES, WORKERS, Stage, set_up
from local.demo.waiting import wait_until
from local.google_function import GoogleFunction
from shared.decision_log import LOGGER_NAME
from shared.reconcile import reconcile
from shared.record import FINAL, State
from shared.runs import cap_from_expected
from shared.settings import read_settings
from shared.wiring import build_biller

KILL_AFTER_SHARE: Final = 0.3
# The emulator pushes only two or three messages at a time.
HELD_WHEN_KILLED: Final = 2
KILL_SECONDS: Final = 15.0
RESTART_SECONDS: Final = 30.0
SETTLE_SECONDS: Final = 180.0
RECONCILE_SECONDS: Final = 60.0
DEAD_LETTER_SECONDS: Final = 20.0
LATER_SECONDS: Final = 25 * 3600.0
RESENT_EVENTS: Final = 40


def play(plan: DemoPlan, screen: Screen) -> Books:
    """Play the demo and judge it.

    Args:
        plan: What was asked for.
        screen: Where it tells how far it is.

    Raises:
        DemoFailed: It could not be played to its end.
    """
    started = time.monotonic()
    with _log_directory() as log_directory, _ending_on_termination(), ExitStack() as stack:
        stage = set_up(stack, plan, write_script(plan), screen, log_directory)
        screen.say(
            f"Ready after {time.monotonic() - started:.0f} seconds: PostgreSQL, the Stripe "
            f"simulator, {stage.broker.name}, the push function in {PROCESSES} processes"
            f"{_with_workers(stage)}."
        )
        _perform(stage)
        books = _write_books(stage, _gather(stage), time.monotonic() - started)
    if books.promises_broken:
        return replace(books, log_directory=log_directory)
    shutil.rmtree(log_directory)
    return books


def _with_workers(stage: Stage) -> str:
    """Who else there is: workers that get each event as well, from a subscription of their own."""
    if stage.broker.pull_subscription is None:
        return ""
    return f", and {WORKERS} pull workers that get every event a second time"


def _perform(stage: Stage) -> None:
    cap_cents = cap_from_expected(stage.script.expected_cents, CAP_PERCENT)
    stage.store.open_run(PERIOD, CURRENCY, stage.script.expected_cents, cap_cents)
    for fault in faults():
        stage.stripe.add_fault(fault)
    doing = "charging, with Stripe going wrong"
    stage.publish(stage.script.messages, doing)
    wait_until(lambda: stage.settled_share(doing) >= KILL_AFTER_SHARE, SETTLE_SECONDS)
    _kill_a_process(stage)
    wait_until(lambda: stage.settled_share(doing) == 1.0, SETTLE_SECONDS)
    stage.stripe.clear_faults()
    _reconcile(stage)
    stage.stripe.advance_clock(LATER_SECONDS)
    _send_again(stage)


def _kill_a_process(stage: Stage) -> None:
    """Kill a process with SIGKILL while Stripe has charged and it does not know yet."""
    fault_id = stage.stripe.add_fault(late_answers())
    wait_until(lambda: stage.observer.held_count() >= HELD_WHEN_KILLED, KILL_SECONDS)
    process_id = _busiest_worker(stage.function)
    os.kill(process_id, signal.SIGKILL)
    stage.killed_processes += 1
    stage.stripe.remove_fault(fault_id)
    stage.screen.say(f"Killed process {process_id} (SIGKILL) while it was charging.")
    if not wait_until(lambda: _is_replaced(stage, process_id), RESTART_SECONDS):
        raise DemoFailed("the killed process was not started again")


def _busiest_worker(function: GoogleFunction) -> int:
    def open_pushes(process_id: int) -> int:
        connections = psutil.Process(process_id).net_connections("tcp")
        return sum(
            each.status == psutil.CONN_ESTABLISHED and each.laddr.port == function.port
            for each in connections
        )

    return max(function.worker_pids(), key=open_pushes)


def _is_replaced(stage: Stage, process_id: int) -> bool:
    alive = stage.function.worker_pids()
    return process_id not in alive and len(alive) == PROCESSES


def _reconcile(stage: Stage) -> None:
    """Finish, without their messages, the records that are not finished."""
    biller = build_biller(read_settings(stage.settings), stage.store)

    def nothing_unfinished() -> bool:
        stage.observer.end_pauses()
        reconcile(biller, stage.store)
        return stage.observer.unfinished_count() == 0

    unfinished = stage.observer.unfinished_count()
    wait_until(nothing_unfinished, RECONCILE_SECONDS)
    if unfinished:
        stage.screen.say(f"Reconcile finished {unfinished} records without their messages.")


def _send_again(stage: Stage) -> None:
    """Send charged events and dead letters again, now that Stripe has forgotten its keys."""
    records = stage.observer.records()
    charged = [
        customer
        for customer in stage.script.customers
        if customer.customer_id in records and records[customer.customer_id].state is State.CHARGED
    ]
    again = resend(stage.plan, charged, RESENT_EVENTS)
    letters = resubmit(stage.plan, stage.observer.parked_bodies())
    doing = "the same events, a day later"
    stage.publish([*again, *letters], doing)
    stage.screen.say(
        f"Stripe's clock moved on by {LATER_SECONDS / 3600:.0f} hours; {len(again)} charged events "
        f"and all {len(letters)} dead letters were sent again under new message ids."
    )
    wait_until(lambda: stage.settled_share(doing) == 1.0, SETTLE_SECONDS)


def _gather(stage: Stage) -> Evidence:
    stage.settled_share("judging by Stripe's ledger")
    parked = stage.observer.parked_events()
    kept = {event.message_id for event in parked}
    run = stage.store.get_run(PERIOD)
    assert run is not None
    return Evidence(
        customers=stage.script.customers,
        invalid_events=stage.script.invalid_events,
        unsettled_messages=stage.unsettled_count(),
        records=stage.observer.records(),
        parked=parked,
        dead_letters=stage.broker.dead_letters(len(kept), DEAD_LETTER_SECONDS),
        ledger=stage.stripe.ledger(),
        cap_cents=run.cap_cents,
        held_cents=run.held_cents,
        charged_cents=run.charged_cents,
        most_committed_cents=stage.most_committed_cents,
    )


def _write_books(stage: Stage, evidence: Evidence, seconds: float) -> Books:
    judgement = judge(evidence)
    states = Counter(record.state for record in evidence.records.values())
    doubted = [record for record in evidence.records.values() if record.doubts > 0]
    refused = evidence.refused_customers
    settled = {
        customer_id
        for customer_id, record in evidence.records.items()
        if record.state in (State.CHARGED, State.DECLINED)
    }
    return Books(
        seed=stage.plan.seed,
        delivery=stage.broker.name,
        customers=len(evidence.customers),
        events_published=len(stage.published),
        invalid_events=evidence.invalid_events,
        deliveries=stage.observer.delivery_count(),
        charged=states[State.CHARGED],
        declined=states[State.DECLINED],
        parked=len(refused - settled),
        duplicates_prevented=stage.observer.duplicate_count(),
        in_doubt_resolved=sum(record.state in FINAL for record in doubted),
        double_charges=judgement.double_charges,
        lost_events=judgement.lost_events,
        charged_cents=evidence.moved_cents,
        cap_cents=evidence.cap_cents,
        killed_processes=stage.killed_processes,
        charges_cut_short=stage.observer.cut_short_count(),
        seconds=round(seconds, 1),
        promises_broken=judgement.promises_broken,
        log_directory=None,
    )


@contextmanager
def _log_directory() -> Iterator[Path]:
    """Yield a directory for logs, this process's own among them; it stays when the demo fails."""
    directory = Path(tempfile.mkdtemp(prefix="chargeonce-demo-"))
    handler = logging.FileHandler(directory / "demo.log")
    root, decisions = logging.getLogger(), logging.getLogger(LOGGER_NAME)
    root.addHandler(handler)
    try:
        yield directory
    except KeyboardInterrupt:
        shutil.rmtree(directory)
        raise
    except Exception as error:
        decisions.exception("the demo broke off")
        problem = str(error) or type(error).__name__
        raise DemoFailed(f"the demo broke off: {problem}\nIts logs are in {directory}") from error
    finally:
        root.removeHandler(handler)
        handler.close()


@contextmanager
def _ending_on_termination() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that the child processes are ended on the way out."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
